"""From an accepted turn to applied operations: claim, decide, commit; park what cannot be decided.

A turn is journaled before any model is called. Whoever claims it (the calling thread, a background worker, another
process after a crash) runs the same steps; the journal commits decisions, operations and the turn's new status as one.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from memkit.config import Config
from memkit.engine.call import Routing
from memkit.engine.decide import Decided, Task, decide
from memkit.engine.drive import drive, within
from memkit.engine.lessons import reflect
from memkit.engine.record import decision_record, describe_error, drafts_without_words, without_words
from memkit.engine.served_with import ServedWith
from memkit.errors import Conflict, EmbedderError, MemkitError, NotFound, OpRejected, StoreError
from memkit.journal import IntakeState
from memkit.models import Bank, DecisionRecord, Op, Turn
from memkit.runtime.banks import BankReader
from memkit.seams.backbone import Backbone, Sampling
from memkit.seams.clock import Clock, Ids
from memkit.seams.embedder import Embedder

if TYPE_CHECKING:
    from memkit.journal import Claim, Intake, Journal
    from memkit.retrieval import RankerWeights

log = logging.getLogger("memkit")

_DETAIL = 2_000
"""Characters of an error that are kept with a parked turn."""
_REDECIDE = 3
"""How often a turn is decided anew because somebody changed its targets meanwhile."""


class _BankMoved(Exception):
    """Somebody changed what a decision refers to: decide again."""


Route = Callable[[str], AbstractContextManager[dict[str, Routing]]]
"""user id → a lease on the adapters of that user's roles."""


class TurnWriter:
    def __init__(
        self,
        journal: Journal,
        reader: BankReader,
        backbone: Callable[[], Backbone],
        embedder: Embedder,
        served: ServedWith,
        config: Config,
        *,
        clock: Clock,
        ids: Ids,
        route: Route,
        weights: Callable[[str], RankerWeights | None],
        explore: float,
        explored: Callable[[], frozenset[str]],
        deciding: Callable[[], None],
        applied: Callable[[Bank, Sequence[Op]], None],
        watched: Callable[[Decided, dict[str, Routing], str | None], None],
    ) -> None:
        self._journal, self._reader, self._backbone, self._embedder = journal, reader, backbone, embedder
        self._served, self._config, self._clock, self._ids = served, config, clock, ids
        self._route, self._weights, self._explore, self._explored = route, weights, explore, explored
        self._deciding, self._applied, self._watched = deciding, applied, watched
        self._stranded: deque[Claim] = deque()

    def claim(self, bank: Bank | None = None) -> Claim | None:
        """The next turn to decide. Claims that a failing disk did not let us give back go back first: this process is
        alive, so nobody else would take them over."""
        with contextlib.suppress(IndexError):  # another thread took the last one
            for _ in range(len(self._stranded)):
                self._give_back(self._stranded.popleft())
        return self._journal.claim_next(bank)

    def settle(
        self, intake: Intake, claim: Claim | None, deadline: float | None = None
    ) -> tuple[IntakeState, Sequence[Op]]:
        """Wait until the turn is applied or parked, doing the bank's work in order while it is ours to do. What became
        of it, and what was applied."""
        while True:
            if claim is None:
                claim = self.claim(intake.bank)
            if claim is not None:
                attempts, done = claim.attempts, claim.intake.intake_id == intake.intake_id
                ops = self.process(claim)
                claim = None
                if not done:
                    continue
                if ops is not None:
                    first, last = (ops[0].seq, ops[-1].seq) if ops else (None, None)
                    return IntakeState(intake, "applied", attempts, seq_first=first, seq_last=last), ops
            state = self._journal.intake(intake.intake_id)
            if state is None:
                raise NotFound(
                    "the turn is gone",
                    why="it was erased, or its user was, while it was being decided",
                    fix="add it again, if it is still wanted",
                )
            if state.status == "applied":
                return state, self._journal.ops(intake_id=intake.intake_id)
            if state.status != "pending" or (deadline is not None and time.monotonic() > deadline):
                return state, ()
            self._journal.wait_change(self._config.poll_s)

    def process(self, claim: Claim) -> Sequence[Op] | None:
        """Decide one claimed turn and commit, or park it. What was applied; None where nothing was, by us. Raises where
        neither is possible (a failing disk, Ctrl-C), and the turn is free to be decided again."""
        try:
            return self._process(claim)
        except BaseException:
            self._give_back(claim)
            raise

    def _process(self, claim: Claim) -> Sequence[Op] | None:
        intake = claim.intake
        try:
            for attempt in range(_REDECIDE):
                with self._route(intake.bank.user_id) as routing:
                    _, epoch = self._journal.bank_version(intake.bank)
                    decided = self._decide(intake, routing)
                    if decided.calls:
                        self._deciding()
                    if decided.error is not None:
                        self._park(claim, decided, decided.error, epoch)
                        self._watch(intake, decided, routing, type(decided.error).__name__)
                        return None
                    try:
                        ops = self._commit(claim, decided, epoch, last=attempt == _REDECIDE - 1)
                    except _BankMoved:
                        continue
                    self._watch(intake, decided, routing, None)
                    return ops
        except EmbedderError as error:
            self._put_aside(claim, "embedder", str(error))
        except StoreError:
            raise
        except MemkitError as error:
            self._put_aside(claim, type(error).__name__, str(error))
        except Exception as error:
            # A defect of ours or of a user's callable: the turn is kept and named, the worker lives on.
            self._put_aside(claim, "internal_error", f"{type(error).__name__}: {error}")
            log.error("a turn was parked after an unexpected %s", type(error).__name__)
        return None

    def _watch(self, intake: Intake, decided: Decided, routing: dict[str, Routing], error: str | None) -> None:
        """No adapter serves the reflector, so none is judged by it."""
        if not intake.outcome:
            self._watched(decided, routing, error)

    def _decide(self, intake: Intake, routing: dict[str, Routing]) -> Decided:
        task = Task(
            bank=intake.bank,
            turns=intake.turns,
            context_turns=tuple(self._context_turns(intake)),
            live=self._reader.bank(intake.bank),
            now=self._clock.now(),
            new_id=lambda: self._ids.new("d"),
            routing=routing,
            sampling=self._sampling,
            weights=self._weights(intake.bank.user_id),
            expires_at=intake.expires_at,
            was_kept=self._was_kept,
            outcome=intake.outcome,
            hide_covered=intake.keep_turns == "uncovered",
        )
        steps = (reflect if task.outcome else decide)(task, self._served, self._embedder)
        return drive(steps, within(self._backbone(), self._config.deadline_s))

    def _commit(self, claim: Claim, decided: Decided, epoch: int, *, last: bool) -> Sequence[Op] | None:
        """One transaction: decisions, operations, the turn's status. None: it was parked, or is no longer ours."""
        intake = claim.intake
        drafts, records = decided.drafts, _records(intake, decided)
        if intake.keep_turns == "none":
            drafts = drafts_without_words(drafts, [turn.turn_id for turn in intake.turns])
        try:
            ops = self._journal.apply(
                intake.bank,
                drafts,
                decision_id=self._ids.new("d"),
                at=max(t.at for t in intake.turns),
                intake_id=intake.intake_id,
                claim=claim,
                decisions=records,
                epoch=epoch,
            )
        except (Conflict, NotFound, OpRejected) as error:
            if not self._journal.owns(claim):
                return None  # taken over: the other process finishes the turn
            if not last:
                raise _BankMoved from error
            self._park(claim, decided, error, epoch)
            return None
        self._applied(intake.bank, ops)
        return ops

    def _park(self, claim: Claim, decided: Decided, error: MemkitError, epoch: int) -> None:
        self._journal.record(*_records(claim.intake, decided, error), epoch=epoch)
        self._put_aside(claim, park_reason(error), str(error))

    def _put_aside(self, claim: Claim, reason: str, detail: str) -> None:
        """Park the turn, unless it is no longer ours: then another process finishes it, or its user was erased."""
        storable = detail[:_DETAIL].encode("utf-8", "replace").decode()
        with contextlib.suppress(Conflict):
            self._journal.park(claim, reason=reason, detail=storable)

    def _give_back(self, claim: Claim) -> None:
        try:
            self._journal.release(claim)
        except Conflict:
            return  # it was finished after all, or taken over
        except MemkitError:
            self._stranded.append(claim)

    def _context_turns(self, intake: Intake) -> Sequence[Turn]:
        return self._journal.turns(
            bank=intake.bank,
            session_id=intake.session_id,
            before=intake.intake_id,
            limit=self._served.context_turns,
            trainable=True,
        )

    def _was_kept(self, turn: Turn) -> bool:
        state = self._journal.intake(turn.intake_id)
        ops = self._journal.ops(user_id=turn.bank.user_id, memory_id=turn.turn_id, limit=1)
        return state is not None and state.intake.keep_turns == "all" and bool(ops)

    def _sampling(self, decision_id: str, role: str) -> Sampling:
        """Greedy, but for the `explore` share of decisions, chosen by hash so that a replay chooses the same."""
        if self._explore <= 0 or role not in self._explored():
            return Sampling()
        draw = int.from_bytes(hashlib.sha256(decision_id.encode()).digest()[:8], "big") / 2**64
        return Sampling(temperature=1.0) if draw < self._explore else Sampling()


def _records(intake: Intake, decided: Decided, error: MemkitError | None = None) -> list[DecisionRecord]:
    """`error`: why nothing was applied. With `keep_turns="none"` no word of a turn is written a second time, not even
    while it waits to be retried."""
    records = [
        decision_record(
            call,
            bank=intake.bank,
            intake_id=intake.intake_id,
            source_turns=[turn.turn_id for turn in intake.turns],
            created_at=decided.now,
        )
        for call in decided.calls
    ]
    if error is not None:
        for record in records:
            record.payload["apply"] = {"ok": False, "error": describe_error(error)}
    return [without_words(one) for one in records] if intake.keep_turns == "none" else records


def park_reason(error: MemkitError) -> str:
    """A short, stable name for `parked()` and its counts."""
    return str(error.details.get("rule") or error.details.get("class") or type(error).__name__)
