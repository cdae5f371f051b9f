"""Locks that the operating system releases when a process dies.

Where they belong to a process (`oslock` knows), closing *any* handle of a file drops them all. So each store has one
lock file and one handle per process, shared by every journal that has the store open (`_OPEN`), and threads are kept
apart by what is in memory here. A forked child closes what it inherited. Byte ranges of that file are the locks:

- applier: `next` then `main`. Whoever holds `next` is the next to get `main`, so nobody is overtaken forever.
- lance: readers pass the `gate` for a moment and share `main`; a writer keeps the gate closed while it waits and works,
  so a stream of readers cannot keep it out.

Waiting is polling with short random pauses: a blocking lock call cannot have a deadline."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from memkit.errors import StoreBusy
from memkit.journal import disk, intakes
from memkit.journal.engine import Tx
from memkit.journal.oslock import try_lock, unlock
from memkit.models import Bank

_CREATE, _APPLIER_NEXT, _APPLIER, _LANCE_GATE, _LANCE = range(5)
_WORKER_BYTE = 0
LEASE_S = 30.0
"""A worker that was not heard of for so long counts as stopped, although its process is there."""
_BEATS = 6
"""How often it is heard of within that time."""


class StoreLocks:
    """All locks of one store in this process. Get it with `attach`, give it back with `close`."""

    def __init__(self, folder: Path, patience: float) -> None:
        self._folder, self._patience = folder, patience
        self._users = 0
        self._file: IO[bytes] | None = None
        self._workers: dict[str, IO[bytes]] = {}
        self.lease_s = LEASE_S
        self._beating: threading.Thread | None = None
        self._quiet = threading.Event()
        self._heard: dict[str, tuple[int, float]] = {}
        """When the last beat of a worker was first seen, by our own clock: others' may jump."""
        self._mutex = threading.Lock()
        self._applier = _FairLock(self)
        self._lance = _SharedExclusive(self)

    @classmethod
    def attach(cls, folder: Path, *, patience: float = 60.0) -> StoreLocks:
        key = os.path.realpath(folder)
        with _OpenGuard.mutex:
            locks = _OPEN.get(key)
            if locks is None:
                locks = _OPEN[key] = cls(Path(key), patience)
            locks._users += 1
            return locks

    def close(self) -> None:
        with _OpenGuard.mutex:
            self._users -= 1
            if self._users:
                return
            _OPEN.pop(str(self._folder), None)
            self._quiet.set()
            if self._file is not None:
                self._file.close()
                self._file = None

    # -- workers ---------------------------------------------------------------------------------------------------

    def register(self, worker_id: str) -> None:
        path = self._folder / f"{worker_id}.worker"
        deadline = self.deadline()
        with self._mutex:
            while True:
                try:
                    file = open(path, "wb")  # noqa: SIM115 - held as long as the worker lives
                except OSError as error:
                    raise disk.from_os_error(error, path) from error
                # A sweep elsewhere may take a file that is not locked yet for one that a dead worker left.
                if try_lock(file.fileno(), _WORKER_BYTE, exclusive=True) and _is_at(file, path):
                    self._workers[worker_id] = file
                    return
                file.close()
                if time.monotonic() >= deadline:
                    raise self.busy()

    def retire(self, worker_id: str) -> None:
        with self._mutex:
            file = self._workers.pop(worker_id, None)
        if file is not None:
            self._remove(worker_id)
            file.close()

    def alive(self, worker_id: str) -> bool:
        with self._mutex:
            if worker_id in self._workers:
                return True
            try:
                file = open(self._folder / f"{worker_id}.worker", "r+b")  # noqa: SIM115 - closed right below
            except FileNotFoundError:
                return False
            with file:
                if not try_lock(file.fileno(), _WORKER_BYTE, exclusive=True):
                    return not self._is_stopped(worker_id, os.fstat(file.fileno()))
                self._remove(worker_id)
                return False

    def first_free(self, tx: Tx, bank: Bank | None) -> int | None:
        known: dict[str, bool] = {}
        for number, holder in intakes.waiting(tx, bank):
            if holder is None:
                return number
            if holder not in known:
                known[holder] = self.alive(holder)
            if not known[holder]:
                return number
        return None

    def _is_stopped(self, worker_id: str, seen: os.stat_result) -> bool:
        """It holds its lock, but no longer beats. One that never did is left alone."""
        beat, since = self._heard.get(worker_id, (0, 0.0))
        if seen.st_size and beat == seen.st_mtime_ns:
            return time.monotonic() - since > self.lease_s
        self._heard[worker_id] = seen.st_mtime_ns, time.monotonic()
        return False

    def beat(self, worker_id: str) -> str:
        """From now on others hear of this worker, for as long as its process is not stopped."""
        with self._mutex:
            file = self._workers.get(worker_id)
            if file is None or self._quiet.is_set():
                return worker_id
            try:
                if not os.fstat(file.fileno()).st_size:
                    os.write(file.fileno(), b"beats\n")
            except OSError as error:
                raise disk.from_os_error(error, self._folder / f"{worker_id}.worker") from error
            if self._beating is None:
                self._beating = threading.Thread(target=self._beat, name="memkit-heart", daemon=True)
                self._beating.start()
            return worker_id

    def _beat(self) -> None:
        quiet = self._quiet
        while not quiet.wait(self.lease_s / _BEATS):
            with self._mutex:
                for worker_id in self._workers:
                    with suppress(OSError):
                        os.utime(self._folder / f"{worker_id}.worker")

    def sweep(self) -> None:
        """Remove what dead workers left behind."""
        for entry in self._folder.glob("*.worker"):
            self.alive(entry.stem)

    def _remove(self, worker_id: str) -> None:
        try:
            (self._folder / f"{worker_id}.worker").unlink(missing_ok=True)
        except OSError:
            return  # Windows keeps open files; a leftover is empty and harmless

    # -- the two locks ---------------------------------------------------------------------------------------------

    def applier(self, wait: bool = True) -> Any:
        return self._applier.hold()

    def lance(self, exclusive: bool) -> Any:
        return self._lance.hold_exclusive() if exclusive else self._lance.hold_shared()

    @contextmanager
    def creating(self) -> Generator[None]:
        """Alone while the store is being made."""
        deadline = time.monotonic() + self._patience
        with self._mutex:
            self.poll(lambda: self.try_range(_CREATE, True), deadline)
            try:
                yield
            finally:
                self.free_range(_CREATE)

    def _handle(self, exclusive: bool) -> int | None:
        """None where a shared lock needs no file: nobody can ever have written to this disk since it was mounted."""
        if self._file is None:
            path = self._folder / "store.lock"
            try:
                self._file = open(path, "a+b")  # noqa: SIM115 - held as long as the store is open
            except OSError as error:
                if exclusive or os.access(self._folder, os.W_OK):
                    raise disk.from_os_error(error, path) from error
                if not path.exists():
                    return None
                self._file = open(path, "rb")  # noqa: SIM115
        return self._file.fileno()

    def try_range(self, byte: int, exclusive: bool) -> bool:
        handle = self._handle(exclusive)
        return handle is None or try_lock(handle, byte, exclusive=exclusive)

    def free_range(self, byte: int) -> None:
        if self._file is not None:
            unlock(self._file.fileno(), byte)

    def deadline(self) -> float:
        return time.monotonic() + self._patience

    def poll(self, attempt: Callable[[], bool], deadline: float) -> None:
        pause = 0.0005
        while not attempt():
            if time.monotonic() >= deadline:
                raise self.busy()
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 1.5, 0.008)

    def busy(self) -> StoreBusy:
        return StoreBusy(
            f"a lock of {self._folder.parent} was not granted within {self._patience:g} s",
            why="another thread or process holds it, or was stopped while it held it",
            fix="call again; if it stays, look for a hanging process that has the store open",
        )

    def after_fork_in_child(self) -> None:
        """The child owns no lock of its parent. Handles are closed (that drops nothing of the parent's)."""
        for file in [*self._workers.values(), *([self._file] if self._file else [])]:
            file.close()
        self._file, self._workers = None, {}
        self._mutex, self._beating, self._quiet = threading.Lock(), None, threading.Event()
        self._applier, self._lance = _FairLock(self), _SharedExclusive(self)


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


class _FairLock:
    """First come, first served among threads; alternating among processes."""

    def __init__(self, locks: StoreLocks) -> None:
        self._locks = locks
        self._turn = threading.Condition()
        self._queue: deque[object] = deque()

    @contextmanager
    def hold(self) -> Generator[None]:
        deadline, ticket = self._locks.deadline(), object()
        with self._turn:
            self._queue.append(ticket)
            while self._queue[0] is not ticket:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._queue.remove(ticket)
                    raise self._locks.busy()
                self._turn.wait(left)
        try:
            self._locks.poll(lambda: self._locks.try_range(_APPLIER_NEXT, True), deadline)
            try:
                self._locks.poll(lambda: self._locks.try_range(_APPLIER, True), deadline)
            finally:
                self._locks.free_range(_APPLIER_NEXT)
            try:
                yield
            finally:
                self._locks.free_range(_APPLIER)
        finally:
            with self._turn:
                self._queue.remove(ticket)
                self._turn.notify_all()


class _SharedExclusive:
    """Many readers or one writer, over threads and processes; a waiting writer stops new readers. A thread that holds
    the lock may ask for shared again."""

    def __init__(self, locks: StoreLocks) -> None:
        self._locks = locks
        self._changed = threading.Condition()
        self._readers = 0
        self._writer_waits = False
        self._writers = threading.Lock()
        self._mine = threading.local()

    @contextmanager
    def hold_shared(self) -> Generator[None]:
        depth = getattr(self._mine, "depth", 0)
        if not depth:
            self._enter_shared()
        self._mine.depth = depth + 1
        try:
            yield
        finally:
            self._mine.depth = depth
            if not depth:
                with self._changed:
                    self._readers -= 1
                    if not self._readers:
                        self._locks.free_range(_LANCE)
                        self._changed.notify_all()

    def _enter_shared(self) -> None:
        deadline, pause = self._locks.deadline(), 0.0005
        with self._changed:
            while not self._try_shared():
                if time.monotonic() >= deadline:
                    raise self._locks.busy()
                self._changed.wait(pause * (0.5 + random.random()))
                pause = min(pause * 1.5, 0.008)

    def _try_shared(self) -> bool:
        if self._writer_waits or not self._locks.try_range(_LANCE_GATE, False):
            return False
        try:
            if not self._readers and not self._locks.try_range(_LANCE, False):
                return False
        finally:
            self._locks.free_range(_LANCE_GATE)
        self._readers += 1
        return True

    @contextmanager
    def hold_exclusive(self) -> Generator[None]:
        if getattr(self._mine, "depth", 0):
            raise StoreBusy("this thread holds the lock already", fix="leave the inner lock before asking for it alone")
        deadline = self._locks.deadline()
        if not self._writers.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise self._locks.busy()
        try:
            with self._changed:
                self._writer_waits = True
            self._locks.poll(lambda: self._locks.try_range(_LANCE_GATE, True), deadline)
            try:
                with self._changed:
                    while self._readers:
                        if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                            raise self._locks.busy()
                self._locks.poll(lambda: self._locks.try_range(_LANCE, True), deadline)
                self._mine.depth = 1
                try:
                    yield
                finally:
                    self._mine.depth = 0
                    self._locks.free_range(_LANCE)
            finally:
                self._locks.free_range(_LANCE_GATE)
        finally:
            with self._changed:
                self._writer_waits = False
                self._changed.notify_all()
            self._writers.release()


class _OpenGuard:
    mutex = threading.Lock()


_OPEN: dict[str, StoreLocks] = {}


def _after_fork_in_child() -> None:
    _OpenGuard.mutex = threading.Lock()
    for locks in list(_OPEN.values()):
        locks.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
