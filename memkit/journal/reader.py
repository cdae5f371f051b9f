"""The reading half of a journal. Each call sees one snapshot; nothing stays open between calls. `dump` alone is one
snapshot from its first record to its last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from memkit.errors import StoreDamaged
from memkit.journal import check as checking
from memkit.journal import erase, intakes, oplog, portable, trail
from memkit.journal import prune as pruning
from memkit.journal.engine import Reads, Tx
from memkit.journal.records import ErasureReceipt, FeedbackRecord, IntakeState, Part, Trace, UserInfo
from memkit.models import JSON, Bank, DecisionRecord, MemoryRecord, Op, Turn

_PAGE = 500

Sealed = Callable[[Sequence[int]], Mapping[int, tuple[JSON, Mapping[str, str]]]]
"""Numbers of decisions → their payloads and prompts, from where they were sealed."""


class JournalReader:
    def __init__(self, engine: Reads) -> None:
        self._engine = engine
        self.sealed: Sealed | None = None
        """Where payloads are read that are no longer here. Set by whoever opens the store as a whole."""

    # -- intakes and turns -----------------------------------------------------------------------------------------

    def intake(self, intake_id: str) -> IntakeState | None:
        with self._engine.read() as tx:
            return intakes.read_state(tx, intake_id)

    def bank_of_pending(self, intake_id: str) -> Bank | None:
        """The bank of an intake that is still to be decided."""
        with self._engine.read(single=True) as tx:
            return intakes.bank_of_pending(tx, intake_id)

    def pending_count(self, bank: Bank | None = None) -> int:
        with self._engine.read() as tx:
            return intakes.pending_count(tx, bank)

    def list_parked(self, user_id: str | None = None) -> list[IntakeState]:
        where, params = oplog.scope("b", None, user_id)
        with self._engine.read() as tx:
            return intakes.read_states(tx, f"i.status = 2 AND {where}", params)

    def recent_intakes(self, user_id: str, *, before: str | None = None, limit: int) -> list[IntakeState]:
        """Newest first; `before` is the id of the one to go on from."""
        with self._engine.read() as tx:
            return intakes.read_recent(tx, user_id, before, limit)

    def count_turns(self, user_id: str) -> int:
        with self._engine.read() as tx:
            return intakes.count_turns(tx, user_id)

    def iter_intakes(self, *, user_id: str | None = None) -> Iterator[IntakeState]:
        """Every intake in the order of arrival, a page at a time."""
        where, params = oplog.scope("b", None, user_id)
        after = 0
        while True:
            with self._engine.read() as tx:
                numbers = intakes.next_numbers(tx, where, params, after, _PAGE)
                page = (
                    intakes.read_states(tx, f"{where} AND i.n BETWEEN ? AND ?", [*params, numbers[0], numbers[-1]])
                    if numbers
                    else []
                )
            if not numbers:
                return
            yield from page
            after = numbers[-1]

    def turns(
        self,
        *,
        turn_ids: Sequence[str] | None = None,
        intake_id: str | None = None,
        bank: Bank | None = None,
        session_id: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        trainable: bool = False,
    ) -> list[Turn]:
        """In order of arrival. `before` is an intake id or a turn id; `limit` keeps the newest. trainable: only those
        that may be learned from."""
        with self._engine.read(single=True) as tx:
            return intakes.read_turns(
                tx,
                turn_ids=turn_ids,
                intake_id=intake_id,
                bank=bank,
                session_id=session_id,
                before=before,
                limit=limit,
                trainable=trainable,
            )

    def settle_user(self, user_id: str) -> int:
        """The user's newest op, once all ops of lower numbers are visible: a list over several banks misses none."""
        newest = max((seq for _, seq in self.user_banks(user_id)), default=0)
        self.settle(newest)
        return newest

    # -- ops and live memories --------------------------------------------------------------------------------------

    def bank_seq(self, bank: Bank) -> int:
        return self.bank_version(bank)[0]

    def bank_version(self, bank: Bank) -> tuple[int, int]:
        """(newest op of the bank, erasures so far). A cache is current while both are what they were: an erased bank
        may come back under the same name, and then its earlier rows are gone."""
        with self._engine.read(single=True) as tx:
            row = tx.one(
                "SELECT (SELECT last_seq FROM banks WHERE user_id = ? AND agent_id = ?),"
                " (SELECT max(n) FROM erasures WHERE state <> 'begun')",
                (bank.user_id, bank.agent_id),
            )
        return (row[0] or 0, row[1] or 0) if row else (0, 0)

    def user_version(self, user_id: str) -> tuple[list[tuple[Bank, int]], int]:
        """The same of all the user's banks: (each with its newest op, erasures so far)."""
        with self._engine.read() as tx:
            rows = tx.all(
                "SELECT agent_id, last_seq FROM banks WHERE user_id = ? AND last_seq > 0 ORDER BY agent_id", (user_id,)
            )
            return [(Bank(user_id, row[0]), row[1]) for row in rows], erase.epoch(tx)

    def user_banks(self, user_id: str) -> list[tuple[Bank, int]]:
        return self.user_version(user_id)[0]

    def last_seq(self) -> int:
        """The cursor of readers over several banks: every op numbered up to here is visible. Of one bank, newer ones
        may be seen already."""
        with self._engine.read() as tx:
            return tx.cursor()

    def settle(self, number: int) -> None:
        """Whoever reads several banks up to `number` waits for ops of lower numbers that are being written."""
        self._engine.settle(number)

    def ops(
        self,
        *,
        bank: Bank | None = None,
        user_id: str | None = None,
        after: int = 0,
        upto: int | None = None,
        limit: int | None = None,
        memory_id: str | None = None,
        intake_id: str | None = None,
        op_id: str | None = None,
        newest_first: bool = False,
        words: bool = True,
    ) -> list[Op]:
        """words: with what was done to the words of turns, beside memories."""
        with self._engine.read(single=intake_id is None) as tx:
            return oplog.read_ops(
                tx,
                bank=bank,
                user_id=user_id,
                after=after,
                upto=upto,
                limit=limit,
                memory_id=memory_id,
                intake_id=intake_id,
                op_id=op_id,
                newest_first=newest_first,
                words=words,
            )

    def iter_ops(
        self, *, bank: Bank | None = None, user_id: str | None = None, after: int = 0, upto: int | None = None
    ) -> Iterator[Op]:
        """In sequence order, a page at a time: no transaction stays open between two ops."""
        while page := self.ops(bank=bank, user_id=user_id, after=after, upto=upto, limit=_PAGE):
            yield from page
            after = page[-1].seq

    def iter_ops_with_intakes(self, *, user_id: str | None = None) -> Iterator[tuple[Op, str | None]]:
        """Ops in sequence order, each with the intake that it came of."""
        after = 0
        while page := self.ops(user_id=user_id, after=after, limit=_PAGE):
            with self._engine.read() as tx:
                origin = oplog.read_origins(tx, page[0].seq, page[-1].seq)
            for op in page:
                yield op, origin.get(op.seq)
            after = page[-1].seq

    def live(
        self,
        *,
        bank: Bank | None = None,
        user_id: str | None = None,
        kinds: Collection[str] | None = None,
        after_seq: int = 0,
        limit: int | None = None,
    ) -> list[tuple[Bank, MemoryRecord]]:
        with self._engine.read() as tx:
            return oplog.read_live(tx, bank=bank, user_id=user_id, kinds=kinds, after_seq=after_seq, limit=limit)

    def count_live(
        self, *, bank: Bank | None = None, user_id: str | None = None, kinds: Collection[str] | None = None
    ) -> int:
        with self._engine.read() as tx:
            return oplog.count_live(tx, bank=bank, user_id=user_id, kinds=kinds)

    def get(self, user_id: str, memory_id: str) -> tuple[Bank, MemoryRecord] | None:
        with self._engine.read(single=True) as tx:
            return oplog.read_one(tx, user_id, memory_id)

    def written_by(self, bank: Bank, intake_ids: Sequence[str]) -> list[MemoryRecord]:
        """The live memories that these `add` calls had to do with."""
        with self._engine.read(single=True) as tx:
            return oplog.read_written(tx, bank, intake_ids)

    def find(self, bank: Bank, content_hash: str) -> str | None:
        """The live memory of this content."""
        with self._engine.read() as tx:
            number = oplog.find_bank(tx, bank)
            return None if number is None else oplog.SqlBankView(tx, number).find(content_hash)

    # -- decisions, traces, feedback -------------------------------------------------------------------------------

    def decisions(
        self,
        *,
        bank: Bank | None = None,
        user_id: str | None = None,
        intake_id: str | None = None,
        decision_id: str | None = None,
        after: str | None = None,
        limit: int | None = None,
        newest_first: bool = False,
        gaps: bool = False,
    ) -> list[DecisionRecord]:
        """In the order they were recorded, or newest first; `after` is the decision id to go on from. gaps: one whose
        sealed payload is gone comes with none."""
        with self._engine.read() as tx:
            found = trail.read_decisions(
                tx,
                bank=bank,
                user_id=user_id,
                intake_id=intake_id,
                decision_id=decision_id,
                after=after,
                limit=limit,
                newest_first=newest_first,
            )
        return self._whole(found, gaps)

    def _whole(self, found: Sequence[tuple[int | None, DecisionRecord]], gaps: bool) -> list[DecisionRecord]:
        """With the payloads that were sealed. One that is gone from there is an error, unless its user was erased
        since the journal was read."""
        numbers = [number for number, _ in found if number is not None]
        cold = self.sealed(numbers) if numbers and self.sealed is not None else {}
        out: list[DecisionRecord] = []
        for number, record in found:
            if number is None or (gaps and number not in cold):
                out.append(record)
            elif number in cold:
                payload, blobs = cold[number]
                out.append(replace(record, payload={**payload, **record.payload}, blobs=blobs))
            elif self._has_decision(record.decision_id):
                raise StoreDamaged(
                    f"the sealed record of decision {record.decision_id} is not there, or not as it was written",
                    why="the table `trajectories` was damaged or replaced; it holds what the journal no longer does",
                    fix="restore the folder sealed/trajectories.lance from a backup",
                )
        return out

    def _has_decision(self, decision_id: str) -> bool:
        with self._engine.read() as tx:
            return tx.one("SELECT 1 FROM decisions WHERE decision_id = ?", (decision_id,)) is not None

    def read_unsealed(self, *, after: int = 0, limit: int = _PAGE) -> list[tuple[int, DecisionRecord]]:
        """Decisions whose payload is still in the journal, in order, each with its number."""
        with self._engine.read() as tx:
            return trail.read_unsealed(tx, after, limit)

    def last_sealed(self) -> int:
        """The newest decision whose payload is no longer in the journal."""
        with self._engine.read() as tx:
            return trail.last_sealed(tx)

    def unsealed_count(self) -> int:
        with self._engine.read() as tx:
            return trail.count_unsealed(tx)

    def iter_decisions(
        self, *, user_id: str | None = None, after: str | None = None, gaps: bool = False
    ) -> Iterator[DecisionRecord]:
        while page := self.decisions(user_id=user_id, after=after, limit=_PAGE, gaps=gaps):
            yield from page
            after = page[-1].decision_id

    def decision_ids(self, intake_id: str) -> list[str]:
        """Of one intake, in order."""
        with self._engine.read() as tx:
            return trail.ids_of_intake(tx, intake_id)

    def decision_numbers(self, decision_ids: Collection[str]) -> list[int]:
        """Under which their payloads are sealed."""
        with self._engine.read() as tx:
            return trail.numbers(tx, decision_ids)

    def log_bytes(self) -> int:
        """What decisions, prompts and traces take here."""
        with self._engine.read() as tx:
            return pruning.log_bytes(tx)

    def moment_of(self, share: float) -> datetime:
        """When the newest `share` of the log began."""
        with self._engine.read() as tx:
            return pruning.moment_of(tx, share)

    def blob(self, key: str) -> str:
        with self._engine.read() as tx:
            return trail.read_blob(tx, key)

    def trace(self, user_id: str, trace_id: str) -> Trace | None:
        with self._engine.read() as tx:
            found = trail.read_traces(tx, user_id=user_id, trace_id=trace_id, after=None, kinds=None, limit=1)
        return found[0] if found else None

    def iter_traces(
        self, *, user_id: str | None = None, kinds: Sequence[str] | None = None, after: str | None = None
    ) -> Iterator[Trace]:
        while True:
            with self._engine.read() as tx:
                page = trail.read_traces(tx, user_id=user_id, trace_id=None, after=after, kinds=kinds, limit=_PAGE)
            if not page:
                return
            yield from page
            after = page[-1].trace_id

    def recent_traces(
        self, *, user_id: str | None = None, before: str | None = None, kinds: Sequence[str] | None = None, limit: int
    ) -> list[Trace]:
        """Newest first; `before` is the id of the one to go on from."""
        with self._engine.read() as tx:
            return trail.read_traces(
                tx, user_id=user_id, trace_id=None, after=before, kinds=kinds, limit=limit, newest_first=True
            )

    def recent_feedback(self, limit: int) -> list[FeedbackRecord]:
        with self._engine.read() as tx:
            return trail.read_recent_feedback(tx, limit)

    def feedback_for(self, trace_id: str) -> list[FeedbackRecord]:
        with self._engine.read() as tx:
            return trail.read_feedback(tx, trace_id)

    # -- users, settings, care -------------------------------------------------------------------------------------

    def users(self) -> list[UserInfo]:
        with self._engine.read() as tx:
            return checking.read_users(tx)

    def count_days(self, newest: int) -> dict[str, dict[int, int]]:
        """said, changed, decided, asked, rated → day since 1970 → how often, among the newest of each."""
        with self._engine.read() as tx:
            return checking.count_days(tx, newest)

    def meta_get(self, key: str) -> str | None:
        with self._engine.read(single=True) as tx:
            row = tx.one("SELECT value FROM meta WHERE key = ?", (f"app.{key}",))
        return row[0] if row else None

    def is_trainable(self, bank: Bank) -> bool:
        with self._engine.read(single=True) as tx:
            row = tx.one(
                "SELECT 1 WHERE EXISTS (SELECT 1 FROM optouts WHERE user_id = ?) OR EXISTS (SELECT 1 FROM banks"
                " WHERE user_id = ? AND agent_id = ? AND trainable = 0)",
                (bank.user_id, bank.user_id, bank.agent_id),
            )
        return row is None

    def subject(self, user_id: str) -> str:
        """The opaque id of a user: salted with a secret of this store, the same in receipts and in adapters' lists."""
        with self._engine.read() as tx:
            return erase.subject_of(tx, user_id)

    def untrainable_intakes(self) -> set[str]:
        """Those with a turn that may not be learned from, whatever its bank allows."""
        with self._engine.read() as tx:
            rows = tx.all("SELECT intake_id FROM intakes WHERE n IN (SELECT intake FROM turns WHERE trainable = 0)")
        return {row[0] for row in rows}

    def unfinished_erasures(self) -> list[str]:
        with self._engine.read() as tx:
            return erase.list_begun(tx)

    def unfinished_parts(self) -> list[tuple[str, Part]]:
        """Of users who stay: what of them is still to be erased."""
        with self._engine.read() as tx:
            return erase.begun_parts(tx)

    def erasure_count(self) -> int:
        """How many of `erasures` there are."""
        with self._engine.read(single=True) as tx:
            row = tx.one("SELECT count(*) FROM erasures WHERE state <> 'begun'")
        return row[0] if row else 0

    def erasures(self) -> list[ErasureReceipt]:
        with self._engine.read() as tx:
            return erase.read_receipts(tx, None)

    def _within(self, tx: Tx) -> JournalReader:
        """This reader as of a transaction."""
        return _Moment(self, tx)

    def dump(self, user_id: str | None = None) -> Generator[JSON]:
        """Every record, each after those that it refers to, all as they are at the first one. What others write
        meanwhile is not among them; an erasure waits for the end of it before it overwrites its bytes."""
        with self._engine.read() as tx:
            yield from portable.dump(_Moment(self, tx), user_id)


class _Moment(JournalReader):
    """The same reader, every call of it within one transaction."""

    def __init__(self, live: JournalReader, tx: Tx) -> None:
        super().__init__(_Once(tx))
        self._live, self.sealed = live, live.sealed

    def _has_decision(self, decision_id: str) -> bool:
        """By now: what was erased meanwhile is gone from the sealed records, too."""
        return self._live._has_decision(decision_id)


class _Once:
    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    @contextmanager
    def read(self, *, single: bool = False) -> Generator[Tx]:
        yield self._tx

    def settle(self, number: int) -> None:
        """A transaction sees what it sees."""
