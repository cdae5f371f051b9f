"""Opening a store in a folder: its journal is a file, and its locks are those of the disk."""

from __future__ import annotations

import secrets
from pathlib import Path

from memkit.errors import NotAStore, StoreDamaged
from memkit.journal import disk
from memkit.journal.engine import Opened
from memkit.journal.locks import StoreLocks
from memkit.journal.schema import FORMAT
from memkit.journal.sqlite import SqliteEngine
from memkit.models import JSON


def open_folder(path: Path, *, read_only: bool) -> Opened:
    marker = disk.survey(path)
    if read_only and marker is None:
        raise NotAStore(f"there is no store at {path}", fix="open it without read_only=True to create one")
    if marker is None:
        marker = _create(path)
    elif not read_only and not (path / disk.JOURNAL).exists():
        raise StoreDamaged(
            f"{path} is a store without its journal",
            why=f"{disk.JOURNAL} is gone, and it is the truth that everything else is derived from",
            fix="restore it from a backup; the folder was not changed",
        )
    engine = SqliteEngine(path / disk.JOURNAL, read_only=read_only)
    engine.prepare([], create=False)
    if not read_only and marker["format"] < FORMAT:
        # after the journal: a process that dies between the two is followed by another
        disk.write_marker(path, marker["store_id"])
    return Opened(engine, StoreLocks.attach(path / disk.LOCKS), marker["store_id"], path, str(path))


def folder_tables(path: Path, *, create: bool) -> SqliteEngine:
    """The tables alone, whoever's they are. A folder made for them is marked as a store by whoever fills it."""
    marker = disk.survey(path)
    if marker is None and not create:
        raise NotAStore(f"there is no store at {path}", fix="check the path")
    try:
        (path / disk.LOCKS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise disk.from_os_error(error, path) from error
    engine = SqliteEngine(path / disk.JOURNAL)
    engine.prepare(_first_entries(), create=marker is None)
    return engine


def _first_entries() -> list[tuple[str, str]]:
    return [("store_id", f"st_{secrets.token_hex(12)}"), ("erasure_salt", secrets.token_hex(16))]


def _create(path: Path) -> JSON:
    try:
        fresh_folders = [folder for folder in (path, *path.absolute().parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        (path / disk.LOCKS).mkdir(exist_ok=True)
        for folder in fresh_folders:
            disk.sync_folder(folder.absolute().parent)
    except OSError as error:
        raise disk.from_os_error(error, path) from error
    locks = StoreLocks.attach(path / disk.LOCKS)
    try:
        with locks.creating():
            marker = disk.survey(path)
            if marker is not None:
                return marker
            engine = SqliteEngine(path / disk.JOURNAL)
            try:
                engine.prepare(_first_entries(), create=True)
                with engine.read() as tx:
                    row = tx.one("SELECT value FROM meta WHERE key = 'store_id'")
                assert row is not None
                disk.write_marker(path, row[0])
            except OSError as error:
                raise disk.from_os_error(error, path) from error
            finally:
                engine.close()
            marker = disk.survey(path)
            assert marker is not None
            return marker
    finally:
        locks.close()
