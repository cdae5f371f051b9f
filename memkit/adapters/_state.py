"""Aliases and their history in SQLite: the compare-and-swap, its durability and the cheap change counter.

Every version of every alias is kept as one row; the newest row of an alias is the alias.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from memkit.adapters._sqlite import typed_errors
from memkit.adapters.plan import AliasState, Route, Routes
from memkit.errors import AdapterError, NewerFormat, StaleAlias
from memkit.models import to_json

_FORMAT = 1
_BUSY_S = 10.0
_MEND = "restore it from a backup; or move it away (what is tainted goes with it) and promote again what is to serve"


class _Any:
    def __repr__(self) -> str:
        return "ANY"


ANY = _Any()
"""Whatever the alias names now."""
Expected = int | str | None | _Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS versions (
  alias TEXT NOT NULL, version INTEGER NOT NULL, routes TEXT NOT NULL, back INTEGER, proved INTEGER NOT NULL,
  actor TEXT NOT NULL, action TEXT NOT NULL, note TEXT NOT NULL, ungated INTEGER NOT NULL, at TEXT NOT NULL,
  PRIMARY KEY (alias, version)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS taints (
  digest TEXT NOT NULL, subject TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (digest, subject)) WITHOUT ROWID;
"""


class RegistryState:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        with self.exclusive() as tx:
            (found,) = tx.execute("PRAGMA user_version").fetchone()
            if found > _FORMAT:
                raise NewerFormat(
                    f"this adapter registry has format {found}",
                    why=f"this memkit reads format {_FORMAT}",
                    fix="upgrade memkit",
                )
            for statement in _SCHEMA.split(";"):
                tx.execute(statement)
            tx.execute(f"PRAGMA user_version = {_FORMAT}")

    def _open(self) -> sqlite3.Connection:
        """One connection per process: a forked child opens its own."""
        if self._connection is None or self._pid != os.getpid():
            connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA secure_delete=ON")
            self._connection, self._pid = connection, os.getpid()
        return self._connection

    @contextmanager
    def exclusive(self, *, flush: bool = True) -> Generator[sqlite3.Connection]:
        """A write transaction; no other process changes aliases or removes adapters meanwhile. Without `flush` it is
        complete for every process, and survives their death, but a power cut may undo it until `flush()`."""
        with self._lock, typed_errors(self._path, _MEND):
            connection = self._open()
            connection.execute(f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk ends it by itself
                    connection.execute("ROLLBACK")
                raise

    def flush(self) -> None:
        """Everything committed is on the disk. The log may be gone: then a checkpoint has synced it into the file."""
        with suppress(FileNotFoundError), open(f"{self._path}-wal", "rb+") as log:
            os.fsync(log.fileno())

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, typed_errors(self._path, _MEND):
            return self._open().execute(query, values).fetchall()

    # ---- reading -------------------------------------------------------------------------------------------

    def alias(self, name: str) -> AliasState:
        rows = self._rows("SELECT * FROM versions WHERE alias = ? ORDER BY version DESC LIMIT 1", name)
        return _state(rows[0]) if rows else AliasState(name)

    def aliases(self) -> dict[str, AliasState]:
        rows = self._rows(
            "SELECT * FROM versions AS v WHERE version = "
            "(SELECT MAX(version) FROM versions AS w WHERE w.alias = v.alias)"
        )
        return {row[0]: _state(row) for row in rows}

    def version(self, name: str, version: int) -> AliasState | None:
        if version == 0:
            return AliasState(name, proved=True)
        rows = self._rows("SELECT * FROM versions WHERE alias = ? AND version = ?", name, version)
        return _state(rows[0]) if rows else None

    def history(self, name: str, limit: int) -> list[AliasState]:
        rows = self._rows("SELECT * FROM versions WHERE alias = ? ORDER BY version DESC LIMIT ?", name, limit)
        return [_state(row) for row in rows]

    def changes(self) -> int:
        """SQLite's counter of what other connections committed, and ours of what this one did."""
        with self._lock, typed_errors(self._path, _MEND):
            connection = self._open()
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            return int(version) * 1_000_003 + connection.total_changes

    # ---- moving --------------------------------------------------------------------------------------------

    def move(
        self,
        name: str,
        change: Callable[[Mapping[str, Route]], Routes],
        *,
        expected: Expected,
        roles: Sequence[str],
        actor: str,
        action: str,
        note: str,
        ungated: bool,
        proved: bool,
        at: str,
        exists: Callable[[Iterable[str]], None],
    ) -> AliasState:
        with self.exclusive() as tx:
            now = self.alias(name)
            _compare(now, expected, roles)
            routes = dict(change(now.routes))
            state = AliasState(name, now.version + 1, routes, now.version, proved, actor, action, note, ungated, at)
            exists(state.digests)
            _write(tx, state)
        return state

    def rollback(
        self,
        name: str,
        *,
        to: int | None,
        expected: Expected,
        actor: str,
        note: str,
        proved: bool,
        at: str,
        exists: Callable[[Iterable[str]], None],
    ) -> AliasState:
        """Not flushed: the caller switches first, and then calls `flush`."""
        with self.exclusive(flush=False) as tx:
            now = self.alias(name)
            _compare(now, expected, tuple(now.routes))
            target = now.back if to is None else to
            back = None if target is None or target >= now.version else self.version(name, target)
            if back is None:
                raise AdapterError(
                    f"alias {name} has nothing to roll back to",
                    why="it never named anything else" if to is None else f"it has no earlier version {to}",
                    fix="promote another adapter instead",
                    reason="no_previous",
                )
            exists(back.digests)
            state = AliasState(
                name,
                now.version + 1,
                back.routes,
                back.back,
                back.proved or proved,
                actor,
                "rollback",
                note,
                back.ungated,
                at,
            )
            _write(tx, state)
        return state

    def prove(self, name: str, version: int) -> None:
        with self.exclusive() as tx:
            tx.execute("UPDATE versions SET proved = 1 WHERE alias = ? AND version = ?", (name, version))

    # ---- taints --------------------------------------------------------------------------------------------

    def taint(self, digests: Sequence[str], subject: str, at: str) -> None:
        with self.exclusive() as tx:
            tx.executemany(
                "INSERT OR IGNORE INTO taints VALUES (?, ?, ?)", [(digest, subject, at) for digest in digests]
            )

    def taints(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for digest, subject in self._rows("SELECT digest, subject FROM taints ORDER BY digest, subject"):
            out.setdefault(digest, []).append(subject)
        return out

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None


def _compare(now: AliasState, expected: Expected, roles: Sequence[str]) -> None:
    if isinstance(expected, _Any):
        return
    if isinstance(expected, int):
        if now.version == expected:
            return
    elif all(now.route(role).stable == expected for role in roles or tuple(now.routes) or ("manager",)):
        return
    serving = {role: route.stable for role, route in now.routes.items()}
    raise StaleAlias(
        f"alias {now.alias} moved: it is at version {now.version}",
        why=f"expected {expected!r}; it was changed by {now.actor or 'nobody'} ({now.action or 'never set'})",
        fix="look at it again (memkit adapters list), then promote with expected= its current version",
        alias=now.alias,
        version=now.version,
        serving=serving,
    )


def _write(tx: sqlite3.Connection, state: AliasState) -> None:
    routes = to_json({role: route.to_json() for role, route in state.routes.items()})
    tx.execute(
        "INSERT INTO versions VALUES (?,?,?,?,?,?,?,?,?,?)",
        (
            state.alias,
            state.version,
            routes,
            state.back,
            int(state.proved),
            state.actor,
            state.action,
            state.note,
            int(state.ungated),
            state.at,
        ),
    )


def _state(row: tuple[Any, ...]) -> AliasState:
    alias, version, routes, back, proved, actor, action, note, ungated, at = row
    parsed = {role: Route.from_json(raw) for role, raw in json.loads(routes).items()}
    return AliasState(alias, version, parsed, back, bool(proved), actor, action, note, bool(ungated), at)
