"""Tables of the journal, format 3.

Rows are kept small because every `add` pays for them: an image is stored once, with the op that wrote it (`before` is a
reference to the op that wrote the state before), and `heads` holds keys only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

APPLICATION_ID = 0x6D656D6B  # "memk"
FORMAT = 3
"""2: heads and ops of kind `turn`, which keep the words that were said. 3: those of kind `lesson`."""

MIGRATIONS: Mapping[int, Sequence[str]] = {2: (), 3: ()}
"""Statements that lead from the format before to this one; also where there are none, an older memkit must know that it
does not read what is written from now on."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "meta": ("key",),
    "banks": ("id",),
    "optouts": ("user_id",),
    "intakes": ("n",),
    "idempotency": ("bank", "key"),
    "turns": ("intake", "position"),
    "ops": ("seq",),
    "heads": ("bank", "seq"),
    "decisions": ("n",),
    "blobs": ("hash",),
    "decision_blobs": ("decision", "hash"),
    "traces": ("n",),
    "feedback": ("n",),
    "erasures": ("n",),
}
"""Each table of any engine with its key, which leads its columns."""

TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # last_seq: newest op of the bank. trainable: may trajectories of this bank be learned from?
    "CREATE TABLE banks (id INTEGER PRIMARY KEY, user_id TEXT NOT NULL, agent_id TEXT NOT NULL,"
    " last_seq INTEGER NOT NULL DEFAULT 0, trainable INTEGER NOT NULL DEFAULT 1, UNIQUE (user_id, agent_id))",
    "CREATE TABLE optouts (user_id TEXT PRIMARY KEY) WITHOUT ROWID",
    # n: order of arrival, the order in which a bank's intakes are decided. status: see codec.STATUSES.
    "CREATE TABLE intakes (n INTEGER PRIMARY KEY, intake_id TEXT NOT NULL UNIQUE, bank INTEGER NOT NULL,"
    " session_id TEXT NOT NULL, infer INTEGER NOT NULL, idempotency_key TEXT, created_at INTEGER NOT NULL,"
    " context TEXT, status INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, reason TEXT, detail TEXT,"
    " claimed_by TEXT, seq_first INTEGER, seq_last INTEGER)",
    "CREATE INDEX intakes_pending ON intakes (bank, n) WHERE status = 0",
    "CREATE INDEX intakes_parked ON intakes (n) WHERE status = 2",
    "CREATE TABLE idempotency (bank INTEGER NOT NULL, key TEXT NOT NULL, body BLOB NOT NULL, intake INTEGER NOT NULL,"
    " PRIMARY KEY (bank, key)) WITHOUT ROWID",
    "CREATE TABLE turns (intake INTEGER NOT NULL, position INTEGER NOT NULL, turn_id TEXT NOT NULL UNIQUE,"
    " bank INTEGER NOT NULL, session_id TEXT NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, at TEXT NOT NULL,"
    " at_given INTEGER NOT NULL, speaker TEXT NOT NULL, origin TEXT NOT NULL, metadata TEXT,"
    " trainable INTEGER NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (intake, position)) WITHOUT ROWID",
    "CREATE INDEX turns_session ON turns (bank, session_id)",
    # image: NULL none; '' the same as before; else the after-image (codec). hash: its content hash.
    "CREATE TABLE ops (seq INTEGER PRIMARY KEY, op_id TEXT NOT NULL UNIQUE, bank INTEGER NOT NULL,"
    " action INTEGER NOT NULL, memory_id TEXT, decision_id TEXT NOT NULL, intake INTEGER, at TEXT NOT NULL,"
    " recorded_at INTEGER NOT NULL, cause TEXT, undoes TEXT, text TEXT, source_turns TEXT, before_seq INTEGER,"
    " image TEXT, hash BLOB, crc INTEGER)",
    "CREATE INDEX ops_bank ON ops (bank)",
    # Adds are found through what points at them, so that an add pays for no entry here (oplog.MEMORY_OPS).
    "CREATE INDEX ops_memory ON ops (bank, memory_id) WHERE before_seq IS NOT NULL",
    "CREATE TABLE heads (bank INTEGER NOT NULL, seq INTEGER NOT NULL, memory_id TEXT NOT NULL,"
    " revision INTEGER NOT NULL, kind TEXT NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (bank, seq),"
    " UNIQUE (bank, memory_id), UNIQUE (bank, hash)) WITHOUT ROWID",
    "CREATE TABLE decisions (n INTEGER PRIMARY KEY, decision_id TEXT NOT NULL UNIQUE, bank INTEGER NOT NULL,"
    " intake INTEGER, role TEXT NOT NULL, state_seq INTEGER NOT NULL, payload BLOB NOT NULL, outcome TEXT,"
    " created_at INTEGER NOT NULL)",
    "CREATE INDEX decisions_bank ON decisions (bank)",
    "CREATE INDEX decisions_intake ON decisions (intake) WHERE intake IS NOT NULL",
    "CREATE TABLE blobs (hash BLOB PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE decision_blobs (decision INTEGER NOT NULL, hash BLOB NOT NULL,"
    " PRIMARY KEY (decision, hash)) WITHOUT ROWID",
    "CREATE INDEX blob_users ON decision_blobs (hash)",
    "CREATE TABLE traces (n INTEGER PRIMARY KEY, trace_id TEXT NOT NULL UNIQUE, bank INTEGER NOT NULL,"
    " kind TEXT NOT NULL, state_seq INTEGER NOT NULL, payload BLOB NOT NULL, created_at INTEGER NOT NULL)",
    "CREATE INDEX traces_bank ON traces (bank)",
    "CREATE TABLE feedback (n INTEGER PRIMARY KEY, feedback_id TEXT NOT NULL UNIQUE, trace_id TEXT NOT NULL,"
    " bank INTEGER NOT NULL, payload TEXT NOT NULL, source TEXT NOT NULL, created_at INTEGER NOT NULL)",
    "CREATE INDEX feedback_trace ON feedback (trace_id)",
    "CREATE INDEX feedback_bank ON feedback (bank)",
    # user_id is there only while an erasure is under way; state: begun, deleted, done. counts: what was deleted; while
    # it is begun, what of the user is to be ({}: everything).
    "CREATE TABLE erasures (n INTEGER PRIMARY KEY, erasure_id TEXT NOT NULL UNIQUE, subject TEXT NOT NULL,"
    " user_id TEXT, state TEXT NOT NULL, counts TEXT NOT NULL, erased_at INTEGER NOT NULL)",
)
