"""Ops and heads: the log that a bank is the fold of, and the keys of what is live. Written together or not at all."""

# ruff: noqa: S608 - statements are put together from constants of this package; values travel as parameters

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from memkit.journal.codec import IMAGE_COLUMNS, OP_COLUMNS, image_from, op_from, op_row
from memkit.journal.engine import Tx
from memkit.models import Bank, MemoryRecord, Op

_INSERT_OP = "INSERT INTO ops VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
_INSERT_HEAD = "INSERT INTO heads (bank, seq, memory_id, revision, kind, hash) VALUES (?,?,?,?,?,?)"
_HEAD_IMAGE = f"SELECT {IMAGE_COLUMNS} FROM heads h JOIN ops o ON o.seq = h.seq"
_OPS = f"SELECT b.user_id, b.agent_id, {OP_COLUMNS} FROM ops o JOIN banks b ON b.id = o.bank LEFT JOIN ops p ON p.seq = o.before_seq"  # noqa: E501
# Every state of a memory is live (its head names the op) or was ended by an op that refers to it.
_MEMORY_OPS = (
    "o.seq IN (SELECT h.seq FROM heads h JOIN banks x ON x.id = h.bank WHERE {scope} AND h.memory_id = ?"
    " UNION SELECT m.seq FROM ops m JOIN banks x ON x.id = m.bank"
    " WHERE {scope} AND m.memory_id = ? AND m.before_seq IS NOT NULL"
    " UNION SELECT m.before_seq FROM ops m JOIN banks x ON x.id = m.bank"
    " WHERE {scope} AND m.memory_id = ? AND m.before_seq IS NOT NULL)"
)


class SqlBankView:
    """The bank as `ops.resolve` needs to see it, read from `heads` inside the write transaction."""

    __slots__ = ("_bank", "_tx")

    def __init__(self, tx: Tx, bank: int) -> None:
        self._tx, self._bank = tx, bank

    def get(self, memory_id: str) -> MemoryRecord | None:
        row = self._tx.one(f"{_HEAD_IMAGE} WHERE h.bank = ? AND h.memory_id = ?", (self._bank, memory_id))
        return image_from(row) if row else None

    def find(self, content_hash: str) -> str | None:
        row = self._tx.one(
            "SELECT memory_id FROM heads WHERE bank = ? AND hash = ?", (self._bank, bytes.fromhex(content_hash))
        )
        return row[0] if row else None


def find_bank(tx: Tx, bank: Bank) -> int | None:
    row = tx.one("SELECT id FROM banks WHERE user_id = ? AND agent_id = ?", (bank.user_id, bank.agent_id))
    return row[0] if row else None


def make_bank(tx: Tx, bank: Bank) -> int:
    found = find_bank(tx, bank)
    if found is not None:
        return found
    made = tx.insert(
        "INSERT INTO banks (user_id, agent_id) VALUES (?, ?) ON CONFLICT DO NOTHING", (bank.user_id, bank.agent_id)
    )
    return made or find_bank(tx, bank) or 0


def bank_seq(tx: Tx, bank: int) -> int:
    row = tx.one("SELECT last_seq FROM banks WHERE id = ?", (bank,))
    return row[0] if row else 0


def write_ops(tx: Tx, bank: int, intake: int | None, ops: Sequence[Op]) -> None:
    if not ops:
        return
    tx.many(_INSERT_OP, [op_row(op, bank, intake) for op in ops])
    for op in ops:
        if op.memory_id is None or op.before is op.after:
            continue
        if op.before is not None:
            tx.run("DELETE FROM heads WHERE bank = ? AND memory_id = ?", (bank, op.memory_id))
        if op.after is not None:
            put_head(tx, bank, op.after)
    tx.run("UPDATE banks SET last_seq = ? WHERE id = ?", (ops[-1].seq, bank))


def put_head(tx: Tx, bank: int, record: MemoryRecord) -> None:
    key = bytes.fromhex(record.content_hash)
    tx.run(_INSERT_HEAD, (bank, record.seq, record.id, record.revision, record.kind, key))


# -- reading -------------------------------------------------------------------------------------------------------


def scope(column: str, bank: Bank | None, user_id: str | None) -> tuple[str, list[Any]]:
    """A condition on the banks table under the alias `column`, with its parameters."""
    if bank is not None:
        return f"{column}.user_id = ? AND {column}.agent_id = ?", [bank.user_id, bank.agent_id]
    if user_id is not None:
        return f"{column}.user_id = ?", [user_id]
    return "1 = 1", []


def read_ops(
    tx: Tx,
    *,
    bank: Bank | None,
    user_id: str | None,
    after: int,
    upto: int | None,
    limit: int | None,
    memory_id: str | None,
    intake_id: str | None,
    op_id: str | None,
    newest_first: bool,
    words: bool,
) -> list[Op]:
    where, params = scope("b", bank, user_id)
    if after:
        where, params = f"{where} AND o.seq > ?", [*params, after]
    if upto is not None:
        where, params = f"{where} AND o.seq <= ?", [*params, upto]
    if op_id is not None:
        where, params = f"{where} AND o.op_id = ?", [*params, op_id]
    if not words:
        where = f"{where} AND (o.memory_id IS NULL OR substr(o.memory_id, 1, 2) <> 't_')"
    if memory_id is not None:
        inner, inner_params = scope("x", bank, user_id)
        where = f"{where} AND {_MEMORY_OPS.format(scope=inner)}"
        params += [*inner_params, memory_id] * 3
    if intake_id is not None:
        found = tx.one("SELECT n, seq_first, seq_last FROM intakes WHERE intake_id = ?", (intake_id,))
        if found is None or found[1] is None:
            return []
        where = f"{where} AND o.intake = ? AND o.seq BETWEEN ? AND ?"
        params += [*found]
    direction = "DESC" if newest_first else "ASC"
    rows = tx.all(*up_to(limit, f"{_OPS} WHERE {where} ORDER BY o.seq {direction}", params))
    return [op_from(row[2:], Bank(row[0], row[1])) for row in rows]


def read_live(
    tx: Tx, *, bank: Bank | None, user_id: str | None, kinds: Collection[str] | None, after_seq: int, limit: int | None
) -> list[tuple[Bank, MemoryRecord]]:
    where, params = _live_where(bank, user_id, kinds)
    sql = (
        f"SELECT b.user_id, b.agent_id, {IMAGE_COLUMNS} FROM banks b JOIN heads h ON h.bank = b.id"
        f" JOIN ops o ON o.seq = h.seq WHERE {where} AND h.seq > ? ORDER BY h.seq"
    )
    rows = tx.all(*up_to(limit, sql, [*params, after_seq]))
    return [(Bank(row[0], row[1]), image_from(row[2:])) for row in rows]


def count_live(tx: Tx, *, bank: Bank | None, user_id: str | None, kinds: Collection[str] | None) -> int:
    where, params = _live_where(bank, user_id, kinds)
    row = tx.one(f"SELECT count(*) FROM banks b JOIN heads h ON h.bank = b.id WHERE {where}", params)
    return row[0] if row else 0


def _live_where(bank: Bank | None, user_id: str | None, kinds: Collection[str] | None) -> tuple[str, list[Any]]:
    where, params = scope("b", bank, user_id)
    if kinds is not None:
        where = f"{where} AND h.kind IN ({marks(kinds)})"
        params += kinds
    return where, params


def read_one(tx: Tx, user_id: str, memory_id: str) -> tuple[Bank, MemoryRecord] | None:
    row = tx.one(
        f"SELECT b.user_id, b.agent_id, {IMAGE_COLUMNS} FROM banks b JOIN heads h ON h.bank = b.id"
        " JOIN ops o ON o.seq = h.seq WHERE b.user_id = ? AND h.memory_id = ?",
        (user_id, memory_id),
    )
    return (Bank(row[0], row[1]), image_from(row[2:])) if row else None


def read_written(tx: Tx, bank: Bank, intake_ids: Sequence[str]) -> list[MemoryRecord]:
    rows = tx.all(
        f"SELECT {IMAGE_COLUMNS} FROM banks b JOIN heads h ON h.bank = b.id JOIN ops o ON o.seq = h.seq"
        " WHERE b.user_id = ? AND b.agent_id = ? AND h.memory_id IN (SELECT w.memory_id FROM intakes i"
        f" JOIN ops w ON w.intake = i.n WHERE i.intake_id IN ({marks(intake_ids)}))",
        (bank.user_id, bank.agent_id, *intake_ids),
    )
    return [image_from(row) for row in rows]


def up_to(limit: int | None, sql: str, params: Sequence[Any]) -> tuple[str, list[Any]]:
    """The statement and its parameters with a limit, where there is one: databases write "none" differently."""
    return (sql, [*params]) if limit is None else (f"{sql} LIMIT ?", [*params, limit])


def marks(values: Iterable[Any]) -> str:
    """For `IN (…)`. Nothing is in NULL, and SQL has no empty list."""
    return ",".join("?" for _ in values) or "NULL"


def read_origins(tx: Tx, first: int, last: int) -> dict[int, str]:
    """Sequence number → intake id, for the ops of a range that came of one."""
    rows = tx.all(
        "SELECT o.seq, i.intake_id FROM ops o JOIN intakes i ON i.n = o.intake WHERE o.seq BETWEEN ? AND ?",
        (first, last),
    )
    return {row[0]: row[1] for row in rows}


def ops_of(tx: Tx, intake_id: str) -> list[Op]:
    """What became of one intake."""
    return read_ops(
        tx,
        bank=None,
        user_id=None,
        after=0,
        upto=None,
        limit=None,
        memory_id=None,
        intake_id=intake_id,
        op_id=None,
        newest_first=False,
        words=True,
    )
