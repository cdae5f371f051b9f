"""A store tidied at rest: bank by bank, each decision one commit that holds only where nobody wrote meanwhile.

A decision of the manager is logged as any other, under the memory and revision that it is about, so that nothing is
asked twice; what it changed has the cause `tidy:` and the name of the pass, for several machines may tidy at once."""

from __future__ import annotations

import itertools
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from memkit.backbones.rules import IDENTITY as RULES
from memkit.engine.decide import Decided, Task
from memkit.engine.drive import Steps, drive, within
from memkit.engine.lessons import reflect
from memkit.engine.record import decision_record, describe_error, without_words
from memkit.engine.tidy import in_order, said_again, settle
from memkit.errors import Conflict, MemkitError, ModelError, NotFound, OpRejected, StoreClosed
from memkit.models import SPACE, Bank, DecisionRecord, MemoryRecord, Op, OpDraft
from memkit.results import TidyResult

if TYPE_CHECKING:
    from memkit.journal import Intake
    from memkit.runtime.runtime import Runtime

log = logging.getLogger("memkit")

CAUSE = "tidy"
_PASS = re.compile(r"(z_\w{1,64})_(\d{1,18})_(\d{1,18})")
_AT_ONCE = 200
"""Words that are let go in one commit."""


@dataclass(slots=True)
class _Pass:
    id: str
    budget: int | None
    stops: Callable[[], bool]
    asked: int = 0
    left: int = 0
    reason: str | None = None
    ops: list[Op] = field(default_factory=list[Op])

    @property
    def is_over(self) -> bool:
        return self.reason is not None or self.stops() or (self.budget is not None and self.asked >= self.budget)


def tidy(
    runtime: Runtime,
    user_id: str,
    agent_id: str | None,
    budget: int | None,
    stops: Callable[[], bool] = lambda: False,
) -> TidyResult:
    """`stops`: whether the pass is to end before its next decision."""
    journal = runtime.journal
    banks = [bank for bank, _ in journal.user_banks(user_id)] if agent_id is None else [Bank(user_id, agent_id)]
    before = journal.count_live(user_id=user_id)
    done = _Pass(runtime.ids.new("z"), budget, stops)
    for bank in banks:
        _let_words_go(runtime, bank, done)
        _settle_facts(runtime, bank, done)
        _distil_runs(runtime, bank, done)
    return TidyResult(
        trace_id=f"{done.id}_{done.ops[0].seq}_{done.ops[-1].seq}" if done.ops else "",
        ops=tuple(done.ops),
        asked=done.asked,
        left=done.left,
        reason=done.reason,
        live_before=before,
        live_after=journal.count_live(user_id=user_id),
    )


def ops_of(runtime: Runtime, user_id: str, trace_id: str) -> list[Op]:
    """What a pass did."""
    name, first, last = named.groups() if (named := _PASS.fullmatch(trace_id)) else ("", 1, 0)
    within = runtime.journal.ops(user_id=user_id, after=int(first) - 1, upto=int(last))
    found = [op for op in within if op.cause == f"{CAUSE}:{name}"]
    if not found:
        raise NotFound(
            f"no pass of tidy {trace_id} for this user",
            why="it is of another user, was erased, or changed nothing",
            fix="pass the trace_id that tidy() returned; history() tells its ops by their cause",
        )
    return found


# ---- words -----------------------------------------------------------------------------------------------------------


def _let_words_go(runtime: Runtime, bank: Bank, done: _Pass) -> None:
    rows = [record for _, record in runtime.journal.live(bank=bank, kinds=("turn",))]
    pairs = iter(said_again(rows, runtime.clock.now()))
    while some := list(itertools.islice(pairs, _AT_ONCE)):
        try:
            drafts = [draft for pair in some for draft in pair.drafts()]
            done.ops += _apply(runtime, bank, done.id, drafts, runtime.ids.new("z"))
        except (Conflict, NotFound):
            return  # somebody ended or changed some of them meanwhile: the next pass looks again


# ---- decisions -------------------------------------------------------------------------------------------------------


def _settle_facts(runtime: Runtime, bank: Bank, done: _Pass) -> None:
    facts = in_order(record for _, record in runtime.journal.live(bank=bank, kinds=("fact",)))
    copies = _promoted(runtime, bank)
    for place, fact in enumerate(facts):
        if done.is_over:
            done.left += len(facts) - place
            return
        if fact.id not in copies and _is_open(runtime, bank, fact):
            _decide(runtime, bank, fact, done, partial(_settle, fact, runtime))


def _settle(fact: MemoryRecord, runtime: Runtime, task: Task) -> Steps[Decided]:
    return settle(fact, task, runtime.served_with, runtime.embedder)


def _promoted(runtime: Runtime, bank: Bank) -> set[str]:
    """Copies in a space are left alone: whoever erases what they were taken from, ends them."""
    if not bank.user_id.startswith(SPACE):
        return set()
    from memkit.runtime.shared import list_copies

    return {one.copy for one in list_copies(runtime.journal, bank.user_id.removeprefix(SPACE))}


def _distil_runs(runtime: Runtime, bank: Bank, done: _Pass) -> None:
    """Runs that were kept as they were, for want of a model: where there is one now, it draws lessons from them."""
    if runtime.answerer is None:
        return
    kept = in_order(record for _, record in runtime.journal.live(bank=bank, kinds=("lesson",)))
    for place, lesson in enumerate(kept):
        if done.is_over:
            done.left += len(kept) - place
            return
        run = _run_of(runtime, lesson)
        if run is not None and _is_open(runtime, bank, lesson):
            _decide(runtime, bank, lesson, done, partial(_distil, lesson, runtime), run)


def _run_of(runtime: Runtime, lesson: MemoryRecord) -> Intake | None:
    """The run that a lesson is, where no model had a say in it and its words were kept."""
    said = runtime.journal.turns(turn_ids=lesson.source_turns[:1])
    state = runtime.journal.intake(said[0].intake_id) if said else None
    if state is None or not state.intake.outcome or not all(turn.text for turn in state.intake.turns):
        return None
    (written,) = runtime.journal.ops(bank=state.intake.bank, memory_id=lesson.id, limit=1)
    decided = runtime.journal.decisions(intake_id=state.intake.intake_id, limit=1, newest_first=True)
    by_rules = bool(decided) and decided[0].payload.get("model") == RULES
    return state.intake if by_rules and written.cause == "decision" else None


def _distil(lesson: MemoryRecord, runtime: Runtime, task: Task) -> Steps[Decided]:
    """The run itself ends where lessons were written from it."""
    decided = yield from reflect(task, runtime.served_with, runtime.embedder)
    changed = {draft.memory_id for draft in decided.drafts}
    if lesson.id not in changed and any(draft.action in ("add", "update") for draft in decided.drafts):
        ends = OpDraft("delete", lesson.id, origin=lesson.origin, expected_revision=lesson.revision)
        decided.drafts.append(replace(ends, decision_id=decided.calls[0].decision_id))
    return decided


def _is_open(runtime: Runtime, bank: Bank, record: MemoryRecord) -> bool:
    """Whether it still is as it was read, and nobody was asked about it."""
    found = runtime.journal.get(bank.user_id, record.id)
    return found == (bank, record) and not runtime.journal.decision_numbers([_decision_id(record)])


def _decision_id(record: MemoryRecord) -> str:
    return f"z_{record.id}_{record.revision}"


def _decide(
    runtime: Runtime,
    bank: Bank,
    record: MemoryRecord,
    done: _Pass,
    steps: Callable[[Task], Steps[Decided]],
    run: Intake | None = None,
) -> None:
    _, epoch = runtime.journal.bank_version(bank)
    with runtime.route(bank.user_id) as routing:
        task = Task(
            bank=bank,
            turns=() if run is None else run.turns,
            context_turns=(),
            live=runtime.reader.bank(bank),
            now=runtime.clock.now(),
            new_id=lambda: _decision_id(record),
            routing=routing,
            weights=runtime.weights(bank.user_id),
            outcome="" if run is None else run.outcome,
        )
        decided = drive(steps(task), within(runtime.backbone, runtime.config.deadline_s))
    if not decided.calls:
        return
    done.asked += 1
    runtime.deciding()
    if isinstance(decided.error, ModelError):
        done.reason = str(decided.error)  # no answer is no decision: the next pass asks again
        return
    records = _records(runtime, bank, record, decided)
    try:
        if decided.drafts:
            done.ops += _apply(runtime, bank, done.id, decided.drafts, _decision_id(record), records, epoch)
        else:
            runtime.journal.record(*records, epoch=epoch)
    except (Conflict, NotFound, OpRejected):
        return  # somebody wrote meanwhile: the next pass looks again


def _records(runtime: Runtime, bank: Bank, about: MemoryRecord, decided: Decided) -> list[DecisionRecord]:
    found = [
        decision_record(call, bank=bank, intake_id=None, source_turns=about.source_turns, created_at=decided.now)
        for call in decided.calls
    ]
    for one in found:
        if decided.error is not None:
            one.payload["apply"] = {"ok": False, "error": describe_error(decided.error)}
    return [without_words(one) for one in found] if runtime.keep_turns == "none" or not about.trainable else found


def _apply(
    runtime: Runtime,
    bank: Bank,
    named: str,
    drafts: Sequence[OpDraft],
    decision_id: str,
    decisions: Sequence[DecisionRecord] = (),
    epoch: int | None = None,
) -> list[Op]:
    ops = runtime.journal.apply(
        bank,
        drafts,
        decision_id=decision_id,
        at=runtime.clock.now(),
        cause=f"{CAUSE}:{named}",
        decisions=decisions,
        epoch=epoch,
    )
    runtime.note_applied(bank, ops)
    return ops


# ---- in the background -----------------------------------------------------------------------------------------------


class Tidier:
    """Tidies what was written since it looked last, every so often, within a budget for each pass."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._every_s, self._budget = runtime, runtime.config.tidy_every_s, runtime.config.tidy_budget
        self._seen: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memkit-tidier", daemon=True)
        runtime.at_close.append(self.close)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self._pass()
            except StoreClosed:
                return
            except MemkitError as error:
                log.warning("tidying met %s and goes on", type(error).__name__)

    def _pass(self) -> None:
        if self._runtime.journal.pending_count():
            return  # it is not at rest
        left = self._budget
        for user_id, newest in self._changed():
            if left <= 0 or self._stop.is_set():
                return
            result = tidy(self._runtime, user_id, None, left, self._stop.is_set)
            left -= result.asked
            if not result.left:
                self._seen[user_id] = newest

    def _changed(self) -> Iterator[tuple[str, int]]:
        for info in self._runtime.journal.users():
            if info.user_id != SPACE and info.last_seq > self._seen.get(info.user_id, 0):
                yield info.user_id, info.last_seq
