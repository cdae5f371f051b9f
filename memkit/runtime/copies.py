"""Backup and restore: a whole store as of one moment, whoever writes meanwhile.

A backup is a folder of the same shape: the journal (by SQLite's own backup), the sealed decisions, the adapters that
lie in the store. Not LanceDB's `memories`, which whoever opens the restored store builds anew from the journal. Its
marker is written last, so half a backup is none."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from memkit.adapters.opening import FOLDER
from memkit.errors import InvalidInput, NotAStore, StoreDamaged
from memkit.journal import Journal, disk
from memkit.runtime.portability import refuse_inside
from memkit.seams.clock import RandomIds, SystemClock
from memkit.store import SEALED

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime


def backup(runtime: Runtime, path: Path) -> int:
    """Sealing and erasing wait meanwhile, and so does what removes files; adding does not."""
    if runtime.journal.is_shared:
        runtime.journal.copy_to(path)  # says what does it there
    refuse_inside(runtime.path, path)
    runtime.traces.flush()
    with runtime.journal.applier_lock(), runtime.journal.lance_lock(False):
        return _copy(runtime.journal, runtime.path, path)


def restore(source: Path, path: Path) -> int:
    """A store at `path`, which must not be there yet, from a backup. What is wrong with the backup is told before."""
    if not (source / disk.MARKER).is_file():
        raise NotAStore(f"there is no backup at {source}", fix="name the folder that `memkit backup` wrote")
    refuse_inside(source, path)
    with contextlib.closing(open_journal(source, read_only=True)) as journal:
        if found := journal.check():
            raise StoreDamaged(
                f"the backup {source} is damaged: {found[0].where}: {found[0].detail}",
                why=f"{len(found)} of the promises of its journal do not hold",
                fix="restore another backup; nothing was written",
            )
        return _copy(journal, source, path)


def _copy(journal: Journal, source: Path, path: Path) -> int:
    with _written_aside(path) as aside:
        (aside / disk.LOCKS).mkdir()
        journal.copy_to(aside / disk.JOURNAL)
        for name in (SEALED, FOLDER):
            if (source / name).is_dir():
                _copy_folder(source / name, aside / name)
        disk.write_marker(aside, journal.store_id)
        with contextlib.closing(open_journal(aside)) as made:
            return made.last_seq()


def open_journal(path: Path, *, read_only: bool = False) -> Journal:
    return Journal.open(path, clock=SystemClock(), ids=RandomIds(), read_only=read_only)


@contextmanager
def _written_aside(path: Path) -> Generator[Path]:
    """Renamed to `path` once it is whole."""
    aside = path.parent / f".memkit-{secrets.token_hex(8)}.part"
    try:
        if path.exists() and (not path.is_dir() or os.listdir(path)):
            raise InvalidInput(
                f"{path} is there already", why="a backup replaces nothing", fix="name a new or an empty folder"
            )
        aside.mkdir(parents=True)
        yield aside
        for folder, _, _ in os.walk(aside):
            disk.sync_folder(Path(folder))
        if path.exists():
            path.rmdir()
        aside.rename(path)
        disk.sync_folder(path.parent)
    except OSError as error:
        raise disk.from_os_error(error, path) from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _copy_folder(source: Path, target: Path) -> None:
    """Plain files, each flushed; SQLite's by its own backup. Names that begin with a dot are of work under way. Of a
    LanceDB table the versions first: what they name was there before them."""
    target.mkdir()
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name != "_versions"):
        if entry.name.startswith(".") or entry.name.endswith(("-wal", "-shm", "-journal")) or entry.is_symlink():
            continue
        if entry.is_dir():
            _copy_folder(entry, target / entry.name)
        elif entry.suffix == ".sqlite":
            copy_database(entry, target / entry.name)
        elif entry.is_file():
            _copy_file(entry, target / entry.name)


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())


def copy_database(source: Path, target: Path) -> None:
    uri, closing = f"{source.resolve().as_uri()}?mode=ro", contextlib.closing
    try:
        with closing(sqlite3.connect(uri, uri=True)) as given, closing(sqlite3.connect(target)) as made:
            given.backup(made)
    except sqlite3.Error as error:
        raise StoreDamaged(f"{source} cannot be copied", why=str(error), fix="run `memkit doctor`") from error
