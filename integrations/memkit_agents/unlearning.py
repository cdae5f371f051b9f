"""What is to become of the memories that a turn led to, once its words have been taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from memkit.models import MemoryRecord, Op, OpDraft, digest


def pop_id(turn_id: str) -> str:
    """The id of the change that takes a turn back: in the journal, it says that the turn is taken back already."""
    return "u_" + digest(["popped", turn_id])[:28]


def taking_back(
    turn_id: str, ops: Sequence[Op], live: Callable[[str], MemoryRecord | None]
) -> tuple[list[OpDraft], bool]:
    """Drafts that leave each memory as if the turn had not been; False beside them where one has other words by now,
    and stays as it is. A memory that other turns said as well only loses this source."""
    first: dict[str, MemoryRecord | None] = {}
    last: dict[str, MemoryRecord | None] = {}
    for op in ops:
        if op.memory_id is not None and op.before != op.after:
            first.setdefault(op.memory_id, op.before)
            last[op.memory_id] = op.after
    drafts: list[OpDraft] = []
    whole = True
    for memory_id, before in first.items():
        now = live(memory_id)
        if _text(now) != _text(last[memory_id]):
            whole = whole and _text(now) == _text(before)
        elif now is not None:
            drafts.append(_without(turn_id, now, before))
        elif before is not None:
            drafts.append(OpDraft("add", memory_id, restore=before))
    return drafts, whole


def _without(turn_id: str, now: MemoryRecord, before: MemoryRecord | None) -> OpDraft:
    others = tuple(source for source in now.source_turns if source != turn_id)
    if before is not None and (others or before.text != now.text) and set(others) <= set(before.source_turns):
        return OpDraft("update", now.id, restore=before)
    if others:
        return OpDraft("update", now.id, restore=replace(now, source_turns=others))
    return OpDraft("delete", now.id)


def _text(record: MemoryRecord | None) -> str | None:
    return None if record is None else record.text
