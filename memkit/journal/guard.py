"""What SQLite's own locks do not hold. They are POSIX record locks: they belong to a process, and closing *any* handle
of a file drops them all. An app that reads `journal.sqlite` or copies its folder has thus opened it to other processes:
one that closes the store believes to be the last and deletes the log that this one writes to; two write at once.

So this process stays *present*, by locks that no other handle drops, on the very bytes by which SQLite asks whether
a file is in use: that holds against every program that uses SQLite. Whoever writes holds a lock on a file of our own.
And nothing is acknowledged whose log is gone. On macOS, which has no such locks, only the last of these holds."""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from memkit.errors import StoreError
from memkit.journal import disk
from memkit.journal.oslock import OUTLIVES_OTHER_HANDLES, try_lock, unlock

_IN_USE = (0x4000_0002, 510)
"""Of the database: the bytes that every connection shares, and that the one which deletes the log wants alone."""
_INDEX_IN_USE = (128, 1)
"""The same of `-shm`: whoever finds it free truncates the file."""
_WRITING = 0
_NEWEST, _NEWEST_AT = struct.Struct("<QQ"), 8
"""Behind the byte that is locked."""


class WriteLock:
    """One writer over all processes, and whether what it wrote to is still the store."""

    def __init__(self, journal: Path) -> None:
        self._journal, self._path = journal, journal.parent / disk.LOCKS / "journal.lock"
        self._file: IO[bytes] | None = None
        self._files: tuple[int, int] | None = None
        self.lost = False

    def take(self) -> None:
        """Busy, as SQLite would say it, while another process writes."""
        try:
            if self._file is None:
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
                self._file = os.fdopen(handle, "r+b", buffering=0)
            free = try_lock(self._file.fileno(), _WRITING, exclusive=True)
        except OSError as error:
            raise disk.from_os_error(error, self._path) from error
        if not free:
            raise busy_error("another process is writing")

    def give_back(self) -> None:
        if self._file is not None:
            unlock(self._file.fileno(), _WRITING)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def note_newest(self, op: int, intake: int) -> None:
        """What was committed last, a second time: a log that is damaged is cut off by SQLite without a word. Written
        after the commit and not flushed, so it may fall behind the journal, and is never ahead of it."""
        if self._file is not None:
            raw = _NEWEST.pack(op, intake)
            with suppress(OSError):
                self._file.seek(_NEWEST_AT)
                self._file.write(raw + zlib.crc32(raw).to_bytes(4, "little"))

    def read_newest(self) -> tuple[int, int]:
        """(op, intake); zeros where nothing was noted yet."""
        try:
            with open(self._path, "rb") as file:
                file.seek(_NEWEST_AT)
                raw = file.read(_NEWEST.size + 4)
        except OSError:
            return 0, 0
        whole = len(raw) == _NEWEST.size + 4 and zlib.crc32(raw[:-4]).to_bytes(4, "little") == raw[-4:]
        return _NEWEST.unpack(raw[:-4]) if whole else (0, 0)

    def note_files(self) -> None:
        """What a connection that was just opened writes to."""
        self._files = self._inodes()

    def check_files(self) -> StoreError | None:
        """After a commit: it counts only where it can be found again."""
        if self._inodes() == self._files:
            return None
        self.lost = True
        return StoreError(
            f"{self._journal} or its log was removed or replaced while this process had it open",
            why="another program deleted, moved or restored the store's files; what was written now is in none of them",
            fix="end this process and open the store again; to copy a store use `memkit backup`",
        )

    def _inodes(self) -> tuple[int, int]:
        try:
            return os.stat(self._journal).st_ino, os.stat(f"{self._journal}-wal").st_ino
        except FileNotFoundError:
            return 0, 0


class Presence:
    """Says to every user of SQLite that the journal is open here, for as long as an engine of this process has it."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._held: _Held | None = None

    def enter(self) -> None:
        """Before a connection is opened; in the middle of somebody's last close, busy."""
        if not OUTLIVES_OTHER_HANDLES or os.name == "nt":
            return
        with _Registry.mutex:
            if self._held is None:
                try:
                    seen = os.stat(self._journal)
                except OSError as error:
                    raise disk.from_os_error(error, self._journal) from error
                self._held = _HELD.setdefault((seen.st_dev, seen.st_ino), _Held())
                self._held.users += 1
            self._held.lock(self._journal, *_IN_USE)

    def cover_index(self) -> None:
        """After it was opened: `-shm` is there."""
        if self._held is not None:
            with _Registry.mutex:
                self._held.lock(Path(f"{self._journal}-shm"), *_INDEX_IN_USE)

    @contextmanager
    def leave(self) -> Generator[None]:
        """Around closing the connections: the locks go first, so that the last one out folds the log; the handles
        after, for closing them drops what SQLite holds."""
        held, self._held = self._held, None
        if held is None:
            yield
            return
        with _Registry.mutex:
            held.users -= 1
            last = not held.users
            if last:
                held.unlock()
                for key in [key for key, one in _HELD.items() if one is held]:
                    del _HELD[key]
        yield
        if last:
            held.close()


class _Held:
    """The handles of one journal in this process: one per file, whatever number of engines there are."""

    def __init__(self) -> None:
        self.users = 0
        self._files: dict[Path, IO[bytes]] = {}
        self._locks: dict[Path, tuple[int, int]] = {}

    def lock(self, path: Path, byte: int, length: int) -> None:
        if path in self._locks:
            return
        if path not in self._files:
            try:
                self._files[path] = open(path, "rb")  # noqa: SIM115 - held as long as the journal is open
            except FileNotFoundError:
                return  # on a disk that cannot be written there is no log
            except OSError as error:
                raise disk.from_os_error(error, path) from error
        if not try_lock(self._files[path].fileno(), byte, exclusive=False, length=length):
            raise busy_error(f"another process is closing {path.name}")
        self._locks[path] = byte, length

    def unlock(self) -> None:
        for path, (byte, length) in self._locks.items():
            unlock(self._files[path].fileno(), byte, length)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


class _Registry:
    mutex = threading.Lock()


_HELD: dict[tuple[int, int], _Held] = {}


def forget_parent() -> None:
    """In a forked child: the locks are the parent's, and stay with it."""
    _Registry.mutex = threading.Lock()
    for held in _HELD.values():
        held.close()
    _HELD.clear()


def busy_error(what: str) -> sqlite3.OperationalError:
    busy = sqlite3.OperationalError(what)
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return busy
