"""What a manager does to facts that have changed: FactConsolidation told statement by statement, and HaluMem's memory
points, each put to the manager with the memories of that person as they stand by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memkit import Memory
from memkit.models import Op
from memkit.seams.backbone import GenReply, GenRequest, Replies
from tests.bench._real_sets import USER, memory, overridden_by, read_rows
from tests.bench._real_talks import fold, forms_of
from tests.bench._real_updates import PEOPLE, at_of, sessions_of


@dataclass(slots=True)
class Overridden:
    """FactConsolidation: what became of statements that a later one overrides, and of those that none does."""

    live: list[bool] = field(default_factory=list)
    """An overridden statement is still the state of a fact, or no fact was made of what overrides it."""
    lost: list[bool] = field(default_factory=list)
    """A current statement that was a fact is one no more."""


def overridden(model: Any, size: str) -> Overridden:
    rows = read_rows(f"factcon_{size}.jsonl")
    said = [row["content"] for row in rows if "content" in row]
    old, current = _groups(said, [row for row in rows if "question" in row])
    found, states = Overridden(), dict[str, str]()
    with memory("minilm", model) as store:
        written: set[str] = set()
        for row in rows:
            if "content" in row:
                ops = store.add(row["content"], user_id=USER, session_id=row["session"], at=row["at"]).ops
                written |= {row["content"]} if _follow(states, ops) else set()
    heads = [fold(text.split(" (before: ")[0]) for text in states.values()]
    for one in old:
        found.live.append(one not in written or any(_core(one) in head for head in heads))
    for one in current:
        if one in written:
            found.lost.append(not any(_core(one) in head for head in heads))
    return found


def _follow(states: dict[str, str], ops: Sequence[Op]) -> bool:
    """Keep up with the texts of the facts; whether one was written."""
    for op in ops:
        if op.action == "delete":
            states.pop(op.memory_id, None)
        elif op.action in ("add", "update") and op.after is not None and op.after.kind == "fact":
            states[op.memory_id] = op.after.text
    return any(op.action in ("add", "update") and op.memory_id in states for op in ops)


def _core(statement: str) -> str:
    return fold(statement).rstrip(" .")


def _groups(said: Sequence[str], questions: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """(overridden, current): of statements that begin alike, up to the answer of a question, the last counts."""
    forms = [gold for question in questions for gold in forms_of(question["answer"])]
    old = [one for gold in forms for one in overridden_by(said, gold)]
    gone = set(old)
    words = [one.split() for one in said]
    current = [
        one
        for at, one in enumerate(said)
        if one not in gone and not any(_begin_alike(words[at], later) for later in words[at + 1 :])
    ]
    return list(dict.fromkeys(old)), list(dict.fromkeys(current))


def _begin_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    common = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return common >= 0.5 * min(len(one), len(other))


@dataclass(slots=True)
class Changes:
    """HaluMem: per change whose old memory was shown, and per other fact."""

    on_old: list[bool] = field(default_factory=list)
    on_others: list[bool] = field(default_factory=list)
    shown: list[bool] = field(default_factory=list)


def changes(model: Any) -> Changes:
    found = Changes()
    for person in PEOPLE:
        points, states = _Points(), dict[str, str]()
        with memory("minilm", {"extractor": points, "default": model}) as store:
            for session in sessions_of(person):
                for point in session["memory_points"]:
                    if point["memory_source"] != "interference":
                        _look(store, points, point, session, states, found)
    return found


def _look(
    store: Memory,
    points: _Points,
    point: dict[str, Any],
    session: dict[str, Any],
    states: dict[str, str],
    found: Changes,
) -> None:
    points.text = point["memory_content"][:290]
    olds = [fold(old)[:200] for old in point["original_memories"]] if point["is_update"] == "True" else []
    wanted = {one for one, text in states.items() if any(old in fold(text) for old in olds)}
    result = store.add(points.text, user_id=USER, session_id=session["start_time"], at=at_of(session))
    (decision,) = (one for one in store.decisions(user_id=USER, trace_id=result.trace_id) if one["role"] == "manager")
    shown = {one["id"] for one in decision["candidates"]}
    touched = {op.memory_id for op in result.ops if op.action == "delete" or (op.action == "update" and op.before)}
    if wanted:
        found.shown.append(bool(shown & wanted))
    if shown & wanted:
        found.on_old.append(bool(touched & wanted))
    found.on_others.append(bool((touched & shown) - wanted))
    _follow(states, result.ops)


class _Points:
    """An extractor that writes the point it was given."""

    style, identity, max_parallel = "compact", "points/1", 1

    def __init__(self) -> None:
        self.text = ""

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [GenReply(f"1 {' '.join(self.text.split())}") for _ in requests]

    def close(self) -> None: ...
