"""What became of what was said: turn by turn, and for words that somebody misses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memkit.engine.record import reason
from memkit.models import MEMORIES, MemoryRecord, Op, Turn
from memkit.text.words import terms
from memkit.views.records import Chunk, Fate, TurnFate, Why

if TYPE_CHECKING:
    from memkit.journal import IntakeState
    from memkit.journal.journal import Journal

SEARCHED = 20_000
"""Turns of a user that `why` looks through, the newest first."""
SHOWN = 10
_PAGE = 500
_ENOUGH = 0.5
"""Share of the words asked for that a turn must have, where one has as many."""


def tell_turns(journal: Journal, user_id: str, before: str | None, limit: int) -> Chunk:
    """What was said, newest first, and what became of each turn."""
    states = journal.recent_intakes(user_id, before=before, limit=limit)
    found = [fate for state in states for fate in reversed(_fates(journal, state))]
    return Chunk(found, states[-1].intake.intake_id if len(states) == limit else None)


def explain(journal: Journal, user_id: str, asked: str) -> Why:
    """Why `asked` is not remembered: the turns that said it, and what became of each."""
    wanted = frozenset(terms(asked))
    said: list[tuple[float, IntakeState, Turn]] = []
    searched, before = 0, None
    while searched < SEARCHED and (page := journal.recent_intakes(user_id, before=before, limit=_PAGE)):
        before = page[-1].intake.intake_id
        for state in page:
            searched += len(state.intake.turns)
            said += [(share, state, one) for one in state.intake.turns if (share := _share(wanted, one.text)) > 0]
    said.sort(key=lambda one: -one[0])  # stable: the newest first among equals
    best = said[0][0] if said else 0.0
    close = [one for one in said if one[0] >= min(best, _ENOUGH)][:SHOWN]
    live = [
        record
        for _, record in journal.live(user_id=user_id, kinds=(*MEMORIES, "chunk"))
        if (share := _share(wanted, record.text)) > 0 and share >= min(max(best, _ENOUGH), 1.0)
    ]
    turns = tuple(_fate(journal, state, turn, share) for share, state, turn in close)
    return Why(asked, _verdict(turns, live, searched), tuple(live[:SHOWN]), turns, searched)


def _share(wanted: frozenset[str], text: str) -> float:
    return len(wanted.intersection(terms(text))) / len(wanted) if wanted and text else 0.0


def _verdict(turns: Iterable[TurnFate], live: list[MemoryRecord], searched: int) -> str:
    fates = {one.fate for one in turns}
    if live:
        return "It is remembered."
    if not fates:
        return f"Nobody said it here: none of {searched} turns has these words."
    if "remembered" in fates:
        return "It was said, and is remembered in other words."
    if fates == {"ended"}:
        return "It was remembered, and has ended since."
    if fates & {"pending", "parked"}:
        return "It was said and is kept, but not decided yet."
    return "It was said, and no memory was made of it."


def _fates(journal: Journal, state: IntakeState) -> list[TurnFate]:
    return [_fate(journal, state, turn) for turn in state.intake.turns]


def _fate(journal: Journal, state: IntakeState, turn: Turn, share: float = 0.0) -> TurnFate:
    intake = state.intake
    every = journal.ops(intake_id=intake.intake_id) if state.seq_first is not None else []
    own = [op for op in every if turn.turn_id in op.source_turns] if len(intake.turns) > 1 else every
    writes = [op for op in own if op.action != "noop" and op.cause != "said"]
    ids = dict.fromkeys(op.memory_id for op in writes if op.memory_id is not None)
    live = [found[1] for one in ids if (found := journal.get(intake.bank.user_id, one)) is not None]
    words = journal.get(intake.bank.user_id, turn.turn_id)
    fate, why = _told(journal, state, turn, writes, live)
    if fate == "nothing":
        decided = journal.decisions(intake_id=intake.intake_id, gaps=True)
        payloads = [one.payload for one in decided if one.payload]
        why = reason(payloads) if payloads else "the manager kept nothing"
    return TurnFate(
        turn,
        intake.intake_id,
        state.status,
        fate,
        why,
        tuple(op for op in own if op.cause != "said"),
        tuple(live),
        tuple(journal.decision_ids(intake.intake_id)),
        words is not None,
        round(share, 3),
    )


def _told(
    journal: Journal, state: IntakeState, turn: Turn, writes: list[Op], live: list[MemoryRecord]
) -> tuple[Fate, str]:
    if state.status == "parked":
        detail = f": {state.detail}" if state.detail else ""
        return "parked", f"{state.reason}{detail}. It is kept; `memkit retry` decides it again."
    if state.status == "pending":
        return "pending", "it waits to be decided, by the app's own model"
    if live:
        return "remembered", ""
    if writes:
        return "ended", _how_it_ended(journal, state.intake.bank.user_id, writes)
    if not turn.text:
        return "not kept", 'its words were not kept (keep_turns="none"), and no memory was made of them'
    return "nothing", ""


def _how_it_ended(journal: Journal, user_id: str, writes: list[Op]) -> str:
    memory_id = next((op.memory_id for op in writes if op.memory_id is not None), None)
    last = journal.ops(user_id=user_id, memory_id=memory_id, newest_first=True, limit=1) if memory_id else []
    if not last or last[0].action != "delete":
        return "what it led to is no longer there"
    by = {"undo": "an undo", "api": "a call of the app or a person", "expire": "its end date", "decision": "a decision"}
    by |= {"tidy": "tidying (merged into another, or settled)"}
    cause = last[0].cause.partition(":")[0]
    return f"what it led to was ended by {by.get(cause, cause)} on {last[0].recorded_at:%Y-%m-%d}"
