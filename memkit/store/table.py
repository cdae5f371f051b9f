"""One LanceDB table as a disposable projection: opening, locking, self-healing, compaction, rewriting without a user.

What is in the rows is the business of the classes that use this one. The rules kept here:

- Every call into LanceDB happens under the shared lock of the store, cleanup and erasure under the exclusive one:
  removing old versions breaks whoever still reads them, in any process.
- Files that cannot be read are moved aside (`*.corrupt`), never silently overwritten, and the table continues from
  the newest version that can be read; the caller then finds an older watermark and replays the journal.
- Only two things rewrite data: compaction, and `rewrite`, which streams the rows to keep into a new version that
  replaces everything at once. Deleting alone erases nothing: deleted rows stay in their files.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from memkit.errors import StoreBusy, StoreDamaged, StoreError
from memkit.store.files import CORRUPT, Synced, age, free_name, inode, is_temporary, measure, put_back, stamp_newest
from memkit.store.lance import (
    Batch,
    Handle,
    Schema,
    classify,
    connect,
    connect_pinned,
    forked_after_loading,
    is_missing_table,
    silence_cleanup,
    trim_heap,
    typed_errors,
)
from memkit.store.making import copy_rows, count_rows, ensure_indexes, write_stream
from memkit.store.values import MaintenanceReport

T = TypeVar("T")
Lock = Callable[[bool], AbstractContextManager[Any]]
"""lock(False) shared, lock(True) exclusive; across processes; not re-entrant."""

CORRUPT_KEPT = 4
"""Quarantined files that maintenance leaves for a post-mortem."""
_BESIDE = "beside"
_ALL = 1 << 30
_NEVER = timedelta(days=36_500)
_ROUNDS = 3


class LanceTable:
    def __init__(
        self,
        root: Path,
        name: str,
        *,
        lock: Lock,
        probe: Callable[[Any], object],
        indexes: Sequence[str],
        bitmap: bool,
        suffices: Callable[[Any | None], bool] | None = None,
        prove: Callable[[Any], object] | None = None,
    ) -> None:
        """`probe` reads something small from a handle and raises where the version is unreadable; `prove` reads all
        of it. `indexes` are the columns with a scalar index (`bitmap` for few distinct values, else a B-tree).
        `suffices`: of a table that nothing can build anew, whether a version holds all that it must; then what is
        moved aside is never deleted."""
        self.root, self.name, self.directory = root, name, root / (name + ".lance")
        self._lock, self._probe, self._prove = lock, probe, prove or probe
        self._indexes, self._bitmap = tuple(indexes), bitmap
        self._suffices, self._synced = suffices, Synced()
        self._beyond_healing: object = None
        """The stamp of a table that was read whole, and in vain: it need not be again."""
        self._handle: Handle | None = None
        self._folder: int | None = None
        self._mutex, self._pid = threading.Lock(), os.getpid()

    # -- access ------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[Handle | None], T]) -> T:
        """`work(handle)` under the shared lock; the handle is None where the table does not exist. Repeated after
        healing when the newest version turns out to be unreadable."""
        return self._run(work, exclusive=False)

    def write(self, work: Callable[[Handle | None], T], *, exclusive: bool = False, once: bool = False) -> T:
        """As `read`, one at a time in this process: LanceDB's own commit retries starve concurrent writers. `once`:
        never repeated, because `work` consumes something."""
        with self._writing():
            return self._run(work, exclusive, rounds=1 if once else _ROUNDS)

    def _run(self, work: Callable[[Handle | None], T], exclusive: bool, rounds: int = _ROUNDS) -> T:
        for attempt in range(1, rounds + 1):
            try:
                with self._lock(exclusive), typed_errors():
                    return work(self._open())
            except StoreDamaged:
                # The first time it is repeated even where nothing was moved: another process may have healed it.
                if attempt == rounds or (not self.heal() and attempt > 1):
                    raise
        raise AssertionError("unreachable")

    def _writing(self) -> threading.Lock:
        """The writers' lock of this process; a fork may have copied it while held. The handle is kept: after a fork
        LanceDB survives that far better than a new connection."""
        if self._pid != os.getpid():
            self._mutex, self._pid = threading.Lock(), os.getpid()
        return self._mutex

    def _open(self) -> Any | None:
        """The cached handle, which follows the newest version by itself."""
        folder = inode(self.directory)
        if folder != self._folder:  # another process may have put another table in its place
            self._handle, self._folder = None, folder
        if self._handle is None:
            self._handle = self._fresh()
        return self._handle

    def _fresh(self, *, pinned: bool = False) -> Any | None:
        if not self.directory.is_dir():
            return None
        try:
            return (connect_pinned if pinned else connect)(self.root).open_table(self.name)
        except ValueError as error:
            if is_missing_table(error) and not any((self.directory / "_versions").glob("*.manifest")):
                if any((self.directory / "_versions").glob("*" + CORRUPT)) or any(self.directory.glob("data/*")):
                    raise StoreDamaged(
                        f"the table {self.name} has data but no version",
                        why="its manifests are gone",
                        fix="run `memkit doctor --repair`",
                    ) from error
                return None
            raise

    def pin_version(self) -> Any | None:
        """A handle that stays at one version; for use inside `read`."""
        return self._fresh(pinned=True)

    def stamp(self) -> tuple[str, int, int, int] | None:
        """Identity of the newest version's manifest, without asking LanceDB. A version number alone would not do:
        after a version was quarantined its number is given out again."""
        return stamp_newest(self.directory / "_versions")

    # -- whole-table writes ------------------------------------------------------------------------------------

    def create(self, schema: Schema) -> Any:
        """An empty table, indexes included. Inside `write` only."""
        self.root.mkdir(parents=True, exist_ok=True)
        try:
            handle = connect(self.root).create_table(self.name, schema=schema)
        except ValueError as error:
            if "already exists" not in str(error):
                raise
            handle = connect(self.root).open_table(self.name)
        self.ensure_indexes(handle)
        self._handle = handle
        return handle

    def overwrite(self, schema: Schema, batches: Iterable[Batch]) -> Any:
        """Replace all rows (and the schema) by `batches`, in one commit, in constant memory. Inside `write` only."""
        self.root.mkdir(parents=True, exist_ok=True)
        mode = "overwrite" if self.directory.is_dir() else "create"
        write_stream(connect(self.root), self.name, schema, batches, mode)
        self._handle = None
        handle = self._open()
        if handle is None:
            raise StoreError(f"the new version of {self.name} has vanished", fix="run `memkit doctor --repair`")
        self.ensure_indexes(handle)
        return handle

    def ensure_indexes(self, handle: Handle | None, *, replace: bool = False) -> None:
        ensure_indexes(handle, self._indexes, self._bitmap, replace=replace)

    def add_columns(self, handle: Handle, fields: Sequence[Any]) -> None:
        handle.add_columns(fields)

    # -- maintenance -------------------------------------------------------------------------------------------

    @property
    def commits_since_maintenance(self) -> int:
        """Versions on disk beyond the newest: counted there, so that all processes see the same number."""
        try:
            with os.scandir(self.directory / "_versions") as entries:
                return max(0, sum(entry.name.endswith(".manifest") for entry in entries) - 1)
        except FileNotFoundError:
            return 0

    def maintain(self, dead: Callable[[], Any] | None, force: bool) -> MaintenanceReport:
        """Compact, index the new rows, drop old versions. The rows that `dead` says are deleted first."""
        if not self.directory.is_dir() or (not force and self.commits_since_maintenance == 0):
            return MaintenanceReport(ran=False)
        started, before = time.perf_counter(), self.usage()
        with self._writing():
            purged = self._run(lambda handle: self._compact(handle, dead), exclusive=False)
            self._run(self._cleanup, exclusive=True)
        trim_heap()
        after = self.usage()
        return MaintenanceReport(
            ran=True,
            purged=purged,
            files_before=before[0],
            files_after=after[0],
            bytes_before=before[1],
            bytes_after=after[1],
            seconds=time.perf_counter() - started,
        )

    def _compact(self, _handle: Any | None, dead: Callable[[], Any] | None) -> int:
        # A handle of its own: optimize on a handle that lags behind fails every time.
        handle = self._fresh()
        if handle is None:
            return 0
        purged = 0 if dead is None else _delete(handle, dead())
        self.ensure_indexes(handle)
        try:
            handle.optimize(cleanup_older_than=_NEVER)
        except RuntimeError as error:
            # A projector of another process won the race; its rows are compacted next time.
            if not isinstance(classify(error), StoreBusy):
                raise
        return purged

    def _cleanup(self, _handle: Any | None) -> None:
        handle = self._fresh()
        if handle is not None:
            self._drop_old_versions(handle)
        self._sweep(CORRUPT_KEPT if self._suffices is None else _ALL)

    def _drop_old_versions(self, handle: Any) -> None:
        """What replaces them is on the disk by then and can be read; and that they are gone is on the disk after.
        LanceDB removes old versions only together with compaction, which makes new ones that are not on the disk. So
        first it compacts until it finds nothing more to do."""
        version = None
        while version != handle.version:
            version = handle.version
            handle.optimize(cleanup_older_than=_NEVER)
        self._prove(handle)
        self.sync()
        with silence_cleanup():
            handle.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)
        self.sync()

    def sync(self) -> None:
        """Make every change survive a power cut: LanceDB itself does not fsync."""
        with typed_errors():
            self._synced.sync(self.root, self.directory)

    def rewrite(self, keep: Any, batch_rows: int = 1024) -> None:
        """A new version with only the rows that satisfy `keep`, everything else physically gone: older versions,
        tags, branches, indexes. The new version is read back before anything goes. Inside an exclusive `write`
        only, and before a `sweep`."""
        handle = self._open()
        if handle is not None:
            files = [path for path in self.directory.rglob("*") if path.is_file()]
            stale = [path for path in files if CORRUPT not in path.name and not is_temporary(path.name)]
            for tag in list(handle.tags.list()):
                handle.tags.delete(tag)
            for branch in list(handle.branches.list()):
                handle.branches.delete(branch)
            self._drop_old_versions(self.overwrite(handle.schema, copy_rows(handle, keep, batch_rows)))
            self._handle = None
            for path in stale:  # LanceDB passes over what it could not remove
                path.unlink(missing_ok=True)

    # -- damage ------------------------------------------------------------------------------------------------

    def heal(self) -> list[str]:
        """Make the table readable again; returns the names of what was moved aside. The newest version that
        cannot be read is quarantined, then each before it that cannot or does not suffice; when none is left, the whole
        table is. Where that does not suffice either, all stays as it was. Older versions whose manifest is torn are
        moved aside, too, because whatever removes old versions reads each of them. Of a table that nothing can build
        anew, the indexes are made anew."""
        with self._lock(True):
            moved: list[tuple[Path, Path]] = []
            if self._beyond_healing is not None and self._beyond_healing == self.stamp():
                return []
            self._handle = None
            try:
                while self.directory.is_dir() and not (self._readable() and (not moved or self._left_suffices())):
                    found = (self.directory / "_versions").glob("*.manifest")
                    manifests = sorted(found, key=lambda path: age(path.name))
                    moved.append(self._move_aside(manifests[0] if len(manifests) > 1 else self.directory))
                if moved and not self._left_suffices():
                    put_back(moved)
                    self._beyond_healing = self.stamp()
                    return []
                moved += [self._move_aside(torn) for torn in self._torn_manifests()]
                if self._suffices is not None and self._left_suffices() and not forked_after_loading():
                    with typed_errors():
                        self.ensure_indexes(self._fresh(), replace=True)
            except BaseException:
                put_back(moved)
                raise
            finally:
                self._handle = None
            return [target.name for _, target in moved]

    def _move_aside(self, victim: Path) -> tuple[Path, Path]:
        target = free_name(victim)
        with typed_errors():
            return victim, victim.rename(target)

    def _torn_manifests(self) -> list[Path]:
        """Of older versions; the newest can be read."""
        found: list[Path] = []
        for path in sorted((self.directory / "_versions").glob("*.manifest"), key=lambda path: age(path.name)):
            try:
                with typed_errors():
                    if (handle := self._fresh(pinned=True)) is not None:
                        handle.checkout(2**64 - 1 - age(path.name))
            except StoreDamaged:
                found.append(path)
        return found

    def _left_suffices(self) -> bool:
        if self._suffices is None:
            return True
        with typed_errors():
            return self._suffices(self._fresh())

    def _readable(self) -> bool:
        try:
            with typed_errors():
                handle = self._fresh()
                if handle is not None:
                    self._prove(handle)
            return True
        except StoreDamaged:
            return False

    def quarantine(self) -> str | None:
        """Move the whole table aside; the next write starts an empty one."""
        with self._writing(), self._lock(True), typed_errors():
            self._handle = None
            if not self.directory.is_dir():
                return None
            target = free_name(self.directory)
            self.directory.rename(target)
            return target.name

    def replace(self, schema: Schema, batches: Iterable[Batch]) -> None:
        """Another table in the place of this one, whatever state that is in: written beside it, then swapped. What was
        there is moved aside."""
        beside = LanceTable(
            self.root / _BESIDE,
            self.name,
            lock=lambda _: nullcontext(),
            probe=self._probe,
            indexes=self._indexes,
            bitmap=self._bitmap,
        )
        with self._writing():
            with typed_errors():
                shutil.rmtree(beside.root, ignore_errors=True)
                beside.overwrite(schema, batches)
                beside.sync()
            with self._lock(True), typed_errors():
                self._handle = None
                if self.directory.is_dir():
                    self.directory.rename(free_name(self.directory))
                beside.directory.rename(self.directory)
                shutil.rmtree(beside.root, ignore_errors=True)
                self.sync()

    def drop(self) -> None:
        """Remove the table and everything that was quarantined from it."""
        with self._writing(), self._lock(True), typed_errors():
            self._handle = None
            if self.directory.is_dir():
                # Renamed first: a crash half-way must not leave a table with some of its files.
                doomed = free_name(self.directory)
                self.directory.rename(doomed)
            self._sweep(0)

    def list_quarantined(self) -> list[Path]:
        found = list(self.root.glob(self.name + ".lance*" + CORRUPT))
        return sorted([*found, *self.directory.rglob("*" + CORRUPT)])

    def sweep(self) -> int:
        """Delete temporary files, and quarantined ones of a table that can be built anew; under the exclusive lock
        only. Returns how many there were."""
        count = self._sweep(0 if self._suffices is None else _ALL)
        self.sync()
        return count

    def _sweep(self, keep: int) -> int:
        litter = [path for path in self.directory.rglob("*") if is_temporary(path.name) and path.is_file()]
        quarantined = sorted(self.list_quarantined(), key=lambda path: path.stat().st_mtime)
        beside = [path for path in [self.root / _BESIDE] if path.is_dir()]
        doomed = [*litter, *beside, *quarantined[: max(0, len(quarantined) - keep)]]
        for path in doomed:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        return len(doomed)

    def usage(self) -> tuple[int, int]:
        """(files, bytes) of the table's folder."""
        return measure(self.directory)


def _delete(handle: Handle, dead: Any) -> int:
    count = count_rows(handle, dead)
    if count:
        handle.delete(dead)
    return count
