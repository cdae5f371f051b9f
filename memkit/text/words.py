"""Text as the scorer sees it: which words a memory has, and the line that is embedded and indexed.

Words of scripts that set no blanks (Chinese, Japanese, Thai, …) become overlapping character pairs: no dictionary,
any language, and a pair is about as selective as a word.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime

from memkit.memo import remember
from memkit.models import MemoryRecord
from memkit.text.stems import stem

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\uac00-\ud7a3"  # Korean, where endings stick to words that are short
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Japanese, Chinese
)
_INDIC = "\u0900-\u0963\u0966-\u096f\u0971-\u09fb\u09fd-\u0af8\u0af9-\u0c76\u0c78-\u0c83\u0c85-\u0df3"
"""Devanagari to Sinhala, whose vowels are signs: Python takes them for no part of a word."""
_WORD = re.compile(rf"[{UNSPACED}]+|(?:[^\W_{UNSPACED}]|[{_INDIC}])+(?:['’][^\W\d_{UNSPACED}]+)*")
_POINTS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u200c\u200d]+")
"""Signs that are often left out: accents, Hebrew and Arabic points, joiners."""
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)*")
"""What `_WORD` finds in lower-case ASCII, faster."""
_MARKS = re.compile(r"((?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){32})(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f])++")
"""More marks than any letter bears: to bring them into order takes the square of their number."""
_IS_UNSPACED = re.compile(rf"[{UNSPACED}]")
_CLITICS = ("n't", "'s", "'re", "'ve", "'ll", "'d", "'m")

_COMMON = """
    a an the and or but if so of to in on at by for from with as into about than then that this these those there
    here it its i me my mine you your yours he him his she her hers we us our ours they them their theirs who whom whose
    what which when where why how be am is are was were been being have has had having do does did doing done can could
    will would shall should might must not no nor yes just very too also only even both all any some each such own same
    up out off over under again once oh hey hi hello wow yeah ok okay well really let lets s t re ve ll d m
"""
STOP_WORDS = frozenset(_COMMON.split())
"""Words too common to tell one memory from another. Month names stay: "may" is one."""


def cut_marks(text: str) -> str:
    return _MARKS.sub(r"\1", text)


def fold(text: str) -> str:
    """NFKC, lower case, without accents and points: "Café" and "cafe" are one word."""
    text = text.lower() if text.isascii() else unicodedata.normalize("NFKC", cut_marks(text)).casefold()
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFD", text.replace("’", "'"))
    return unicodedata.normalize("NFC", _POINTS.sub("", decomposed))


def pieces(text: str) -> list[str]:
    """Folded words in order with their clitics ("dog's"); unspaced scripts as character pairs."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    out: list[str] = []
    for piece in _WORD.findall(fold(text)):
        if piece.isascii() or not _IS_UNSPACED.match(piece) or len(piece) == 1:
            out.append(piece)
        else:
            out.extend(piece[i : i + 2] for i in range(len(piece) - 1))
    return out


def word_of(piece: str) -> str:
    return _strip_clitic(piece) if "'" in piece else piece


def words(text: str) -> list[str]:
    """Folded words in order, unstemmed, stop words included; unspaced scripts as character pairs."""
    return [_strip_clitic(piece) if "'" in piece else piece for piece in pieces(text)]


def _strip_clitic(word: str) -> str:
    for clitic in _CLITICS:
        if word.endswith(clitic):
            return word[: -len(clitic)] or word
    return word.replace("'", "")


def terms(text: str) -> list[str]:
    """Stems in order, without stop words: what BM25 counts."""
    return [stem(word) for word in words(text) if word not in STOP_WORDS]


_DENIALS = """
    not no never none nothing nobody nowhere neither nor without cannot dont doesnt didnt isnt arent wasnt werent wont
    cant couldnt wouldnt shouldnt havent hasnt hadnt aint nicht kein keine keinen keinem keiner nie niemals nichts ohne
    pas jamais rien aucun sans nunca jamas nada sin non mai niente senza nao nem sem niet geen nooit zonder inte aldrig
    ingen ikke emme eivat не нет никогда без ні nigdy bez ne nikdy degil hayir yok ei لا ليس لم لن नहीं नही मत לא אין
"""
_NOT = frozenset(_DENIALS.split())
_ELSEWHERE_TABLE = """
    no   na num numa uma eu meu minha foi fui moro mora morei trabalho trabalha estou estava estive fica ficou nasci
    sin  og och att hun hon med til till er har
    mai  toi minh em anh ngay sang chieu
    pas  aku saya yang itu lagi
    ne   ich hab habe haben wir der die das mit hat ist und war mal noch bir bu ve ha ho che di
    ei   ich du ein das der die mit gern ist und zum
"""
_ELSEWHERE = {row[0]: frozenset(row[1:]) for row in map(str.split, _ELSEWHERE_TABLE.strip().splitlines())}
"""Denials that are other words elsewhere, and words by which that language is known (Portuguese; Danish, Swedish;
Vietnamese; Indonesian; German as it is typed, Turkish, Italian; German): beside them they deny nothing."""
_FINNISH = "mina ma ole ollut syo juo voi tieda halua tykkaa pida osaa enaa koskaan saa jaksa"
_BESIDE = {"en": frozenset(_FINNISH.split())}
"""A little word of half of Europe that denies beside these alone."""
_NOT_UNSPACED = re.compile("[不没沒無无未勿]|ない|ません|않|못|ไม่")


def denies(text: str) -> bool:
    """Whether a text says of something that it is not so."""
    if _NOT_UNSPACED.search(text) is not None:
        return True
    found = pieces(text)
    said = {piece.replace("'", "") for piece in found}
    here = (word for word in said & _NOT if word not in _ELSEWHERE or said.isdisjoint(_ELSEWHERE[word]))
    beside = (word in said and not said.isdisjoint(others) for word, others in _BESIDE.items())
    return any(piece.endswith("n't") for piece in found) or any(here) or any(beside)


def date_words(at: datetime) -> str:
    """How people write dates ("8 May 2023"), so that both words and embeddings can match it."""
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"


def embed_text(record: MemoryRecord) -> str:
    """The line "[date] speaker: text" that is embedded and indexed. The date and the speaker carry more recall than any
    fusion trick."""
    date = f"[{date_words(record.at)}] " if record.at is not None else ""
    speaker = f"{record.speaker}: " if record.speaker else ""
    return f"{date}{speaker}{record.text}"


@remember(16_384)
def is_unspaced(word: str) -> bool:
    return _IS_UNSPACED.match(word) is not None
