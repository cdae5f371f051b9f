"""Time phrases of a question → spans of days.

"in May 2023", "on 7 May", "last summer", "yesterday", "two weeks ago", "since Monday"; dates and words around today of
other languages are put into English first. Relative phrases need `now` and are passed over without it. A day or month
without a year recurs: it means that day or month of any year. Spans are pairs of proleptic Gregorian day ordinals, both
ends included, so that a whole bank is tested with two comparisons.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, date, timedelta

from memkit.text.in_english import ANY_YEAR, YEAR, in_english
from memkit.text.words import MONTHS

FOREVER = date.max.toordinal()
LONG_AGO = 1


@dataclass(frozen=True, slots=True)
class Span:
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Recurring:
    """A day (or all days) of some months, in whichever year: `expand` pins it to the years of a bank."""

    months: tuple[int, ...]
    day: int = 0


@dataclass(frozen=True, slots=True)
class TimePhrase:
    words: str
    """As the question has it, for `why`."""
    when: Span | Recurring


_FULL_MONTHS = {name.lower(): number for number, name in enumerate(MONTHS, start=1)}
_MONTHS = _FULL_MONTHS | {name[:3]: number for name, number in _FULL_MONTHS.items()} | {"sept": 9}
_WEEKDAYS = {
    "monday": 0,
    "tuesday": 1,
    "wednesday": 2,
    "thursday": 3,
    "friday": 4,
    "saturday": 5,
    "sunday": 6,
}
_SEASONS = {"spring": (3, 4, 5), "summer": (6, 7, 8), "autumn": (9, 10, 11), "fall": (9, 10, 11), "winter": (12, 1, 2)}
_COUNTS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "couple": 2,
    "few": 3,
    "several": 5,
}
_UNIT_DAYS = {"day": 1, "week": 7, "weekend": 7, "fortnight": 14, "month": 30, "year": 365}
_STEPS = {"last": -1, "past": -1, "previous": -1, "this": 0, "next": 1, "coming": 1}
_SHIFTS = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}


def _any_of(names: Iterable[str], group: str = "") -> str:
    return f"(?{f'P<{group}>' if group else ':'}{'|'.join(sorted(names, key=len, reverse=True))})"


# Blanks are matched possessively (`\s++`): a long run of them is read once, not once for each of its blanks.
_MONTH = rf"{_any_of(_MONTHS, 'month')}\b\.?"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = rf"(?P<year>{YEAR})\b"
_COUNT = rf"(?:a\s++(?=couple|few))?(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)})(?:(?<=couple)\s++of)?"
_UNIT = rf"{_any_of(_UNIT_DAYS, 'unit')}s?\b"

_BEFORE = re.compile(
    r"\b(?:(?P<since>since|after|from|later\s++than)|(?P<until>until|till|by)"
    r"|(?P<before>before|prior\s++to|earlier\s++than))\s++(?:the\s++)?\Z"
)
_JOIN = re.compile(r"\s*+(?:to|until|till|through|and|[-–])\s*+(?:(?:the|early|late|mid)\s++)*+")
_LED = re.compile(
    r"\b(?:(?:in|on|of|during|over|since|until|till|by|before|after|around|from|between|and|to)\s++(?:the\s++)?"
    r"|(?:early|late|mid)[\s-]++)\Z"
)
_LEADING_WORDS = (
    "in on of during over since until till by before after around from between and to the early late mid than"
)
_LEADING = frozenset(_LEADING_WORDS.split())
"""The last words of what `_BEFORE` and `_LED` find."""
_WORD = re.compile(r"\w+")
_DIGITS = frozenset("0123456789")
_REACH = 32
"""Words that lead a phrase are looked for so many characters before it."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str], date], Span | Recurring]
    needs_today: bool = False
    needs_lead: bool = False
    """A bare "May", "spring" or "June" may be a verb, a noun or a person."""


def time_phrases(text: str, today: date | None) -> tuple[TimePhrase, ...]:
    """Every time phrase of `text` that can be pinned down. `today` is the asker's date."""
    english = in_english(text)
    found: list[TimePhrase] = []
    known: dict[str, Span | Recurring | None] = {}
    said, end, may_join = english.text, 0, False
    for match, rule, led in _matches(said):
        start, matched = match.start(), match.group()
        if rule.needs_lead and not (led and _LED.search(said, max(0, start - _REACH), start)):
            continue
        if matched not in known:
            known[matched] = _when(match, rule, today)
        when = known[matched]
        if when is None:
            continue
        phrase = TimePhrase(english.words(start, match.end()).strip(" ,."), when)
        joined = _from_to(found[-1], phrase) if may_join and _JOIN.fullmatch(said, end, start) else None
        if joined:
            found[-1] = joined
        else:
            found.append(_open_ended(_BEFORE.search(said, max(0, start - _REACH), start) if led else None, phrase))
        end, may_join = match.end(), joined is None
    return tuple(found)


def _matches(text: str) -> Iterator[tuple[re.Match[str], _Rule, bool]]:
    """Where phrases may stand, by which rule, and whether a word before it may lead it."""
    end, before = 0, ""
    for word in _WORD.finditer(text):
        form = word.group()
        rules = _RULES.get(form) or (_of_number(form) if form[0] in _DIGITS else ())
        if rules and word.start() >= end:
            for rule in rules:
                if match := rule.pattern.match(text, word.start()):
                    end = match.end()
                    yield match, rule, before in _LEADING
                    break
        before = form


def _of_number(form: str) -> tuple[_Rule, ...]:
    return _OF_YEAR if len(form) == 4 and form.isdecimal() else _OF_NUMBER


def _when(match: re.Match[str], rule: _Rule, today: date | None) -> Span | Recurring | None:
    if today is None and rule.needs_today:
        return None
    try:
        when = rule.read(match, today or date.min)
    except (ValueError, OverflowError):
        return None  # 30 February, or beyond the calendar: no time, then
    return when if isinstance(when, Recurring) or LONG_AGO <= when.first <= when.last else None


def _from_to(first: TimePhrase, second: TimePhrase) -> TimePhrase | None:
    """ "between May and July": months that recur join as months, days that are fixed as one span."""
    words = f"{first.words.removeprefix('since ')} to {second.words}"
    match first.when, second.when:
        case Span(first=start), Span(last=end) if start <= end:
            return TimePhrase(words, Span(start, end))
        case Recurring(months=months, day=0), Recurring(months=others, day=0):
            return TimePhrase(words, Recurring((*months, *others)))
        case _:
            return None


def _open_ended(lead: re.Match[str] | None, phrase: TimePhrase) -> TimePhrase:
    if lead is None or not isinstance(phrase.when, Span):
        return phrase
    first, last = {
        "since": (phrase.when.first, FOREVER),
        "until": (LONG_AGO, phrase.when.last),
        "before": (LONG_AGO, max(phrase.when.first - 1, LONG_AGO)),
    }[lead.lastgroup or ""]
    return TimePhrase(f"{lead.lastgroup} {phrase.words}", Span(first, last))


def expand(phrases: tuple[TimePhrase, ...], first_day: int, last_day: int) -> list[Span]:
    """The spans that matter to a bank whose rows run from `first_day` to `last_day`, each once."""
    spans: list[Span] = []
    years = range(date.fromordinal(first_day).year - 1, min(date.fromordinal(last_day).year + 1, MAXYEAR) + 1)
    for when in dict.fromkeys(phrase.when for phrase in phrases):
        if isinstance(when, Span):
            spans.append(when)
        else:
            spans += [span for year in years[-50:] for span in _in_year(when, year)]
    return list(dict.fromkeys(spans))


def _in_year(recurring: Recurring, year: int) -> list[Span]:
    if recurring.day:
        month = recurring.months[0]
        if year < 1 or recurring.day > calendar.monthrange(year, month)[1]:
            return []
        day = date(year, month, recurring.day).toordinal()
        return [Span(day, day)]
    if year < 1:
        return []
    return [_months(year, recurring.months)]


def _months(year: int, months: tuple[int, ...]) -> Span:
    """From the first of the first month to the end of the last; a winter runs into the next year."""
    last_year = year + (1 if months[-1] < months[0] else 0)
    end = date(last_year, months[-1], calendar.monthrange(last_year, months[-1])[1])
    return Span(date(year, months[0], 1).toordinal(), end.toordinal())


def _date(match: re.Match[str], _: date) -> Span | Recurring:
    said = match.groupdict()
    year, month, day = (said.get(part) or "0" for part in ("year", "month", "day"))
    number = _MONTHS.get(month) or int(month)
    if not int(year):
        return Recurring((number,), int(day))
    if not int(day):
        return _months(int(year), (number,) if number else (1, 12))
    ordinal = date(int(year), number, int(day)).toordinal()
    return Span(ordinal, ordinal)


def _season(match: re.Match[str], _: date) -> Span | Recurring:
    months = _SEASONS[match["season"]]
    year = match.groupdict().get("year")
    return _months(int(year), months) if year else Recurring(months)


def _around_today(match: re.Match[str], today: date) -> Span:
    shift = _SHIFTS[match["shift"]]
    day = today.toordinal() + (2 * shift if match["day"] else shift)
    return Span(day, day)


def _weekday(match: re.Match[str], today: date) -> Span:
    day = today.toordinal() - (today.weekday() - _WEEKDAYS[match["weekday"]]) % 7
    return Span(day, day)


def _ago(match: re.Match[str], today: date) -> Span:
    """People round: "two months ago" covers half a unit to either side."""
    day = today.toordinal() - _days_of(match)
    slack = 0 if match["unit"] == "day" else _UNIT_DAYS[match["unit"]] // 2
    return Span(day - slack, day + slack)


def _last_few(match: re.Match[str], today: date) -> Span:
    now, days = today.toordinal(), _days_of(match)
    return Span(now, now + days) if _STEPS[match["step"]] > 0 else Span(now - days, now)


def _days_of(match: re.Match[str]) -> int:
    count = match["count"]
    return (_COUNTS.get(count) or int(count)) * _UNIT_DAYS[match["unit"]]


def _last(match: re.Match[str], today: date) -> Span:
    step, now = _STEPS[match["step"]], today.toordinal()
    if what := match["weekday"]:
        day = now + (_WEEKDAYS[what] - today.weekday()) % 7 - (7 if step < 0 else 0)
        return Span(day, day)
    if what := match["season"] or match["month"]:
        return _nearest_months(_SEASONS.get(what) or (_MONTHS[what],), step, today)
    monday = now - today.weekday() + 7 * step
    match match["unit"]:
        case "week" | "fortnight":
            return Span(monday, monday + 6)
        case "weekend":
            return Span(monday + 5, monday + 6)
        case "month":
            first = _add_months(today, step)
            return _months(first.year, (first.month,))
        case "year":
            return _months(today.year + step, (1, 12))
        case _:  # a day, a night, a morning
            return Span(now + step, now + step)


def _nearest_months(months: tuple[int, ...], step: int, today: date) -> Span:
    """ "last summer" is the newest one that is over; "this summer" lies in this year; "next" has yet to start."""
    spans = [_months(today.year + shift, months) for shift in (-2, -1, 0, 1)]
    now = today.toordinal()
    if step < 0:
        return [span for span in spans if span.last < now][-1]
    if step == 0:
        return spans[2]
    return next((span for span in spans if span.first > now), spans[-1])


def _add_months(day: date, step: int) -> date:
    first = day.replace(day=1)
    shifted = first - timedelta(days=1) if step < 0 else first + timedelta(days=32 * step)
    return shifted.replace(day=1)


_STEP, _SEASON, _WEEKDAY = _any_of(_STEPS, "step"), _any_of(_SEASONS, "season"), _any_of(_WEEKDAYS, "weekday")
_AGO = _Rule(re.compile(rf"{_COUNT}\s++{_UNIT}\s++(?:ago|earlier|back)\b"), _ago, needs_today=True)
_OF_YEAR = (
    _Rule(
        re.compile(rf"(?P<year>{YEAR}|{ANY_YEAR})-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>0[1-9]|[12]\d|3[01]))?\b"), _date
    ),
    _Rule(re.compile(_YEAR), _date),
)
_OF_NUMBER = (_Rule(re.compile(rf"{_DAY}(?:\s++of)?\s++{_MONTH},?(?:\s++{_YEAR})?"), _date), _AGO)
_OF_MONTH = (
    _Rule(re.compile(rf"{_MONTH}\s++(?:the\s++)?{_DAY}\b(?:,?\s++{_YEAR})?"), _date),
    _Rule(re.compile(rf"{_MONTH},?(?:\s++of)?\s++{_YEAR}"), _date),
    _Rule(re.compile(_MONTH), _date, needs_lead=True),
)
_OF_SEASON = (
    _Rule(re.compile(rf"{_SEASON}(?:\s++of)?\s++{_YEAR}"), _season),
    _Rule(re.compile(rf"{_SEASON}\b"), _season, needs_lead=True),
)
_OF_STEP = (
    _Rule(re.compile(rf"{_STEP}\s++{_COUNT}\s++{_UNIT}"), _last_few, needs_today=True),
    _Rule(
        re.compile(rf"{_STEP}\s++(?:{_UNIT}|{_SEASON}\b|{_WEEKDAY}\b|{_MONTH}|(?:night|morning)\b)"),
        _last,
        needs_today=True,
    ),
)
_OF_WEEKDAY = (_Rule(re.compile(rf"{_WEEKDAY}\b"), _weekday, needs_today=True),)
_OF_TODAY = (
    _Rule(
        re.compile(
            r"(?P<day>day\s++(?:before(?=\s++yesterday)|after(?=\s++tomorrow))\s++)?"
            rf"{_any_of(_SHIFTS, 'shift')}\b"
        ),
        _around_today,
        needs_today=True,
    ),
)
_RULES: dict[str, tuple[_Rule, ...]] = {
    **dict.fromkeys(_MONTHS, _OF_MONTH),
    **dict.fromkeys(_SEASONS, _OF_SEASON),
    **dict.fromkeys(_COUNTS, (_AGO,)),
    **dict.fromkeys(_STEPS, _OF_STEP),
    **dict.fromkeys(_WEEKDAYS, _OF_WEEKDAY),
    **dict.fromkeys(("day", *_SHIFTS), _OF_TODAY),
}
"""First word of a phrase → what such a phrase may be, the longest first. Numbers have `_OF_YEAR` or `_OF_NUMBER`."""
