"""Pruning the log: records of how things were decided and asked, oldest first. What was said, what is remembered and
every op stay, so undo, `as_of` and erasure find what they need.

Numbers are never given again: of each table the newest row stays, and what goes is all before one row. So sealed
decisions go by number, and pruning that was interrupted is finished by pruning again."""

# ruff: noqa: S608 - statements are put together from constants of this package; values travel as parameters

from __future__ import annotations

from datetime import datetime

from memkit.journal.codec import from_micros
from memkit.journal.engine import Tx
from memkit.journal.erase import UNUSED_BLOBS
from memkit.models import micros

_UNDECIDED = "SELECT min(d.n) FROM intakes i JOIN decisions d ON d.intake = i.n WHERE i.status = 0"
_STEPS = (
    ("feedback", "DELETE FROM feedback WHERE trace_id IN (SELECT trace_id FROM traces WHERE n < ?)", "traces"),
    ("traces", "DELETE FROM traces WHERE n < ?", "traces"),
    ("blob_references", "DELETE FROM decision_blobs WHERE decision < ?", "decisions"),
    ("decisions", "DELETE FROM decisions WHERE n < ?", "decisions"),
)


def log_bytes(tx: Tx) -> int:
    """What decisions, prompts and traces take in the journal."""
    parts = (("decisions", "payload"), ("blobs", "data"), ("traces", "payload"))
    rows = (tx.one(f"SELECT coalesce(sum(length({column})), 0) FROM {table}") for table, column in parts)
    return sum(int(row[0]) for row in rows if row)


def moment_of(tx: Tx, share: float) -> datetime:
    """When the newest `share` of the log began."""
    moments: list[int] = []
    for table in ("decisions", "traces"):
        row = tx.one(f"SELECT count(*) FROM {table}")
        count = row[0] if row else 0
        gone = max(0, min(count - 1, int(count * (1 - share))))
        found = tx.one(f"SELECT created_at FROM {table} ORDER BY n LIMIT 1 OFFSET ?", (gone,))
        moments += [found[0]] if found else []
    return from_micros(max(moments, default=0))


def prune(tx: Tx, before: datetime) -> tuple[int, dict[str, int]]:
    """What was logged before a moment goes; of undecided turns, nothing. Returns below which number decisions went,
    and how much."""
    first = {table: _first_kept(tx, table, micros(before)) for table in ("decisions", "traces")}
    counts = {name: tx.change(sql, (first[table],)) for name, sql, table in _STEPS}
    return first["decisions"], counts | {"blobs": tx.change(UNUSED_BLOBS)}


def _first_kept(tx: Tx, table: str, moment: int) -> int:
    asked = [
        tx.one(f"SELECT min(n) FROM {table} WHERE created_at >= ?", (moment,)),
        tx.one(f"SELECT max(n) FROM {table}"),
        tx.one(_UNDECIDED) if table == "decisions" else None,
    ]
    return min((row[0] for row in asked if row and row[0] is not None), default=0)
