"""Erasing a user, or a part of one: no row of it stays, and the bytes that rows leave behind are overwritten.

Three steps, each of which can be repeated after a crash: `begun` (the intent, so that the projection can be cleaned
before the journal forgets who it was), `deleted` (every row gone, in one transaction), `done` (bytes scrubbed)."""

# ruff: noqa: S608 - statements are put together from constants of this package; values travel as parameters

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from memkit.engine.drawn import TakenBack
from memkit.journal import oplog
from memkit.journal.codec import from_micros
from memkit.journal.engine import Tx
from memkit.journal.records import Doomed, ErasureReceipt, Part
from memkit.models import OpDraft, digest, micros, to_json
from memkit.ops import Context, resolve

_BEGUN = "state = 'begun'"
UNUSED_BLOBS = "DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM decision_blobs)"
_COUNT_OPS = (
    "UPDATE intakes SET (seq_first, seq_last) = (SELECT min(seq), max(seq) FROM ops WHERE intake = intakes.n"
    " AND coalesce(cause, '') <> 'said') WHERE n = ?"
)
_NEWEST_OP = "UPDATE banks SET last_seq = coalesce((SELECT max(seq) FROM ops WHERE bank = id), 0) WHERE id = ?"
_OWN_BANKS = "(SELECT id FROM banks WHERE user_id = ?)"
_STEPS = (
    ("feedback", f"DELETE FROM feedback WHERE bank IN {_OWN_BANKS}"),
    ("traces", f"DELETE FROM traces WHERE bank IN {_OWN_BANKS}"),
    (
        "blob_references",
        f"DELETE FROM decision_blobs WHERE decision IN (SELECT n FROM decisions WHERE bank IN {_OWN_BANKS})",
    ),
    ("decisions", f"DELETE FROM decisions WHERE bank IN {_OWN_BANKS}"),
    ("heads", f"DELETE FROM heads WHERE bank IN {_OWN_BANKS}"),
    ("ops", f"DELETE FROM ops WHERE bank IN {_OWN_BANKS}"),
    ("idempotency_keys", f"DELETE FROM idempotency WHERE bank IN {_OWN_BANKS}"),
    # Every intake has a turn, and turns are indexed by bank: intakes go first.
    ("intakes", f"DELETE FROM intakes WHERE n IN (SELECT intake FROM turns WHERE bank IN {_OWN_BANKS})"),
    ("turns", f"DELETE FROM turns WHERE bank IN {_OWN_BANKS}"),
    ("banks", "DELETE FROM banks WHERE user_id = ?"),
    ("optouts", "DELETE FROM optouts WHERE user_id = ?"),
)


def subject_of(tx: Tx, user_id: str) -> str:
    """An id that says nothing: salted with a secret of this store, so that it cannot be guessed from outside."""
    row = tx.one("SELECT value FROM meta WHERE key = 'erasure_salt'")
    return digest([row[0] if row else "", user_id])[:32]


def begin(tx: Tx, user_id: str, part: Part | None, erasure_id: str, now: datetime) -> str:
    """`part`: None for all of the user. It stands where the counts will be."""
    what = "{}" if part is None else to_json(asdict(part))
    row = tx.one(
        "SELECT erasure_id FROM erasures WHERE user_id = ? AND counts = ? AND state = 'begun'", (user_id, what)
    )
    if row is not None:
        return row[0]
    tx.run(
        "INSERT INTO erasures (erasure_id, subject, user_id, state, counts, erased_at) VALUES (?,?,?,'begun',?,?)",
        (erasure_id, subject_of(tx, user_id), user_id, what, micros(now)),
    )
    return erasure_id


def delete_rows(tx: Tx, user_id: str, erasure_id: str, now: datetime) -> None:
    _keep_numbers(tx)
    counts = {name: tx.change(sql, (user_id,)) for name, sql in _STEPS}
    counts["blobs"] = tx.change(UNUSED_BLOBS)
    tx.run(
        "DELETE FROM erasures WHERE user_id = ? AND state = 'begun' AND erasure_id <> ?", (user_id, erasure_id)
    )  # parts of the same user
    _mark_deleted(tx, erasure_id, counts, now)


def delete_part(tx: Tx, doomed: Doomed, erasure_id: str, now: datetime) -> None:
    _keep_numbers(tx)
    counts = {
        "feedback": _each(tx, "DELETE FROM feedback WHERE feedback_id = ?", doomed.feedback),
        "traces": _each(tx, "DELETE FROM traces WHERE trace_id = ?", doomed.traces),
        "decisions": _delete_decisions(tx, doomed.decisions),
        "heads": _each(tx, "DELETE FROM heads WHERE seq = ?", doomed.ops),
    }
    places = {tx.one("SELECT intake, bank FROM ops WHERE seq = ?", (seq,)) or (None, None) for seq in doomed.ops}
    counts["ops"] = _each(tx, "DELETE FROM ops WHERE seq = ?", doomed.ops)
    _each(tx, "UPDATE ops SET text = NULL WHERE seq = ?", doomed.silenced)
    touched = {row[0] for one in doomed.turns for row in tx.all("SELECT intake FROM turns WHERE turn_id = ?", (one,))}
    counts["turns"] = _each(tx, "DELETE FROM turns WHERE turn_id = ?", doomed.turns)
    counts["intakes"] = sum(_delete_intake(tx, number) for number in touched)
    for number in touched | {intake for intake, _ in places}:
        tx.run(_COUNT_OPS, (number,))
    for bank in {bank for _, bank in places}:
        tx.run(_NEWEST_OP, (bank,))
    counts["taken_back"] = _take_back(tx, doomed.back, erasure_id, now)
    counts["blobs"] = tx.change(UNUSED_BLOBS)
    _mark_deleted(tx, erasure_id, counts, now)


def _take_back(tx: Tx, memories: Sequence[TakenBack], erasure_id: str, now: datetime) -> int:
    """By an op of its own, as any memory changes: LanceDB and caches follow it."""
    for one in memories:
        bank, at = oplog.make_bank(tx, one.bank), one.image.at or now
        oplog.put_head(tx, bank, one.ground)
        draft = OpDraft("update", one.image.id, source_turns=one.image.source_turns, at=at, restore=one.image)
        name = f"u_{digest([erasure_id, one.image.id])[:28]}"
        context = Context(one.bank, name, tx.allot(1)[0], now, at, cause="erase")
        oplog.write_ops(tx, bank, None, resolve(oplog.SqlBankView(tx, bank), [draft], context))
    return len(memories)


def _each(tx: Tx, sql: str, keys: Iterable[Any]) -> int:
    return sum(tx.change(sql, (key,)) for key in keys)


def _delete_decisions(tx: Tx, names: Iterable[str]) -> int:
    numbers = [row[0] for name in names for row in tx.all("SELECT n FROM decisions WHERE decision_id = ?", (name,))]
    _each(tx, "DELETE FROM decision_blobs WHERE decision = ?", numbers)
    return _each(tx, "DELETE FROM decisions WHERE n = ?", numbers)


def _delete_intake(tx: Tx, number: int) -> int:
    """An intake that lost turns. With others left it is one of those alone, under no idempotency key (which holds a
    hash of them all), and whoever is deciding it begins anew."""
    tx.run("DELETE FROM idempotency WHERE intake = ?", (number,))
    left = tx.all("SELECT position FROM turns WHERE intake = ? ORDER BY position", (number,))
    for place, row in enumerate(left):
        tx.run("UPDATE turns SET position = ? WHERE intake = ? AND position = ?", (place, number, row[0]))
    if left:
        tx.run(
            "UPDATE intakes SET idempotency_key = NULL, detail = NULL, claimed_by = NULL, attempts = attempts + 1"
            " WHERE n = ?",
            (number,),
        )
        return 0
    tx.run("UPDATE ops SET intake = NULL WHERE intake = ?", (number,))
    return tx.change("DELETE FROM intakes WHERE n = ?", (number,))


def _keep_numbers(tx: Tx) -> None:
    """Sequence numbers are never given again."""
    tx.run(
        "INSERT INTO meta VALUES ('seq_floor', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (str(tx.cursor()),),
    )


def _mark_deleted(tx: Tx, erasure_id: str, counts: Mapping[str, int], now: datetime) -> None:
    """Under a new number: `epoch` rises with every erasure, though one that was begun later may have come first."""
    row = tx.one("SELECT subject FROM erasures WHERE erasure_id = ?", (erasure_id,))
    tx.run("DELETE FROM erasures WHERE erasure_id = ?", (erasure_id,))
    tx.run(
        "INSERT INTO erasures (erasure_id, subject, state, counts, erased_at) VALUES (?,?,'deleted',?,?)",
        (erasure_id, row[0] if row else "", to_json(counts), micros(now)),
    )


def list_unscrubbed(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT erasure_id FROM erasures WHERE state = 'deleted' ORDER BY n")]


def mark_done(tx: Tx, erasure_ids: list[str]) -> None:
    tx.many("UPDATE erasures SET state = 'done' WHERE erasure_id = ?", [(name,) for name in erasure_ids])


def list_begun(tx: Tx) -> list[str]:
    """Users whose erasure was begun and whose rows are still there."""
    return [row[0] for row in tx.all(f"SELECT user_id FROM erasures WHERE {_BEGUN} AND counts = '{{}}' ORDER BY n")]


def begun_parts(tx: Tx) -> list[tuple[str, Part]]:
    """Parts of users, alike."""
    rows = tx.all(f"SELECT user_id, counts FROM erasures WHERE {_BEGUN} AND counts <> '{{}}' ORDER BY n")
    parts = [(user_id, json.loads(what)) for user_id, what in rows]
    return [(user_id, Part(tuple(what["turns"]), tuple(what["memories"]))) for user_id, what in parts]


def read_receipts(tx: Tx, erasure_id: str | None) -> list[ErasureReceipt]:
    rows = tx.all(
        "SELECT erasure_id, subject, erased_at, counts, state FROM erasures WHERE state <> 'begun'"
        " AND coalesce(?, erasure_id) = erasure_id ORDER BY n",
        (erasure_id,),
    )
    return [ErasureReceipt(row[0], row[1], from_micros(row[2]), json.loads(row[3]), row[4] == "done") for row in rows]


def epoch(tx: Tx) -> int:
    """The number of the erasure that was done last."""
    row = tx.one("SELECT max(n) FROM erasures WHERE state <> 'begun'")
    return int(row[0] or 0) if row else 0
