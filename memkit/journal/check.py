"""What the journal promises about itself, checked row by row; and the census of users."""

# ruff: noqa: S608 - statements are put together from constants of this package; values travel as parameters

from __future__ import annotations

from collections.abc import Iterator

from memkit.errors import StoreDamaged
from memkit.journal.codec import TURN_COLUMNS, turn_from, unpack, unpack_text
from memkit.journal.engine import Tx
from memkit.journal.oplog import read_live, read_ops
from memkit.journal.records import JournalProblem, UserInfo
from memkit.models import Bank, MemoryRecord, content_hash, digest
from memkit.ops import BankState

_PAGE = 1_000
# (kind, what is wrong, a query for the names of the rows that are)
_ROW_RULES = (
    ("orphan", "a turn without its intake", "SELECT turn_id FROM turns WHERE intake NOT IN (SELECT n FROM intakes)"),
    ("orphan", "an intake without a turn", "SELECT intake_id FROM intakes WHERE n NOT IN (SELECT intake FROM turns)"),
    ("orphan", "an intake without its bank", "SELECT intake_id FROM intakes WHERE bank NOT IN (SELECT id FROM banks)"),
    ("orphan", "an op without its bank", "SELECT op_id FROM ops WHERE bank NOT IN (SELECT id FROM banks)"),
    ("orphan", "a head without its op", "SELECT memory_id FROM heads WHERE seq NOT IN (SELECT seq FROM ops)"),
    (
        "orphan",
        "an op of an intake that is not there",
        "SELECT op_id FROM ops WHERE intake IS NOT NULL AND intake NOT IN (SELECT n FROM intakes)",
    ),
    (
        "orphan",
        "a decision without its bank or intake",
        "SELECT decision_id FROM decisions WHERE bank NOT IN (SELECT id FROM banks)"
        " OR (intake IS NOT NULL AND intake NOT IN (SELECT n FROM intakes))",
    ),
    (
        "orphan",
        "a blob that no decision uses",
        "SELECT hash FROM blobs WHERE hash NOT IN (SELECT hash FROM decision_blobs)",
    ),
    (
        "orphan",
        "a decision whose blob is gone",
        "SELECT decision FROM decision_blobs WHERE hash NOT IN (SELECT hash FROM blobs)",
    ),
    ("orphan", "a trace without its bank", "SELECT trace_id FROM traces WHERE bank NOT IN (SELECT id FROM banks)"),
    (
        "orphan",
        "an idempotency key without its intake",
        "SELECT intake FROM idempotency WHERE intake NOT IN (SELECT n FROM intakes)",
    ),
    (
        "intake",
        "undecided, yet it has ops from a decision",
        "SELECT intake_id FROM intakes WHERE status <> 1 AND seq_first IS NOT NULL",
    ),
    (
        "intake",
        "its range of ops is not what the log holds",
        "SELECT intake_id FROM intakes i LEFT JOIN (SELECT intake, min(seq) AS lo, max(seq) AS hi FROM ops"
        " WHERE coalesce(cause, '') <> 'said' GROUP BY"
        " intake) o ON o.intake = i.n WHERE coalesce(i.seq_first, 0) <> coalesce(o.lo, 0)"
        " OR coalesce(i.seq_last, 0) <> coalesce(o.hi, 0)",
    ),
    (
        "bank",
        "its newest sequence number is not that of its log",
        "SELECT id FROM banks b WHERE last_seq <> coalesce((SELECT max(seq) FROM ops WHERE bank = b.id), 0)",
    ),
)


def find_problems(tx: Tx) -> list[JournalProblem]:
    found = [JournalProblem(kind, _name(row[0]), what) for kind, what, sql in _ROW_RULES for row in tx.all(sql)]
    for bank_id, user_id, agent_id in tx.all("SELECT id, user_id, agent_id FROM banks ORDER BY id"):
        try:
            found += _check_bank(tx, bank_id, Bank(user_id, agent_id))
        except StoreDamaged as error:
            found.append(JournalProblem("checksum", f"bank {bank_id}", error.what))
    try:
        found += _check_content(tx)
    except StoreDamaged as error:
        found.append(JournalProblem("checksum", "content", error.what))
    return found


def _name(key: object) -> str:
    return key.hex() if isinstance(key, bytes) else str(key)


def _check_bank(tx: Tx, bank_id: int, bank: Bank) -> Iterator[JournalProblem]:
    """heads must be the fold of the log, and each before-image the state that the op met."""
    state, after = BankState(), 0
    while page := read_ops(
        tx,
        bank=bank,
        user_id=None,
        after=after,
        upto=None,
        limit=_PAGE,
        memory_id=None,
        intake_id=None,
        op_id=None,
        newest_first=False,
        words=True,
    ):
        met: dict[str, MemoryRecord | None] = {}
        for op in page:
            if op.memory_id is not None:
                before = met[op.memory_id] if op.memory_id in met else state.get(op.memory_id)
                if before != op.before:
                    yield JournalProblem("log", op.op_id, "its before-image is not the state that the log leads to")
                met[op.memory_id] = op.after
            fact = op.after if op.after is not None and op.after.kind == "fact" else None
            if fact is not None and fact.content_hash != content_hash(fact.text):
                yield JournalProblem("log", op.op_id, "its content hash is not that of its text")
        state, after = state.fold(page), page[-1].seq
    live = [record for _, record in read_live(tx, bank=bank, user_id=None, kinds=None, after_seq=0, limit=None)]
    if live != list(state):
        yield JournalProblem("heads", f"bank {bank_id}", "the live memories are not the fold of the log")
    keys = tx.all("SELECT memory_id, revision, kind, hash FROM heads WHERE bank = ? ORDER BY seq", (bank_id,))
    if keys != [(r.id, r.revision, r.kind, bytes.fromhex(r.content_hash)) for r in live]:
        yield JournalProblem("heads", f"bank {bank_id}", "a head does not carry the key of its memory")


def _check_content(tx: Tx) -> Iterator[JournalProblem]:
    for row in tx.all(f"SELECT {TURN_COLUMNS} FROM turns t"):
        try:
            turn_from(row, "", Bank(""))
        except StoreDamaged as error:
            yield JournalProblem("checksum", row[0], error.what)
    for key, data in tx.all("SELECT hash, data FROM blobs"):
        try:
            if digest(unpack_text(data, "")) != key.hex():
                yield JournalProblem("checksum", key.hex(), "the blob is not what its hash says")
        except StoreDamaged:
            yield JournalProblem("checksum", key.hex(), "the blob cannot be read")
    for table, name in (("decisions", "decision_id"), ("traces", "trace_id")):
        for key, payload in tx.all(f"SELECT {name}, payload FROM {table} WHERE length(payload) > 0"):
            try:
                unpack(payload, name)
            except (StoreDamaged, ValueError):
                yield JournalProblem("checksum", key, "the payload cannot be read")


def read_users(tx: Tx) -> list[UserInfo]:
    rows = tx.all(
        "SELECT b.user_id, b.agent_id, b.last_seq, CASE WHEN o.user_id IS NULL THEN b.trainable ELSE 0 END,"
        " (SELECT count(*) FROM heads h WHERE h.bank = b.id AND h.kind <> 'turn'),"
        " (SELECT count(*) FROM turns t WHERE t.bank = b.id)"
        " FROM banks b LEFT JOIN optouts o ON o.user_id = b.user_id ORDER BY b.user_id, b.agent_id"
    )
    users: dict[str, UserInfo] = {}
    for user_id, agent_id, last_seq, trainable, memories, turns in rows:
        if not (last_seq or turns):
            continue
        seen = users.get(user_id, UserInfo(user_id, (), 0, 0, 0, True))
        users[user_id] = UserInfo(
            user_id,
            (*seen.agents, agent_id),
            seen.memories + memories,
            seen.turns + turns,
            max(seen.last_seq, last_seq),
            seen.trainable and bool(trainable),
        )
    return list(users.values())


_COUNTED = {
    "said": "SELECT created_at AS at FROM intakes ORDER BY n DESC LIMIT ?",
    "changed": "SELECT recorded_at AS at FROM ops WHERE action <> 3 AND coalesce(cause, '') <> 'said'"
    " ORDER BY seq DESC LIMIT ?",
    "decided": "SELECT created_at AS at FROM decisions ORDER BY n DESC LIMIT ?",
    "asked": "SELECT created_at AS at FROM traces ORDER BY n DESC LIMIT ?",
    "rated": "SELECT created_at AS at FROM feedback ORDER BY n DESC LIMIT ?",
}
_BY_DAY = "SELECT t.at / 86400000000, count(*) FROM ({rows}) t GROUP BY 1 ORDER BY 1"


def count_days(tx: Tx, newest: int) -> dict[str, dict[int, int]]:
    """What happened → day since 1970 → how often, among the newest of each."""
    return {what: dict(tx.all(_BY_DAY.format(rows=rows), (newest,))) for what, rows in _COUNTED.items()}
