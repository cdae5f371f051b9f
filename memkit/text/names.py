"""Names in a text, without a model, in any script: a pure function of the text.

What gives a name away: a word that gives one ("a dog called Rex") or a title, surely; a capital inside a sentence; and,
where people type no capitals or a script has none, a word beside one for kin, friends or animals ("my sister ana").
The last two are hints: whoever has more texts of the same people says whether they are borne out
(`memkit.engine.entities`). A capital at the start of a sentence tells nothing, and neither do capitals in a text that
is full of them: a heading, or German.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile

from memkit.memo import remember
from memkit.models import EntityKind
from memkit.text.little_words import (
    AND,
    DOER,
    FORMAL,
    GERMAN,
    HE_SHE,
    HE_SHE_UNSPACED,
    I_AM,
    LEADS_TO_PLACE,
    LITTLE,
    NOT_BEFORE_NAMES,
    OF_MINE,
    ONE,
    OWN,
    TITLES,
    VIETNAMESE,
    WITH,
)
from memkit.text.relations import (
    AFTER_CALLS,
    ANIMALS,
    ANIMALS_UNSPACED,
    BEHIND,
    CALLS,
    IS,
    PEOPLE,
    PEOPLE_UNSPACED,
    PROJECTS,
)
from memkit.text.words import UNSPACED, cut_marks, fold, is_unspaced

_INDIC = "\u0900-\u0963\u0966-\u0dff"
TOKEN = re.compile(rf"[{UNSPACED}]+|(?:[^\W_{UNSPACED}]|[{_INDIC}])(?:[^\W_{UNSPACED}]|[{_INDIC}]|['’.&-](?=\w))*")
_BREAK = re.compile(r"[.!?…:;\n。！？।॥؟\"“”„«»「」()（）\[\]*/|<>•@#—–]|[^\w\s,.'’&-]")
_POSSESSIVE = re.compile(r"(?<!n['’])(?<!['’])['’](?!(?:t|m|re|ve|ll|d)$)[^\W\d_]{0,4}$")
_MOST = 400
"""Words of a text that are read."""
_CROWDED = 0.45
"""Share of capitals from which on they tell nothing."""
_FEW, _GERMAN_WORDS = 3, 2
_LONGEST, _LIST = 4, 3
"""Words of a name; from one that is listed to the next ("Jomar 15 and Althea 11")."""


_OTHERS_FOLLOW = DOER | OWN | (ONE - {"a"}) | NOT_BEFORE_NAMES
"""What stands before other words than names; "a" is an article, which Portuguese puts before names, too."""


@dataclass(frozen=True, slots=True)
class Name:
    """A place of a text that names somebody or something, or may."""

    text: str
    key: str
    """Folded."""
    sure: bool
    """No word but a name stands so; else it is to be borne out."""
    cased: bool
    """Written with a capital where words are not."""
    owned: bool = False
    """Beside kin that is somebody's ("my sister ana"), or before it ("ana, my sister"): most words there are names."""
    kind: EntityKind = "other"
    relation: str = ""
    """Who or what it is said to be ("sister", "dog"), as written."""
    he_or_she: bool = False
    """The rest of its sentence says "he" or "she"."""


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    key: str
    start: int
    end: int
    opens: bool
    """It begins a sentence, or follows a mark: whatever stands there may have a capital."""
    comma: bool
    """A comma or a bracket, and nothing else, stands before it."""
    owns: bool
    """It is a genitive ("elsie's")."""

    @property
    def is_capital(self) -> bool:
        first = self.text[0]
        return first.isupper() and not (len(self.text) > 1 and self.text.isupper())

    @property
    def may_name(self) -> bool:
        return (
            len(self.key) > 1
            and self.text.lower().replace("’", "'") not in LITTLE
            and not self.key[0].isdigit()
            and not is_unspaced(self.key)
        )


@remember(16_384)
def find_names(text: str) -> tuple[Name, ...]:
    """In order. The same name as often as it gives itself away."""
    found = list(_in_words(_words(text)))
    if not text.isascii():
        found += _in_unspaced(text)
    return tuple(found)


@remember(16_384)
def spell(text: str) -> tuple[str, ...]:
    """The folded words of a text, each without what makes it a genitive: what names are looked for in."""
    return tuple(_bare(word) for word in TOKEN.findall(cut_marks(text)))


@remember(16_384)
def stands_as(key: str, text: str) -> tuple[int, int]:
    """How often a word stands in a text as names do and few others (behind a preposition, as a genitive), and as names
    do not (behind an article, "my", "he", a number)."""
    words = _words(text)
    name = sum((one.key == key and one.owns) or (one.key == key + "s" and len(key) > 3) for one in words)
    other = 0
    for before, one in pairwise(words):
        if one.key == key and not one.opens and not one.comma:
            name += before.key in WITH
            other += before.key in _OTHERS_FOLLOW or before.key[0].isdigit()
    return name, other


@remember(16_384)
def is_german(text: str) -> bool:
    """Where every noun has a capital, capitals tell nothing."""
    return _is_german(_words(text))


@remember(16_384)
def refers(text: str) -> bool:
    """Whether it says "he" or "she": of somebody who was named before, where it names nobody."""
    return not HE_SHE.isdisjoint(spell(text)) or (not text.isascii() and any(one in text for one in HE_SHE_UNSPACED))


def _bare(word: str) -> str:
    return fold(_POSSESSIVE.sub("", word))


def _words(text: str) -> list[_Word]:
    out: list[_Word] = []
    end = 0
    for found in TOKEN.finditer(cut_marks(text)):
        between = text[end : found.start()]
        opens = not out or _BREAK.search(between) is not None
        comma = between.strip() in (",", "(", "（", "，", ", (")
        word = _POSSESSIVE.sub("", found[0])
        out.append(_Word(word, fold(word), found.start(), found.end(), opens, comma, found[0] != word))
        end = found.end()
        if len(out) == _MOST:
            break
    return out


def _in_words(words: list[_Word]) -> Iterator[Name]:
    plain = not _is_full_of_capitals(words)
    taken, last_kind, last_end = -1, "other", -9
    for place, word in enumerate(words):
        if place <= taken or not word.may_name or _is_relation(word):
            continue
        said = _said_before(words, place)
        end = _whole(words, place)
        if not said.relation and not said.sure:
            after = _said_after(words, end)
            said = after if after.relation or after.owned else said
        if said.kind in ("other", "place") and last_kind == "person" and words[place - 1].key in AND:
            said = _Beside("person") if place - last_end <= _LIST else said
        if said.barred or not (
            said.relation or said.sure or said.owned or (word.is_capital and not word.opens and plain)
        ):
            continue
        name = " ".join(one.text for one in words[place : end + 1])
        taken, last_kind, last_end = end, said.kind, end
        rest = takewhile(lambda one: not one.opens, words[end + 1 :])
        he_or_she = any(one.key in HE_SHE for one in rest)
        yield Name(name, fold(name), said.sure, word.is_capital, said.owned, said.kind, said.relation, he_or_she)


def _is_full_of_capitals(words: list[_Word]) -> bool:
    """A heading, a list, a log; or German."""
    if _is_german(words):
        return True
    inside = [word for word in words if not word.opens]
    return len(inside) > _FEW and sum(word.is_capital for word in inside) > _CROWDED * len(inside)


def _is_german(words: list[_Word], least: int = _GERMAN_WORDS) -> bool:
    return len({word.text.lower() for word in words} & GERMAN) >= least


@dataclass(frozen=True, slots=True)
class _Beside:
    """What stands beside a name."""

    kind: EntityKind = "other"
    relation: str = ""
    sure: bool = False
    owned: bool = False
    barred: bool = False
    """It is none: a thing of many ("an Incident")."""


def _whole(words: list[_Word], place: int) -> int:
    """Where the name ends that begins here: capitals that follow each other are one."""
    end = place
    while words[place].is_capital and end + 1 < len(words) and end - place < _LONGEST - 1:
        here, after = words[end], words[end + 1]
        follows = not after.opens and not after.comma and here.start + len(here.text) + 1 == after.start
        if not (follows and after.is_capital and after.may_name):
            break
        end += 1
    return end


def _said_before(words: list[_Word], place: int) -> _Beside:
    word = words[place]
    if place == 0 or word.opens:
        return _Beside()
    back = [one for one in reversed(words[max(place - 4, 0) : place])]
    capital = word.is_capital
    near = back[0]
    if near.key in TITLES or near.text.lower() in VIETNAMESE:
        return _Beside("person", sure=capital or near.key in FORMAL)
    if near.key in ONE:
        return _Beside(barred=True)
    rest = back
    while len(rest) > 1 and rest[0].key in AFTER_CALLS:
        rest = rest[1:]
    if rest[0].key in CALLS and (capital or len(rest) > 1):
        relation = next((one for one in rest[1:] if _is_relation(one)), None)
        return _Beside(_kind(relation.key), relation.text, sure=True) if relation else _Beside(sure=True)
    if (capital and near.key in IS) or near.key in OF_MINE:
        back = back[1:] or back
    if _is_relation(back[0]) and back[0].is_capital and not back[0].opens and not _is_german(back[1:2], 1):
        return _Beside()  # "Customer Experience"; "mein Bruder Emil" is no such thing
    if _is_relation(back[0]) and (capital or not word.comma):
        owned = len(back) > 1 and (back[1].key in OWN or back[1].owns)
        return _Beside(_kind(back[0].key), back[0].text, owned=owned)
    if capital and near.key in I_AM:
        return _Beside("person")
    if near.key in LEADS_TO_PLACE and capital:
        return _Beside("place")
    if near.key in PROJECTS:
        return _Beside("project")
    return _Beside()


def _said_after(words: list[_Word], place: int) -> _Beside:
    """An apposition ("Dani, my boyfriend", "tarek (flatmate)"), or whose kin it is ("elsie's mate")."""
    rest = words[place + 1 : place + 4]
    if not rest:
        return _Beside()
    first, word = rest[0], words[place]
    if not first.opens and not first.comma and first.key in BEHIND:
        return _Beside("person", first.text)
    if word.owns and not first.opens and _is_relation(first):
        return _Beside("person", owned=True)
    if not first.comma:
        return _Beside()
    if (first.key in OWN or first.key in ONE) and len(rest) > 1 and not rest[1].opens and _is_relation(rest[1]):
        return _Beside(_kind(rest[1].key), rest[1].text, owned=True)
    return _Beside(_kind(first.key), first.text) if first.opens and _is_relation(first) else _Beside()


def _is_relation(word: _Word) -> bool:
    return any(key in PEOPLE or key in ANIMALS for key in (word.key, word.key.removesuffix("s")))


def _kind(relation: str) -> EntityKind:
    return "animal" if relation in ANIMALS or relation.removesuffix("s") in ANIMALS else "person"


# ---- scripts that set no blanks ----------------------------------------------------------------------------------

_HAN_ENDS = "的了在是和跟把给也都就说要会去来不没有被让从对到做养住爱想这那"
_CALLED_UNSPACED = re.compile(
    rf"(?:(?:取名|名)?叫(?:做|作)?|名字是)([\u4e00-\u9fff]{{2,4}}?)(?=[{_HAN_ENDS}]|[^\u4e00-\u9fff]|$)"
    r"|名前は([\u3040-\u30ff\u4e00-\u9fff]{1,6}?)(?=です|だ|や|って|[^\u3040-\u30ff\u4e00-\u9fff]|$)"
    r"|([ァ-ヶー]{2,8}|[一-鿿]{1,3}|[ぁ-ん]{2,4})(?:っていう|という)(?=名|犬|猫|子|人)"
    r"|이름[은이]? ?([가-힣]{2,4}?)(?=이야|야|이고|이에요|예요|이다|임|[^가-힣]|$)"
    r"|ชื่อ ?([\u0e00-\u0e7f]{2,10})(?= |$)"
)
_TITLED_UNSPACED = re.compile(
    r"([ァ-ヶー]{2,8}|[一-鿿]{2,4})(?:さん|ちゃん|くん|先輩)|(?<![가-힣])([가-힣]{2,3}?)(?:쌤|씨|님|언니|오빠|누나|선배)(?![가-힣]{4})"
    r"|(?<![一-鿿])([一-鿿])(?:老师|老師|总|医生|阿姨)"
)
_NO_NAME = ("お母", "お父", "皆", "母", "父", "奥", "お客", "선생", "수선", "아주", "손", "고객")
_BESIDE_UNSPACED = re.compile(
    r"(?:" + "|".join(PEOPLE_UNSPACED + ANIMALS_UNSPACED) + r")(?:の|も|は|，|、| |가|는|이)?"
    r"((?:小|阿|老)?[一-鿿]{1,2}(?=[^一-鿿]|["
    + _HAN_ENDS
    + r"]|$)|[ぁ-ん]{2,3}?(?=[やがはともにをのな、。]|って|ちゃん)|[ァ-ヶー]{2,8}|[가-힣]{2,3})"
    r"|我家([一-鿿]{2})(?=[^一-鿿]|[" + _HAN_ENDS + r"])"
)
_LITTLE_NAME = re.compile(r"(?<![大很最更从一])(?:阿|小)(?![时時区區学學心说說孩朋狗猫鼠组組吃姐型姨公婆伙])[一-鿿]")
_ENDS_KOREAN = re.compile(
    r"(?:이랑|이가|이는|이를|이도|이고|이야|이한테|랑|가|는|은|을|를|도|와|과|한테|에게|의|만|야|쌤|씨|님|이)$"
)


def _in_unspaced(text: str) -> Iterator[Name]:
    for found in _CALLED_UNSPACED.finditer(text):
        yield from _written(found, sure=True)
    for found in _TITLED_UNSPACED.finditer(text):
        if not found[0].startswith(_NO_NAME):
            yield from _written(found, sure=True, kind="person")
    for found in _BESIDE_UNSPACED.finditer(text):
        kind: EntityKind = "animal" if found[0].startswith(ANIMALS_UNSPACED) else "person"
        yield from _written(found, sure=False, kind="other" if found[2] else kind, relation=found[0])
    for found in _LITTLE_NAME.finditer(text):
        yield from _written(found, sure=False, kind="person")


def _written(found: re.Match[str], *, sure: bool, kind: EntityKind = "other", relation: str = "") -> Iterator[Name]:
    name = next((group for group in found.groups() if group), found[0])
    while len(name) > 2 and (shorter := _ENDS_KOREAN.sub("", name)) != name and len(shorter) > 1:
        name = shorter
    relation = next((one for one in PEOPLE_UNSPACED + ANIMALS_UNSPACED if relation.startswith(one)), "")
    if len(name) > 1 or (sure and kind == "person"):
        yield Name(name, fold(name), sure, False, False, kind, relation)
