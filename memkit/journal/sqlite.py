"""The SQLite engine: WAL, synchronous=FULL, one writer connection and a small pool of readers.

No connection is ever carried across a fork: SQLite keeps its view of the file locks in process memory, so a child that
inherits it would believe to hold locks that the kernel never gave it. All connections are closed just before a fork and
opened again where they are needed."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from memkit.errors import (
    Conflict,
    InvalidText,
    MemkitError,
    StoreBusy,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
)
from memkit.journal import codec, disk, triggers
from memkit.journal.engine import Tx, moved_error
from memkit.journal.guard import Presence, WriteLock, busy_error, forget_parent
from memkit.journal.schema import APPLICATION_ID, FORMAT, MIGRATIONS, TABLES
from memkit.journal.sharing import NEWEST, SharedWriter, SqliteTx
from memkit.models import Bank

_IDLE_READERS = 4
_MOVED = "this store was moved to "
_LOG_BYTES = 8 << 20
"""What the log is cut to once it is folded: it grows for as long as somebody reads an old state."""
_T = TypeVar("_T")


class SqliteEngine:
    overwrites = True

    def __init__(self, path: Path, *, read_only: bool = False, patience: float = 30.0) -> None:
        self._path, self._read_only, self._patience = path, read_only, patience
        self.name = str(path.parent)
        self._closed = False
        self._gate = threading.Condition()
        self._in_use = 0
        self._forking = False
        self._present, self._writer = Presence(path), self._make_writer()
        self._readers: list[sqlite3.Connection] = []
        _ENGINES.add(self)

    # -- transactions ----------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, banks: Collection[Bank] | None = None, *, durable: bool = True) -> Generator[Tx]:
        """Alone in the whole store, whichever banks are named: there is one writer."""
        if self._read_only:
            raise StoreReadOnly(
                f"{self._path.parent} is open for reading only", fix="open it without read_only=True to write"
            )
        with self._using(), self._writer.transaction(durable=durable) as tx:
            yield tx

    def settle(self, number: int) -> None:
        """Numbers become visible in their order, over all banks."""

    def _make_writer(self) -> SharedWriter:
        return SharedWriter(
            connect=self._connect_present,
            lock=WriteLock(self._path),
            patiently=self._patiently,
            translate=self._as_ours,
            busy=self._busy,
            patience=self._patience,
        )

    @contextmanager
    def read(self, *, single: bool = False) -> Generator[Tx]:
        with self._using():
            try:
                connection = self._readers.pop()
            except IndexError:
                connection = self._connect_present()
            try:
                with self._snapshot(connection, single) as tx:
                    yield tx
            finally:
                if len(self._readers) < _IDLE_READERS:
                    self._readers.append(connection)
                else:
                    connection.close()

    @contextmanager
    def _snapshot(self, connection: sqlite3.Connection, single: bool) -> Generator[Tx]:
        try:
            if not single:
                self._patiently(lambda: connection.execute("BEGIN"))
            yield SqliteTx(connection, self._patiently)
            if not single:
                connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error | UnicodeEncodeError):
                raise self._as_ours(error) from error
            raise

    def _patiently(self, attempt: Callable[[], _T]) -> _T:
        """`attempt` until no other process is in the way. Random, slowly growing pauses: SQLite's own handler sleeps
        up to 100 ms at a time, and the longest waiter sleeps longest."""
        pause, deadline = 0.0003, 0.0
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", None)
                if code is None:  # Python's own: a text that is no UTF-8, which its message quotes
                    raise codec.damage_error("a row") from None
                if (code & 0xFF) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL):
                    raise
                now = time.monotonic()
                deadline = deadline or now + self._patience
                if now >= deadline:
                    raise
            time.sleep(pause * random.random())
            pause = min(pause * 1.3, 0.01)

    # -- connections -----------------------------------------------------------------------------------------------

    @contextmanager
    def _using(self) -> Generator[None]:
        """Counts the connections that are out, so that a fork or close can wait for them."""
        with self._gate:
            while self._forking:
                self._gate.wait()
            if self._closed:
                raise StoreClosed(f"{self._path.parent} was closed", fix="open it again")
            self._in_use += 1
        try:
            yield
        finally:
            with self._gate:
                self._in_use -= 1
                if not self._in_use:
                    self._gate.notify_all()

    def _connect_present(self) -> sqlite3.Connection:
        """Locks on the files first, and on what SQLite then made beside them."""
        self._translated(lambda: self._patiently(self._present.enter))
        connection = self._translated(self._connect)
        try:
            self._translated(lambda: self._patiently(lambda: connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")))
            self._translated(lambda: self._patiently(self._present.cover_index))
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> sqlite3.Connection:
        if not self._read_only:
            connection = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
            pragmas = ["synchronous=FULL", "secure_delete=ON", f"journal_size_limit={_LOG_BYTES}"]
            if sys.platform == "darwin":
                pragmas += ["fullfsync=ON", "checkpoint_fullfsync=ON"]
            try:
                for pragma in pragmas:  # even these wait while another process folds the log on its way out
                    self._patiently(lambda sql=f"PRAGMA {pragma}": connection.execute(sql))
            except BaseException:
                connection.close()
                raise
            return connection
        uri = f"{self._path.resolve().as_uri()}?mode=ro"
        unwritable = not os.access(self._path.parent, os.W_OK)
        if unwritable and not Path(f"{self._path}-wal").exists():
            uri += "&immutable=1"  # no log and nobody can make one: SQLite would insist on creating -shm otherwise
        return sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)

    def _drain(self, patience: float) -> None:
        """With `_gate` held: wait for the connections that are out, then close all."""
        deadline = time.monotonic() + patience
        while self._in_use and time.monotonic() < deadline:
            self._gate.wait(deadline - time.monotonic())
        if self._in_use or self._writer.lock.lost:
            # Never closed: closing after a fork would fold the parent's log, or one that is no longer the store's.
            _LEAKED.extend(self._readers + self._writer.give_up())
        else:
            for connection in self._readers + self._writer.give_up():
                connection.close()
        self._readers = []

    def close(self) -> None:
        with self._gate:
            self._closed = True
            with self._present.leave():
                self._drain(self._patience)
            self._writer.lock.close()

    def before_fork(self) -> None:
        self._gate.acquire()
        self._forking = True
        self._drain(10.0)

    def after_fork_in_parent(self) -> None:
        self._forking = False
        self._gate.notify_all()
        self._gate.release()

    def after_fork_in_child(self) -> None:
        self._writer.lock.close()
        self._gate, self._writer, self._readers = threading.Condition(), self._make_writer(), []
        self._present = Presence(self._path)
        self._in_use, self._forking = 0, False

    # -- moving ----------------------------------------------------------------------------------------------------

    def forbid_writes(self, tx: Tx, moved_to: str) -> None:
        for statement in triggers.refuse(f"{_MOVED}{moved_to}"):
            tx.run(statement)

    def allow_writes(self, tx: Tx) -> None:
        for statement in triggers.allow():
            tx.run(statement)

    def log_changes(self, tx: Tx) -> None:
        for statement in triggers.note():
            tx.run(statement)

    def drop_log(self, tx: Tx) -> None:
        for statement in triggers.forget():
            tx.run(statement)

    def go_on_from_rows(self, tx: Tx) -> None:
        """SQLite gives the key after the highest one."""

    # -- files -----------------------------------------------------------------------------------------------------

    def prepare(self, rows: Iterable[tuple[str, str]], *, create: bool) -> None:
        """Check that the file is a journal of a known format; make it one when `create` and it is new. `rows` are the
        first entries of `meta`."""
        with self._using():
            connection = self._translated(self._connect)
            try:
                self._translated(lambda: self._patiently(lambda: self._prepare(connection, rows, create)))
            finally:
                connection.close()

    def _prepare(self, connection: sqlite3.Connection, rows: Iterable[tuple[str, str]], create: bool) -> None:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application == APPLICATION_ID:
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            disk.refuse_newer(found, self._path)
            if found < FORMAT and not self._read_only:
                with self._writer.pause():
                    self._migrate(connection)
            self._compare_schema(connection)
            return
        if not create or application or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StoreDamaged(
                f"{self._path} is no journal",
                why="the file is empty or was replaced, although the folder is marked as a store",
                fix="restore journal.sqlite from a backup; the folder was not changed",
            )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in TABLES:
                connection.execute(statement)
            connection.executemany("INSERT INTO meta VALUES (?, ?)", list(rows))
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={FORMAT}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _compare_schema(self, connection: sqlite3.Connection) -> None:
        """One byte of it that is wrong lets a store open that fails at each add, or never answers."""
        present = {row[0] for row in connection.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master").fetchall()}
        if wrong := [one for one in TABLES if one.encode() not in present]:
            raise StoreDamaged(
                f"the schema of {self._path} is not that of a journal",
                why=f"{len(wrong)} of {len(TABLES)} statements are missing or changed, such as {wrong[0][:60]!r}",
                fix="restore the newest backup, or make a new store of what can be read with `memkit recover`",
            )

    def _migrate(self, connection: sqlite3.Connection) -> None:
        """Every step that is missing, in one transaction: a process that dies in it leaves the journal as it was."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = connection.execute("PRAGMA user_version").fetchone()[0]  # another process may have been faster
            for step in range(found + 1, FORMAT + 1):
                for statement in MIGRATIONS[step]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version={step}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def scrub(self) -> None:
        """VACUUM writes every page anew from live rows alone; the truncating checkpoint then replaces the whole file
        and empties the log. Needs one moment without readers in other processes."""
        self._alone(["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"])

    def checkpoint(self) -> None:
        self._alone(["PRAGMA wal_checkpoint(TRUNCATE)"])

    def _alone(self, statements: Sequence[str]) -> None:
        with self._using(), self._writer.pause():
            connection = self._translated(self._connect)
            try:
                for statement in statements:
                    self._translated(lambda sql=statement: self._patiently(lambda: _complete(connection, sql)))
            finally:
                connection.close()

    def find_lost(self) -> tuple[int, int] | None:
        noted = self._writer.lock.read_newest()
        with self.read(single=True) as tx:
            row = tx.one(NEWEST) or (0, 0)
        return noted if noted[0] > (row[0] or 0) or noted[1] > (row[1] or 0) else None

    def copy_to(self, path: Path) -> None:
        with self._using():
            source = self._connect_present()
            try:
                self._translated(lambda: self._copy(source, path))
            finally:
                source.close()

    def _copy(self, source: sqlite3.Connection, path: Path) -> None:
        copy = sqlite3.connect(path)
        try:
            source.backup(copy)
            found = copy.execute("PRAGMA integrity_check(1)").fetchone()[0]
        finally:
            copy.close()
        if found != "ok":
            raise StoreDamaged(
                f"{self._path} is damaged, and a copy of it is worth nothing",
                why=str(found),
                fix="run `memkit doctor`, and keep the backups that you have",
            )

    def integrity(self) -> list[str]:
        with self.read() as tx:
            found = [str(row[0]) for row in tx.all("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    # -- errors ----------------------------------------------------------------------------------------------------

    def _translated(self, attempt: Callable[[], _T]) -> _T:
        try:
            return attempt()
        except sqlite3.Error as error:
            raise self._as_ours(error) from error

    def _busy(self) -> StoreBusy:
        return StoreBusy(
            f"{self._path} was locked for more than {self._patience:g} s",
            why="another thread or process is writing, or stopped while it wrote",
            fix="call again; if it stays, look for a hanging process that has the store open",
        )

    def _as_ours(self, error: sqlite3.Error | UnicodeEncodeError) -> MemkitError:
        if isinstance(error, UnicodeEncodeError):
            return InvalidText("a text holds lone surrogates", why="it has no UTF-8 form", fix="clean the text first")
        if isinstance(error, sqlite3.IntegrityError) and str(error).startswith(_MOVED):
            return moved_error(self.name, str(error).removeprefix(_MOVED))
        if isinstance(error, sqlite3.IntegrityError):
            return Conflict("a row of this name is there already", why=str(error), fix="use a fresh id")
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        match code & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
                return self._busy()
            case sqlite3.SQLITE_FULL:
                return disk.full(self._path)
            case sqlite3.SQLITE_IOERR if code in _CANNOT_GROW:
                return disk.full(self._path)
            case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
                return StoreReadOnly(
                    f"{self._path} cannot be opened for this",
                    why=str(error),
                    fix="give this user write access to the folder and the file, or open a copy that it may write",
                )
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return StoreDamaged(
                    f"{self._path} is damaged",
                    why=str(error),
                    fix="keep a copy of the folder, then run `memkit doctor`, or restore journal.sqlite from a backup",
                )
            case _:
                return StoreError(f"the journal failed: {error}", why=getattr(error, "sqlite_errorname", ""))


_CANNOT_GROW = (
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
    sqlite3.SQLITE_IOERR_SHMMAP,
)


def _complete(connection: sqlite3.Connection, sql: str) -> None:
    """Run a statement that may report "busy" in its result instead of raising."""
    row = connection.execute(sql).fetchone()
    if row is not None and row[0]:
        raise busy_error("checkpoint is busy")


_ENGINES: weakref.WeakSet[SqliteEngine] = weakref.WeakSet()
_LEAKED: list[sqlite3.Connection] = []


_FORKING = threading.local()


def _before_fork() -> None:
    _FORKING.engines = list(_ENGINES)
    for engine in _FORKING.engines:
        engine.before_fork()


def _after_fork_in_parent() -> None:
    for engine in _FORKING.engines:
        engine.after_fork_in_parent()
    _FORKING.engines = []


def _after_fork_in_child() -> None:
    forget_parent()
    for engine in _FORKING.engines:
        engine.after_fork_in_child()
    _FORKING.engines = []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
