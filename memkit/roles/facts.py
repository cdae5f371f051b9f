"""Facts in replies, and where a fact comes from: the extractor's grammar, schema and validator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from memkit.models import Turn, normalise
from memkit.roles.base import Fact
from memkit.roles.grammar import Grammar, alt, repeat, seq, text
from memkit.roles.reading import (
    MAX_ITEMS,
    TEXT_KEYS,
    TURN_KEYS,
    Notes,
    ReplyItem,
    Shape,
    bad_reply,
    clean_text,
    integer,
    text_of,
    unwrap_item,
)

MAX_FACTS = 40
FACT_CHARS = 300
"""Longest fact that the compact grammar lets a model write."""

_LINE = re.compile(r"(?:[-*•]\s+)?[\[(]?(?:turn\s*)?(\d{1,6})\b[\])]?[\s:.)-]*(\S.*)", re.IGNORECASE)
_WORD = re.compile(r"\w+")

FACTS_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"turn": {"type": "integer"}, "fact": {"type": "string"}},
                "required": ["turn", "fact"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}


@lru_cache(maxsize=512)
def facts_grammar(turns: int, max_lines: int) -> Grammar:
    line = seq(alt(*(str(number) for number in range(1, turns + 1))), " ", text(FACT_CHARS))
    return alt("NONE", seq(line, repeat(seq("\n", line), 0, max_lines - 1)))


def read_fact_line(line: str) -> Mapping[str, Any] | None:
    found = _LINE.fullmatch(line)
    return {"turn": int(found[1]), "fact": found[2]} if found else None


FACT_SHAPE = Shape(
    list_keys=("facts", "memories", "memory", "items", "results", "result", "statements"),
    item_keys=frozenset({"fact", "text", "content", "memory", "turn"}),
    read_line=read_fact_line,
    nothing=frozenset({"NONE", "NO FACTS", "NOTHING"}),
    strings=True,
)


def to_facts(items: Sequence[Any], turns: Sequence[Turn], notes: Notes) -> list[Fact]:
    if len(items) > MAX_ITEMS:
        raise bad_reply("too_many", f"the reply has {len(items)} items", f"send at most {MAX_FACTS}, the lasting ones")
    sources = Sources(turns)
    facts: dict[str, Fact] = {}
    for raw in items:
        if raw is None:
            notes.note("null_item")
            continue
        fact = _fact(raw, sources, notes)
        if normalise(fact.text) in facts:
            notes.note("repeated_item")
        facts.setdefault(normalise(fact.text), fact)
    if len(facts) > MAX_FACTS:
        raise bad_reply("too_many", f"the reply has {len(facts)} facts", f"send at most {MAX_FACTS}, the lasting ones")
    return list(facts.values())


def _fact(raw: Any, sources: Sources, notes: Notes) -> Fact:
    turns = sources.turns
    if isinstance(raw, str):
        line = read_fact_line(clean_text(raw, notes))
        raw = line if line and 1 <= line["turn"] <= len(turns) else {"fact": raw}
        notes.note("string_item")
    mapping = unwrap_item(raw, FACT_SHAPE, notes)
    if mapping is None:
        raise bad_reply("wrong_type", "a fact is no object", 'send every fact as {"turn": 1, "fact": "…"}')
    item = ReplyItem(mapping, notes)
    value = item.find(TEXT_KEYS, ("fact", "text"))
    if value is None and not item.has(TEXT_KEYS):
        value = item.take_unknown(lambda one: isinstance(one, str))
    said = text_of(value, notes, "a fact")
    turn = item.find(TURN_KEYS, ("turn",))
    if turn is None:
        turn = item.take_unknown(lambda one: isinstance(one, int) and not isinstance(one, bool))
    if turn is None:
        return fact_from(sources.infer(said, notes), said)
    number = integer(turn, notes)
    if number is None or not 1 <= number <= len(turns):
        raise bad_reply("unknown_turn", f"there is no turn {str(turn)[:40]!r}", f"use numbers from 1 to {len(turns)}")
    return fact_from(turns[number - 1], said)


def fact_from(turn: Turn, said: str) -> Fact:
    return Fact(
        text=said,
        source_turns=(turn.turn_id,),
        speaker=turn.speaker,
        at=turn.at,
        session_id=turn.session_id,
        origin=turn.origin,
        trainable=turn.trainable,
    )


class Sources:
    """The turns that a reply may name, and the best guess where it names none."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = turns
        self._words: list[set[str]] | None = None

    def infer(self, said: str, notes: Notes) -> Turn:
        """The turn that shares most words with `said`, the newest of equals."""
        notes.note("turn_inferred")
        if self._words is None:
            self._words = [_words(turn.text) for turn in self.turns]
        words = _words(said)
        shared = [len(words & own) for own in self._words]
        return self.turns[max(range(len(shared)), key=lambda index: (shared[index], index))]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))
