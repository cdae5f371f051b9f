"""The seam below the journal: what it needs of a database. SQLite is `sqlite.py`; another engine is another file.

SQL above the seam is plain: `?` marks, ON CONFLICT, no pragma. An engine owes three promises: a write transaction is
alone (so sequence numbers become visible in commit order), a durable commit survives a power cut, and errors arrive as
`memkit.errors`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

Row = tuple[Any, ...]


class Tx(Protocol):
    """A transaction that is under way."""

    def run(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute; how many rows changed."""
        ...

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute one INSERT into a table with an integer key; that key."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None: ...

    def one(self, sql: str, params: Sequence[Any] = ()) -> Row | None: ...

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]: ...


class Reads(Protocol):
    def read(self, *, single: bool = False) -> AbstractContextManager[Tx]:
        """A snapshot. `single`: for one statement, which is a snapshot by itself."""
        ...


class Engine(Reads, Protocol):
    def write(self, *, durable: bool = True) -> AbstractContextManager[Tx]:
        """The one write transaction of the store. `durable=False`: survives a killed process, not a power cut."""
        ...

    def scrub(self) -> None:
        """Overwrite every byte that deleted rows left behind. `StoreBusy` when other processes prevent it."""
        ...

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the main file, as far as readers allow."""
        ...

    def copy_to(self, path: Path) -> None:
        """Write a new file with all that is committed at one moment, whoever writes meanwhile; proven and synced."""
        ...

    def integrity(self) -> list[str]:
        """What the engine itself finds wrong with its files."""
        ...

    def close(self) -> None: ...


class Locks(Protocol):
    """Liveness of workers and the two cross-process locks, all released by the operating system when a process dies."""

    def register(self, worker_id: str) -> None:
        """From now on this worker counts as alive, until it is retired or its process ends."""
        ...

    def beat(self, worker_id: str) -> str:
        """This worker, which is returned, is about to claim: if its process is stopped, others are to notice."""
        ...

    def retire(self, worker_id: str) -> None: ...

    def alive(self, worker_id: str) -> bool: ...

    def sweep(self) -> None:
        """Remove what dead workers left behind."""
        ...

    def applier(self) -> AbstractContextManager[None]: ...

    def lance(self, exclusive: bool) -> AbstractContextManager[None]: ...

    def close(self) -> None: ...
