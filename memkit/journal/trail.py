"""What decisions, reads and feedback leave behind: the trajectories that a trainer learns from."""

# ruff: noqa: S608 - statements are put together from constants of this package; values travel as parameters

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from memkit.errors import Conflict, InvalidInput, NotFound
from memkit.journal.codec import from_micros, pack, unpack, unpack_text
from memkit.journal.engine import Tx
from memkit.journal.erase import subject_of
from memkit.journal.intakes import number_of
from memkit.journal.oplog import make_bank, scope, up_to
from memkit.journal.records import FeedbackRecord, Trace
from memkit.models import Bank, DecisionRecord, digest, micros, to_json

_DECISION = (
    "SELECT d.n, d.decision_id, i.intake_id, b.user_id, b.agent_id, d.role, d.state_seq, d.payload, d.created_at"
    " FROM decisions d JOIN banks b ON b.id = d.bank LEFT JOIN intakes i ON i.n = d.intake"
)
_TRACE = (
    "SELECT t.n, t.trace_id, t.kind, b.user_id, b.agent_id, t.state_seq, t.payload, t.created_at"
    " FROM traces t JOIN banks b ON b.id = t.bank"
)


def write_decision(
    tx: Tx, decision: DecisionRecord, known: tuple[int, int | None] | None = None, *, since: int | None = None
) -> None:
    """`known`: the numbers of its bank and intake. `since`: the newest erasure when it was begun; else its time says
    what came after."""
    if known is None:
        bank = make_bank(tx, decision.bank)
        intake = None if decision.intake_id is None else number_of(tx, decision.intake_id, bank)
    else:
        bank, intake = known
    if _erased_since(tx, decision.bank, micros(decision.created_at), since):
        raise Conflict(f"the user of decision {decision.decision_id} was erased meanwhile", fix="drop this result")
    number = tx.insert(
        "INSERT INTO decisions (decision_id, bank, intake, role, state_seq, payload, created_at)"
        " VALUES (?,?,?,?,?,?,?)",
        (
            decision.decision_id,
            bank,
            intake,
            decision.role,
            decision.state_seq,
            pack(decision.payload),
            micros(decision.created_at),
        ),
    )
    for key, text in sorted(decision.blobs.items()):  # in one order: who writes the same ones meanwhile only waits
        if digest(text) != key:
            raise InvalidInput(f"blob {key} is not named by the sha256 of its text", fix="use memkit.models.digest")
        tx.run("INSERT INTO blobs VALUES (?, ?) ON CONFLICT DO NOTHING", (bytes.fromhex(key), pack(text)))
        tx.run("INSERT INTO decision_blobs VALUES (?, ?)", (number, bytes.fromhex(key)))


def read_decisions(
    tx: Tx,
    *,
    bank: Bank | None,
    user_id: str | None,
    intake_id: str | None,
    decision_id: str | None,
    after: str | None,
    limit: int | None,
    newest_first: bool = False,
) -> list[tuple[int | None, DecisionRecord]]:
    """Each with its number where its payload was sealed, and is to be read there; else None."""
    where, params = scope("b", bank, user_id)
    for column, value in (("i.intake_id", intake_id), ("d.decision_id", decision_id)):
        if value is not None:
            where, params = f"{where} AND {column} = ?", [*params, value]
    if after is not None:
        where = f"{where} AND d.n {'<' if newest_first else '>'} (SELECT n FROM decisions WHERE decision_id = ?)"
        params.append(after)
    order = "DESC" if newest_first else "ASC"
    rows = tx.all(*up_to(limit, f"{_DECISION} WHERE {where} ORDER BY d.n {order}", params))
    return [(row[0] if not row[7] else None, _decision_from(tx, row)) for row in rows]


def _decision_from(tx: Tx, row: tuple[Any, ...]) -> DecisionRecord:
    number, name, intake, user, agent, role, state_seq, payload, created_at = row
    blobs = tx.all(
        "SELECT s.hash, s.data FROM decision_blobs u JOIN blobs s ON s.hash = u.hash WHERE u.decision = ?", (number,)
    )
    return DecisionRecord(
        decision_id=name,
        intake_id=intake,
        bank=Bank(user, agent),
        role=role,
        state_seq=state_seq,
        payload=unpack(payload, f"decision {name}") if payload else {},
        created_at=from_micros(created_at),
        blobs={key.hex(): unpack_text(data, f"blob {key.hex()}") for key, data in blobs},
    )


def read_unsealed(tx: Tx, after: int, limit: int) -> list[tuple[int, DecisionRecord]]:
    """Decisions whose payload is still here, each with its number. Sealing goes by number, so they are the newest
    ones, and the search for the first of them walks back over themselves alone."""
    rows = tx.all(f"{_DECISION} WHERE d.n > ? ORDER BY d.n LIMIT ?", (max(after, last_sealed(tx)), limit))
    return [(row[0], _decision_from(tx, row)) for row in rows]


def last_sealed(tx: Tx) -> int:
    row = tx.one("SELECT n FROM decisions WHERE length(payload) = 0 ORDER BY n DESC LIMIT 1")
    return row[0] if row else 0


def count_unsealed(tx: Tx) -> int:
    row = tx.one("SELECT count(*) FROM decisions WHERE n > ?", (last_sealed(tx),))
    return row[0] if row else 0


def numbers(tx: Tx, decision_ids: Iterable[str]) -> list[int]:
    rows = (tx.one("SELECT n FROM decisions WHERE decision_id = ?", (one,)) for one in decision_ids)
    return [row[0] for row in rows if row is not None]


def ids_of_intake(tx: Tx, intake_id: str) -> list[str]:
    rows = tx.all(
        "SELECT decision_id FROM decisions WHERE intake = (SELECT n FROM intakes WHERE intake_id = ?) ORDER BY n",
        (intake_id,),
    )
    return [row[0] for row in rows]


def drop_payloads(tx: Tx, numbers: Sequence[int]) -> None:
    """An empty payload says: read it where it was sealed. Prompts that no other decision uses go with it."""
    for number in numbers:
        keys = tx.all("SELECT hash FROM decision_blobs WHERE decision = ?", (number,))
        tx.run("DELETE FROM decision_blobs WHERE decision = ?", (number,))
        tx.many(
            "DELETE FROM blobs WHERE hash = ? AND NOT EXISTS"
            " (SELECT 1 FROM decision_blobs u WHERE u.hash = blobs.hash)",
            keys,
        )
        tx.run("UPDATE decisions SET payload = ? WHERE n = ?", (b"", number))


def read_blob(tx: Tx, key: str) -> str:
    row = tx.one("SELECT data FROM blobs WHERE hash = ?", (bytes.fromhex(key),))
    if row is None:
        raise NotFound(f"no blob {key}", why="no decision that is still there refers to it")
    return unpack_text(row[0], f"blob {key}")


# -- traces and feedback -------------------------------------------------------------------------------------------


def write_trace(tx: Tx, trace: Trace) -> None:
    """A read that began before an erasure leaves no trace: it may have been served what was erased. One that was
    written before it and stayed holds nothing of it."""
    created_at = micros(trace.created_at)
    if _erased_since(tx, trace.bank, created_at) and not _stayed(tx, trace.trace_id):
        return
    tx.run(
        "INSERT INTO traces (trace_id, bank, kind, state_seq, payload, created_at) VALUES (?,?,?,?,?,?)"
        " ON CONFLICT (trace_id) DO UPDATE SET payload = excluded.payload WHERE traces.bank = excluded.bank",
        (trace.trace_id, make_bank(tx, trace.bank), trace.kind, trace.state_seq, pack(trace.payload), created_at),
    )


def read_traces(
    tx: Tx,
    *,
    user_id: str | None,
    trace_id: str | None,
    after: str | None,
    kinds: Sequence[str] | None,
    limit: int,
    newest_first: bool = False,
) -> list[Trace]:
    where, params = scope("b", None, user_id)
    if trace_id is not None:
        where, params = f"{where} AND t.trace_id = ?", [*params, trace_id]
    if after is not None:
        where = f"{where} AND t.n {'<' if newest_first else '>'} (SELECT n FROM traces WHERE trace_id = ?)"
        params = [*params, after]
    if kinds is not None:
        where, params = f"{where} AND t.kind IN ({','.join('?' * len(kinds))})", [*params, *kinds]
    order = "DESC" if newest_first else "ASC"
    return [
        Trace(
            trace_id=row[1],
            kind=row[2],
            bank=Bank(row[3], row[4]),
            state_seq=row[5],
            payload=unpack(row[6], f"trace {row[1]}"),
            created_at=from_micros(row[7]),
        )
        for row in tx.all(f"{_TRACE} WHERE {where} ORDER BY t.n {order} LIMIT ?", [*params, limit])
    ]


def write_feedback(tx: Tx, feedback: FeedbackRecord) -> bool:
    owner = tx.one(
        "SELECT bank FROM traces WHERE trace_id = ? UNION SELECT bank FROM intakes WHERE intake_id = ?",
        (feedback.trace_id, feedback.trace_id),
    )
    if owner is None:
        raise NotFound(
            f"no trace {feedback.trace_id}",
            why="it was never written here, its user was erased, or the log was pruned",
            fix="pass the trace_id that answer(), search(), context() or add() returned",
        )
    changed = tx.change(
        "INSERT INTO feedback (feedback_id, trace_id, bank, payload, source, created_at) VALUES (?,?,?,?,?,?)"
        " ON CONFLICT (feedback_id) DO NOTHING",
        (
            feedback.feedback_id,
            feedback.trace_id,
            owner[0],
            to_json(feedback.payload),
            feedback.source,
            micros(feedback.created_at),
        ),
    )
    return changed > 0


def read_feedback(tx: Tx, trace_id: str) -> list[FeedbackRecord]:
    rows: list[tuple[Any, ...]] = tx.all(
        "SELECT feedback_id, trace_id, payload, source, created_at FROM feedback WHERE trace_id = ? ORDER BY n",
        (trace_id,),
    )
    return [FeedbackRecord(row[0], row[1], json.loads(row[2]), row[3], from_micros(row[4])) for row in rows]


def read_recent_feedback(tx: Tx, limit: int) -> list[FeedbackRecord]:
    """Newest first, of all users."""
    rows: list[tuple[Any, ...]] = tx.all(
        "SELECT feedback_id, trace_id, payload, source, created_at FROM feedback ORDER BY n DESC LIMIT ?", (limit,)
    )
    return [FeedbackRecord(row[0], row[1], json.loads(row[2]), row[3], from_micros(row[4])) for row in rows]


def _stayed(tx: Tx, trace_id: str) -> bool:
    return tx.one("SELECT 1 FROM traces WHERE trace_id = ?", (trace_id,)) is not None


def _erased_since(tx: Tx, bank: Bank, created_at: int, since: int | None = None) -> bool:
    if tx.one("SELECT 1 FROM erasures LIMIT 1") is None:
        return False
    later, after = ("erased_at >= ?", created_at) if since is None else ("state <> 'begun' AND n > ?", since)
    subject = subject_of(tx, bank.user_id)
    return tx.one(f"SELECT 1 FROM erasures WHERE subject = ? AND {later} LIMIT 1", (subject, after)) is not None
