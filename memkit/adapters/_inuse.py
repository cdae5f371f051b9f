"""Which adapters are loaded by some living process: a shared file lock per digest, which dies with its holder."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform == "win32":

    def _share(handle: int) -> None:
        """An open file is lock enough on Windows: it cannot be removed."""

    def _take(path: Path) -> int | None:
        try:
            path.unlink()
        except OSError:
            return None
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

else:
    import fcntl

    def _share(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_SH)

    def _take(path: Path) -> int | None:
        handle = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        return handle


class InUse:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handles: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def hold(self, digest: str) -> None:
        with self._lock:
            self._counts[digest] = self._counts.get(digest, 0) + 1
            if digest in self._handles:
                return
            self._folder.mkdir(exist_ok=True)
            handle = os.open(self._folder / digest, os.O_RDWR | os.O_CREAT, 0o644)
            _share(handle)
            self._handles[digest] = handle

    def release(self, digest: str) -> None:
        with self._lock:
            left = self._counts.pop(digest, 0) - 1
            if left > 0:
                self._counts[digest] = left
            else:
                handle = self._handles.pop(digest, None)
                if handle is not None:
                    os.close(handle)

    def is_held(self, digest: str) -> bool:
        """By any process, this one included."""
        with self.alone(digest) as free:
            return not free

    @contextmanager
    def alone(self, digest: str) -> Generator[bool]:
        """True: no process has it, and none takes it before the block ends."""
        path = self._folder / digest
        handle = _take(path) if path.exists() else -1
        try:
            yield handle is not None
        finally:
            if handle is not None and handle >= 0:
                os.close(handle)

    def forget(self, digest: str) -> None:
        with suppress(OSError):
            (self._folder / digest).unlink()

    def close(self) -> None:
        with self._lock:
            for handle in self._handles.values():
                os.close(handle)
            self._handles.clear()
            self._counts.clear()
