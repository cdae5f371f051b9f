"""The journal as a stream of JSON records, and back: nothing is lost, and a record that is there already is skipped.

Banks travel whole. Sequence numbers are kept where the store is empty and given anew, in the same order, where other
banks already used them. What cannot be taken over is refused by an error of ours: the keys of a table would say it
too, but not to somebody who has a file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Protocol

from memkit.errors import Conflict, IdempotencyConflict, InvalidInput, MemkitError, NotFound
from memkit.journal import intakes, oplog, trail
from memkit.journal.codec import PARKED
from memkit.journal.engine import Tx
from memkit.journal.records import FeedbackRecord, Intake, IntakeState, Trace, UserInfo
from memkit.models import JSON, Bank, DecisionRecord, MemoryRecord, Op, Turn, micros


class Source(Protocol):
    """What `dump` reads of a journal."""

    def iter_intakes(self, *, user_id: str | None = None) -> Iterator[IntakeState]: ...
    def iter_ops_with_intakes(self, *, user_id: str | None = None) -> Iterator[tuple[Op, str | None]]: ...
    def iter_decisions(self, *, user_id: str | None = None) -> Iterator[DecisionRecord]: ...
    def iter_traces(self, *, user_id: str | None = None) -> Iterator[Trace]: ...
    def feedback_for(self, trace_id: str) -> list[FeedbackRecord]: ...
    def users(self) -> list[UserInfo]: ...


_AGAIN = "export the file again"
_DANGLES = (
    "export the file again; where that cannot be, import it with drop_dangling=True (--drop-dangling), which leaves out"
    " what refers to what the file does not hold"
)
_ELSEWHERE = "import into an empty store, or into one that does not hold this user"


def dump(journal: Source, user_id: str | None) -> Iterator[JSON]:
    """Turns, then ops, then what was decided, read and rated: each record after those that it refers to."""
    for state in journal.iter_intakes(user_id=user_id):
        yield {"record": "intake"} | _intake_to_json(state)
    for op, intake_id in journal.iter_ops_with_intakes(user_id=user_id):
        yield {"record": "op", "intake_id": intake_id} | op.to_dict()
    for decision in journal.iter_decisions(user_id=user_id):
        yield {"record": "decision"} | asdict(decision)
    for trace in journal.iter_traces(user_id=user_id):
        yield {"record": "trace"} | asdict(trace)
        for feedback in journal.feedback_for(trace.trace_id):
            yield {"record": "feedback"} | asdict(feedback)
    for state in journal.iter_intakes(user_id=user_id):
        for feedback in journal.feedback_for(state.intake.intake_id):
            yield {"record": "feedback"} | asdict(feedback)
    for info in journal.users():
        if not info.trainable and user_id in (None, info.user_id):
            yield {"record": "untrainable", "user_id": info.user_id}


class Loader:
    """Writes the records of one file, in one transaction: nobody else writes meanwhile, so what was looked up once
    holds to its end."""

    def __init__(self) -> None:
        self.written = 0
        self._seqs: dict[int, int] = {}
        """How sequence numbers were given anew, so that images keep their links, and decisions their states."""
        self._rising: list[int] = []
        self._last = 0
        self._banks: dict[Bank, int] = {}
        self._common: dict[Bank, int] = {}
        """Newest op of a bank that was here before and is in the file too."""
        self._going_on: set[Bank] = set()
        """Banks whose history the file goes on with."""

    def load(self, tx: Tx, records: Iterable[JSON]) -> None:
        self._last = tx.cursor()
        for raw in records:
            record = dict(raw)
            kind = record.pop("record", None)
            writer = {
                "intake": self._intake,
                "op": self._op,
                "decision": self._decision,
                "trace": self._trace,
                "feedback": self._feedback,
                "untrainable": self._untrainable,
            }.get(str(kind))
            if writer is None:
                raise InvalidInput(f"record of kind {kind!r} is unknown", fix="export the file again with this memkit")
            try:
                self.written += writer(tx, record)
            except MemkitError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
                raise InvalidInput(
                    f"a record of kind {kind!r} is damaged",
                    why=f"{type(error).__name__} while reading its fields",
                    fix=_AGAIN,
                ) from None
        tx.skip_to(self._last)

    def _intake(self, tx: Tx, raw: JSON) -> int:
        bank = Bank(**raw["bank"])
        if tx.one("SELECT 1 FROM intakes WHERE intake_id = ?", (raw["intake_id"],)):
            return 0
        turns = tuple(_turn(one, bank) for one in raw["turns"])
        intake = Intake(
            raw["intake_id"],
            bank,
            raw["session_id"],
            turns,
            raw["infer"],
            raw["idempotency_key"],
            datetime.fromisoformat(raw["created_at"]),
            raw["context"],
        )
        bank_id = self._bank(tx, bank)
        _refuse_taken(tx, intake, bank_id)
        number = intakes.insert(
            tx, intake, bank_id, applied=None, claimed_by=None, is_applied=raw["status"] == "applied"
        )
        if raw["status"] == "parked":
            tx.run(
                "UPDATE intakes SET status = ?, reason = ?, detail = ? WHERE n = ?",
                (PARKED, raw["reason"], raw["detail"], number),
            )
        return 1

    def _op(self, tx: Tx, raw: JSON) -> int:
        intake_id = raw.pop("intake_id")
        op = Op.from_dict(raw)
        bank = self._bank(tx, op.bank)
        known = tx.one("SELECT seq, bank, memory_id, recorded_at FROM ops WHERE op_id = ?", (op.op_id,))
        if known is not None:
            if op.bank in self._going_on or known[1:] != (bank, op.memory_id, micros(op.recorded_at)):
                raise _two_histories(op.bank)
            self._common[op.bank] = known[0]
            self._number(op.seq, known[0])
            return 0
        if op.bank not in self._going_on:
            if oplog.bank_seq(tx, bank) != self._common.get(op.bank, 0):
                raise _two_histories(op.bank)
            self._going_on.add(op.bank)
        seq = self._last = max(op.seq, self._last + 1)
        self._number(op.seq, seq)
        before = self._renumbered(op.before)
        after = before if op.after == op.before else self._renumbered(op.after)
        op = replace(op, seq=seq, before=before, after=after)
        _refuse_gap(tx, op, bank)
        number = None if intake_id is None else _intake_number(tx, intake_id, bank)
        oplog.write_ops(tx, bank, number, [op])
        if number is not None and op.cause != "said":
            intakes.finish(tx, number, (seq, seq))
        return 1

    def _number(self, given: int, seq: int) -> None:
        self._seqs[given] = seq
        self._rising.append(given)

    def _bank(self, tx: Tx, bank: Bank) -> int:
        if bank not in self._banks:
            self._banks[bank] = oplog.make_bank(tx, bank)
        return self._banks[bank]

    def _renumbered(self, image: MemoryRecord | None) -> MemoryRecord | None:
        return None if image is None else replace(image, seq=self._seqs[image.seq])

    def _as_of(self, raw: JSON) -> JSON:
        """What had been seen of the bank, in this store's numbers; ops come before in the file, in order."""
        at = bisect_right(self._rising, raw["state_seq"])
        seq = self._seqs[self._rising[at - 1]] if at else 0
        payload = raw["payload"]
        if "state_seq" in payload:
            payload = payload | {"state_seq": seq}
        return raw | {"state_seq": seq, "payload": payload}

    def _decision(self, tx: Tx, raw: JSON) -> int:
        if tx.one("SELECT 1 FROM decisions WHERE decision_id = ?", (raw["decision_id"],)):
            return 0
        decision = DecisionRecord(**self._as_of(_with_bank_and_time(raw)))
        try:
            trail.write_decision(tx, decision)
        except Conflict:
            raise _left_alone(f"decision {decision.decision_id}") from None
        return 1

    def _trace(self, tx: Tx, raw: JSON) -> int:
        if tx.one("SELECT 1 FROM traces WHERE trace_id = ?", (raw["trace_id"],)):
            return 0
        trail.write_trace(tx, Trace(**self._as_of(_with_bank_and_time(raw))))
        return 1

    def _feedback(self, tx: Tx, raw: JSON) -> int:
        raw["created_at"] = datetime.fromisoformat(raw["created_at"])
        feedback = FeedbackRecord(**raw)
        try:
            return int(trail.write_feedback(tx, feedback))
        except NotFound:
            raise _left_alone(f"feedback {feedback.feedback_id}") from None

    def _untrainable(self, tx: Tx, raw: JSON) -> int:
        return tx.change("INSERT INTO optouts VALUES (?) ON CONFLICT DO NOTHING", (raw["user_id"],))


def _two_histories(bank: Bank) -> Conflict:
    return Conflict(
        "the file holds a bank that this store already has, with another history",
        why=f"two histories of one bank cannot be put into one order, and {_named(bank)} has ops that the file has not",
        fix=_ELSEWHERE,
    )


def _refuse_taken(tx: Tx, intake: Intake, bank: int) -> None:
    """Names that mean another turn here."""
    key = intake.idempotency_key
    found = (
        None
        if key is None
        else tx.one(
            "SELECT i.intake_id FROM idempotency d JOIN intakes i ON i.n = d.intake WHERE d.bank = ? AND d.key = ?",
            (bank, key),
        )
    )
    if found is not None:
        raise IdempotencyConflict(
            f"intake {intake.intake_id} of the file has the idempotency key {key!r}, which this store used for another"
            " turn of the same user and agent",
            why=f"of {_named(intake.bank)}, the key names intake {found[0]} here, and it may name one only",
            fix=_ELSEWHERE,
            intake_id=found[0],
        )
    names = [turn.turn_id for turn in intake.turns]
    found = tx.one(f"SELECT turn_id FROM turns WHERE turn_id IN ({oplog.marks(names)}) LIMIT 1", names)  # noqa: S608
    if found is not None:
        raise Conflict(
            f"turn {found[0]} of the file is in this store already, in another intake than {intake.intake_id}",
            why="a turn id names one turn",
            fix=_ELSEWHERE,
        )


def _refuse_gap(tx: Tx, op: Op, bank: int) -> None:
    """An op that does not follow from the live memories that the ops before it left."""
    if op.memory_id is None:
        return
    live: dict[str, int] = dict(
        tx.all(
            "SELECT memory_id, seq FROM heads WHERE bank = ? AND memory_id = ? UNION"
            " SELECT memory_id, seq FROM heads WHERE bank = ? AND hash = ?",
            (bank, op.memory_id, bank, bytes.fromhex(op.after.content_hash) if op.after else b""),
        )
    )
    if live.pop(op.memory_id, None) != (op.before.seq if op.before else None):
        raise InvalidInput(
            f"op {op.op_id} does not follow from the ops before it",
            why=f"its before-image is not what they made of memory {op.memory_id}",
            fix=_DANGLES,
        )
    if live:
        raise InvalidInput(
            f"op {op.op_id} makes memory {op.memory_id} a copy of {next(iter(live))}",
            why="content is unique within a bank",
            fix=_AGAIN,
        )


def _intake_number(tx: Tx, intake_id: str, bank: int) -> int:
    try:
        return intakes.number_of(tx, intake_id, bank)
    except Conflict:
        raise InvalidInput(
            f"an op came of intake {intake_id}, which the file does not hold for the same user and agent", fix=_DANGLES
        ) from None


def _left_alone(what: str) -> Conflict:
    return Conflict(
        f"{what} refers to what is not there",
        why="the file does not hold it, or its user was erased here after it was made",
        fix=f"{_DANGLES}; where the user was erased here, import into another store",
    )


def _named(bank: Bank) -> str:
    return f"user {bank.user_id!r}" + (f", agent {bank.agent_id!r}" if bank.agent_id else "")


def _with_bank_and_time(raw: JSON) -> dict[str, Any]:
    return raw | {"bank": Bank(**raw["bank"]), "created_at": datetime.fromisoformat(raw["created_at"])}


def _intake_to_json(state: IntakeState) -> JSON:
    intake = state.intake
    return {
        "intake_id": intake.intake_id,
        "bank": asdict(intake.bank),
        "session_id": intake.session_id,
        "infer": intake.infer,
        "idempotency_key": intake.idempotency_key,
        "created_at": intake.created_at,
        "context": dict(intake.context),
        "status": state.status,
        "reason": state.reason,
        "detail": state.detail,
        "turns": [asdict(turn) | {"bank": None} for turn in intake.turns],
    }


def _turn(raw: JSON, bank: Bank) -> Turn:
    fields: JSON = {**raw, "bank": bank, "at": datetime.fromisoformat(raw["at"])}
    return Turn(**fields)
