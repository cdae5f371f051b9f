"""The connections of one process. Each is in transactions of ours alone, so that a pooler between may give every one
to another server: no prepared statement, no setting and no lock outlives a transaction.

A connection that broke is thrown away, and the next one is made when somebody needs it: nobody waits for a timer to
try again. A forked child makes its own."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.numeric import Int2Dumper
from psycopg.types.string import StrDumper, TextLoader

from memkit.errors import StoreClosed
from memkit.journal.postgres.address import Address
from memkit.journal.postgres.failures import as_ours, busy

Connection = psycopg.Connection[tuple[Any, ...]]

SIZE = 16
"""Connections that one process has at most."""
_IDLE = 8
_LINK = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "application_name": "memkit",
}
"""A server that is gone is found out within seconds, where the URL says nothing else."""
_MARK, _NUL = "\U0010ffff", "\0"
"""PostgreSQL's text holds no NUL. It is written as a mark and a digit, and so is the mark, which is no character."""


class _Text(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        if _NUL in obj or _MARK in obj:
            obj = obj.replace(_MARK, f"{_MARK}1").replace(_NUL, f"{_MARK}0")
        return super().dump(obj)


class _UnknownText(_Text):
    """Its type is what the statement needs there."""

    oid = 0


class _LoadedText(TextLoader):
    def load(self, data: Buffer) -> bytes | str:
        text = super().load(data)
        if isinstance(text, str) and _MARK in text:
            return text.replace(f"{_MARK}0", _NUL).replace(f"{_MARK}1", _MARK)
        return text


class _Flag(Int2Dumper):
    """Columns that SQLite has as 0 and 1 are integers here, too."""

    def dump(self, obj: Any) -> Buffer | None:
        return b"1" if obj else b"0"


class Connections:
    def __init__(self, address: Address, patience: float) -> None:
        self._address, self._patience = address, patience
        self._idle: list[Connection] = []
        self._room, self._closed = threading.Semaphore(SIZE), False

    def take(self) -> Connection:
        if self._closed:
            raise StoreClosed(f"{self._address} was closed", fix="open it again")
        if not self._room.acquire(timeout=self._patience):
            raise busy(self._address, self._patience)
        try:
            try:
                return self._idle.pop()
            except IndexError:
                return self._make()
        except BaseException:
            self._room.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """One that is in the middle of something, or broke, is closed. If it broke, others that were idle meanwhile may
        have, too."""
        if connection.broken:
            self._close_idle()
        usable = not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE
        if usable and not self._closed and len(self._idle) < _IDLE:
            self._idle.append(connection)
        else:
            connection.close()
        self._room.release()

    def _make(self) -> Connection:
        try:
            given = conninfo_to_dict(self._address.conninfo)
            connection = psycopg.connect(
                **{**_LINK, **given},  # pyright: ignore[reportArgumentType]
                autocommit=True,
                prepare_threshold=None,
            )
        except psycopg.Error as error:
            raise as_ours(error, self._address) from error
        connection.adapters.register_dumper(str, _UnknownText)
        connection.adapters.register_loader("text", _LoadedText)
        connection.adapters.register_dumper(bool, _Flag)
        return connection

    def close(self) -> None:
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def after_fork_in_child(self) -> None:
        """The parent's connections are the parent's; psycopg does not end them from here."""
        self._idle, self._room = [], threading.Semaphore(SIZE)
