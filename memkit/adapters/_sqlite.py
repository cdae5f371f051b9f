"""What SQLite says of a file beside the adapters, as an error of ours with the next step."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from memkit.errors import MemkitError, StoreBusy, StoreDamaged, StoreError, StoreFull, StoreReadOnly


@contextmanager
def typed_errors(path: Path, mend: str) -> Generator[None]:
    """`mend`: what to do with the file where its bytes are damaged."""
    try:
        yield
    except sqlite3.Error as error:
        raise _ours(error, path, mend) from error


def _ours(error: sqlite3.Error, path: Path, mend: str) -> MemkitError:
    why = str(error)
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"{path} is locked", why=why, fix="try again; another process is writing")
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"no room left to write {path}", why=why, fix="free some space and call again")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return StoreReadOnly(
                f"{path} cannot be opened for this", why=why, fix="give this user write access to it and to its folder"
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreDamaged(f"{path} is damaged", why=why, fix=mend)
        case _:
            return StoreError(f"{path} failed", why=why, fix="look at the file and the disk it is on")
