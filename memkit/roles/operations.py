"""Operations in replies: the grammars, the schemas, and the strict half of the manager's and the fused role's parser.

All or nothing: one item that cannot be used refuses the whole batch, so that no batch is ever applied in part.
Targets are the handles that this very prompt showed; any other number or id is a lie and refused as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from memkit.models import Action, OpDraft, normalise
from memkit.roles.base import Fact, Prompt, Shown
from memkit.roles.grammar import Grammar, alt, repeat, seq, text
from memkit.roles.reading import (
    HANDLE_KEYS,
    MAX_ITEMS,
    OP_KEYS,
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

MAX_OPS = 20
MEMORY_CHARS = 400
"""Longest memory text that the compact grammar lets a model write."""

_SPELLINGS: dict[str, Action] = {
    **dict.fromkeys(("ADD", "INSERT", "CREATE", "NEW"), "add"),
    **dict.fromkeys(("UPDATE", "MERGE", "MODIFY", "EDIT"), "update"),
    **dict.fromkeys(("DELETE", "REMOVE"), "delete"),
    **dict.fromkeys(("NOOP", "NONE", "NOOPERATION", "NOCHANGE", "KEEP", "IGNORE", "SKIP"), "noop"),
}
_OWN_SPELLINGS = frozenset({"ADD", "UPDATE", "DELETE", "NOOP"})
_LINE = re.compile(
    r"(?:[-*•]\s+|\d+[.)]\s+)?[\"'`*\[(]*([A-Za-z]{3,6}(?:[-_ ]?(?:OP|op))?)[\"'`*\])]*(?:[\s:,(]+(.*))?"
)
_NUMBERS = re.compile(r"\W{0,3}(?:memory|turn|id)?\W{0,3}(\d{1,6})\b[\s:,.)\]-]*", re.IGNORECASE)

OP_SCHEMA_PROPERTIES: Mapping[str, Any] = {
    "op": {"type": "string", "enum": ["ADD", "UPDATE", "DELETE", "NOOP"]},
    "id": {"type": ["integer", "null"], "description": "number of the memory; null for ADD"},
    "text": {"type": ["string", "null"], "description": "whole new text of the memory, for ADD and UPDATE"},
}


def operations_schema(with_turn: bool) -> Mapping[str, Any]:
    properties = dict(OP_SCHEMA_PROPERTIES)
    if with_turn:
        properties["turn"] = {"type": "integer", "description": "number of the new turn that says so"}
    item = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"operations": {"type": "array", "items": item}},
        "required": ["operations"],
        "additionalProperties": False,
    }


@lru_cache(maxsize=512)
def manager_grammar(handles: tuple[int, ...], writable: tuple[int, ...], max_lines: int = 4) -> Grammar:
    options: list[Grammar | str] = ["ADD", seq("ADD ", text(MEMORY_CHARS)), "NOOP"]
    if handles:
        options += [seq("NOOP ", _numbers(handles)), seq("DELETE ", _numbers(handles))]
    if writable:
        target = seq("UPDATE ", _numbers(writable))
        options += [target, seq(target, " ", text(MEMORY_CHARS))]
    return _lines(alt(*options), max_lines)


@lru_cache(maxsize=512)
def fused_grammar(turns: int, handles: tuple[int, ...], writable: tuple[int, ...], max_lines: int) -> Grammar:
    turn = _numbers(tuple(range(1, turns + 1)))
    options: list[Grammar | str] = [seq("ADD ", turn, " ", text(MEMORY_CHARS))]
    if handles:
        options += [seq("NOOP ", _numbers(handles), " ", turn), seq("DELETE ", _numbers(handles), " ", turn)]
    if writable:
        options.append(seq("UPDATE ", _numbers(writable), " ", turn, " ", text(MEMORY_CHARS)))
    return alt("NOOP", _lines(alt(*options), max_lines))


def _numbers(numbers: Sequence[int]) -> Grammar:
    return alt(*(str(number) for number in numbers))


def _lines(line: Grammar, most: int) -> Grammar:
    return seq(line, repeat(seq("\n", line), 0, most - 1))


def read_op_line(line: str, fields: Mapping[Action, tuple[str, ...]]) -> Mapping[str, Any] | None:
    """`UPDATE 2 text` as an item. `fields` says which numbers follow each operation before its text."""
    found = _LINE.fullmatch(line)
    action = _SPELLINGS.get(_letters(found[1])) if found else None
    if found is None or action is None:
        return None
    item: dict[str, Any] = {"op": found[1]}
    rest = (found[2] or "").strip()
    for name in fields[action]:
        number = _NUMBERS.match(rest)
        if number is None:
            break
        item[name], rest = int(number[1]), rest[number.end() :]
    rest = rest.strip()
    if len(rest) > 1 and rest[0] == rest[-1] == '"':
        rest = rest[1:-1]
    if rest:
        item["text"] = rest
    return item


def _letters(word: str) -> str:
    return re.sub(r"[^A-Z]", "", word.upper())


SPLIT_FIELDS: Mapping[Action, tuple[str, ...]] = {"add": (), "update": ("id",), "delete": ("id",), "noop": ("id",)}
FUSED_FIELDS: Mapping[Action, tuple[str, ...]] = {
    "add": ("turn",),
    "update": ("id", "turn"),
    "delete": ("id", "turn"),
    "noop": ("id", "turn"),
}


def op_shape(fields: Mapping[Action, tuple[str, ...]]) -> Shape:
    return Shape(
        list_keys=("operations", "ops", "memory", "memories", "actions", "events", "updates", "results", "result"),
        item_keys=frozenset({"op", "event", "action", "operation"}),
        read_line=lambda line: read_op_line(line, fields),
        nothing=frozenset({"NOOP", "NO-OP", "NO OP", "NONE", "NO OPERATION", "NO OPERATIONS"}),
    )


SPLIT_SHAPE = op_shape(SPLIT_FIELDS)
FUSED_SHAPE = op_shape(FUSED_FIELDS)


@dataclass(frozen=True, slots=True)
class _Raw:
    action: Action
    handle: int | None
    turn: int | None
    text: str | None
    restated: bool
    """mem0's way: the whole list is returned, and what stays as it is is marked NONE."""


def to_drafts(
    items: Sequence[Any],
    prompt: Prompt,
    shape: Shape,
    fact_for: Callable[[int | None, str], Fact],
    default_text: str | None,
    notes: Notes,
) -> list[OpDraft]:
    """Drafts for all items, or the reason why the batch is refused. `fact_for(turn, text)` says where an operation
    comes from; `default_text` is what ADD and UPDATE mean when they say nothing."""
    if len(items) > MAX_ITEMS:
        raise bad_reply("too_many", f"the reply has {len(items)} items", f"send at most {MAX_OPS}, one per fact")
    raws = [_raw(item, prompt, shape, default_text, notes) for item in items if item is not None]
    if len(raws) < len(items):
        notes.note("null_item")
    raws = _without_noise(raws, notes)
    if len(raws) > MAX_OPS:
        raise bad_reply("too_many", f"the reply has {len(raws)} operations", f"send at most {MAX_OPS}, one per fact")
    targets = [raw.handle for raw in raws if raw.handle is not None]
    if len(set(targets)) < len(targets):
        twice = next(handle for handle in targets if targets.count(handle) > 1)
        raise bad_reply("target_twice", f"memory {twice} is the target of two operations", "use at most one for each")
    shown = {one.handle: one for one in prompt.view.shown}
    return [_draft(raw, shown, fact_for) for raw in raws] or [_noop(fact_for)]


def _raw(raw_item: Any, prompt: Prompt, shape: Shape, default_text: str | None, notes: Notes) -> _Raw:
    if isinstance(raw_item, str):
        raw_item = shape.read_line(clean_text(raw_item, notes))
    mapping = unwrap_item(raw_item, shape, notes)
    if mapping is None:
        raise bad_reply("wrong_type", "an operation is no object", "send every operation as one object")
    item = ReplyItem(mapping, notes)
    action = _action(item)
    turn = _turn(item, prompt, notes) if prompt.role != "manager" else None
    handle = None if action == "add" else _handle(item, action, prompt, notes)
    if action == "update" and handle is None:
        raise bad_reply("no_target", "UPDATE names no memory", "name the number of a shown memory, or use ADD")
    if action == "delete" and handle is None:
        raise bad_reply("no_target", "DELETE names no memory", "name the number of a shown memory")
    said: str | None = None
    if action in ("add", "update"):
        value = item.find(TEXT_KEYS, ("text", "memory"))
        if value is None:
            value = item.take_unknown(lambda one: isinstance(one, str))
        said = default_text if value is None and default_text is not None else text_of(value, notes, action.upper())
    return _Raw(action, handle, turn, said, restated="event" in item.values)


def _action(item: ReplyItem) -> Action:
    value = item.find(OP_KEYS, ("op", "event"))
    if value is None:
        value = item.take_unknown(lambda one: isinstance(one, str) and _letters(one) in _SPELLINGS)
    if value is None and not item.has(OP_KEYS):
        raise bad_reply("no_op", "an operation does not say what it does", "say ADD, UPDATE, DELETE or NOOP")
    action = _SPELLINGS.get(_letters(value[:40])) if isinstance(value, str) else None
    if action is None:
        raise bad_reply("unknown_op", f"there is no operation {str(value)[:40]!r}", "use ADD, UPDATE, DELETE or NOOP")
    if value not in _OWN_SPELLINGS:
        item.notes.note("op_spelling")
    return action


def _turn(item: ReplyItem, prompt: Prompt, notes: Notes) -> int | None:
    value = item.find(TURN_KEYS, ("turn",))
    if value is None:
        return None
    number = integer(value, notes)
    if number is None or not 1 <= number <= len(prompt.view.turns):
        raise bad_reply("unknown_turn", f"there is no turn {str(value)[:40]!r}", "use the number of a new turn")
    return number


def _handle(item: ReplyItem, action: Action, prompt: Prompt, notes: Notes) -> int | None:
    value = item.find(HANDLE_KEYS, ("id",))
    if value is None and action != "noop":
        value = item.take_unknown(lambda one: isinstance(one, int) and not isinstance(one, bool))
    if value is None:
        return None
    shown = {one.handle: one for one in prompt.view.shown}
    number = integer(value, notes)
    if number is None or number not in shown:
        raise bad_reply(
            "unknown_handle",
            f"no memory {str(value)[:40]!r} was shown",
            f"use only these numbers: {', '.join(map(str, shown)) or 'none was shown, so ADD or NOOP'}",
        )
    if action == "update" and not shown[number].whole:
        raise bad_reply(
            "cut_target", f"memory {number} was shown cut, so it cannot be rewritten", "ADD a memory instead"
        )
    return number


def _without_noise(raws: Sequence[_Raw], notes: Notes) -> list[_Raw]:
    """Exact repetitions and NOOPs that only say "unchanged" beside real operations."""
    busy = len(raws) > 1
    kept: dict[tuple[object, ...], _Raw] = {}
    for raw in raws:
        if raw.action == "noop" and busy and (raw.restated or raw.handle is None):
            continue
        key = (raw.action, raw.handle, normalise(raw.text or ""))
        if key in kept:
            notes.note("repeated_item")
        kept.setdefault(key, raw)
    return list(kept.values())


def _draft(raw: _Raw, shown: Mapping[int, Shown], fact_for: Callable[[int | None, str], Fact]) -> OpDraft:
    target = shown[raw.handle].record if raw.handle is not None else None
    fact = fact_for(raw.turn, raw.text or (target.text if target else ""))
    return OpDraft(
        action=raw.action,
        memory_id=target.id if target else None,
        text=raw.text,
        source_turns=fact.source_turns,
        at=fact.at,
        speaker=fact.speaker,
        session_id=fact.session_id,
        origin=fact.origin,
        trainable=fact.trainable,
    )


def _noop(fact_for: Callable[[int | None, str], Fact]) -> OpDraft:
    return _draft(_Raw("noop", None, None, None, False), {}, fact_for)
