"""What replies asked for and the origin of their words forbade: listed with the reason, released by whoever may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memkit.errors import NotFound
from memkit.inputs import scope_id
from memkit.models import Op, OpDraft, content_hash
from memkit.ops import make_op_id
from memkit.ops.origin import strength
from memkit.results import HeldChange

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime


Found = list[HeldChange]


class HeldChanges:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def list(self, *, user_id: str) -> Found:
        """Oldest first. They were not made: an update was kept beside the memory, a deletion left out. Not told are
        those that were released, and those whose memory is gone."""
        journal = self._runtime.journal
        found: Found = []
        for record in journal.iter_decisions(user_id=scope_id(user_id, "user_id"), gaps=True):
            for number, one in enumerate(record.payload.get("held", ())):
                held_id = f"{record.decision_id}.{number}"
                released = journal.ops(user_id=user_id, op_id=make_op_id(_decision(held_id), 0), limit=1)
                target = journal.get(user_id, one["memory_id"])
                if target is not None and not released:
                    origin, sources = one["origin"], tuple(one["source_turns"])
                    found.append(
                        HeldChange(held_id, one["action"], target[1], one["text"], origin, sources, one["why"])
                    )
        return found

    def release(self, id: str, *, user_id: str) -> Op:
        """Make the change after all, in the name of the app. What was kept beside the memory becomes the memory."""
        journal = self._runtime.journal
        held = next((one for one in self.list(user_id=user_id) if one.id == scope_id(id, "id")), None)
        found = None if held is None else journal.get(user_id, held.memory.id)
        if held is None or found is None:
            raise NotFound(
                f"nothing is held under {id} for this user",
                why="it was released, or its memory has ended",
                fix="held.list(user_id=...) says what is held",
            )
        bank, now = found[0], self._runtime.clock.now()
        beside = [
            OpDraft("delete", record.id, origin="api", at=now, decision_id=f"{_decision(id)}.beside")
            for _, record in journal.live(bank=bank, kinds=("fact",))
            if held.text is not None
            and record.content_hash == content_hash(held.text)
            and strength(record.origin) < strength(held.memory.origin)
        ]
        draft = OpDraft(held.action, held.memory.id, held.text, held.source_turns, origin="api", at=now)
        ops = journal.apply(bank, [*beside, draft], decision_id=_decision(id), at=now, cause="api")
        self._runtime.note_applied(bank, ops)
        return ops[-1]


def _decision(held_id: str) -> str:
    return f"r_{held_id}"
