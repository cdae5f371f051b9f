"""Words of turns that were stored before memkit kept them, made searchable: `doctor(keep_turns=True)`.

Nothing that was ended comes back: a turn behind a memory that was deleted, undone or has expired stays as it is, and of
the others the sentences that said the same, the assistant's included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from memkit.engine.words import asked_to_end, words_of, words_that_end
from memkit.models import Bank, MemoryRecord, Op, OpDraft
from memkit.text.requests import asks_to_forget

if TYPE_CHECKING:
    from memkit.journal.records import Intake
    from memkit.runtime.runtime import Runtime


def keep_earlier_turns(runtime: Runtime) -> int:
    """How many turns became searchable."""
    kept = 0
    for info in runtime.journal.users():
        calls: dict[Bank, list[Intake]] = {}
        for state in runtime.journal.iter_intakes(user_id=info.user_id):
            if state.intake.infer and state.intake.keep_turns == "all" and not state.intake.outcome:
                calls.setdefault(state.intake.bank, []).append(state.intake)
        for bank, found in calls.items():
            kept += _keep(runtime, bank, found)
    return kept


def _keep(runtime: Runtime, bank: Bank, calls: list[Intake]) -> int:
    ops = runtime.journal.ops(bank=bank, words=True)
    there = {turn for op in ops if _is_of_words(op) for turn in op.source_turns}
    live = {record.id for _, record in runtime.journal.live(bank=bank)}
    ended = [op.before for op in ops if op.before is not None and op.memory_id not in live and not _is_of_words(op)]
    behind = {turn for record in ended for turn in record.source_turns}
    ended += asked_to_end([turn for call in calls for turn in call.turns])
    now, rows = runtime.clock.now(), list[OpDraft]()
    for call in calls:
        if call.expires_at is None or call.expires_at > now:
            left = [turn for turn in call.turns if turn.turn_id not in there | behind]
            rows += words_of([turn for turn in left if not asks_to_forget(turn.text)], call.expires_at)
    drafts = list(_without_what_ended(rows, ended))
    if drafts:
        written = runtime.journal.apply(bank, drafts, decision_id=runtime.ids.new("w"), at=now, cause="said")
        runtime.note_applied(bank, written)
    return len({turn for draft in drafts for turn in draft.source_turns})


def _is_of_words(op: Op) -> bool:
    image = op.after or op.before
    return image is not None and image.kind == "turn"


def _without_what_ended(drafts: list[OpDraft], ended: list[MemoryRecord]) -> Iterator[OpDraft]:
    for draft in drafts:
        row = MemoryRecord(
            draft.memory_id or "",
            draft.text or "",
            kind="turn",
            source_turns=draft.source_turns,
            session_id=draft.session_id,
            origin=draft.origin,
        )
        (change,) = words_that_end(ended, [row]) or [None]
        if change is None:
            yield draft
        elif change.text is not None:
            yield replace(draft, text=change.text)
