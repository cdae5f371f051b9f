"""Relative dates as absolute ones, counted from the day on which they were said."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

_MONTHS = "January February March April May June July August September October November December".split()
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}

RELATIVE = re.compile(
    r"\b(?:(?P<bound>since|until|till|by|from|before|after|for)\s+|on\s+|in\s+)?(?:"
    r"(?P<day>the day before yesterday|yesterday|last night|today|tonight|this morning|this afternoon|this evening"
    r"|tomorrow|the day after tomorrow)"
    r"|(?P<which>last|this past|this|next|this coming)\s+(?P<unit>week|weekend|month|year|"
    + "|".join(_DAYS)
    + r"|mon|tues?|wed|thurs?|fri|sat|sun)"
    r"|(?P<count>\d{1,3}|" + "|".join(_COUNTS) + r"|a couple of|a few)\s+(?P<units>day|week|month|year)s?\s+ago"
    r"|in\s+(?P<ahead>\d{1,3}|" + "|".join(_COUNTS) + r")\s+(?P<aunits>day|week|month|year)s?"
    r")\b(?!['’]s)",
    re.IGNORECASE,
)
ABSOLUTE = re.compile(
    r"\b(?:\d{1,2} (?:" + "|".join(_MONTHS) + r") \d{4}|(?:" + "|".join(_MONTHS) + r") \d{4}|(?:19|20)\d\d)\b"
)
"""What `resolve_dates` writes."""

_OFFSETS = {
    "the day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "tomorrow": 1,
    "the day after tomorrow": 2,
}


def write_date(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def resolve_dates(text: str, at: datetime) -> str:
    """`text` with its relative dates replaced. What has no calendar date ("recently", "soon") stays."""
    said = at.date()
    return RELATIVE.sub(lambda found: _bounded(found, _absolute(found, said)), text)


def _bounded(found: re.Match[str], day: str) -> str:
    """`since last Friday` → `since 5 May 2023`: one preposition is enough."""
    return f"{found['bound']} {re.sub('^(?:on|in) ', '', day)}" if found["bound"] and day != found[0] else day


def _absolute(found: re.Match[str], said: date) -> str:
    try:
        if found["day"]:
            return f"on {write_date(said + timedelta(days=_OFFSETS.get(found['day'].lower(), 0)))}"
        if found["unit"]:
            return _which(found["which"].lower(), found["unit"].lower(), said)
        if found["count"]:
            return _ago(found["count"].lower(), found["units"].lower(), said)
        return _ago(found["ahead"].lower(), found["aunits"].lower(), said, ahead=True)
    except (OverflowError, ValueError):  # before year 1, after year 9999
        return found[0]


def _which(which: str, unit: str, said: date) -> str:
    step = -1 if which in ("last", "this past") else 1 if which == "next" else 0
    weekday = next((number for number, name in enumerate(_DAYS) if name.startswith(unit)), None)
    if weekday is not None:
        ahead = (weekday - said.weekday()) % 7
        if step < 0:
            return f"on {write_date(said - timedelta(days=7 - ahead))}"
        return f"on {write_date(said + timedelta(days=ahead or 7))}"
    if unit == "week":
        return f"in the week {('of', 'after', 'before')[step]} {write_date(said)}"
    if unit == "weekend":
        return f"on the weekend {('of', 'after', 'before')[step]} {write_date(said)}"
    if unit == "month":
        return f"in {_month(said, step)}"
    return f"in {said.year + step}"


def _ago(count: str, unit: str, said: date, ahead: bool = False) -> str:
    number = int(count) if count.isdigit() else _COUNTS.get(count, 0)
    if number == 0:  # "a few"
        return f"a few {unit}s before {write_date(said)}"
    number = number if ahead else -number
    if unit == "day":
        return f"on {write_date(said + timedelta(days=number))}"
    if unit == "week":
        return f"around {write_date(said + timedelta(weeks=number))}"
    if unit == "month":
        return f"in {_month(said, number)}"
    return f"in {said.year + number}"


def _month(said: date, step: int) -> str:
    year, month = divmod(said.year * 12 + said.month - 1 + step, 12)
    if year < 1:
        raise ValueError(year)
    return f"{_MONTHS[month]} {year}"
