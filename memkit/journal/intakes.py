"""Intakes: what came in, in which state it is, and who may decide it."""

# ruff: noqa: S608 - statements are put together from constants of this package; values travel as parameters

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from memkit.errors import Conflict, IdempotencyConflict
from memkit.journal.codec import (
    APPLIED,
    PARKED,
    PENDING,
    STATUSES,
    TURN_COLUMNS,
    from_micros,
    turn_crc,
    turn_from,
    turn_row,
)
from memkit.journal.engine import Row, Tx
from memkit.journal.oplog import marks, scope, up_to
from memkit.journal.records import Claim, Intake, IntakeState
from memkit.models import Bank, Turn, digest, micros, to_json

_INSERT_INTAKE = (
    "INSERT INTO intakes (intake_id, bank, session_id, infer, idempotency_key, created_at, context, status, attempts,"
    " claimed_by, seq_first, seq_last) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
)
_INSERT_TURN = "INSERT INTO turns VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_STATE = (
    "SELECT i.n, i.intake_id, b.user_id, b.agent_id, i.session_id, i.infer, i.idempotency_key, i.created_at, i.context,"
    " i.status, i.attempts, i.reason, i.detail, i.claimed_by, i.seq_first, i.seq_last"
    " FROM intakes i JOIN banks b ON b.id = i.bank"
)


def insert(
    tx: Tx, intake: Intake, bank: int, *, applied: tuple[int, int] | None, claimed_by: str | None, is_applied: bool
) -> int:
    seq_first, seq_last = applied or (None, None)
    number = tx.insert(
        _INSERT_INTAKE,
        (
            intake.intake_id,
            bank,
            intake.session_id,
            intake.infer,
            intake.idempotency_key,
            micros(intake.created_at),
            to_json(intake.context) if intake.context else None,
            APPLIED if is_applied else PENDING,
            1 if claimed_by else 0,
            claimed_by,
            seq_first,
            seq_last,
        ),
    )
    tx.many(_INSERT_TURN, [turn_row(turn, number, bank) for turn in intake.turns])
    if intake.idempotency_key is not None:
        tx.run("INSERT INTO idempotency VALUES (?,?,?,?)", (bank, intake.idempotency_key, _body(intake), number))
    return number


def find_replayed(tx: Tx, intake: Intake, bank: int) -> str | None:
    """The id of the intake that was accepted under the same key before."""
    row = tx.one(
        "SELECT d.body, i.intake_id FROM idempotency d JOIN intakes i ON i.n = d.intake WHERE d.bank = ? AND d.key = ?",
        (bank, intake.idempotency_key),
    )
    if row is None:
        return None
    if row[0] != _body(intake):
        raise IdempotencyConflict(
            "this idempotency key was used for another body",
            why=f"intake {row[1]} of the same user and agent holds it",
            fix="use a fresh key for new content; retry the old content unchanged",
            intake_id=row[1],
        )
    return row[1]


def _body(intake: Intake) -> bytes:
    """What the caller sent: no generated ids, no record times."""
    turns = [
        [t.role, t.text, t.at if t.at_given else None, t.speaker, t.origin, t.metadata, t.trainable]
        for t in intake.turns
    ]
    return bytes.fromhex(digest([intake.session_id, intake.infer, turns, intake.context]))


def has_pending(tx: Tx, bank: int) -> bool:
    return tx.one("SELECT 1 FROM intakes WHERE status = 0 AND bank = ? LIMIT 1", (bank,)) is not None


def waiting(tx: Tx, bank: Bank | None) -> list[Row]:
    """(n, claimed_by) of the first pending intake of each bank, oldest first."""
    where, params = scope("b", bank, None)
    return tx.all(
        "SELECT n, claimed_by FROM intakes WHERE n IN (SELECT min(i.n) FROM intakes i JOIN banks b ON b.id = i.bank"
        f" WHERE i.status = 0 AND {where} GROUP BY i.bank) ORDER BY n",
        params,
    )


def take(tx: Tx, number: int, worker_id: str) -> Claim:
    tx.run("UPDATE intakes SET claimed_by = ?, attempts = attempts + 1 WHERE n = ?", (worker_id, number))
    found = read_states(tx, "i.n = ?", [number])[0]
    return Claim(found.intake, found.attempts, worker_id)


def check_claim(tx: Tx, claim: Claim) -> tuple[int, int]:
    """The numbers of the claimed intake and its bank; `Conflict` when the claim is no longer ours."""
    row = tx.one(
        "SELECT n, bank FROM intakes WHERE intake_id = ? AND status = 0 AND claimed_by = ? AND attempts = ?",
        (claim.intake_id, claim.worker_id, claim.attempts),
        hold=True,
    )
    if row is None:
        raise Conflict(
            f"the claim on intake {claim.intake_id} is lost",
            why="another worker took it over, finished it, or its user was erased",
            fix="drop this result; nothing was written",
            intake_id=claim.intake_id,
        )
    return row[0], row[1]


def release(tx: Tx, number: int) -> None:
    tx.run("UPDATE intakes SET claimed_by = NULL WHERE n = ?", (number,))


def release_all(tx: Tx, worker_id: str) -> None:
    tx.run("UPDATE intakes SET claimed_by = NULL WHERE status = 0 AND claimed_by = ?", (worker_id,))


def park(tx: Tx, number: int, reason: str, detail: str) -> None:
    tx.run(
        "UPDATE intakes SET status = ?, claimed_by = NULL, reason = ?, detail = ? WHERE n = ?",
        (PARKED, reason, detail, number),
    )


def retry(tx: Tx, intake_ids: Sequence[str] | None, bank: Bank | None) -> int:
    where, params = scope("b", bank, None)
    if intake_ids is not None:
        where, params = f"{where} AND i.intake_id IN ({marks(intake_ids)})", [*params, *intake_ids]
    return tx.change(
        "UPDATE intakes SET status = 0, claimed_by = NULL WHERE n IN"
        f" (SELECT i.n FROM intakes i JOIN banks b ON b.id = i.bank WHERE i.status = 2 AND {where})",
        params,
    )


def finish(tx: Tx, number: int, seqs: tuple[int, int] | None, claim: Claim | None = None) -> None:
    """Join `seqs` to the intake's range; when a claim was brought, close it as applied: words that are not kept go."""
    changes: list[str] = []
    values: list[int] = []
    if claim is not None:
        changes.append("status = ?, claimed_by = NULL")
        values.append(APPLIED)
    if seqs:
        changes.append("seq_first = coalesce(seq_first, ?), seq_last = ?")
        values += seqs
    if changes:
        tx.run(f"UPDATE intakes SET {', '.join(changes)} WHERE n = ?", (*values, number))
    if claim is not None and claim.intake.keep_turns == "none":
        blank(tx, number)


def blank(tx: Tx, number: int) -> None:
    """Take the words out of turns that were decided, and what was noted when that failed before."""
    for position, turn_id, at, metadata in tx.all(
        "SELECT position, turn_id, at, metadata FROM turns WHERE intake = ?", (number,)
    ):
        tx.run(
            "UPDATE turns SET text = '', trainable = 0, crc = ? WHERE intake = ? AND position = ?",
            (turn_crc(turn_id, "", at, metadata), number, position),
        )
    tx.run("UPDATE intakes SET detail = NULL WHERE n = ?", (number,))


def number_of(tx: Tx, intake_id: str, bank: int | None) -> int:
    row = tx.one("SELECT n FROM intakes WHERE intake_id = ? AND bank = ?", (intake_id, bank))
    if row is None:
        raise Conflict(
            f"there is no intake {intake_id} in this bank",
            why="its user was erased meanwhile, or it belongs to another bank",
            fix="drop this result; nothing was written",
        )
    return row[0]


# -- reading -------------------------------------------------------------------------------------------------------


def read_states(tx: Tx, where: str, params: Sequence[Any]) -> list[IntakeState]:
    states: list[IntakeState] = []
    for row in tx.all(f"{_STATE} WHERE {where} ORDER BY i.n", params):
        number, intake_id, user_id, agent_id, session_id, infer, key, created_at, context, status = row[:10]
        attempts, reason, detail, claimed_by, seq_first, seq_last = row[10:]
        bank = Bank(user_id, agent_id)
        turns = tx.all(f"SELECT {TURN_COLUMNS} FROM turns t WHERE t.intake = ? ORDER BY t.position", (number,))
        intake = Intake(
            intake_id=intake_id,
            bank=bank,
            session_id=session_id,
            turns=tuple(turn_from(turn, intake_id, bank) for turn in turns),
            infer=bool(infer),
            idempotency_key=key,
            created_at=from_micros(created_at),
            context=json.loads(context) if context else {},
        )
        states.append(
            IntakeState(
                intake=intake,
                status=STATUSES[status],
                attempts=attempts,
                reason=reason or "",
                detail=detail or "",
                claimed_by=claimed_by,
                seq_first=seq_first,
                seq_last=seq_last,
            )
        )
    return states


def next_numbers(tx: Tx, where: str, params: Sequence[Any], after: int, limit: int) -> list[int]:
    sql = f"SELECT i.n FROM intakes i JOIN banks b ON b.id = i.bank WHERE {where} AND i.n > ? ORDER BY i.n LIMIT ?"
    return [row[0] for row in tx.all(sql, [*params, after, limit])]


def read_recent(tx: Tx, user_id: str, before: str | None, limit: int) -> list[IntakeState]:
    """The newest intakes of a user, newest first; `before` is the id of the one to go on from."""
    place = "" if before is None else " AND t.intake < (SELECT n FROM intakes WHERE intake_id = ?)"
    rows = tx.all(
        "SELECT DISTINCT t.intake FROM banks b JOIN turns t ON t.bank = b.id WHERE b.user_id = ?"
        f"{place} ORDER BY t.intake DESC LIMIT ?",
        [user_id, *([] if before is None else [before]), limit],
    )
    numbers = [row[0] for row in rows]
    return read_states(tx, f"i.n IN ({marks(numbers)})", numbers)[::-1] if numbers else []


def count_turns(tx: Tx, user_id: str) -> int:
    row = tx.one("SELECT count(*) FROM banks b JOIN turns t ON t.bank = b.id WHERE b.user_id = ?", (user_id,))
    return row[0] if row else 0


def read_state(tx: Tx, intake_id: str) -> IntakeState | None:
    found = read_states(tx, "i.intake_id = ?", [intake_id])
    return found[0] if found else None


def bank_of_pending(tx: Tx, intake_id: str) -> Bank | None:
    row = tx.one(
        "SELECT b.user_id, b.agent_id FROM intakes i JOIN banks b ON b.id = i.bank"
        " WHERE i.intake_id = ? AND i.status = 0",
        (intake_id,),
    )
    return Bank(row[0], row[1]) if row else None


def pending_count(tx: Tx, bank: Bank | None) -> int:
    where, params = scope("b", bank, None)
    row = tx.one(f"SELECT count(*) FROM intakes i JOIN banks b ON b.id = i.bank WHERE i.status = 0 AND {where}", params)
    return row[0] if row else 0


def read_turns(
    tx: Tx,
    *,
    turn_ids: Sequence[str] | None,
    intake_id: str | None,
    bank: Bank | None,
    session_id: str | None,
    before: str | None,
    limit: int | None,
    trainable: bool,
) -> list[Turn]:
    where, params = scope("b", bank, None)
    if turn_ids is not None:
        where, params = f"{where} AND t.turn_id IN ({marks(turn_ids)})", [*params, *turn_ids]
    if intake_id is not None:
        where, params = f"{where} AND i.intake_id = ?", [*params, intake_id]
    if session_id is not None:
        where, params = f"{where} AND t.session_id = ?", [*params, session_id]
    if before is not None:
        place = (
            "SELECT n, 0 FROM intakes WHERE intake_id = ? UNION SELECT intake, position FROM turns WHERE turn_id = ?"
        )
        where, params = f"{where} AND (t.intake, t.position) < ({place})", [*params, before, before]
    if trainable:
        where = f"{where} AND t.trainable = 1"
    sql = (
        f"SELECT i.intake_id, b.user_id, b.agent_id, {TURN_COLUMNS} FROM turns t JOIN intakes i ON i.n = t.intake"
        f" JOIN banks b ON b.id = t.bank WHERE {where} ORDER BY t.intake DESC, t.position DESC"
    )
    rows = tx.all(*up_to(limit, sql, params))
    return [turn_from(row[3:], row[0], Bank(row[1], row[2])) for row in reversed(rows)]
