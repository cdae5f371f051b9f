"""Moving a whole store: from a folder to PostgreSQL, or back, while apps use it.

The rows are copied while the store is written to. Then it refuses writes, what changed meanwhile is copied, and the
other one takes over. Whatever ends this half-way leaves one store that serves: killed before, it is the old one; in the
moments between, the same command goes on; a failure opens the old one again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from memkit.adapters.opening import FOLDER, open_registry
from memkit.adapters.shadow import SHADOW
from memkit.errors import InvalidInput, MemkitError
from memkit.inputs import is_url, store_of
from memkit.journal import Journal, disk, moving
from memkit.journal.folder import folder_tables
from memkit.runtime.copies import copy_database
from memkit.seams.clock import RandomIds, SystemClock
from memkit.store import SEALED, Trajectories

if TYPE_CHECKING:
    from memkit.journal.engine import Engine

_ROUNDS, _FEW = 10, 500
"""Before writes are refused, what changed is copied until so little changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Moved:
    rows: int
    """Written while the store was in use."""
    late: int
    """Written or removed while it refused writes …"""
    refused_s: float
    """… for so long."""


def move(source: str | Path, target: str | Path, *, say: Callable[[str], None] = lambda _: None) -> Moved:
    """All of `source` at `target`, which is empty, or was left by the same move. The same memories, operations,
    decisions, reads, labels and receipts, under the same ids and numbers; LanceDB is built anew there."""
    here, there = store_of(source), store_of(target)
    with closing(_open(here)) as origin, closing(_tables(here)) as left, closing(_tables(there, create=True)) as taken:
        sealed = Trajectories(origin.place / SEALED, lock=origin.lance_lock)
        if _is_done(origin, left, taken):
            found = Moved(0, 0, 0.0)
        else:
            found = _carry(left, taken, sealed, say)
        if isinstance(there, Path):
            disk.write_marker(there, origin.store_id)
        with closing(_open(there)) as arrived:
            _carry_adapters(here, there, origin.place / FOLDER, arrived.place / FOLDER)
    return found


def _carry_adapters(here: str | Path, there: str | Path, left: Path, taken: Path) -> None:
    """Adapters, aliases, taints, and what shadows decided."""
    if is_url(here) or left.is_dir():
        with closing(open_registry(here)) as ours, closing(open_registry(there)) as theirs:
            theirs.take_all(ours)
        if (left / SHADOW).is_file() and not (taken / SHADOW).exists():
            copy_database(left / SHADOW, taken / SHADOW)


def _carry(left: Engine, taken: Engine, sealed: Trajectories, say: Callable[[str], None]) -> Moved:
    say("copying; the store may be used meanwhile")
    with left.write() as tx:
        left.log_changes(tx)
    try:
        return _carry_noting(left, taken, sealed, say)
    finally:
        with contextlib.suppress(MemkitError), left.write() as tx:
            left.drop_log(tx)


def _carry_noting(left: Engine, taken: Engine, sealed: Trajectories, say: Callable[[str], None]) -> Moved:
    rows = moving.copy(left, taken, sealed.fetch).written
    for _ in range(_ROUNDS):
        caught = moving.follow(left, taken, sealed.fetch)
        rows += caught.written
        if caught.written + caught.removed < _FEW:
            break
    say(f"{rows} rows copied; from now on the store refuses writes, while what changed is copied")
    began = time.monotonic()
    with left.write() as tx:
        if moving.read_mark(left, moving.MOVED_TO) is None:
            moving.set_mark(tx, moving.MOVED_TO, taken.name)
            left.forbid_writes(tx, taken.name)
    try:
        late = moving.follow(left, taken, sealed.fetch)
        moving.finish(left, taken)
    except BaseException:
        with contextlib.suppress(MemkitError):
            if moving.read_mark(taken, moving.ARRIVING) is not None:  # else it is the store by now
                with left.write() as tx:
                    left.allow_writes(tx)
                    tx.run("DELETE FROM meta WHERE key = ?", (moving.MOVED_TO,))
        raise
    return Moved(rows, late.written + late.removed, time.monotonic() - began)


def _is_done(origin: Journal, left: Engine, taken: Engine) -> bool:
    """Whether only the rest is to be done; what is no target of this move is refused."""
    arriving, theirs = moving.read_mark(taken, moving.ARRIVING), moving.read_mark(taken, "store_id")
    if arriving is None and theirs == origin.store_id and moving.read_mark(left, moving.MOVED_TO) == taken.name:
        return True
    if moving.read_mark(left, moving.MOVED_TO) not in (None, taken.name):
        raise InvalidInput(
            f"{origin.name} was moved to {moving.read_mark(left, moving.MOVED_TO)}",
            why="what is here is as it was then",
            fix="move the store from there",
        )
    if arriving is None and moving.is_empty(taken):
        with taken.write() as tx:
            moving.set_mark(tx, moving.ARRIVING, origin.store_id)
    elif arriving != origin.store_id:
        raise InvalidInput(
            f"{taken.name} holds another store",
            why="a move replaces nothing",
            fix="name a new folder, or a schema that nobody opened yet: postgresql://…?schema=NAME",
        )
    return False


def _open(store: str | Path) -> Journal:
    return Journal.open(store, clock=SystemClock(), ids=RandomIds(), read_only=True)


def _tables(store: str | Path, *, create: bool = False) -> Engine:
    if is_url(store):
        from memkit.journal.postgres.opening import database_tables

        return database_tables(store, create=create)
    return folder_tables(Path(store), create=create)
