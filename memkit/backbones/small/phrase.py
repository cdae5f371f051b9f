"""From choices to words: fixed operations on what was said, which invent none.

A fact is the clause as it was said, its speaker beside it as beside a turn; or as the rules put it, where that says all
of it. A memory that is rewritten keeps what it said, with the dates made plain that were said from another day."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime

from memkit.backbones._rules_dates import resolve_dates
from memkit.backbones._rules_extract import Reading, read
from memkit.backbones._rules_words import single_line
from memkit.models import Turn
from memkit.text.words import terms

LONGEST = 380
"""Characters of a fact or memory that is written: what the compact grammar lets anybody write."""
_FACT = 290
_READ = 500
"""Characters of a memory that are read."""
_KEPT = 120
"""Characters of what a memory said before."""
_BEFORE = re.compile(r" \(before: .*\)\.?$", re.DOTALL)
_EDGES = " ,;:–—-，、；，"
_LEAD = re.compile(r"^(?:[\s,;:–—-]+|(?:and|but|so|oh|well|also|btw|ps|anyway|und|et|y|e|en)\b[\s,]+)+", re.IGNORECASE)


def facts_of(turn: Turn, start: int, end: int) -> list[str]:
    """What a kept part of a turn is written as."""
    said = turn.text[start:end]
    reading = reading_of(turn, said)
    if reading.facts and carries_most(said, reading.facts):
        return list(reading.facts)
    text = single_line(_LEAD.sub("", said).strip(_EDGES), _FACT)
    return [text] if text else []


def reading_of(turn: Turn, said: str) -> Reading:
    """What the rules make of a part of a turn."""
    return read(replace(turn, text=said))


def carries_most(said: str, facts: tuple[str, ...]) -> bool:
    """Whether the facts say all but a little of what was said."""
    wanted = set(terms(said))
    return len(wanted & set(terms(" ".join(facts)))) >= 0.7 * len(wanted)


def state_of(text: str) -> str:
    """What a memory says of now: what it said before tells nothing of what a new fact is to it."""
    return as_read(text.partition(" (before: ")[0][:_READ])


def as_read(text: str) -> str:
    """A fact as the encoder was taught them: after the word for who says it."""
    return text if text.startswith("User") else f"User: {text}"


def rewrite(old: str, new: str, said: datetime | None = None) -> str:
    """The new text, and what stood there before, which was `said` then."""
    before = _BEFORE.sub("", old).rstrip(" .")
    before = before if said is None else resolve_dates(before, said)
    before = before if len(before) <= _KEPT else before[:_KEPT] + "…"
    return single_line(f"{new.rstrip(' .')} (before: {before}).", LONGEST + 10)
