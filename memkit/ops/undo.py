"""What it takes to take ops back. Pure: (the ops of one memory, which of them) → the draft that does it.

An undo puts a memory back to where it stood before some op: that op and whatever came after it is undone. Ops can be
undone when nothing else that stands came after them; what was undone since is in nobody's way, and neither is its undo.
An undo is an op like any other: undone by its own name, it brings back what it had taken."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from memkit.errors import UndoConflict
from memkit.models import MemoryRecord, Op, OpDraft
from memkit.ops.resolve import inverse


@dataclass(frozen=True, slots=True)
class Compensation:
    draft: OpDraft
    undoes: str
    """Id of the oldest op that it takes back."""
    seq: int
    """Number of the newest one."""
    ends: MemoryRecord | None
    """What the memory says until then, where this ends it."""


class Past:
    """What was done to one memory: every op of it, in order."""

    def __init__(self, ops: Sequence[Op]) -> None:
        self._ops = [op for op in ops if op.before != op.after]
        self._images: list[MemoryRecord | None] = [None]
        """As the memory stood before each op, and stands now: as the op wrote it that had the say."""
        self._since: dict[int, int] = {}
        """Place of an undo → place from which on it took everything back."""
        places = {op.op_id: place for place, op in enumerate(self._ops)}
        for place, op in enumerate(self._ops):
            if op.undoes in places:
                self._since[place] = self._start(op, places[op.undoes])
                self._images.append(self._images[self._since[place]])
            else:
                self._images.append(op.after)
        self.undone = self._taken_back(frozenset())
        """Op id → id of the undo that took it back; ops that stand are not here."""

    def compensate(self, targets: Set[str]) -> Compensation | None:
        """Take back the ops of these ids; None where they do not stand, or have cancelled each other out.
        `UndoConflict` where others are in the way; its `details["ops"]` are those to undo first, in that order."""
        gone = self._taken_back(targets)
        standing = [place for place, op in enumerate(self._ops) if op.op_id not in gone]
        wanted = [place for place in standing if self._ops[place].op_id in targets]
        if not wanted:
            return None
        first, last = wanted[0], self._ops[wanted[-1]]
        later = [self._ops[place] for place in standing if place > first and self._since.get(place, first) <= first]
        others = [number for number, op in enumerate(later) if op.op_id not in targets]
        if others:
            raise _in_the_way(later[others[0] :], self._ops[first])
        before = self._images[first]
        if before is self._images[-1]:
            return None
        if before is not None:  # a revision never names two texts
            given = [image.revision for op in self._ops for image in (op.before, op.after) if image is not None]
            before = replace(before, revision=max(given))
        now = self._ops[-1].after
        draft = inverse(replace(last, before=before, after=now))
        if draft is None:
            return None
        return Compensation(draft, self._ops[first].op_id, last.seq, now if before is None else None)

    def _start(self, undo: Op, named: int) -> int:
        """An undo names the oldest op that it took back. Version 0.1.0 named the newest: the oldest is then the one
        before which the memory stood as the undo left it."""
        places = range(named, -1, -1)
        return next((place for place in places if _same(self._images[place], undo.after)), named)

    def _taken_back(self, without: Set[str]) -> dict[str, str]:
        """What does not stand, were it not for the undos in `without`, and the undo that took it back."""
        gone: dict[str, str] = {}
        place = len(self._ops) - 1
        while place >= 0:
            undo, first = self._ops[place], self._since.get(place)
            if first is not None and undo.op_id not in without:
                gone.update((op.op_id, undo.op_id) for op in self._ops[first:place])
                place = first
            place -= 1
        return gone


def _same(one: MemoryRecord | None, other: MemoryRecord | None) -> bool:
    """Whether two images say the same, whichever op wrote them."""
    if one is None or other is None:
        return one is other
    return replace(one, revision=other.revision, updated_at=other.updated_at, seq=other.seq) == other


def _in_the_way(ops: Sequence[Op], oldest: Op) -> UndoConflict:
    """`ops`: what stands from the first that is in the way on."""
    ids = [op.op_id for op in reversed(ops)]
    named = ", then ".join(ids[:3]) + (f", then {len(ids) - 3} more" if len(ids) > 3 else "")
    return UndoConflict(
        "this cannot be undone on its own",
        why=f"the {ops[0].action} {ops[0].op_id} came after it and builds on it",
        fix=f"undo {named} first; or everything of this user from op {oldest.seq} on, with since={oldest.seq}",
        ops=ids,
    )
