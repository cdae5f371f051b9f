"""Erasing a user: no row of theirs stays, and the bytes that rows leave behind are overwritten.

Three steps, each of which can be repeated after a crash: `begun` (the intent, so that the projection can be cleaned
before the journal forgets who it was), `deleted` (every row gone, in one transaction), `done` (bytes scrubbed)."""

# ruff: noqa: S608 - statements are put together from constants of this package; values travel as parameters

from __future__ import annotations

import json
from datetime import datetime

from memkit.journal.codec import from_micros
from memkit.journal.engine import Tx
from memkit.journal.oplog import last_seq
from memkit.journal.records import ErasureReceipt
from memkit.models import digest, micros, to_json

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


def begin(tx: Tx, user_id: str, erasure_id: str, now: datetime) -> str:
    row = tx.one("SELECT erasure_id FROM erasures WHERE user_id = ? AND state = 'begun'", (user_id,))
    if row is not None:
        return row[0]
    tx.run(
        "INSERT INTO erasures (erasure_id, subject, user_id, state, counts, erased_at) VALUES (?,?,?,'begun','{}',?)",
        (erasure_id, subject_of(tx, user_id), user_id, micros(now)),
    )
    return erasure_id


def delete_rows(tx: Tx, user_id: str, erasure_id: str, now: datetime) -> None:
    newest = last_seq(tx)
    tx.run(
        "INSERT INTO meta VALUES ('seq_floor', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (str(newest),),
    )
    counts = {name: tx.run(sql, (user_id,)) for name, sql in _STEPS}
    counts["blobs"] = tx.run("DELETE FROM blobs WHERE hash NOT IN (SELECT hash FROM decision_blobs)")
    tx.run(
        "UPDATE erasures SET state = 'deleted', user_id = NULL, counts = ?, erased_at = ? WHERE erasure_id = ?",
        (to_json(counts), micros(now), erasure_id),
    )


def list_unscrubbed(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all("SELECT erasure_id FROM erasures WHERE state = 'deleted' ORDER BY n")]


def mark_done(tx: Tx, erasure_ids: list[str]) -> None:
    tx.many("UPDATE erasures SET state = 'done' WHERE erasure_id = ?", [(name,) for name in erasure_ids])


def list_begun(tx: Tx) -> list[str]:
    """Users whose erasure was begun and whose rows are still there."""
    return [row[0] for row in tx.all("SELECT user_id FROM erasures WHERE state = 'begun' ORDER BY n")]


def read_receipts(tx: Tx, erasure_id: str | None) -> list[ErasureReceipt]:
    rows = tx.all(
        "SELECT erasure_id, subject, erased_at, counts, state FROM erasures WHERE state <> 'begun'"
        " AND coalesce(?, erasure_id) = erasure_id ORDER BY n",
        (erasure_id,),
    )
    return [ErasureReceipt(row[0], row[1], from_micros(row[2]), json.loads(row[3]), row[4] == "done") for row in rows]


def epoch(tx: Tx) -> int:
    row = tx.one("SELECT max(n) FROM erasures WHERE state <> 'begun'")
    return int(row[0] or 0) if row else 0
