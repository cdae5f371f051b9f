"""The journal as a stream of JSON records, and back: nothing is lost, and a record that is there already is skipped.

Banks travel whole. Sequence numbers are kept where the store is empty and given anew, in the same order, where other
banks already used them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from datetime import datetime
from itertools import islice
from typing import Any, Protocol

from memkit.errors import Conflict, InvalidInput
from memkit.journal import intakes, oplog, trail
from memkit.journal.codec import PARKED
from memkit.journal.engine import Tx
from memkit.journal.records import DecisionRecord, FeedbackRecord, Intake, IntakeState, Trace, UserInfo
from memkit.models import JSON, Bank, MemoryRecord, Op, Turn


class Source(Protocol):
    """What `dump` reads of a journal."""

    def iter_intakes(self, *, user_id: str | None = None) -> Iterator[IntakeState]: ...
    def iter_ops_with_intakes(self, *, user_id: str | None = None) -> Iterator[tuple[Op, str | None]]: ...
    def iter_decisions(self, *, user_id: str | None = None) -> Iterator[DecisionRecord]: ...
    def iter_traces(self, *, user_id: str | None = None) -> Iterator[Trace]: ...
    def feedback_for(self, trace_id: str) -> list[FeedbackRecord]: ...
    def users(self) -> list[UserInfo]: ...


_BATCH = 500
"""Records per transaction of an import."""


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
    """Writes records in groups. Remembers how sequence numbers were given anew, so that images keep their links."""

    def __init__(self) -> None:
        self.written = 0
        self._seqs: dict[int, int] = {}
        self._own: set[Bank] = set()

    def load(self, tx: Tx, records: Iterable[JSON]) -> None:
        for raw in records:
            record = dict(raw)
            kind = record.pop("record", None)
            writer = {
                "intake": self._intake, "op": self._op, "decision": self._decision, "trace": self._trace,
                "feedback": self._feedback, "untrainable": self._untrainable,
            }.get(str(kind))  # fmt: skip
            if writer is None:
                raise InvalidInput(f"record of kind {kind!r} is unknown", fix="export the file again with this memkit")
            try:
                self.written += writer(tx, record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise InvalidInput(
                    f"a record of kind {kind!r} is damaged", why=f"{type(error).__name__} while reading its fields",
                    fix="export the file again",
                ) from None  # fmt: skip

    def _intake(self, tx: Tx, raw: JSON) -> int:
        bank = Bank(**raw["bank"])
        if tx.one("SELECT 1 FROM intakes WHERE intake_id = ?", (raw["intake_id"],)):
            return 0
        turns = tuple(_turn(one, bank) for one in raw["turns"])
        intake = Intake(
            raw["intake_id"], bank, raw["session_id"], turns, raw["infer"], raw["idempotency_key"],
            datetime.fromisoformat(raw["created_at"]), raw["context"],
        )  # fmt: skip
        number = intakes.insert(
            tx, intake, oplog.make_bank(tx, bank), applied=None, claimed_by=None, is_applied=raw["status"] == "applied"
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
        known = tx.one("SELECT seq FROM ops WHERE op_id = ?", (op.op_id,))
        if known is not None:
            self._seqs[op.seq] = known[0]
            self._own.add(op.bank)
            return 0
        bank = oplog.make_bank(tx, op.bank)
        self._refuse_foreign(tx, op.bank, bank)
        seq = max(op.seq, oplog.last_seq(tx) + 1)
        self._seqs[op.seq] = seq
        before = self._renumbered(op.before)
        after = before if op.after == op.before else self._renumbered(op.after)
        number = None if intake_id is None else intakes.number_of(tx, intake_id, bank)
        oplog.write_ops(tx, bank, number, [replace(op, seq=seq, before=before, after=after)])
        if number is not None:
            intakes.finish(tx, number, (seq, seq), close=False)
        return 1

    def _renumbered(self, image: MemoryRecord | None) -> MemoryRecord | None:
        return None if image is None else replace(image, seq=self._seqs[image.seq])

    def _refuse_foreign(self, tx: Tx, bank: Bank, number: int) -> None:
        if bank in self._own:
            return
        if tx.one("SELECT 1 FROM ops WHERE bank = ? LIMIT 1", (number,)):
            raise Conflict(
                "the file holds a bank that this store already has, with another history",
                why="two histories of one bank cannot be put into one order",
                fix="import into an empty store, or erase(user_id=...) here first",
            )
        self._own.add(bank)

    def _decision(self, tx: Tx, raw: JSON) -> int:
        if tx.one("SELECT 1 FROM decisions WHERE decision_id = ?", (raw["decision_id"],)):
            return 0
        trail.write_decision(tx, DecisionRecord(**_with_bank_and_time(raw)))
        return 1

    def _trace(self, tx: Tx, raw: JSON) -> int:
        if tx.one("SELECT 1 FROM traces WHERE trace_id = ?", (raw["trace_id"],)):
            return 0
        trail.write_trace(tx, Trace(**_with_bank_and_time(raw)))
        return 1

    def _feedback(self, tx: Tx, raw: JSON) -> int:
        raw["created_at"] = datetime.fromisoformat(raw["created_at"])
        return int(trail.write_feedback(tx, FeedbackRecord(**raw)))

    def _untrainable(self, tx: Tx, raw: JSON) -> int:
        return tx.run("INSERT INTO optouts VALUES (?) ON CONFLICT DO NOTHING", (raw["user_id"],))


def batches(records: Iterable[JSON]) -> Iterator[list[JSON]]:
    source = iter(records)
    while batch := list(islice(source, _BATCH)):
        yield batch


def _with_bank_and_time(raw: JSON) -> dict[str, Any]:
    return raw | {"bank": Bank(**raw["bank"]), "created_at": datetime.fromisoformat(raw["created_at"])}


def _intake_to_json(state: IntakeState) -> JSON:
    intake = state.intake
    return {
        "intake_id": intake.intake_id, "bank": asdict(intake.bank), "session_id": intake.session_id,
        "infer": intake.infer, "idempotency_key": intake.idempotency_key, "created_at": intake.created_at,
        "context": dict(intake.context), "status": state.status, "reason": state.reason, "detail": state.detail,
        "turns": [asdict(turn) | {"bank": None} for turn in intake.turns],
    }  # fmt: skip


def _turn(raw: JSON, bank: Bank) -> Turn:
    fields: JSON = {**raw, "bank": bank, "at": datetime.fromisoformat(raw["at"])}
    return Turn(**fields)
