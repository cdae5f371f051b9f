"""The durable truth of a store, as one object. Each method is one transaction over the tables of `schema`; what the
statements are is in `intakes`, `oplog`, `trail`, `erase`, `prune` and `check`."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path

from memkit import ops as operations
from memkit.errors import (
    Conflict,
    InvalidConfig,
    InvalidInput,
    MemkitError,
    MissingExtra,
    NotFound,
    StoreReadOnly,
)
from memkit.inputs import is_url
from memkit.journal import check as checking
from memkit.journal import disk, erase, intakes, moving, oplog, portable, trail
from memkit.journal import prune as pruning
from memkit.journal.engine import Engine, Opened, Tx
from memkit.journal.folder import open_folder
from memkit.journal.reader import JournalReader
from memkit.journal.records import (
    Accepted,
    Claim,
    Doomed,
    ErasureReceipt,
    FeedbackRecord,
    Intake,
    IntakeState,
    JournalProblem,
    Part,
    Trace,
)
from memkit.models import JSON, Bank, DecisionRecord, Op, OpDraft, to_json
from memkit.seams.clock import Clock, Ids


class Journal(JournalReader):
    def __init__(self, opened: Opened, *, clock: Clock, ids: Ids, read_only: bool) -> None:
        super().__init__(opened.engine)
        self._engine: Engine = opened.engine
        self.store_id, self.place, self.name = opened.store_id, opened.place, opened.name
        self.is_shared, self.read_only, self.catalog = opened.is_shared, read_only, opened.catalog
        self._locks, self._clock, self._ids = opened.locks, clock, ids
        self._changed, self._changes = threading.Condition(), 0
        self._worker_id: str | None = None
        self._registering = threading.Lock()
        self._closed = False
        _JOURNALS.add(self)

    @classmethod
    def open(
        cls, path: Path | str, *, clock: Clock, ids: Ids, read_only: bool = False, lance: Path | str | None = None
    ) -> Journal:
        """Open the store at `path`, a folder or the URL of a database, or create it where there is nothing yet. lance:
        where this machine keeps what it derives from a database, or the URL of what all machines derive together."""
        if is_url(path):
            try:
                from memkit.journal.postgres import connect
            except ImportError as error:
                raise MissingExtra(
                    "a store in PostgreSQL needs psycopg", why=str(error), fix="pip install 'memkit[postgres]'"
                ) from None
            opened = connect(path, lance, read_only=read_only)
        elif lance is not None:
            raise InvalidConfig(
                "lance= goes with a database", why="a folder keeps LanceDB within itself", fix="leave lance= out"
            )
        else:
            opened = open_folder(Path(path), read_only=read_only)
        journal = cls(opened, clock=clock, ids=ids, read_only=read_only)
        try:
            moving.refuse_moved(opened.engine, read_only=read_only)
        except BaseException:
            journal.close()
            raise
        return journal if read_only else journal._begin()

    def _begin(self) -> Journal:
        try:
            self._locks.sweep()
            self.worker_id  # noqa: B018 - a disk that cannot be written is found out now, not at the first add
            self._finish_scrubbing()
            self._note_lost()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def shared_engine(self) -> Engine | None:
        """Of a store that other machines have, too: what they are to share lies there."""
        return self._engine if self.is_shared else None

    @property
    def worker_id(self) -> str:
        """Who claims: this journal in this process. A forked child gets its own."""
        if self._worker_id is None:
            if self.read_only:
                raise StoreReadOnly("a store that is open for reading only has no worker")
            with self._registering:
                if self._worker_id is None:
                    worker_id = f"w{os.getpid()}-{secrets.token_hex(6)}"
                    self._locks.register(worker_id)
                    self._worker_id = worker_id
        return self._worker_id

    def close(self) -> None:
        """Give back what this worker claimed; whoever has the store open next decides it."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._worker_id is not None:
                # On a full disk this fails, and does not matter: claims of a retired worker are free for all.
                with suppress(MemkitError), self._engine.write((), durable=False) as tx:
                    intakes.release_all(tx, self._worker_id)
                self._locks.retire(self._worker_id)
        finally:
            self._engine.close()
            self._locks.close()

    def after_fork_in_child(self) -> None:
        self._worker_id, self._registering, self._changed = None, threading.Lock(), threading.Condition()

    # -- intake ----------------------------------------------------------------------------------------------------

    def accept(
        self,
        intake: Intake,
        *,
        drafts: Sequence[OpDraft] | None = None,
        words: Sequence[OpDraft] = (),
        claim: bool = False,
    ) -> Accepted:
        """Make the intake durable, in one commit. With `drafts` it is applied at once; with `claim` it is claimed for
        this worker, unless an earlier intake of the bank is still to be decided. `words` keep what was said: they are
        found from now on, whatever becomes of the intake."""
        if not intake.turns:
            raise InvalidInput("an intake without turns", why="there is nothing to remember", fix="pass a message")
        worker_id = self._locks.beat(self.worker_id) if claim and drafts is None else None
        with self._engine.write([intake.bank]) as tx:
            bank = oplog.make_bank(tx, intake.bank)
            if intake.idempotency_key is not None:
                earlier = intakes.find_replayed(tx, intake, bank)
                if earlier is not None:
                    return self._replay(tx, earlier)
            ops: list[Op] = []
            if drafts is not None:
                decision_id = f"d_{intake.intake_id.partition('_')[2] or intake.intake_id}"
                at = max(turn.at for turn in intake.turns)
                there = oplog.SqlBankView(tx, bank)
                ops = self._resolve(tx, there, intake.bank, drafts, decision_id, at, "decision", ())
            elif worker_id is not None and intakes.has_pending(tx, bank):
                worker_id = None
            seqs = (ops[0].seq, ops[-1].seq) if ops else None
            number = intakes.insert(tx, intake, bank, applied=seqs, claimed_by=worker_id, is_applied=drafts is not None)
            oplog.write_ops(tx, bank, number, ops)
            said: list[Op] = []
            if words:
                said_by = f"w_{intake.intake_id.partition('_')[2] or intake.intake_id}"
                nothing = operations.BankState()  # new words are like nothing that is there
                said = self._resolve(tx, nothing, intake.bank, words, said_by, intake.created_at, "said", ())
                oplog.write_ops(tx, bank, number, said)
        self._signal()
        state = IntakeState(
            intake,
            "pending" if drafts is None else "applied",
            1 if worker_id else 0,
            claimed_by=worker_id,
            seq_first=seqs and seqs[0],
            seq_last=seqs and seqs[1],
        )
        return Accepted(state, tuple(ops), tuple(said), claim=Claim(intake, 1, worker_id) if worker_id else None)

    def _replay(self, tx: Tx, intake_id: str) -> Accepted:
        state = intakes.read_state(tx, intake_id)
        assert state is not None
        return Accepted(state, tuple(oplog.ops_of(tx, intake_id)), replayed=True)

    def claim_next(self, bank: Bank | None = None) -> Claim | None:
        """The oldest intake that nobody alive is deciding and that is the first undecided one of its bank."""
        with self._engine.read() as tx:
            if self._locks.first_free(tx, bank) is None:
                return None  # without the write lock: idle workers ask often
        worker_id = self._locks.beat(self.worker_id)
        with self._engine.write((), durable=False) as tx:
            number = self._locks.first_free(tx, bank)
            return None if number is None else intakes.take(tx, number, worker_id)

    def owns(self, claim: Claim) -> bool:
        """Whether the claim still stands."""
        with self._engine.read() as tx:
            try:
                intakes.check_claim(tx, claim)
            except Conflict:
                return False
        return True

    def release(self, claim: Claim) -> None:
        with self._engine.write((), durable=False) as tx:
            intakes.release(tx, intakes.check_claim(tx, claim)[0])
        self._signal()

    def park(self, claim: Claim, *, reason: str, detail: str) -> None:
        with self._engine.write(()) as tx:
            intakes.park(tx, intakes.check_claim(tx, claim)[0], reason, detail)
        self._signal()

    def retry(self, intake_ids: Sequence[str] | None = None, bank: Bank | None = None) -> int:
        with self._engine.write(()) as tx:
            count = intakes.retry(tx, intake_ids, bank)
        self._signal()
        return count

    def wait_change(self, timeout: float, seen: int | None = None) -> int:
        """Until something was accepted, finished, parked or released in this process, or `timeout` seconds passed. The
        result is a count of changes: hand it back as `seen`, and no change between two calls is missed."""
        with self._changed:
            before = self._changes if seen is None else seen
            self._changed.wait_for(lambda: self._changes != before, timeout)
            return self._changes

    def _signal(self) -> None:
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    # -- decisions and ops -----------------------------------------------------------------------------------------

    def record(self, *decisions: DecisionRecord, epoch: int | None = None) -> None:
        with self._engine.write({decision.bank for decision in decisions}) as tx:
            for decision in decisions:
                trail.write_decision(tx, decision, since=epoch)

    def drop_payloads(self, numbers: Sequence[int]) -> None:
        """Of decisions that were sealed, synced and read back elsewhere."""
        with self._engine.write() as tx:
            trail.drop_payloads(tx, numbers)

    def apply(
        self,
        bank: Bank,
        drafts: Sequence[OpDraft],
        *,
        decision_id: str,
        at: datetime,
        cause: str = "decision",
        intake_id: str | None = None,
        claim: Claim | None = None,
        undoes: Sequence[str] = (),
        decisions: Sequence[DecisionRecord] = (),
        expected_seq: int | None = None,
        epoch: int | None = None,
    ) -> list[Op]:
        """Check `drafts` against the bank, number and write them, all or none, in one commit, with the decisions that
        led to them. With `claim` the intake is finished by it, and nothing is written when the claim was lost; with
        `expected_seq`, nothing when the bank has a newer op than that; with `epoch` (`bank_version`), nothing when the
        user was erased since, in whole or in part."""
        with self._engine.write([bank]) as tx:
            number, bank_id = intakes.check_claim(tx, claim) if claim else (None, oplog.make_bank(tx, bank))
            if expected_seq is not None and oplog.bank_seq(tx, bank_id) != expected_seq:
                raise Conflict("the bank was written to meanwhile", fix="read it again and decide on what it holds now")
            if number is None and intake_id is not None:
                number = intakes.number_of(tx, intake_id, bank_id)
            for op_id in undoes:
                if tx.one("SELECT 1 FROM ops WHERE op_id = ? AND bank = ?", (op_id, bank_id)) is None:
                    raise NotFound(f"no op {op_id} in this bank", why="it belongs to another bank, or was erased")
            if drafts and tx.one("SELECT 1 FROM ops WHERE op_id = ?", (operations.make_op_id(decision_id, 0),)):
                raise Conflict(f"decision {decision_id} is applied already", fix="read its ops instead")
            there = oplog.SqlBankView(tx, bank_id)
            applied = self._resolve(tx, there, bank, drafts, decision_id, at, cause, undoes)
            oplog.write_ops(tx, bank_id, number, applied)
            if number is not None:
                seqs = (applied[0].seq, applied[-1].seq) if applied else None
                intakes.finish(tx, number, seqs, claim)
            for decision in decisions:
                is_of_intake = number is not None and (decision.bank, decision.intake_id) == (bank, intake_id)
                trail.write_decision(tx, decision, (bank_id, number) if is_of_intake else None, since=epoch)
        self._signal()
        return applied

    def _resolve(
        self,
        tx: Tx,
        view: operations.BankView,
        bank: Bank,
        drafts: Sequence[OpDraft],
        decision_id: str,
        at: datetime,
        cause: str,
        undoes: Sequence[str],
    ) -> list[Op]:
        seqs = tx.allot(len(drafts))
        context = operations.Context(bank, decision_id, 0, self._clock.now(), at, cause, seqs=seqs)
        return operations.resolve(view, drafts, context, undoes)

    # -- traces and feedback ---------------------------------------------------------------------------------------

    def write_trace(self, *traces: Trace) -> None:
        """A trace that is there already is replaced: the app's answer came later. Survives a killed process; a power
        cut may cost the newest ones."""
        with self._engine.write((), durable=False) as tx:
            for trace in traces:
                trail.write_trace(tx, trace)

    def add_feedback(self, feedback: FeedbackRecord) -> bool:
        """False when feedback of this id is there already."""
        with self._engine.write(()) as tx:
            return trail.write_feedback(tx, feedback)

    # -- users and settings ----------------------------------------------------------------------------------------

    def meta_set(self, key: str, value: str) -> None:
        with self._engine.write(()) as tx:
            _set_meta(tx, key, value)

    def set_trainable(self, whom: Bank | str, trainable: bool) -> None:
        """Whether a bank, or a user with all banks to come, may be learned from."""
        with self._engine.write(()) as tx:
            if isinstance(whom, Bank):
                tx.run("UPDATE banks SET trainable = ? WHERE id = ?", (trainable, oplog.make_bank(tx, whom)))
            elif trainable:
                tx.run("DELETE FROM optouts WHERE user_id = ?", (whom,))
            else:
                tx.run("INSERT INTO optouts VALUES (?) ON CONFLICT DO NOTHING", (whom,))

    # -- erasure, care, locks --------------------------------------------------------------------------------------

    def begin_erase(self, user_id: str, part: Part | None = None) -> str:
        """Record the intent, before the projection is cleaned: `unfinished_erasures` names the user, or
        `unfinished_parts` the part, until it is erased."""
        with self._engine.write() as tx:
            return erase.begin(tx, user_id, part, self._ids.new("e"), self._clock.now())

    def erase(
        self, user_id: str, part: Part | None = None, find: Callable[[JournalReader], Doomed] | None = None
    ) -> ErasureReceipt:
        """Destroy every row of the user, then every byte that the rows left behind. `StoreBusy` when other processes
        keep the bytes from being overwritten: the rows are gone by then, and the next `erase` or open finishes. Of a
        `part`, the rows that `find` names: asked inside the transaction, so nothing is drawn from it meanwhile."""
        erasure_id = self.begin_erase(user_id, part)
        with self._engine.write() as tx:
            if find is None:
                erase.delete_rows(tx, user_id, erasure_id, self._clock.now())
            else:
                erase.delete_part(tx, find(self._within(tx)), erasure_id, self._clock.now())
        self._signal()
        self._finish_scrubbing()
        with self._engine.read() as tx:
            return erase.read_receipts(tx, erasure_id)[0]

    def _finish_scrubbing(self) -> None:
        with self._engine.read() as tx:
            open_ones = erase.list_unscrubbed(tx)
        if not open_ones or not self._engine.overwrites:
            return
        self._engine.scrub()
        with self._engine.write(()) as tx:
            erase.mark_done(tx, open_ones)

    def prune(self, before: datetime) -> dict[str, int]:
        """Drop decisions, traces and their feedback of before a moment, and note it as `pruned` in the same commit:
        what was sealed elsewhere is to follow."""
        with self._engine.write() as tx:
            below, counts = pruning.prune(tx, before)
            told = {"at": self._clock.now().isoformat(), "before": before.isoformat(), "below": below, "counts": counts}
            if any(counts.values()):
                _set_meta(tx, "pruned", to_json(told | {"done": False}))
        return counts

    def scrub(self) -> None:
        """Write the file anew without what deleted rows leave behind, at its smallest."""
        self._engine.scrub()

    def _note_lost(self) -> None:
        """A journal that ends before what was committed says so from now on, however much comes after."""
        if self.is_shared or self._engine.find_lost() is None:
            return
        with self._engine.write():  # an erasure may have been under way
            if lost := self._engine.find_lost():
                disk.note_behind(self.place, lost)
                logging.getLogger("memkit").warning("the journal lost its newest entries; run `memkit doctor`")

    def load(self, records: Iterable[JSON]) -> int:
        """Write records that `dump` gave, all or none, in one commit: what is refused in the middle leaves nothing
        behind. Records that are there already are skipped. Returns how many were new. Other writers wait meanwhile."""
        loader = portable.Loader()
        with self._engine.write() as tx:
            loader.load(tx, records)
        self._signal()
        return loader.written

    def check(self) -> list[JournalProblem]:
        """Everything that is wrong with the journal; an empty list when all of its promises hold."""
        problems = [JournalProblem("file", "journal.sqlite", found) for found in self._engine.integrity()]
        with self._engine.read() as tx:
            return problems + checking.find_problems(tx)

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the main file and shrink it: part of a maintenance pass."""
        self._engine.checkpoint()

    def copy_to(self, path: Path) -> None:
        self._engine.copy_to(path)

    def applier_lock(self, wait: bool = True) -> AbstractContextManager[None]:
        """One projector at a time, over all threads and processes, and all machines that share LanceDB. wait: even for
        another machine."""
        return self._locks.applier(wait)

    def lance_lock(self, exclusive: bool) -> AbstractContextManager[None]:
        """Shared around every LanceDB call; exclusive around cleanup and erase."""
        return self._locks.lance(exclusive)


def _set_meta(tx: Tx, key: str, value: str) -> None:
    tx.run(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (f"app.{key}", value)
    )


_JOURNALS: weakref.WeakSet[Journal] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for journal in list(_JOURNALS):
        journal.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
