"""Dates and words around today of other languages, as English writes them, so that one grammar reads them all.

"am 3. Mai 2023", "3 мая 2023", "2023年5月3日", "٣ مايو ٢٠٢٣" become 2023-05-03, "letzte Woche" becomes "last week". A
day or month of any year has the year 0000. All else stays as it is, in lower case.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from memkit.text.calendars import AROUND_TODAY, LANGUAGES
from memkit.text.words import MONTHS, UNSPACED

ANY_YEAR = "0000"
YEAR = r"(?:19|20)\d\d"

_HANGUL = "\uac00-\ud7a3"
_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670"  # Latin and Greek, Hebrew, Arabic
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"  # Devanagari
)
_WORD = re.compile(rf"(?:[^\W{UNSPACED}{_HANGUL}]++|[{_MARKS}]++)++")
_LONGEST_WORD = 24
_BLANK = re.compile(r"[\s'’-]+")
_AFTER_DAY = re.compile(r"[.°]?\s*")
_BEFORE_YEAR = re.compile(r"\.?,?\s+")
_DAY = re.compile(r"(0?[1-9]|[12]\d|3[01])(?:er|[ºª])?")
_YEAR = re.compile(YEAR)
_OF = frozenset({"de", "del", "di"})

_HAN = "〇一二三四五六七八九"
_NUMBER = rf"(?:\d\d?|[一二三]?十[{_HAN[1:]}]?|[{_HAN[1:]}])"
_THAI = LANGUAGES["th"].months.split()
_DATES_IN_ASCII = (
    re.compile(rf"(?<![\w.])(?P<day>\d\d?)\.\s?(?P<month>\d\d?)\.\s?(?P<year>{YEAR})(?!\d)"),
    re.compile(rf"(?<![\w./-])(?P<year>{YEAR})(?P<sign>[./])(?P<month>\d\d?)(?P=sign)(?P<day>\d\d?)(?![./]?\d)"),
)
_DATES_BEYOND = (
    re.compile(
        rf"(?<!\d)(?:(?P<year>{YEAR})\s?[年년]\s?)?(?P<month>{_NUMBER})\s?[月월](?:\s?(?P<day>{_NUMBER})\s?[日号號일])?"
    ),
    re.compile(rf"(?<!\d)(?P<year>{YEAR})\s?[年년]"),
    re.compile(
        r"(?:(?<!\d)(?P<day>\d\d?)\s\s?)?\btháng\s\s?(?P<month>\d\d?)(?!\d|\s\s?ngày)"
        rf"(?:(?:\s\s?năm\s\s?|/)(?P<year>{YEAR})(?!\d))?"
    ),
    re.compile(
        rf"(?:(?<!\d)(?P<day>\d\d?)\s?)?(?P<month>{'|'.join(_THAI)})(?:\s?(?P<year>{YEAR})(?!\d))?",
    ),
)


@dataclass(frozen=True, slots=True)
class Rewriting:
    start: int
    end: int
    english: str


@dataclass(frozen=True, slots=True)
class English:
    text: str
    original: str
    starts: Sequence[int]
    """Where each change begins in `text`, ascending."""
    changes: Sequence[Rewriting]

    def words(self, start: int, end: int) -> str:
        """What the original has where `text` has these characters."""
        if not self.changes:
            return self.original[start:end]
        return self.original[self._place(start)[0] : self._place(end - 1)[1]]

    def _place(self, at: int) -> tuple[int, int]:
        number = bisect_right(self.starts, at) - 1
        if number < 0:
            return at, at + 1
        change, after = self.changes[number], at - self.starts[number] - len(self.changes[number].english)
        return (change.end + after, change.end + after + 1) if after >= 0 else (change.start, change.end)


def in_english(text: str) -> English:
    plain = _plain(text)
    changes = [*_numeric(plain), *_unspaced(plain), *_worded(plain)]
    if not changes:
        return English(plain, text, (), ())
    changes.sort(key=lambda one: (one.start, -one.end))
    parts, starts, kept, size, end = list[str](), list[int](), list[Rewriting](), 0, 0
    for change in changes:
        if change.start < end:
            continue
        between = plain[end : change.start]
        starts.append(size + len(between))
        kept.append(change)
        parts += (between, change.english)
        size, end = starts[-1] + len(change.english), change.end
    return English("".join((*parts, plain[end:])), text, starts, kept)


def _plain(text: str) -> str:
    """Lower case, digits of every script as 0 to 9; each character stays in its place."""
    if text.isascii():
        return text.lower()
    lower = text.replace("İ", "i").replace("ſ", "s").lower()
    return lower.translate({ord(one): str(unicodedata.decimal(one)) for one in set(lower) if one.isdecimal()})


def _numeric(text: str) -> Iterator[Rewriting]:
    if text.isascii():
        patterns = _DATES_IN_ASCII if "." in text or "/" in text else ()
    else:
        patterns = (*_DATES_IN_ASCII, *_DATES_BEYOND)
    for pattern in patterns:
        for found in pattern.finditer(text):
            said = found.groupdict()
            date = _iso(said["year"], _number(said.get("month")), _number(said.get("day")))
            if date:
                yield Rewriting(found.start(), found.end(), f" {date} ")


def _iso(year: str | None, month: int, day: int) -> str:
    """ "" where there is no such month or day."""
    if month > 12 or day > 31 or (day and not month):
        return ""
    return "-".join((year or ANY_YEAR, *(f"{part:02}" for part in (month, day) if part)))


def _number(said: str | None) -> int:
    """0 for none."""
    if not said or said in _THAI:
        return _THAI.index(said) + 1 if said else 0
    if said.isdecimal():
        return int(said)
    tens, ten, ones = said.rpartition("十")
    return (10 * (_HAN.index(tens) if tens else 1) if ten else 0) + (_HAN.index(ones) if ones else 0)


@dataclass(frozen=True, slots=True)
class _Month:
    number: int
    languages: frozenset[str]
    certain: bool
    """It needs no word before it, or has one as a part of itself."""


def _months() -> dict[str, _Month]:
    table: dict[str, _Month] = {}
    for language, names in LANGUAGES.items():
        for number, forms in enumerate(names.months.split(), start=1):
            for prefix, form in product(("", *names.prefixes), forms.split("|")):
                word = unicodedata.normalize("NFC", prefix + form)
                known = table[word].languages if word in table else frozenset[str]()
                table[word] = _Month(number, known | {language}, names.bare or bool(prefix))
    return table


def _leads() -> dict[str, dict[str, str]]:
    """Word before a date → language → what it says in English."""
    table: dict[str, dict[str, str]] = {}
    for language, names in LANGUAGES.items():
        for english, words in (("in", names.within), ("since", names.since), ("until", names.until)):
            for word in words.split():
                table.setdefault(word, {})[language] = english
    return table


def _phrases() -> tuple[dict[str, list[tuple[tuple[str, ...], str]]], dict[str, str]]:
    """First word → the words after it and the English, longest first; and those of scripts without blanks."""
    spaced: dict[str, list[tuple[tuple[str, ...], str]]] = {}
    unspaced: dict[str, str] = {}
    for english, lines in AROUND_TODAY.items():
        for phrase in lines.split(","):
            for words in product(*(word.split("|") for word in phrase.split())):
                if _WORD.match(words[0]) is None:
                    unspaced[" ".join(words)] = english
                    continue
                first, *rest = (unicodedata.normalize("NFC", word) for word in words)
                for prefix in ("", *_prefixes(first)):
                    spaced.setdefault(prefix + first, []).append((tuple(rest), english))
    for known in spaced.values():
        known.sort(key=lambda one: -len(one[0]))
    return spaced, unspaced


def _prefixes(word: str) -> str:
    if "\u05d0" <= word[0] <= "\u05ea":
        return LANGUAGES["he"].prefixes
    return LANGUAGES["ar"].prefixes if "\u0621" <= word[0] <= "\u064a" else ""


_MONTHS, _LEADS = _months(), _leads()
_PHRASES, _UNSPACED_PHRASES = _phrases()
_KNOWN = frozenset({*_MONTHS, *_PHRASES})
_ENGLISH = frozenset({"sept", *(name[:size].lower() for name in MONTHS for size in (3, 9))})
_LONGEST_FIRST = sorted(_UNSPACED_PHRASES, key=len, reverse=True)
_UNSPACED_PHRASE = re.compile(
    rf"(?=[{''.join({phrase[0] for phrase in _LONGEST_FIRST})}])(?<![{_HANGUL}](?=[{_HANGUL}]))"
    rf"(?:{'|'.join(_LONGEST_FIRST)})"
)


def _unspaced(text: str) -> Iterator[Rewriting]:
    if not text.isascii():
        for found in _UNSPACED_PHRASE.finditer(text):
            yield Rewriting(found.start(), found.end(), f" {_UNSPACED_PHRASES[found.group()]} ")


def _worded(text: str) -> Iterator[Rewriting]:
    forms: list[str] = _WORD.findall(text)
    if not text.isascii():
        forms = [_form(word) for word in forms]
    if _KNOWN.isdisjoint(forms):
        return
    said = _Said(text, forms)
    for at, form in enumerate(forms):
        if form in _KNOWN:
            yield from said.date(at, _MONTHS[form]) if form in _MONTHS else said.phrase(at)


class _Said:
    """The words of a text, with what stands between them."""

    def __init__(self, text: str, forms: list[str]) -> None:
        self.forms = forms
        self._found = list(_WORD.finditer(text))

    def phrase(self, at: int) -> Iterator[Rewriting]:
        for rest, english in _PHRASES[self.forms[at]]:
            last = at + len(rest)
            if tuple(self.forms[at + 1 : last + 1]) == rest and all(self._parted(_BLANK, n) for n in range(at, last)):
                yield self._change(at, last, english)
                return

    def date(self, at: int, month: _Month) -> Iterator[Rewriting]:
        """The date around a month: "3 de mayo de 2023", "3. Mai", and "im Mai" or, where it is certain, "Mai"."""
        of = at - 1 if self._is_at(at - 1, _OF) and self._parted(_BLANK, at - 1) else at
        day = _DAY.fullmatch(self.forms[of - 1]) if of and self._parted(_AFTER_DAY, of - 1) else None
        first = of - 1 if day else at
        of = at + 2 if self._is_at(at + 1, _OF) and self._parted(_BLANK, at) else at + 1
        dated = of < len(self.forms) and self._parted(_BEFORE_YEAR, of - 1) and _YEAR.fullmatch(self.forms[of])
        lead_at, lead = self._lead(first, month, "in" if self.forms[at] in _ENGLISH else "")
        if self.forms[at] in _ENGLISH and not lead:
            return  # the grammar of English knows best
        if day or dated or lead or month.certain:
            if lead and lead != "in":
                yield self._change(lead_at, first - 1, lead)
            date = _iso(self.forms[of] if dated else None, month.number, int(day[1]) if day else 0)
            yield self._change(first, of if dated else at, date)

    def _change(self, first: int, last: int, english: str) -> Rewriting:
        return Rewriting(self._found[first].start(), self._found[last].end(), f" {english} ")

    def _lead(self, first: int, month: _Month, but: str) -> tuple[int, str]:
        """The word or two before a date that lead it in a language of the month ("seit", "seit dem"), in English."""
        lead = ""
        while first and lead in ("", "in") and self.forms[first - 1] != but and self._parted(_BLANK, first - 1):
            known = _LEADS.get(self.forms[first - 1], {})
            says = next((known[language] for language in known if language in month.languages), "")
            if not says or says == lead:
                break
            first, lead = first - 1, says
        return first, lead

    def _is_at(self, at: int, words: frozenset[str]) -> bool:
        return 0 <= at < len(self.forms) and self.forms[at] in words

    def _parted(self, by: re.Pattern[str], at: int) -> bool:
        """Whether all between a word and the next is such."""
        here, after = self._found[at], self._found[at + 1]
        return by.fullmatch(here.string, here.end(), after.start()) is not None


def _form(word: str) -> str:
    return word if word.isascii() or len(word) > _LONGEST_WORD else unicodedata.normalize("NFC", word)
