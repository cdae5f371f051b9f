"""Where aliases and their history are kept: a SQLite file beside the adapters, or the database of a whole fleet."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from memkit.adapters._sqlite import typed_errors
from memkit.errors import NewerFormat

_FORMAT = 1
_BUSY_S = 10.0
_MEND = "restore it from a backup; or move it away (what is tainted goes with it) and promote again what is to serve"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS versions (
  alias TEXT NOT NULL, version INTEGER NOT NULL, routes TEXT NOT NULL, back INTEGER, proved INTEGER NOT NULL,
  actor TEXT NOT NULL, action TEXT NOT NULL, note TEXT NOT NULL, ungated INTEGER NOT NULL, at TEXT NOT NULL,
  PRIMARY KEY (alias, version)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS taints (
  digest TEXT NOT NULL, subject TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (digest, subject)) WITHOUT ROWID;
"""


class TableTx(Protocol):
    def run(self, sql: str, params: Sequence[Any] = ()) -> None: ...

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None: ...


class RegistryTables(Protocol):
    def exclusive(self, *, flush: bool = True) -> AbstractContextManager[TableTx]:
        """A write transaction; nobody else changes aliases or removes adapters meanwhile. Without `flush` it is
        complete for everybody, and survives a killed process, but a power cut may undo it until `flush()`."""
        ...

    def all(self, sql: str, *params: Any) -> list[tuple[Any, ...]]: ...

    def flush(self) -> None: ...

    def changes(self) -> int:
        """A number that changes when anybody commits; cheap enough to poll."""
        ...

    def close(self) -> None: ...


class FileTables:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        with self.exclusive() as tx:
            ((found,),) = self.all("PRAGMA user_version")
            if found > _FORMAT:
                raise NewerFormat(
                    f"this adapter registry has format {found}",
                    why=f"this memkit reads format {_FORMAT}",
                    fix="upgrade memkit",
                )
            for statement in _SCHEMA.split(";"):
                tx.run(statement)
            tx.run(f"PRAGMA user_version = {_FORMAT}")

    def _open(self) -> sqlite3.Connection:
        """One connection per process: a forked child opens its own."""
        if self._connection is None or self._pid != os.getpid():
            connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA secure_delete=ON")
            self._connection, self._pid = connection, os.getpid()
        return self._connection

    @contextmanager
    def exclusive(self, *, flush: bool = True) -> Generator[TableTx]:
        with self._lock, typed_errors(self._path, _MEND):
            connection = self._open()
            connection.execute(f"PRAGMA synchronous={'FULL' if flush else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield _FileTx(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk ends it by itself
                    connection.execute("ROLLBACK")
                raise

    def all(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        with self._lock, typed_errors(self._path, _MEND):
            return self._open().execute(sql, params).fetchall()

    def flush(self) -> None:
        """Everything committed is on the disk. The log may be gone: then a checkpoint has synced it into the file."""
        with suppress(FileNotFoundError), open(f"{self._path}-wal", "rb+") as log:
            os.fsync(log.fileno())

    def changes(self) -> int:
        """SQLite's counter of what other connections committed, and ours of what this one did."""
        with self._lock, typed_errors(self._path, _MEND):
            connection = self._open()
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            return int(version) * 1_000_003 + connection.total_changes

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._pid == os.getpid():
                self._connection.close()
            self._connection = None


class _FileTx:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, params: Sequence[Any] = ()) -> None:
        self._connection.execute(sql, params)

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)
