"""The seam below the journal: what it needs of a database. SQLite is `sqlite.py`, PostgreSQL the folder `postgres`;
another engine is another of them, and passes `tests/journal/test_conformance.py`.

SQL above the seam is plain: `?` marks, ON CONFLICT, no pragma; what two databases write differently is written in a way
that both read. An engine owes these promises, and nothing above relies on more:

- A write transaction is alone in the banks that it names. What it reads of them holds until it commits.
- Numbers rise within a bank, in the order in which its transactions become visible, and are never given twice in a
  store. Some may be left out. Over several banks their order says nothing: a higher number may be seen first. Whoever
  reads over several banks reads up to a `cursor`, below which nothing new can come, or waits until it is settled.
- A durable commit survives a power cut, and errors arrive as `memkit.errors`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from memkit.errors import StoreMoved
from memkit.models import Bank
from memkit.seams.catalog import Catalog

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Opened:
    """A store that was opened, or made."""

    engine: Engine
    locks: Locks
    store_id: str
    place: Path
    """The folder for what this machine derives from the journal."""
    name: str
    """What a person calls the store."""
    is_shared: bool = False
    """Other machines have such a folder, too, and none of them may hold what the others lack."""
    catalog: Catalog | None = None
    """Where LanceDB is on object storage, for all of them."""


def moved_error(store: str, where: str) -> StoreMoved:
    return StoreMoved(
        f"{store} was moved to {where}",
        why="it takes no more writes, so that nothing is written to two stores",
        fix="open the store there; a move that was interrupted is finished by the same `memkit move` again",
    )


class Tx(Protocol):
    """A transaction that is under way."""

    def run(self, sql: str, params: Sequence[Any] = ()) -> None:
        """Execute, at the latest with what comes next or with the commit; then its error comes, too."""
        ...

    def change(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute; how many rows changed."""
        ...

    def insert(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Execute one INSERT into a table with an integer key; that key, or 0 where ON CONFLICT left the row out."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """`run` for each of the rows."""
        ...

    def one(self, sql: str, params: Sequence[Any] = (), *, hold: bool = False) -> Row | None:
        """hold: nobody else changes the row until this transaction ends, even one that is alone in no bank."""
        ...

    def all(self, sql: str, params: Sequence[Any] = ()) -> list[Row]: ...

    def allot(self, count: int) -> Sequence[int]:
        """Numbers for ops of the banks that this transaction is alone in: rising, above all that these banks have."""
        ...

    def skip_to(self, number: int) -> None:
        """Numbers up to this one were written by hand; none of them is to be allotted."""
        ...

    def cursor(self) -> int:
        """Every op numbered up to here is visible, or never will be."""
        ...


class Reads(Protocol):
    def read(self, *, single: bool = False) -> AbstractContextManager[Tx]:
        """A snapshot. `single`: for one statement, which is a snapshot by itself."""
        ...

    def settle(self, number: int) -> None:
        """Wait until every op numbered up to `number` that was allotted by now is visible, or never will be."""
        ...


class Engine(Reads, Protocol):
    name: str
    """What a person calls the store."""
    overwrites: bool
    """Whether `scrub` overwrites what deleted rows leave behind. Where not, the database does it in its own time."""

    def write(self, banks: Collection[Bank] | None = None, *, durable: bool = True) -> AbstractContextManager[Tx]:
        """A write transaction that is alone in `banks`. None: in the whole store. (): nowhere; each of its statements
        guards itself. `durable=False`: survives a killed process, not a power cut."""
        ...

    def forbid_writes(self, tx: Tx, moved_to: str) -> None:
        """From the end of `tx` on the store refuses every write, by whichever process: `StoreMoved`."""
        ...

    def allow_writes(self, tx: Tx) -> None: ...

    def log_changes(self, tx: Tx) -> None:
        """From the end of `tx` on the keys of every row that is written or removed are noted, in `changed_TABLE`."""
        ...

    def drop_log(self, tx: Tx) -> None: ...

    def go_on_from_rows(self, tx: Tx) -> None:
        """Rows were written under keys of their own; those that `insert` gives come after them."""
        ...

    def scrub(self) -> None:
        """Overwrite every byte that deleted rows left behind. `StoreBusy` when other processes prevent it."""
        ...

    def checkpoint(self) -> None:
        """Fold the write-ahead log into the main file, as far as readers allow."""
        ...

    def find_lost(self) -> tuple[int, int] | None:
        """The newest op and intake that were committed, where there is a second note of them that says more than the
        journal holds."""
        ...

    def copy_to(self, path: Path) -> None:
        """Write a new file with all that is committed at one moment, whoever writes meanwhile; proven and synced."""
        ...

    def integrity(self) -> list[str]:
        """What the engine itself finds wrong with its files."""
        ...

    def close(self) -> None: ...


class Locks(Protocol):
    """Who is alive, and what is free for them; the two locks around LanceDB, released when a process dies."""

    def register(self, worker_id: str) -> None:
        """From now on this worker counts as alive, until it is retired or its process ends."""
        ...

    def beat(self, worker_id: str) -> str:
        """This worker, which is returned, is about to claim: if its process is stopped, others are to notice."""
        ...

    def retire(self, worker_id: str) -> None: ...

    def alive(self, worker_id: str) -> bool: ...

    def first_free(self, tx: Tx, bank: Bank | None) -> int | None:
        """The oldest intake that is the first undecided one of its bank, and that nobody alive is deciding. Nobody
        else is given it before `tx` ends."""
        ...

    def sweep(self) -> None:
        """Remove what dead workers left behind."""
        ...

    def applier(self, wait: bool = True) -> AbstractContextManager[None]:
        """wait: even for another machine, where LanceDB is shared with it; else `StoreBusy`."""
        ...

    def lance(self, exclusive: bool) -> AbstractContextManager[None]: ...

    def close(self) -> None: ...
