"""Does an answer say what it should? A real answer is a sentence: "You live in Bergen - you told me in May." is right
where "Bergen" is expected, and F1 of the words calls it wrong.

    1. both abstain, or neither does
    2. yes and no: as the answer begins
    3. every expected item is said: its words (numbers, months and dates in one form, endings left out) stand in one
       clause, which does not deny them or speak of what was; and where names are listed, no other is
    4. else F1, which alone makes nothing right unless it is nearly whole

The one rule of labels, questions, the gate and evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memkit.text.calendars import LANGUAGES
from memkit.text.stems import stem
from memkit.text.words import MONTHS, STOP_WORDS, denies, fold, is_unspaced, pieces
from memkit_train.metrics.scores import abstains, f1_of

NEARLY, DOUBTFUL = 0.9, 0.49
"""F1 from which on an answer is right, and the most that any other is worth."""

_NUMBERS = """
    zero null cero zéro nul|one eins un uno een|two zwei dos deux due twee dois två deux
    |three drei tres trois tre drie três|four vier cuatro quatre quattro quatro fyra
    |five fünf cinco cinq cinque vijf fem|six sechs seis sei zes sex|seven sieben siete sept sette zeven sete sju
    |eight acht ocho huit otto oito åtta|nine neun nueve neuf nove negen nio|ten zehn diez dix dieci tien dez tio
    |eleven elf onze undici|twelve zwölf doce douze dodici twaalf doze tolv
"""
_VALUES = {fold(word): str(n) for n, words in enumerate(_NUMBERS.split("|")) for word in words.split()}
_MONTH_NAMES = {form.lower(): n for n, name in enumerate(MONTHS, 1) for form in (name, name[:3])} | {
    fold(form): n
    for names in LANGUAGES.values()
    for n, forms in enumerate(names.months.split(), 1)
    for form in forms.split("|")
    if len(form) > 2
}
_SMALL_WORDS = """
    der die das den dem des ein eine einen einem einer el la los las lo un una unos unas le les du de da do os as o il i
    gli en et het ett zu in im am an on at to is it and und y e og och of from von aus del nel
"""
_SMALL = frozenset(_SMALL_WORDS.split())
_YES = frozenset(["yes", "yeah", "yep", "ja", "jawohl", "si", "oui", "sim", "да", "はい", "sí"])
_NO = frozenset(["no", "nope", "nein", "non", "não", "nao", "nee", "nej", "нет", "いいえ"])
_ITEMS = re.compile(
    r"\s*(?:[,;、，]|(?<!\w)(?:and|und|y|e|et|og|och|en|и|و|&|as well as|plus)(?!\w)|と|和)\s*", re.IGNORECASE
)
_CLAUSE = re.compile(
    r"[!?…;:。！？]+(?=\s|$)|(?<!\d)\.+(?=\s|$)|[。！？]|\s[-–—]+\s|[()]"
    r"|,?\s(?:but|aber|pero|mais|sondern|maar|men|но|however|now|instead|then)\s"
    r"|,\s(?=(?:not|nicht|no|pas|ni|inte|ikke|niet)\s)",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:used to|formerly|previously|before that|no longer|any ?more|früher|nicht mehr|antes|solías|avant"
    r"|ne [^.]* plus|auparavant|prima|vroeger|tidligere|förut|раньше|больше не)\b|以前|もう",
    re.IGNORECASE,
)
_DONT_KNOW = re.compile(
    r"\b(?:"
    r"(?:don'?t|do not) (?:know|have|recall|remember)|(?:have|has) no (?:\w+ )?(?:information|record|memory)|not sure"
    r"|(?:haven'?t|have not|never|didn'?t) (?:told|tell|mention\w*|sa(?:y|id))|can'?t (?:say|tell|find)"
    r"|weiß (?:ich )?(?:es |das )?(?:leider )?nicht|keine (?:ahnung|information\w*)|no (?:lo )?sé|no tengo"
    r"|je ne sais pas|aucune information|non (?:lo )?so|weet (?:ik )?(?:het )?niet|vet inte|não sei|не знаю"
    r")\b|わかりません|不知道",
    re.IGNORECASE,
)
_WITHOUT = re.compile(r"\b(?:without|ohne|sin|sans|senza|sem|zonder|utan|bez|без)\s+\w+", re.IGNORECASE)
_MOVED = re.compile(
    r"\b(?:from|von|desde|de|da|van|från)\s+([\w\s]{1,40}?)\s+(?:to|nach|a|à|para|naar|till)\s", re.IGNORECASE
)
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th|er|º|ª|\.)?")
_DATES = (
    (re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b"), r" \3 m\2 \1 "),
    (re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b"), r" \1 m\2 \3 "),
    (re.compile(r"(\d{4})年(\d{1,2})月(\d{1,2})日"), r" \3 m\2 \1 "),
)
_CLOCK = re.compile(r"\b(\d{1,2})(?::(\d\d))?\s*(am|pm|a\.m\.|p\.m\.)(?!\w)", re.IGNORECASE)
_GROUPED = re.compile(r"(?<=\d)[, ](?=\d{3}\b)")


def rate(answer: str, expected: str, *, worded: bool = False) -> float:
    """1 where the answer is right, less where it is not. `worded`: what is expected was itself said as a sentence, and
    the shorter of the two decides."""
    nothing = abstains(expected)
    if nothing or _gives_up(answer):
        if nothing == _gives_up(answer):
            return 1.0
        if nothing or not says(answer, expected):
            return 0.0
    wanted = fold(expected).strip(" .!")
    if wanted in _YES | _NO:
        return _begins(answer, wanted)
    if says(answer, expected) or (worded and says(expected, answer)):
        return 1.0
    f1 = f1_of(list(_words(answer)), list(_words(expected)))
    return f1 if f1 >= NEARLY and not denies(answer) else min(f1, DOUBTFUL)


def says(answer: str, expected: str) -> bool:
    """Whether the answer holds every expected item, as something that is so, and lists nothing beside it."""
    items = [one for one in map(str.strip, _ITEMS.split(expected)) if tuple(_words(one))]
    if not items:
        return fold(expected).strip() in fold(answer)
    denied = denies(expected)
    holding: list[str] = []
    for item in items:
        places = [*_clauses(answer), *([answer] if len(items) == 1 else [])]
        found = [one for one in places if _holds(one, item) and (denied or not _takes_back(one, item))]
        if not found:
            return False
        holding.append(found[0])
    return not any(_lists_more(one, items) for one in holding)


def _gives_up(answer: str) -> bool:
    return not answer.strip() or abstains(answer) or _DONT_KNOW.search(answer) is not None


def _begins(answer: str, wanted: str) -> float:
    first = next(iter(pieces(answer)), "")
    if first in _YES | _NO:
        return float((first in _YES) == (wanted in _YES))
    return float(denies(answer) == (wanted in _NO))


def _clauses(answer: str) -> list[str]:
    return [one.strip() for one in _CLAUSE.split(answer) if one and one.strip()]


def _takes_back(clause: str, item: str) -> bool:
    """Whether a clause says of the item that it is not so, or no longer."""
    plain = _WITHOUT.sub(" ", clause)
    moved = _MOVED.search(clause)
    left = moved is not None and _holds(moved[1], item)
    return not _holds(plain, item) or denies(plain) or _PAST.search(plain) is not None or left


def _holds(text: str, item: str) -> bool:
    """The words of one item in any order; in scripts without blanks, the item as it is written."""
    if any(is_unspaced(char) for char in item):
        return fold(item) in fold(text)
    words = list(_words(text))
    for word in _words(item):
        if word not in words:
            return False
        words.remove(word)
    return True


def _lists_more(clause: str, items: Sequence[str]) -> bool:
    """Whether a clause names something of a kind with what is expected, joined to it as one more of a list."""
    if all(word.isdigit() or re.fullmatch(r"m\d+", word) for item in items for word in _words(item)):
        return False
    parts, joints = _ITEMS.split(clause), [one[0].strip() for one in _ITEMS.finditer(clause)]
    known = [any(_holds(part, item) for item in items) for part in parts]
    ends = [joint not in (",", ";", "、", "，") for joint in joints]
    """A conjunction comes before the last of a list."""
    for at, end in enumerate(ends):
        if not end or known[at] == known[at + 1]:
            continue
        other = parts[at + 1] if known[at] else parts[at]
        short = len(other.split()) <= 2 and any(True for _ in _words(other))
        goes_on = known[at] and at > 0 and known[at - 1] and not ends[at - 1]
        if short or goes_on:
            return True
    return False


def _words(text: str) -> Iterator[str]:
    """In one form: dates as day, month, year; numbers as digits; stems; without small words."""
    for form, written in _DATES:
        text = form.sub(written, text)
    text = _CLOCK.sub(lambda one: f" {int(one[1]) % 12 + 12 * (one[3][0] in 'pP')}:{one[2] or '00'} ", text)
    text = _GROUPED.sub("", text)
    for piece in pieces(text):
        head = piece.partition("'")[0]
        word = head if len(head) > 2 and not piece.endswith("n't") else piece
        number = _ORDINAL.fullmatch(word)
        if number:
            yield str(int(number[1]))
        elif re.fullmatch(r"m\d{1,2}", word):
            yield f"m{int(word[1:])}"
        elif word in _VALUES:
            yield _VALUES[word]
        elif word in _MONTH_NAMES:
            yield f"m{_MONTH_NAMES[word]}"
        elif word not in STOP_WORDS | _SMALL:
            yield stem(word)
