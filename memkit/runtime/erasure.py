"""Erasing a user, or a part of one: turns, memories or sessions, with all that was drawn from them.

The intent first, then adapters, LanceDB (with no projector at work), the journal, caches. Each step can be repeated: an
erasure that was interrupted is finished by the next process that opens the store."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from memkit.engine.drawn import Drawn, Only, drawn_from, echoes, repeating
from memkit.errors import (
    InvalidInput,
    NotFound,
    StorageRefused,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreUnreachable,
)
from memkit.inputs import scope_id
from memkit.journal.records import Doomed, Part
from memkit.memo import forget_texts
from memkit.models import JSON, SPACE, DecisionRecord, Op, Turn
from memkit.results import EraseReceipt
from memkit.store import SEALED

if TYPE_CHECKING:
    from memkit.journal import ErasureReceipt, IntakeState
    from memkit.journal.reader import JournalReader
    from memkit.runtime.runtime import Runtime

log = logging.getLogger("memkit")

T = TypeVar("T")

_NUMBERS = ("prompt_ids", "token_ids", "logprobs", "sampled_logprobs", "candidates", "usage", "sampling")
"""What of a decision's record holds no words."""


def finish_erasures(runtime: Runtime) -> None:
    """What a process that died in the middle of an erasure left to do. Where the disk does not let it, the store is
    opened all the same: the doctor names what is open, and the next open tries again."""
    try:
        for user_id, part in runtime.journal.unfinished_parts():
            erase_part(runtime, user_id, part)
        for user_id in runtime.journal.unfinished_erasures():
            erase_user(runtime, user_id)
    except (StoreUnreachable, StorageRefused, StoreBusy, StoreDamaged, StoreFull) as error:
        log.warning("an erasure is still unfinished: %s", type(error).__name__)
    except BaseException:
        runtime.close()
        raise


def erase(
    runtime: Runtime, user_id: str, turn_id: str | None, memory_id: str | None, session_id: str | None
) -> EraseReceipt:
    given = {"turn_id": turn_id, "memory_id": memory_id, "session_id": session_id}
    named = {name: scope_id(value, name) for name, value in given.items() if value is not None}
    if not named:
        return erase_user(runtime, user_id)
    if len(named) > 1:
        raise InvalidInput(
            f"erase() got {' and '.join(named)}", why="they name different things", fix="pass one of them, or none"
        )
    runtime.traces.flush()
    return erase_part(runtime, user_id, _part(runtime.journal, user_id, **named))


def erase_user(runtime: Runtime, user_id: str) -> EraseReceipt:
    runtime.traces.flush()
    runtime.journal.begin_erase(user_id)
    counts = _erase_shared(runtime, user_id) if runtime.journal.user_banks(SPACE) else {}
    tainted = _taint(runtime, user_id)
    with runtime.journal.applier_lock():
        if runtime.projector.has_lance:
            counts["rows_in_lancedb"] = runtime.projection.erase(user_id).rows
        if (runtime.path / SEALED).is_dir():
            counts["sealed_decisions"] = _salvaging(runtime, lambda: runtime.trajectories.erase(user_id)).rows
        receipt = runtime.journal.erase(user_id)
    return _finished(runtime, user_id, tainted, counts, receipt)


def _erase_shared(runtime: Runtime, user_id: str) -> dict[str, int]:
    """What of the user is in spaces: it goes before the user does, so that an interrupted erasure finds it again."""
    from memkit.runtime import rights, shared

    counts = {"spaces_nobody_shares": rights.drop_giver(runtime, user_id)} if not user_id.startswith(SPACE) else {}
    for owner, part in list(shared.parts_of(runtime.journal, user_id)):
        receipt = erase_part(runtime, owner, part)
        if owner != SPACE:
            counts["in_spaces"] = counts.get("in_spaces", 0) + receipt.counts["ops"] + receipt.counts["turns"]
    return counts


def erase_part(runtime: Runtime, user_id: str, part: Part) -> EraseReceipt:
    """A part with every copy that was taken of it, the copies first."""
    runtime.journal.begin_erase(user_id, part)
    taken = _copies(runtime, user_id, part) if runtime.journal.user_banks(SPACE) else []
    for owner, copy in reversed(taken):
        _erase_one(runtime, owner, copy)
    return _erase_one(runtime, user_id, part)


def _copies(runtime: Runtime, user_id: str, part: Part) -> list[tuple[str, Part]]:
    """Copies of what goes, and copies of those."""
    from memkit.runtime import shared

    found, journal = [(user_id, part)], runtime.journal
    for owner, one in found:
        if not any(copy.source == owner for copy in shared.list_copies(journal)):
            continue
        find = partial(find_doomed, user_id=owner, part=one, context_turns=runtime.config.context_turns)
        doomed = _salvaging(runtime, partial(find, journal))
        found += [copy for copy in shared.copies_of(journal, owner, doomed.memories) if copy not in found]
    return found[1:]


def _erase_one(runtime: Runtime, user_id: str, part: Part) -> EraseReceipt:
    journal = runtime.journal
    journal.begin_erase(user_id, part)
    tainted, counts = _taint(runtime, user_id), dict[str, int]()
    find = partial(find_doomed, user_id=user_id, part=part, context_turns=runtime.config.context_turns)
    with journal.applier_lock():
        doomed = _salvaging(runtime, lambda: find(journal))
        if doomed.memories and runtime.projector.has_lance:
            counts["rows_in_lancedb"] = runtime.projection.erase_memories(doomed.memories).rows
        if (runtime.path / SEALED).is_dir() and doomed.decisions:
            numbers = journal.decision_numbers(doomed.decisions)
            erased = _salvaging(runtime, lambda: runtime.trajectories.erase_decisions(numbers))
            counts["sealed_decisions"] = erased.rows
        receipt = journal.erase(user_id, part, find)
    if receipt.counts["taken_back"]:
        runtime.projector.notice(receipt.counts["taken_back"])
    return _finished(runtime, user_id, tainted, counts, receipt)


def _salvaging(runtime: Runtime, work: Callable[[], T]) -> T:
    """Nothing can be erased from files that cannot be read: what can be is copied, and they are moved aside. The
    doctor names them for as long as they are there."""
    try:
        return work()
    except StoreDamaged:
        if not (runtime.path / SEALED).is_dir() or not runtime.trajectories.check():
            raise
        runtime.trajectories.salvage()
        return work()


def _taint(runtime: Runtime, user_id: str) -> tuple[str, ...]:
    """Before the journal forgets that there is something to finish."""
    if not runtime.has_adapters:
        return ()
    tainted = tuple(runtime.adapters.taint(runtime.journal.subject(user_id)))
    runtime.adapters.forget(user_id)
    return tainted


def _finished(
    runtime: Runtime, user_id: str, tainted: tuple[str, ...], counts: Mapping[str, int], receipt: ErasureReceipt
) -> EraseReceipt:
    runtime.reader.forget(user_id)
    runtime.traces.forget(user_id)
    if runtime.has_adapters:
        runtime.adapters.forget(user_id)  # once more: a decision may have been under way
    forget = getattr(runtime.embedder, "forget", None)
    if callable(forget):
        forget()
    forget_texts()
    return EraseReceipt(receipt.subject, {**counts, **receipt.counts}, tainted)


# -- what goes -------------------------------------------------------------------------------------------------------


def _part(
    journal: JournalReader, user_id: str, *, turn_id: str = "", memory_id: str = "", session_id: str = ""
) -> Part:
    """By ids, as they are now: what is said in a session from now on is no part of it. A memory goes with the turns
    that it was drawn from: they say it, too."""
    said = [turn for state in journal.iter_intakes(user_id=user_id) for turn in state.intake.turns]
    turns = {turn.turn_id for turn in said if turn.session_id == session_id} if session_id else set[str]()
    memories = set[str]()
    if turn_id:
        turns = {turn.turn_id for turn in said if turn_id in (turn.turn_id, turn.intake_id)}
    if memory_id:
        ops = journal.ops(user_id=user_id, memory_id=memory_id)
        memories = {memory_id} if ops else set()
        known = {turn.turn_id for turn in said}
        turns = {turn for op in ops for turn in _sources(op) if turn in known}
    if session_id:
        ops = [op for op in journal.ops(user_id=user_id) if op.after and op.after.session_id == session_id]
        memories = {op.memory_id for op in ops if op.memory_id and turns.isdisjoint(_sources(op))}
    if not turns and not memories:
        raise NotFound(
            "there is nothing of that name to erase for this user",
            why="the id belongs to nobody here, or it was erased already",
            fix="history(user_id=...) lists memories with their source turns; a hit names its own",
        )
    return Part(tuple(sorted(turns)), tuple(sorted(memories)))


def _sources(op: Op) -> set[str]:
    return {*op.source_turns, *(op.after.source_turns if op.after else ())}


def find_doomed(journal: JournalReader, *, user_id: str, part: Part, context_turns: int) -> Doomed:
    """`context_turns`: how many earlier turns a prompt shows."""
    states = list(journal.iter_intakes(user_id=user_id))
    said = [turn for state in states for turn in state.intake.turns]
    ops = journal.ops(user_id=user_id)
    gone = set(part.turns)
    gone |= echoes(said, gone)
    drawn = drawn_from(ops, gone, memories=part.memories)
    if drawn.memories:
        again = repeating(ops, said, gone, min(drawn.memories.values()))
        drawn = drawn_from(ops, gone, memories=part.memories, also=again)
    own = _only(said, ops, gone, drawn)
    intakes = {turn.intake_id for turn in said if turn.turn_id in gone}
    near = intakes | _shown_in(states, gone, context_turns)
    decisions = {
        one.decision_id
        for one in journal.iter_decisions(user_id=user_id, gaps=True)
        if one.intake_id in near or not one.payload or _showed(one, gone, drawn) or own.quoted_in(_words(one))
    }
    silenced = {op.seq for op in ops if op.after is None and not gone.isdisjoint(op.source_turns)}
    asked, traces, feedback = list[str](), set[str](), set[str]()
    for trace in journal.iter_traces(user_id=user_id):
        asked.append(trace.trace_id)
        text = " ".join(_strings(trace.payload))
        served = _names(trace.payload.get("served", ()), trace.state_seq, drawn)
        if served or trace.payload.get("decision_id") in decisions or own.touched_by(text):
            traces.add(trace.trace_id)
    for trace_id in [*asked, *(state.intake.intake_id for state in states)]:
        for one in journal.feedback_for(trace_id):
            if trace_id in traces or trace_id in intakes or own.touched_by(" ".join(_strings(one.payload))):
                feedback.add(one.feedback_id)
    return Doomed(
        turns=frozenset(gone),
        ops=frozenset(drawn.ops),
        silenced=frozenset(silenced - drawn.ops),
        memories=frozenset(drawn.memories),
        back=tuple(drawn.back),
        decisions=frozenset(decisions),
        traces=frozenset(traces),
        feedback=frozenset(feedback),
    )


def _only(said: list[Turn], ops: list[Op], gone: Set[str], drawn: Drawn) -> Only:
    """What is said by nothing that stays."""
    return Only.of(
        [t.text for t in said if t.turn_id in gone] + [op.after.text for op in ops if op.seq in drawn.ops and op.after],
        [t.text for t in said if t.turn_id not in gone]
        + [op.after.text for op in ops if op.seq not in drawn.ops and op.after and op.after.kind != "turn"],
    )


def _shown_in(states: list[IntakeState], gone: Set[str], context_turns: int) -> set[str]:
    """Intakes that were decided with one of these turns before them."""
    earlier, found = dict[Any, list[str]](), set[str]()
    for state in states:
        intake = state.intake
        before = earlier.setdefault((intake.bank, intake.session_id), [])
        if context_turns and not gone.isdisjoint(before[-context_turns:]):
            found.add(intake.intake_id)
        before += [turn.turn_id for turn in intake.turns if turn.trainable]
    return found


def _showed(decision: DecisionRecord, gone: Set[str], drawn: Drawn) -> bool:
    payload = decision.payload
    return not gone.isdisjoint(payload.get("source_turns", ())) or _names(
        payload.get("candidates", ()), decision.state_seq, drawn
    )


def _names(shown: list[JSON], state_seq: int, drawn: Drawn) -> bool:
    """Whether a memory was shown as it stood once it held what goes."""
    return any(drawn.memories.get(one["id"], state_seq + 1) <= state_seq for one in shown)


def _words(decision: DecisionRecord) -> str:
    """Prompts, replies and drafts as one text."""
    payload = {name: value for name, value in decision.payload.items() if name not in _NUMBERS}
    return " ".join([*_strings(payload), *(text for blob in decision.blobs.values() for text in _strings(_read(blob)))])


def _read(blob: str) -> Any:
    try:
        return json.loads(blob)
    except ValueError:
        return blob


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
