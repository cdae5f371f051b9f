"""Time phrases of a question → spans of days.

"in May 2023", "on 7 May", "last summer", "yesterday", "two weeks ago", "since Monday". Relative phrases need `now` and
are passed over without it. A day or month without a year recurs: it means that day or month of any year. Spans are
pairs of proleptic Gregorian day ordinals, both ends included, so that a whole bank is tested with two comparisons.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, date, timedelta

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
    "monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5, "sunday": 6,
}  # fmt: skip
_SEASONS = {"spring": (3, 4, 5), "summer": (6, 7, 8), "autumn": (9, 10, 11), "fall": (9, 10, 11), "winter": (12, 1, 2)}
_COUNTS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "couple": 2, "few": 3, "several": 5,
}  # fmt: skip
_UNIT_DAYS = {"day": 1, "week": 7, "weekend": 7, "fortnight": 14, "month": 30, "year": 365}

_MONTH = "(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?:19|20)\d\d"
_SEASON = "(?:" + "|".join(_SEASONS) + ")"
_WEEKDAY = "(?:" + "|".join(_WEEKDAYS) + ")"
_COUNT = r"(?:\d{1,3}|a\s+couple\s+of|a\s+few|" + "|".join(_COUNTS) + ")"
_UNIT = r"(?:day|week|weekend|fortnight|month|year)"
_LED = re.compile(
    r"\b(?:(?:in|on|of|during|over|since|until|till|by|before|after|around|from|between|and|to)\s+(?:the\s+)?"
    r"|(?:early|late|mid)[\s-]+)$",
    re.IGNORECASE,
)
"""A bare "May", "spring" or "June" may be a verb, a noun or a person: it counts after one of these words only."""

_PATTERN = re.compile(
    rf"""
      (?P<iso>\b{_YEAR}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?\b)
    | (?P<dmy>\b{_DAY}(?:\s+of)?\s+{_MONTH},?(?:\s+{_YEAR}\b)?)
    | (?P<mdy>\b{_MONTH}\s+(?:the\s+)?{_DAY}\b(?:,?\s+{_YEAR}\b)?)
    | (?P<my>\b{_MONTH},?(?:\s+of)?\s+{_YEAR}\b)
    | (?P<sy>\b{_SEASON}(?:\s+of)?\s+{_YEAR}\b)
    | (?P<ago>\b{_COUNT}\s+{_UNIT}s?\s+(?:ago|earlier|back)\b)
    | (?P<lastn>\b(?:last|past|previous|next|coming)\s+{_COUNT}\s+{_UNIT}s?\b)
    | (?P<rel>\b(?:last|past|previous|this|next|coming)\s+(?:{_UNIT}|{_SEASON}|{_WEEKDAY}|{_MONTH}|night|morning))
    | (?P<word>\b(?:day\s+before\s+yesterday|yesterday|today|tonight|tomorrow)\b)
    | (?P<weekday>\b{_WEEKDAY}\b)
    | (?P<month>\b{_MONTH})
    | (?P<season>\b{_SEASON}\b)
    | (?P<year>\b{_YEAR}\b)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_AFTER = re.compile(r"\b(?:since|after|from|later\s+than)\s+(?:the\s+)?$", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:until|till|by)\s+(?:the\s+)?$", re.IGNORECASE)
_BEFORE = re.compile(r"\b(?:before|prior\s+to|earlier\s+than)\s+(?:the\s+)?$", re.IGNORECASE)
_JOIN = re.compile(r"^\s*(?:to|until|till|through|and|[-–])\s*(?:the\s+|(?:early|late|mid)\s+)*$", re.IGNORECASE)
_LEADING = frozenset({
    *_MONTHS, *_SEASONS, *_WEEKDAYS, *_COUNTS, "last", "past", "previous", "this", "next", "coming", "day", "yesterday",
    "today", "tonight", "tomorrow",
})  # fmt: skip
"""Words that a phrase of `_PATTERN` may begin with, where it does not begin with a digit."""
_WORD = re.compile(r"\w+")


def time_phrases(text: str, today: date | None) -> tuple[TimePhrase, ...]:
    """Every time phrase of `text` that can be pinned down. `today` is the asker's date."""
    found: list[TimePhrase] = []
    end = 0
    for match in _matches(text):
        group, before = match.lastgroup or "", text[: match.start()]
        if group in ("month", "season") and not _LED.search(before):
            continue
        try:
            when = _resolve(group, match.group().lower(), today)
        except (ValueError, OverflowError, StopIteration):
            continue  # 30 February, beyond the calendar, a month spelt with "ſ": no time, then
        if when is None:
            continue
        phrase = TimePhrase(match.group().strip(" ,."), when)
        if found and _JOIN.match(text[end : match.start()]) and (joined := _from_to(found[-1], phrase)):
            found[-1] = joined
        else:
            found.append(_open_ended(before, phrase))
        end = match.end()
    return tuple(found)


def _matches(text: str) -> Iterator[re.Match[str]]:
    """`_PATTERN.finditer`, trying only where a phrase can begin. Letters beyond ASCII fold in ways of their own."""
    if not text.isascii():
        yield from _PATTERN.finditer(text)
        return
    end = 0
    for word in _WORD.finditer(text):
        start, first = word.start(), word.group()
        if start >= end and (first[0].isdigit() or first.lower() in _LEADING) and (m := _PATTERN.match(text, start)):
            end = m.end()
            yield m


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


def _open_ended(before: str, phrase: TimePhrase) -> TimePhrase:
    if not isinstance(phrase.when, Span):
        return phrase
    if _AFTER.search(before):
        return TimePhrase(f"since {phrase.words}", Span(phrase.when.first, FOREVER))
    if _UNTIL.search(before):
        return TimePhrase(f"until {phrase.words}", Span(LONG_AGO, phrase.when.last))
    if _BEFORE.search(before):
        return TimePhrase(f"before {phrase.words}", Span(LONG_AGO, phrase.when.first - 1))
    return phrase


def expand(phrases: tuple[TimePhrase, ...], first_day: int, last_day: int) -> list[Span]:
    """The spans that matter to a bank whose rows run from `first_day` to `last_day`."""
    spans: list[Span] = []
    for phrase in phrases:
        if isinstance(phrase.when, Span):
            spans.append(phrase.when)
            continue
        years = range(date.fromordinal(first_day).year - 1, min(date.fromordinal(last_day).year + 1, MAXYEAR) + 1)
        for year in list(years)[-50:]:
            spans.extend(_in_year(phrase.when, year))
    return spans


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


def _resolve(group: str, words: str, today: date | None) -> Span | Recurring | None:
    match group:
        case "iso":
            parts = [int(part) for part in words.split("-")]
            return _days(parts[0], parts[1], parts[2] if len(parts) == 3 else 0)
        case "dmy" | "mdy" | "my":
            return _calendar_date(words)
        case "month":
            return Recurring((_month_in(words),))
        case "sy":
            return _months(_year_in(words), _season_in(words))
        case "season":
            return Recurring(_season_in(words))
        case "year":
            year = int(words)
            return Span(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal())
        case _:
            return None if today is None else _relative(group, words, today)


def _calendar_date(words: str) -> Span | Recurring:
    month, year = _month_in(words), _year_in(words)
    day = next((int(d) for d in re.findall(r"\b(\d{1,2})(?:st|nd|rd|th)?\b", words)), 0)
    return _days(year, month, day) if year else Recurring((month,), day)


def _days(year: int, month: int, day: int) -> Span:
    if not day:
        return _months(year, (month,))
    ordinal = date(year, month, day).toordinal()
    return Span(ordinal, ordinal)


def _month_in(words: str) -> int:
    return next(_MONTHS[word] for word in re.findall(r"[a-z]+", words) if word in _MONTHS)


def _season_in(words: str) -> tuple[int, ...]:
    return next(_SEASONS[word] for word in re.findall(r"[a-z]+", words) if word in _SEASONS)


def _year_in(words: str) -> int:
    found = re.search(_YEAR, words)
    return int(found.group()) if found else 0


def _relative(group: str, words: str, today: date) -> Span | None:
    now = today.toordinal()
    match group:
        case "word":
            shift = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1}.get(words, -2)
            return Span(now + shift, now + shift)
        case "weekday":
            back = (today.weekday() - _WEEKDAYS[words]) % 7
            return Span(now - back, now - back)
        case "ago":
            return _ago(_count_in(words), _unit_in(words), now)
        case "lastn":
            days = _count_in(words.split(maxsplit=1)[1]) * _UNIT_DAYS[_unit_in(words)]
            return Span(now, now + days) if words.startswith(("next", "coming")) else Span(now - days, now)
        case _:
            which, what = words.split(maxsplit=1)
            step = {"this": 0, "next": 1, "coming": 1}.get(which, -1)
            return _named(step, what.rstrip("."), today)


def _count_in(words: str) -> int:
    first = re.sub(r"^a (?=couple|few)", "", words).split()[0]
    return int(first) if first.isdigit() else _COUNTS[first]


def _unit_in(words: str) -> str:
    return next(word.rstrip("s") for word in reversed(words.split()) if word.rstrip("s") in _UNIT_DAYS)


def _ago(count: int, unit: str, now: int) -> Span:
    """People round: "two months ago" covers half a unit to either side."""
    days = count * _UNIT_DAYS[unit]
    slack = 0 if unit == "day" else _UNIT_DAYS[unit] // 2
    return Span(now - days - slack, now - days + slack)


def _named(step: int, what: str, today: date) -> Span:
    now = today.toordinal()
    if what in ("night", "morning"):
        return Span(now + step, now + step)
    if what in ("week", "fortnight"):
        monday = now - today.weekday() + 7 * step
        return Span(monday, monday + 6)
    if what == "weekend":
        saturday = now - today.weekday() + 5 + 7 * step
        return Span(saturday, saturday + 1)
    if what == "month":
        first = _add_months(today, step)
        return _months(first.year, (first.month,))
    if what == "year":
        return Span(date(today.year + step, 1, 1).toordinal(), date(today.year + step, 12, 31).toordinal())
    if what in _WEEKDAYS:
        ahead = (_WEEKDAYS[what] - today.weekday()) % 7
        day = now + ahead - (7 if step < 0 and ahead >= 0 else 0)
        return Span(day, day)
    months = _SEASONS.get(what) or (_MONTHS[what],)
    return _nearest_months(months, step, today)


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
