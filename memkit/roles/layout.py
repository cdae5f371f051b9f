"""How turns and memories look in a prompt: numbered, dated, quoted as data, and cut to a budget of characters.

Everything that users or models wrote is a JSON string on one line. Control, bidi and other invisible characters are
escaped, so that stored text can neither break out of its quotes nor hide from a reader.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memkit.memo import remember
from memkit.models import Turn
from memkit.roles.base import Shown
from memkit.roles.grammar import is_text_char
from memkit.roles.recalled import strip_recalled
from memkit.roles.wording import Wording

SHOWN_CHARS = 320
"""A memory longer than this is shown cut, and can then not be rewritten."""
CONTEXT_CHARS = 200
"""An earlier turn is shown up to this length."""
WHOLE_CHARS = 800
"""… and up to this one where the wording wants it whole."""
MEMORY_RESERVE = 1_500
"""Characters kept for shown memories, however long the new turns are."""

_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_ROLE_LABELS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}
_SENTENCE_END = re.compile(r"(?<=[.!?\n])\s+")


def quote(text: str, limit: int | None = None) -> str:
    """`text` as a JSON string on one line, cut to `limit` characters with an ellipsis."""
    text = text if limit is None else shorten(text, limit)
    return _quoted_once(text) if len(text) <= SHOWN_CHARS else _quoted(text)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _quoted(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else visible(quoted)


def visible(text: str) -> str:
    """`text` with its invisible characters escaped, ends of lines excepted."""
    return "".join(char if char == "\n" or is_text_char(char) else json.dumps(char)[1:-1] for char in text)


_quoted_once = remember(4_096)(_quoted)
"""Memories stand in one prompt after the other."""


def day(at: datetime | None, weekday: bool = False) -> str:
    """`8 May 2023`, or `Mon 8 May 2023`: independent of the process's locale."""
    if at is None:
        return "undated"
    date = f"{at.day} {_MONTHS[at.month - 1]} {at.year}"
    return f"{_DAYS[at.weekday()]} {date}" if weekday else date


def name_of(turn: Turn) -> str:
    """Who speaks, as prompts and facts call them."""
    return speaker_label(turn.speaker) or _ROLE_LABELS.get(turn.role, "User")


@remember(1_024)
def speaker_label(speaker: str) -> str:
    """A speaker's name that cannot break the line it stands in."""
    plain = "".join(char if is_text_char(char) and char not in '":[]<>' else " " for char in speaker[:200])
    return " ".join(plain.split())[:40].rstrip()


def without_recalled(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns as an extractor may read them: recalled memory blocks taken out."""
    stripped = ((turn, strip_recalled(turn.text)) for turn in turns)
    return tuple(turn if text == turn.text else replace(turn, text=text) for turn, text in stripped)


def turn_line(number: int, turn: Turn) -> str:
    return f"{number} [{day(turn.at, weekday=True)}] {name_of(turn)}: {quote(turn.text)}"


def context_line(turn: Turn, limit: int = CONTEXT_CHARS) -> str:
    return f"- {name_of(turn)}: {quote(strip_recalled(turn.text), limit)}"


def memory_line(shown: Shown, *, weekday: bool = False) -> str:
    """Number, date, who said it (where the text itself does not name them) and the text."""
    record = shown.record
    speaker = speaker_label(record.speaker)
    prefix = f"{speaker}: " if speaker and speaker.casefold() not in record.text.casefold() else ""
    return f"{shown.handle} [{day(record.at, weekday)}] {prefix}{quote(record.text, SHOWN_CHARS)}"


def fit(
    wording: Wording, budget: int, used: int, shown: Sequence[Shown], context_turns: Sequence[Turn]
) -> tuple[tuple[Shown, ...], tuple[str, ...]]:
    """What fits into a prompt of `budget` characters of which `used` are taken: the shown memories in their order
    (a cut one is marked so), then the newest of the earlier turns, of which the wording may keep some before the
    memories. New turns are never cut, so where they fill the budget, memories still get `MEMORY_RESERVE` and earlier
    turns nothing."""
    before = context_turns[max(0, len(context_turns) - wording.kept_turns) :]
    room = max(budget - used - sum(len(context_line(turn)) + 1 for turn in before), MEMORY_RESERVE)
    kept: list[Shown] = []
    for one in shown:
        size = len(memory_line(one, weekday=wording.weekdays)) + 1
        if size > room:
            break
        room -= size
        kept.append(one if len(one.record.text) <= SHOWN_CHARS else replace(one, whole=False))
    lines: list[str] = []
    room = budget - used - sum(len(memory_line(one, weekday=wording.weekdays)) + 1 for one in kept)
    for number, turn in enumerate(reversed(context_turns)):
        line = context_line(turn, WHOLE_CHARS if number < wording.whole_turns else CONTEXT_CHARS)
        if len(line) + 1 > room:
            line = context_line(turn)
        if len(line) + 1 > room:
            break
        room -= len(line) + 1
        lines.append(line)
    return tuple(kept), tuple(reversed(lines))


def split_turns(turns: Sequence[Turn], max_chars: int) -> list[tuple[Turn, ...]]:
    """Groups of turns for one call each, of at most `max_chars` characters of text. A longer turn is divided, at ends
    of sentences where it has them; its parts keep its id. Nothing is dropped."""
    groups: list[list[Turn]] = []
    size = max_chars + 1
    for turn in turns:
        for part in _split_text(turn.text, max_chars):
            if size + len(part) > max_chars:
                groups.append([])
                size = 0
            groups[-1].append(turn if part == turn.text else replace(turn, text=part))
            size += len(part)
    return [tuple(group) for group in groups]


def _split_text(text: str, max_chars: int) -> list[str]:
    if len(text) <= max_chars:
        return [text]
    parts: list[str] = []
    current = ""
    for sentence in _SENTENCE_END.split(text):
        joined = f"{current} {sentence}" if current else sentence
        if len(joined) <= max_chars:
            current = joined
            continue
        if current:
            parts.append(current)
        whole = len(sentence) - len(sentence) % max_chars if len(sentence) > max_chars else 0
        parts.extend(sentence[at : at + max_chars] for at in range(0, whole, max_chars))
        current = sentence[whole:]
    return [*parts, current] if current else parts
