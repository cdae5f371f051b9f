"""One writer connection for all threads, and one commit for all who wait.

An fsync costs more than the statements of a small transaction. So a writer that others wait for leaves its transaction
open; the next one goes on in it under a savepoint of its own, and the last commits for all. Nobody returns before that
commit: what is acknowledged is on disk, as if each had committed alone. A member that fails is undone alone."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from memkit.journal.engine import Row, Tx
from memkit.journal.guard import WriteLock

GROUP = 32
"""Write transactions that may share one commit."""
_LOOK_S = 0.1
NEWEST = "SELECT (SELECT max(seq) FROM ops), (SELECT max(n) FROM intakes)"


class Group:
    """Transactions that are committed as one. `done` is set once they are, or failed."""

    __slots__ = ("connection", "done", "durable", "error", "size")

    def __init__(self, connection: sqlite3.Connection, durable: bool) -> None:
        self.connection, self.durable, self.size = connection, durable, 1
        self.done = threading.Event()
        self.error: BaseException | None = None


class SharedWriter:
    def __init__(
        self,
        *,
        connect: Callable[[], sqlite3.Connection],
        lock: WriteLock,
        patiently: Callable[[Callable[[], Any]], Any],
        translate: Callable[[sqlite3.Error | UnicodeEncodeError], Exception],
        busy: Callable[[], Exception],
        patience: float,
    ) -> None:
        self._connect, self._patiently, self._translate = connect, patiently, translate
        self.lock = lock
        self._busy, self._patience = busy, patience
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self.queued = 0
        self.group: Group | None = None
        self.connection: sqlite3.Connection | None = None
        self._durable = True

    @contextmanager
    def transaction(self, *, durable: bool) -> Generator[Tx]:
        self._take_turn()
        try:
            group = self._join(durable)
            try:
                with self._member(group) as tx:
                    yield tx
            finally:
                # Where others wait, the next goes on in this transaction, and its last member commits for all.
                if not self.queued or group.size >= GROUP:
                    self._commit(group)
        finally:
            self._turn.release()
        self._await_commit(group)

    @contextmanager
    def pause(self) -> Generator[None]:
        """Nobody writes meanwhile, and nothing is left uncommitted."""
        self._take_turn()
        try:
            if self.group is not None:
                self._commit(self.group)
            self._take_lock()
            try:
                yield
            finally:
                self.lock.give_back()
        finally:
            self._turn.release()

    def give_up(self) -> list[sqlite3.Connection]:
        """The connection, to be closed by the caller. Only while no transaction is under way."""
        connection, self.connection = self.connection, None
        return [connection] if connection is not None else []

    def _take_turn(self) -> None:
        with self._counting:
            self.queued += 1
        try:
            if not self._turn.acquire(timeout=self._patience):
                raise self._busy()
        finally:
            with self._counting:
                self.queued -= 1

    def _join(self, durable: bool) -> Group:
        """The open group, or a new one. What must be durable joins only a durable group."""
        group = self.group
        if group is not None and durable <= group.durable:
            group.size += 1
            return group
        if group is not None:
            self._commit(group)
        self._take_lock()
        try:
            connection = self._begin(durable)
        except BaseException as error:
            self.lock.give_back()
            if isinstance(error, sqlite3.Error):
                raise self._translate(error) from error
            raise
        self.group = Group(connection, durable)
        return self.group

    def _begin(self, durable: bool) -> sqlite3.Connection:
        if self.connection is None:
            self.connection, self._durable = self._connect(), True
            self.lock.note_files()
        connection = self.connection
        if durable is not self._durable:
            connection.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._durable = durable
        self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        return connection

    def _take_lock(self) -> None:
        try:
            self._patiently(self.lock.take)
        except sqlite3.Error as error:
            raise self._translate(error) from error

    @contextmanager
    def _member(self, group: Group) -> Generator[Tx]:
        connection, is_first = group.connection, group.size == 1
        try:
            if not is_first:
                connection.execute("SAVEPOINT member")
            yield SqliteTx(connection, self._patiently)
            if not is_first:
                connection.execute("RELEASE member")
        except BaseException as error:
            if not connection.in_transaction:  # SQLite gave the whole transaction up, e.g. on a full disk
                self._close(group, error)
            elif is_first:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                self._close(group, None)  # nobody else is in it
            else:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK TO member")
                    connection.execute("RELEASE member")
            if isinstance(error, sqlite3.Error | UnicodeEncodeError):
                raise self._translate(error) from error
            raise

    def _commit(self, group: Group) -> None:
        """A failure is everybody's: whoever waits for the group is told."""
        if group.done.is_set():
            return
        try:
            group.connection.execute("COMMIT")
            if group.durable:
                with contextlib.suppress(sqlite3.Error):  # it is committed
                    op, intake = group.connection.execute(NEWEST).fetchone()
                    self.lock.note_newest(op or 0, intake or 0)
            self._close(group, self.lock.check_files())
        except sqlite3.Error as error:
            if group.connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    group.connection.execute("ROLLBACK")
            self._close(group, error)

    def _close(self, group: Group, error: BaseException | None) -> None:
        group.error = error
        if self.group is group:
            self.group = None
            self.lock.give_back()
        group.done.set()

    def _await_commit(self, group: Group) -> None:
        while not group.done.wait(_LOOK_S):
            if self._turn.acquire(blocking=False):  # the one who was to go on gave up waiting
                try:
                    self._commit(group)
                finally:
                    self._turn.release()
        if group.error is not None:
            raise self._translate(group.error) if isinstance(group.error, sqlite3.Error) else group.error


class SqliteTx:
    __slots__ = ("_connection", "_patiently")

    def __init__(self, connection: sqlite3.Connection, patiently: Callable[[Callable[[], Any]], Any]) -> None:
        self._connection, self._patiently = connection, patiently

    def run(self, sql: str, params: Sequence[Any] = ()) -> None:
        self._connection.execute(sql, params)

    def change(self, sql: str, params: Sequence[Any] = ()) -> int:
        return self._connection.execute(sql, params).rowcount

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        return self._connection.execute(sql, params).lastrowid or 0

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(sql, rows)

    def one(self, sql: str, params: Sequence[Any] = (), *, hold: bool = False) -> Row | None:
        return self._patiently(lambda: self._connection.execute(sql, params).fetchone())

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self._patiently(lambda: self._connection.execute(sql, params).fetchall())

    def allot(self, count: int) -> Sequence[int]:
        first = self.cursor() + 1
        return range(first, first + count)

    def skip_to(self, number: int) -> None:
        """The ops themselves say so."""

    def cursor(self) -> int:
        """Highest number ever given: `seq_floor` keeps those of erased ops from being given again."""
        row = self.one("SELECT (SELECT max(seq) FROM ops), (SELECT value FROM meta WHERE key = 'seq_floor')")
        return max(int(number or 0) for number in row) if row else 0
