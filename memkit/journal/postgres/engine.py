"""Transactions in PostgreSQL, as the seam wants them.

Every write transaction shares a lock of the whole store, and is alone in its banks by a lock on each: all of them end
with the transaction. It runs READ COMMITTED, so that what it reads once it has the lock is what the one before it left.

It also shares a lock whose *key* is the newest number that was allotted when it began: whatever it will write is
numbered above that. Who reads over several banks asks for the lowest of these keys, below which nothing can come.
That counts transactions of this store alone: no report of another application holds the cursor up."""

from __future__ import annotations

import os
import random
import time
import weakref
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg

from memkit.errors import InvalidConfig, MemkitError, StoreBusy, StoreError, StoreReadOnly, StoreUnreachable
from memkit.journal.engine import Row, Tx
from memkit.journal.postgres.address import Address, mark_of
from memkit.journal.postgres.connections import Connection, Connections
from memkit.journal.postgres.failures import MOVED, as_ours, in_doubt
from memkit.journal.postgres.tables import native, steps_after
from memkit.journal.schema import KEYS
from memkit.models import Bank

ABANDONED_S = 30.0
"""A transaction whose process is silent for so long (it was stopped in the middle) is ended by the server."""
MOST_UNSENT = 500
"""Statements that wait to be sent: a move or an import writes many thousands in one transaction."""
_T = TypeVar("_T")


class PostgresEngine:
    overwrites = False

    def __init__(self, address: Address, *, read_only: bool = False, patience: float = 30.0) -> None:
        self.address, self._read_only, self._patience = address, read_only, patience
        self.name = str(address)
        self.connections = Connections(address, patience)
        self.durably = "on"
        """The server's own `synchronous_commit`, which may say more than `on`; never less."""
        _ENGINES.add(self)

    # -- transactions ----------------------------------------------------------------------------------------------

    @contextmanager
    def write(self, banks: Collection[Bank] | None = None, *, durable: bool = True) -> Generator[Tx]:
        if self._read_only:
            raise StoreReadOnly(
                f"{self.address} is open for reading only", fix="open it without read_only=True to write"
            )
        connection, number = self._begin(self._opening(banks, durable))
        try:
            tx = PostgresTx(connection, self.address.schema, writes=True)
            with self._translating(connection):
                yield tx
            self._commit(connection, tx, number)
        finally:
            self.connections.give_back(connection)

    @contextmanager
    def read(self, *, single: bool = False) -> Generator[Tx]:
        if single:
            yield cast(Tx, _OneByOne(self))
            return
        connection, _ = self._begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            with self._translating(connection):
                yield PostgresTx(connection, self.address.schema)
                connection.execute("COMMIT")
        finally:
            self.connections.give_back(connection)

    def _opening(self, banks: Collection[Bank] | None, durable: bool) -> str:
        """Only numbers are written into it, and the schema, which is a plain name."""
        own, shared = self.address.lock_class, "" if banks is None else "_shared"
        parts = [
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
            f"SET LOCAL lock_timeout = {int(self._patience * 1000)}",
            f"SET LOCAL idle_in_transaction_session_timeout = {int(ABANDONED_S * 1000)}",
            f"SET LOCAL synchronous_commit = {self.durably if durable else 'off'}",
            f"SELECT pg_advisory_xact_lock{shared}({own}, 0)",
        ]
        for key in sorted({self.address.lock_of(bank) for bank in banks or ()}):  # one order: nobody waits in a circle
            parts.append(f"SELECT pg_advisory_xact_lock({own}, {key})")
        if banks != ():
            mark = f"SELECT pg_advisory_xact_lock_shared({self.address.mark} | {_NEWEST}) FROM op_numbers"  # noqa: S608
            parts.append(native(mark, self.address.schema))
        return "; ".join([*parts, "SELECT pg_current_xact_id()::text"])

    def _begin(self, opening: str | None) -> tuple[Connection, str]:
        """A connection on which `opening` ran, and what its last statement gave. Nothing was written yet: one that
        turns out to be broken is replaced, until the server is back or patience ends."""
        deadline, pause = time.monotonic() + self._patience, 0.01
        while True:
            try:
                connection = self.connections.take()
            except StoreUnreachable as error:
                failure = error
            else:
                try:
                    return connection, _last_value(connection, opening)
                except BaseException as error:
                    with suppress(psycopg.Error):
                        connection.execute("ROLLBACK")
                    broken = connection.broken
                    self.connections.give_back(connection)
                    if not isinstance(error, psycopg.Error):
                        raise
                    failure = as_ours(error, self.address)
                    if not broken:
                        raise failure from error
            if time.monotonic() >= deadline:
                raise failure
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, 0.5)

    @contextmanager
    def _translating(self, connection: Connection) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            if isinstance(error, psycopg.Error | UnicodeError):
                raise as_ours(error, self.address) from error
            raise

    def _commit(self, connection: Connection, tx: PostgresTx, number: str) -> None:
        """Where the answer is lost, the server is asked what became of the transaction: it knows by its number."""
        try:
            done = tx.send("COMMIT").statusmessage
        except (psycopg.Error, UnicodeError) as error:
            ours = as_ours(error, self.address)
            if not connection.broken:
                raise ours from error
            if not self._has_committed(number, ours):
                raise ours from error
            return
        if done != "COMMIT":
            raise StoreError("the transaction was rolled back", why="a statement in it had failed", fix="call again")

    def _has_committed(self, number: str, ours: MemkitError) -> bool:
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            try:
                with self.read(single=True) as tx:
                    row = tx.one("SELECT pg_xact_status(?::text::xid8)", (number,))
            except MemkitError:
                break
            if row is None or row[0] is None:
                break
            if row[0] != "in progress":
                return row[0] == "committed"
            time.sleep(0.05)
        raise in_doubt(self.address, ours.why)

    def attempt(self, work: Callable[[PostgresTx], _T]) -> _T:
        """One statement that reads, on whichever connection answers."""
        deadline = time.monotonic() + self._patience
        while True:
            connection, _ = self._begin(None)
            try:
                return work(PostgresTx(connection, self.address.schema))
            except psycopg.Error as error:
                if not connection.broken or time.monotonic() >= deadline:
                    raise as_ours(error, self.address) from error
            finally:
                self.connections.give_back(connection)

    def migrate(self, read_format: Callable[[Tx], int]) -> None:
        """The steps that are missing, in one transaction, while nobody else takes them."""
        schema = self.address.schema
        connection, _ = self._begin(f"BEGIN; SELECT pg_advisory_xact_lock({self.address.lock_class}, 0)")
        try:
            with self._translating(connection):
                tx = PostgresTx(connection, schema)
                if tx.one("SELECT to_regnamespace(?::text)", (schema,)) == (None,):
                    tx.run_as_is(f"CREATE SCHEMA {schema}")
                for statement in steps_after(read_format(tx), schema):
                    connection.execute(statement)  # pyright: ignore[reportArgumentType, reportCallIssue]
                connection.execute("COMMIT")
        finally:
            self.connections.give_back(connection)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def settle(self, number: int) -> None:
        with self.read(single=True) as tx:
            row = tx.one(f"SELECT {_NEWEST} FROM op_numbers")  # noqa: S608
        target, pause = min(number, row[0] if row else 0), 0.001
        deadline = time.monotonic() + self._patience
        while True:
            with self.read(single=True) as tx:
                if tx.cursor() >= target:
                    return
            if time.monotonic() >= deadline:
                raise StoreBusy(
                    f"a transaction in {self.address} has been under way for more than {self._patience:g} s",
                    why="what it writes belongs before what is asked for",
                    fix="call again; pg_stat_activity shows what it waits for",
                )
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    # -- moving ----------------------------------------------------------------------------------------------------

    def forbid_writes(self, tx: Tx, moved_to: str) -> None:
        schema, said, run = self.address.schema, moved_to.replace("'", "''"), cast(PostgresTx, tx).run_as_is
        refusal = f"$memkit$ BEGIN RAISE EXCEPTION USING ERRCODE = '{MOVED}', MESSAGE = '{said}'; END $memkit$"
        run(f"CREATE OR REPLACE FUNCTION {schema}.moved() RETURNS trigger LANGUAGE plpgsql AS {refusal}")
        for table in KEYS:
            run(
                f"CREATE OR REPLACE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE ON {schema}.{table}"
                f" EXECUTE FUNCTION {schema}.moved()",
            )

    def allow_writes(self, tx: Tx) -> None:
        for table in KEYS:
            cast(PostgresTx, tx).run_as_is(f"DROP TRIGGER IF EXISTS moved ON {self.address.schema}.{table}")

    def log_changes(self, tx: Tx) -> None:
        schema, run = self.address.schema, cast(PostgresTx, tx).run_as_is
        for table, key in KEYS.items():
            log = f"{schema}.changed_{table}"
            old, new = (", ".join(f"{row}.{one}" for one in key) for row in ("OLD", "NEW"))
            run(f"CREATE TABLE IF NOT EXISTS {log} AS SELECT {', '.join(key)} FROM {schema}.{table} WITH NO DATA")  # noqa: S608
            gone = f"IF TG_OP <> 'INSERT' THEN INSERT INTO {log} VALUES ({old}); END IF;"  # noqa: S608
            there = f"IF TG_OP <> 'DELETE' THEN INSERT INTO {log} VALUES ({new}); END IF;"  # noqa: S608
            noting = f"$memkit$ BEGIN {gone} {there} RETURN NULL; END $memkit$"
            run(f"CREATE OR REPLACE FUNCTION {schema}.note_{table}() RETURNS trigger LANGUAGE plpgsql AS {noting}")
            run(
                f"CREATE OR REPLACE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON {schema}.{table}"
                f" FOR EACH ROW EXECUTE FUNCTION {schema}.note_{table}()"
            )

    def drop_log(self, tx: Tx) -> None:
        schema, run = self.address.schema, cast(PostgresTx, tx).run_as_is
        for table in KEYS:
            run(f"DROP TRIGGER IF EXISTS changed ON {schema}.{table}")
            run(f"DROP FUNCTION IF EXISTS {schema}.note_{table}()")
            run(f"DROP TABLE IF EXISTS {schema}.changed_{table}")

    def go_on_from_rows(self, tx: Tx) -> None:
        schema = self.address.schema
        for table, (key, *_) in KEYS.items():
            if key in ("id", "n"):
                sequence = f"pg_get_serial_sequence('{schema}.{table}', '{key}')"
                newest = tx.one(f"SELECT max({key}) FROM {table}")  # noqa: S608
                if newest is not None and newest[0] is not None:
                    tx.one(f"SELECT setval({sequence}, ?)", newest)

    # -- files -----------------------------------------------------------------------------------------------------

    def scrub(self) -> None:
        """Nothing: dead rows are overwritten by the database's own vacuum, in its time."""

    def checkpoint(self) -> None:
        """The database does that."""

    def find_lost(self) -> None:
        """A database knows where its log ends."""

    def copy_to(self, path: Path) -> None:
        raise InvalidConfig(
            f"{self.address} is no folder that could be copied to {path}",
            why="a database has tools of its own for that, which know its replicas and its log",
            fix="use pg_dump, pg_basebackup or your provider's backups; memory.export(path) writes a file of records",
        )

    def integrity(self) -> list[str]:
        """PostgreSQL checks pages as it reads them; `find_problems` reads them all."""
        return []

    def close(self) -> None:
        self.connections.close()


_NEWEST = "CASE WHEN is_called THEN last_value ELSE 0 END"
_LOWEST_MARK = (
    "SELECT min(((classid::bigint & 2097151) << 32) | objid::bigint) FROM pg_locks WHERE locktype = 'advisory'"
    " AND objsubid = 1 AND mode = 'ShareLock' AND classid::bigint >> 21 = ?"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def _last_value(connection: Connection, script: str | None) -> str:
    if script is None:
        return ""
    cursor = connection.execute(script)  # pyright: ignore[reportArgumentType, reportCallIssue]
    while cursor.nextset():
        pass
    row = cursor.fetchone() if cursor.description else None
    return str(row[0]) if row else ""


class PostgresTx:
    """Statements whose answer nobody waits for are sent with the next, or with the commit: each wait is a way to the
    database and back."""

    __slots__ = ("_connection", "_schema", "_unsent", "writes")

    def __init__(self, connection: Connection, schema: str, *, writes: bool = False) -> None:
        self._connection, self._schema, self.writes = connection, schema, writes
        self._unsent: list[tuple[str, Sequence[Any]]] = []

    def _execute(self, sql: str, params: Sequence[Any]) -> psycopg.Cursor[Row]:
        return self.send(native(sql, self._schema), params)

    def send(self, sql: str, params: Sequence[Any] | None = None) -> psycopg.Cursor[Row]:
        if not self._unsent:
            return self._connection.execute(sql, params)  # pyright: ignore[reportArgumentType, reportCallIssue]
        with self._in_one_go():
            self._send_unsent()
            return self._connection.execute(sql, params)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def _in_one_go(self) -> AbstractContextManager[object]:
        return self._connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext()

    def _send_unsent(self) -> None:
        unsent, self._unsent = self._unsent, []
        for earlier in unsent:
            self._connection.execute(*earlier)  # pyright: ignore[reportArgumentType, reportCallIssue]

    def run(self, sql: str, params: Sequence[Any] = ()) -> None:
        self.many(sql, [params])

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        ours = native(sql, self._schema)
        for row in rows:
            self._unsent.append((ours, row))
            if len(self._unsent) >= MOST_UNSENT:
                with self._in_one_go():
                    self._send_unsent()

    def change(self, sql: str, params: Sequence[Any] = ()) -> int:
        return self._execute(sql, params).rowcount

    def run_as_is(self, sql: str) -> None:
        """One that names its schema, and takes no parameters."""
        self.send(sql)

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        key = "id" if sql.startswith("INSERT INTO banks ") else "n"
        row = self._execute(f"{sql} RETURNING {key}", params).fetchone()
        return row[0] if row else 0

    def one(self, sql: str, params: Sequence[Any] = (), *, hold: bool = False) -> Row | None:
        return self._execute(f"{sql} FOR UPDATE" if hold and self.writes else sql, params).fetchone()

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self._execute(sql, params).fetchall()

    def allot(self, count: int) -> Sequence[int]:
        if not count:
            return ()
        sql = "SELECT nextval(?::text::regclass) FROM generate_series(1, ?)"
        return [row[0] for row in self.all(sql, (f"{self._schema}.op_numbers", count))]

    def skip_to(self, number: int) -> None:
        sql = f"SELECT setval(?::text::regclass, ?) FROM op_numbers WHERE {_NEWEST} < ?"  # noqa: S608
        self.all(sql, (f"{self._schema}.op_numbers", number, number))

    def cursor(self) -> int:
        """In this order: a transaction that is not among the locks any more is visible, and one that begins now is
        numbered above what was newest before."""
        newest = self.one(f"SELECT {_NEWEST} FROM op_numbers")  # noqa: S608
        lowest = self.one(_LOWEST_MARK, (mark_of(self._schema) >> 53,))
        found = [row[0] for row in (newest, lowest) if row is not None and row[0] is not None]
        return min(found, default=0)


class _OneByOne:
    """Each call is a transaction of its own."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    def one(self, sql: str, params: Sequence[Any] = (), *, hold: bool = False) -> Row | None:
        return self._engine.attempt(lambda tx: tx.one(sql, params))

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]:
        return self._engine.attempt(lambda tx: tx.all(sql, params))

    def cursor(self) -> int:
        return self._engine.attempt(lambda tx: tx.cursor())


_ENGINES: weakref.WeakSet[PostgresEngine] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for engine in list(_ENGINES):
        engine.connections.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
