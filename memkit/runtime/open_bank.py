"""`OpenBank`: one bank below the verbs, for plugs that keep a host's own data in it.

The verbs decide, deduplicate and explain. A plug that must write several memories in one commit, or must know that
nobody wrote since it looked, works here: read `version`, decide, `commit` with the sequence number it decided on, and
on `Conflict` read again. Everything goes through the journal, so history, undo, export and erase work on it."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memkit.errors import NotFound
from memkit.models import MEMORIES, SPACE, Bank, Kind, MemoryRecord, Op, OpDraft, Turn
from memkit.runtime import rights
from memkit.runtime.redaction import redacted_data
from memkit.runtime.rights import Caller

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime
    from memkit.seams.embedder import Embedder

_LOOK_S = 0.1
"""Another process decides without telling this one; so long at most until that is seen."""


class OpenBank:
    """Made by `memory.bank(...)`. Every method raises `StoreClosed` once the memory is closed."""

    def __init__(self, runtime: Runtime, bank: Bank) -> None:
        self._open, self.bank = runtime, bank

    # ---- what the memory was opened with ---------------------------------------------------------------------------

    @property
    def embedder(self) -> Embedder:
        return self._runtime.embedder

    @property
    def max_text_bytes(self) -> int:
        """Of one message, and so of one memory."""
        return self._runtime.config.max_message_bytes

    def now(self) -> datetime:
        """The memory's clock."""
        return self._runtime.clock.now()

    def redact(self, text: str) -> str:
        """What may be written of a text that a caller handed in. Unlike a message, a host's own data may be blank once
        it is redacted, and as long as the host likes."""
        return redacted_data(self._runtime.redact, text)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def version(self) -> tuple[int, int]:
        """(sequence number of the newest op, erasures so far). What was read is current while both are what they were;
        after an erasure it is to be read anew, for the ops that led to it are gone."""
        return self._for_reading.journal.bank_version(self.bank)

    def live(self, kinds: Collection[Kind] = MEMORIES) -> list[MemoryRecord]:
        """In the order in which they were last written."""
        return [record for _, record in self._for_reading.journal.live(bank=self.bank, kinds=kinds)]

    def get(self, memory_id: str) -> MemoryRecord | None:
        found = self._for_reading.journal.get(self.bank.user_id, memory_id)
        return found[1] if found is not None and found[0] == self.bank else None

    def ops(
        self, *, after: int = 0, upto: int | None = None, intake_id: str | None = None, op_id: str | None = None
    ) -> list[Op]:
        """In sequence order: those numbered in (after, upto], those that one `add` led to, or the one of an id."""
        return self._for_reading.journal.ops(bank=self.bank, after=after, upto=upto, intake_id=intake_id, op_id=op_id)

    def turns(self, session_id: str | None = None) -> list[Turn]:
        """What was said, in order of arrival, as far as its words were kept."""
        return [turn for turn in self._for_reading.journal.turns(bank=self.bank, session_id=session_id) if turn.text]

    def knows(self, trace_id: str) -> bool:
        """Whether the add, the turn or the read of this id was of this bank."""
        journal = self._for_reading.journal
        if (state := journal.intake(trace_id)) is not None:
            return state.intake.bank == self.bank
        if turns := journal.turns(turn_ids=[trace_id]):
            return turns[0].bank == self.bank
        try:
            return self._for_reading.traces.get(self.bank.user_id, trace_id).bank == self.bank
        except NotFound:
            return False

    def wait_settled(self, intake_id: str, timeout_s: float) -> bool:
        """Wait until the manager has decided (or parked) an `add` to this bank. False when that takes longer."""
        deadline, seen = time.monotonic() + timeout_s, None
        while (state := self._for_reading.journal.intake(intake_id)) is not None and state.status == "pending":
            if state.intake.bank != self.bank:
                break
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            seen = self._for_reading.journal.wait_change(min(_LOOK_S, left), seen)
        return True

    # ---- writing ---------------------------------------------------------------------------------------------------

    def commit(
        self,
        drafts: Sequence[OpDraft],
        *,
        expected_seq: int,
        decision_id: str | None = None,
        at: datetime | None = None,
    ) -> list[Op]:
        """Write all of `drafts` in one commit, or none of them. `Conflict` when the bank is not at `expected_seq` any
        more, or `decision_id` was applied before (a change that names one is applied once, ever); `NotFound` when a
        draft's target is gone."""
        runtime = self._for_writing
        ops = runtime.journal.apply(
            self.bank,
            drafts,
            decision_id=decision_id or runtime.ids.new("u"),
            at=at or runtime.clock.now(),
            cause="api",
            expected_seq=expected_seq,
        )
        runtime.note_applied(self.bank, ops)
        return ops

    @property
    def _runtime(self) -> Runtime:
        return self._open.alive()

    @property
    def _for_reading(self) -> Runtime:
        return self._runtime

    @property
    def _for_writing(self) -> Runtime:
        return self._runtime


class SpaceBank(OpenBank):
    """Made by `principal.space(...).bank()`: each call of it is checked, as those of the verbs are."""

    def __init__(self, runtime: Runtime, who: Caller, space: str) -> None:
        super().__init__(runtime, Bank(SPACE + space, ""))
        self._who, self._space = who, space

    def commit(
        self,
        drafts: Sequence[OpDraft],
        *,
        expected_seq: int,
        decision_id: str | None = None,
        at: datetime | None = None,
    ) -> list[Op]:
        """As `OpenBank.commit`. By whom a memory was said goes with it, whatever a draft says, and stays."""
        drafts = [self._sign(draft) for draft in drafts]
        return super().commit(drafts, expected_seq=expected_seq, decision_id=decision_id, at=at)

    def _sign(self, draft: OpDraft) -> OpDraft:
        if draft.restore is not None or (draft.metadata is None and draft.action != "add"):
            return draft
        found = self._for_writing.journal.get(self.bank.user_id, draft.memory_id or "")
        by = found[1].metadata.get("by", "") if found and draft.action != "add" else self._who.user_id
        return replace(draft, metadata=sign(draft.metadata, by))

    @property
    def _for_reading(self) -> Runtime:
        rights.admit(self._runtime, self._who, "read", self._space)
        return self._runtime

    @property
    def _for_writing(self) -> Runtime:
        rights.admit(self._runtime, self._who, "write", self._space)
        return self._runtime


def sign(metadata: Mapping[str, Any] | None, by: str) -> dict[str, Any]:
    """Metadata of a memory of a space: who says it goes with what is said, whatever the caller puts there."""
    return {**(metadata or {}), "by": by}
