"""Answerer: a question and up to 60 memories (30 per person) → the memories that decide it, then a short answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal, cast

from memkit.roles.base import AnswerDraft, ChatMessage, Parsed, Prompt, Shown, Style, View
from memkit.roles.grammar import Grammar, alt, repeat, seq, text
from memkit.roles.layout import day, quote, speaker_label
from memkit.roles.loose_json import read_json
from memkit.roles.prompting import (
    FIRST,
    check_instructions,
    check_style,
    check_wording,
    prompt_version,
    schema_digest,
    system_text,
)
from memkit.roles.reading import (
    MAX_TEXT,
    Notes,
    bad_reply,
    check_size,
    clean_text,
    integer,
    plain_key,
    refuse_stump,
    text_of,
)

PER_SPEAKER = 30
MAX_CANDIDATES = 60
ANSWER_CHARS = 400
SHOWN_CHARS = 400
_MAX_USED = 12

_FORMATS: dict[str, str] = {
    "compact": """\
Reply with two lines, the numbers of the selected memories (or NONE) and the answer. Example:
USE 3 7
ANSWER two dogs, Buddy and Scout""",
    "json": """\
Reply with JSON only. Example: {"memories": [3, 7], "answer": "two dogs, Buddy and Scout"}
If the memories do not hold the answer: {"memories": [], "answer": "unknown"}""",
}

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "memories": {"type": "array", "items": {"type": "integer"}},
        "answer": {"type": "string"},
    },
    "required": ["memories", "answer"],
    "additionalProperties": False,
}

_USE_KEYS = ("memories", "use", "used", "selected", "memory_ids", "ids", "citations", "cited", "handles")
_ANSWER_KEYS = ("answer", "text", "response", "final_answer", "reply", "content")
_USE_LINE = re.compile(r"\W*(?:USED?|MEMORIES|SELECTED)\b\W*(NONE\b|[\dm#,;\s\[\]()and&]*)\W*", re.IGNORECASE)
_ANSWER_LINE = re.compile(r"\W*(?:FINAL\s+)?ANSWER\b[\s:*]*(.*)", re.IGNORECASE | re.DOTALL)
_ABSTAIN = frozenset(
    {
        "unknown",
        "none",
        "not mentioned",
        "no information",
        "no answer",
        "i don't know",
        "i do not know",
        "n/a",
        "not known",
        "no information available",
        "not specified",
        "the memories do not say",
    }
)


class Answerer:
    name: Literal["answerer"] = "answerer"

    def __init__(self, instructions: str = "", style: str = "compact", wording: int = FIRST) -> None:
        self.wording = check_wording(wording)
        check_instructions(instructions)  # they say what to remember, not how to answer: not part of this prompt
        self.style: Style = check_style(style)
        self.schema = _SCHEMA if self.style == "json" else None
        self.system = system_text(self.wording.answerer, _FORMATS[self.style], "")
        self.version = prompt_version(self.name, self.wording, self.style, self.system, schema_digest(self.schema))

    def render(self, question: str, shown: Sequence[Shown], now: datetime | None = None) -> Prompt:
        """The memories are grouped, sorted and numbered anew: `prompt.view.shown` holds them as numbered."""
        groups = _groups(shown)
        numbered: list[Shown] = []
        lines: list[str] = []
        for speaker, members in groups:
            lines.append(f"Memories from {speaker}:" if speaker else "Memories:")
            for one in members:
                numbered.append(replace(one, handle=len(numbered) + 1, whole=len(one.record.text) <= SHOWN_CHARS))
                record = one.record
                lines.append(
                    f"{len(numbered)} [{day(record.at, self.wording.weekdays)}] {quote(record.text, SHOWN_CHARS)}"
                )
        if not lines:
            lines.append("Memories: none.")
        today = f" (asked on {day(now, weekday=True)})" if now else ""
        lines += ["", f"Question{today}: {quote(question)}"]
        return Prompt(
            role=self.name,
            style=self.style,
            version=self.version,
            messages=(ChatMessage("system", self.system), ChatMessage("user", "\n".join(lines))),
            grammar=_answer_grammar(len(numbered)) if self.style == "compact" else None,
            schema=self.schema,
            max_tokens=256,
            view=View(shown=tuple(numbered), question=question),
        )

    def parse(self, reply: str, prompt: Prompt, *, cut: bool = False) -> Parsed[AnswerDraft]:
        notes = Notes()
        check_size(reply)
        numbers, said = _read(reply.strip(), notes, cut)
        answer = text_of(said, notes, "the answer")
        shown = {one.handle: one.record.id for one in prompt.view.shown}
        used: list[int] = []
        for value in numbers:
            number = integer(value, notes)
            if number is None or number not in shown:
                raise bad_reply(
                    "unknown_handle",
                    f"no memory {str(value)[:40]!r} was shown",
                    f"use numbers from 1 to {len(shown)}" if shown else "none was shown: answer unknown",
                )
            if number not in used:
                used.append(number)
        abstained = answer.casefold().rstrip(" .!") in _ABSTAIN
        draft = AnswerDraft(answer, tuple(used), tuple(shown[number] for number in used), abstained)
        return Parsed(draft, tuple(notes.repairs))


def _groups(shown: Iterable[Shown]) -> list[tuple[str, list[Shown]]]:
    """The best 30 of each speaker, the best 60 in all, chronological within each speaker."""
    by_speaker: dict[str, list[Shown]] = {}
    kept = 0
    for one in sorted(shown, key=lambda one: (-one.score, one.handle)):
        members = by_speaker.setdefault(speaker_label(one.record.speaker), [])
        if kept < MAX_CANDIDATES and len(members) < PER_SPEAKER:
            members.append(one)
            kept += 1
    for members in by_speaker.values():
        members.sort(key=lambda one: (one.record.at.timestamp() if one.record.at else 0.0, one.record.seq, one.handle))
    return sorted((speaker, members) for speaker, members in by_speaker.items() if members)


@lru_cache(maxsize=128)
def _answer_grammar(memories: int) -> Grammar:
    used: Grammar | str = "NONE"
    if memories:
        number = alt(*(str(handle) for handle in range(1, memories + 1)))
        used = alt("NONE", seq(number, repeat(seq(" ", number), 0, min(_MAX_USED, memories) - 1)))
    return seq("USE ", used, "\nANSWER ", text(ANSWER_CHARS))


def _read(reply: str, notes: Notes, cut: bool) -> tuple[list[Any], Any]:
    """(selected numbers, answer), still unchecked."""
    if "{" in reply:
        reading = read_json(reply)
        found = [pair for value in reading.values if (pair := _from_mapping(value, notes)) is not None]
        if reading.too_deep:
            raise bad_reply("too_deep", "brackets are nested too deeply", "reply with one flat JSON object")
        if reading.truncated and (found or reply.lstrip("`json \n")[:1] == "{"):
            raise bad_reply("truncated", "the reply stops in the middle", "reply again, with a shorter answer")
        if reading.broken and found:
            raise bad_reply("broken", "a part of the reply is not valid JSON", "reply again with valid JSON")
        if reading.twice and found:
            raise bad_reply("key_twice", "one object gives the same key two values", "use each key once")
        if found:
            if any(pair != found[0] for pair in found):
                raise bad_reply("several_answers", "the reply holds two different answers", "send one answer")
            notes.note(*reading.repairs)
            if len(found) > 1:
                notes.note("repeated_object")
            return found[0]
    refuse_stump(cut)
    return _from_lines(reply, notes)


def _from_mapping(value: Any, notes: Notes, wrappers: int = 0) -> tuple[list[Any], Any] | None:
    if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
        notes.note("bare_array")
        value = value[0]
    if not isinstance(value, dict) or wrappers > 4:
        return None
    mapping = {plain_key(key): inner for key, inner in cast("dict[str, Any]", value).items()}
    answer = next((key for key in _ANSWER_KEYS if key in mapping), None)
    if answer is not None and isinstance(mapping[answer], dict) and len(mapping) == 1:
        inside = _from_mapping(mapping[answer], notes, wrappers + 1)
        notes.note("wrapped")
        if inside is not None:
            return inside
    used = next((key for key in _USE_KEYS if key in mapping), None)
    if answer is None and used is not None:
        strings = [key for key, inner in mapping.items() if isinstance(inner, str) and key != used]
        answer = strings[0] if len(strings) == 1 else None
    if answer is None:
        inner = [one for one in mapping.values() if isinstance(one, dict)]
        notes.note("wrapped")
        return _from_mapping(inner[0], notes, wrappers + 1) if len(inner) == 1 else None
    if used is None:
        lists = [key for key, inner in mapping.items() if isinstance(inner, list)]
        used = lists[0] if len(lists) == 1 else None
    if answer != "answer" or used not in ("memories", None):
        notes.note("renamed_key")
    selected = mapping[used] if used is not None else []
    if used is None:
        notes.note("no_selection")
    if isinstance(selected, str):
        selected = [int(number) for number in re.findall(r"\d{1,6}", selected)]
    given: list[Any] = selected if isinstance(selected, list) else [] if selected is None else [selected]
    numbers = [one for one in given if one is not None]
    if len(numbers) < len(given):
        notes.note("null_item")
    said = mapping[answer]
    return numbers, str(said) if isinstance(said, int | float) and not isinstance(said, bool) else said


def _from_lines(reply: str, notes: Notes) -> tuple[list[Any], Any]:
    """`USE 1 3` and `ANSWER …`. An answer may run on over the lines behind it; what stands before is prose."""
    lines = [line for line in reply.splitlines() if not line.strip().startswith(("```", "~~~"))]
    if len(lines) < len(reply.splitlines()):
        notes.note("fence")
    used: list[Any] | None = None
    for index, line in enumerate(lines):
        answered = _ANSWER_LINE.fullmatch(line.strip())
        if answered:
            said = "\n".join([answered[1], *lines[index + 1 :]])
            if used is None:
                notes.note("no_selection")
            return used or [], clean_text(said, notes)[: MAX_TEXT + 1]
        selected = _USE_LINE.fullmatch(line.strip()[:2_000])
        if selected:
            used = [int(number) for number in re.findall(r"\d{1,6}", selected[1])]
        elif line.strip():
            notes.note("prose")
    raise bad_reply("no_items", "the reply holds no answer in the required format", "reply in that format only")
