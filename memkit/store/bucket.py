"""One LanceDB table on object storage: every machine reads it, and one at a time writes.

Nobody can be kept out of a bucket: a machine that was stopped in the middle of a write goes on with it when it wakes.
So what counts is what the *catalog* names, a table and a version of it, published by whoever holds the lease:

- A write begins at the published version; whatever lies above it counts for nobody, and is undone. What is written is
  published only where it is the very next version, so that nobody wrote in between.
- What replaces rows (a rebuild, an erasure, maintenance) is a table of its own, named after the term of its lease. Once
  it is published, the one before and all of earlier terms are removed, with all of their versions.
- A reader opens the published version. Where that is gone by the time it reads, it asks what is published now."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from memkit.errors import StoreBusy, StoreDamaged, StoreUnreachable
from memkit.seams.catalog import Catalog, PublishedTable
from memkit.store.lance import Batch, Handle, Schema, connect_bucket, is_missing_table, typed_errors
from memkit.store.making import copy_rows, ensure_indexes, write_stream
from memkit.store.values import MaintenanceReport

T = TypeVar("T")

_ROUNDS = 3
_QUIET_S = 5.0
"""Storage that did not answer is left alone for so long by readers, who have the journal."""
_MADE = 2
"""Versions of a table that was just made: its rows, and its index."""


@dataclass(slots=True)
class _Draft:
    """What a write has made so far."""

    name: str = ""
    handle: Any = None
    base: int = 0
    """The version that it began at."""
    replaces: bool = False


class BucketTable:
    def __init__(self, catalog: Catalog, name: str, *, indexes: Sequence[str], bitmap: bool) -> None:
        self._catalog, self._name = catalog, name
        self._indexes, self._bitmap = tuple(indexes), bitmap
        self._connected: Any = None
        self._reading: tuple[PublishedTable, Handle] | None = None
        self._mutex, self._here = threading.Lock(), threading.local()
        self._quiet: tuple[float, StoreUnreachable] | None = None

    # -- access ------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[Handle | None], T]) -> T:
        """`work(handle)` at the published version; the handle is None where nothing is published."""
        if self._quiet is not None and time.monotonic() < self._quiet[0]:
            raise self._quiet[1]
        found = self._catalog.read()
        for attempt in range(1, _ROUNDS + 1):
            try:
                with typed_errors(remote=True):
                    handle = None if found is None else self._open(found)
                    self._here.pinned = found, handle
                    return work(handle)
            except StoreUnreachable as error:
                self._quiet = time.monotonic() + _QUIET_S, error
                raise
            except StoreDamaged:
                before, found = found, self._catalog.read()
                if before == found or attempt == _ROUNDS:
                    raise
            finally:
                self._here.pinned = None
        raise AssertionError("unreachable")

    def _open(self, found: PublishedTable) -> Handle:
        """A handle that stays at this version."""
        if self._reading is None or self._reading[0] != found:
            handle = self._connection().open_table(found.table)
            handle.checkout(found.version)
            self._reading = found, handle
        return self._reading[1]

    def _connection(self) -> Any:
        if self._connected is None:
            self._connected = connect_bucket(self._catalog.place)
        return self._connected

    def stamp(self) -> PublishedTable | None:
        """What is being read here; None while it is being written."""
        pinned = getattr(self._here, "pinned", None)
        if pinned is not None:
            return pinned[0]
        return None if self._is_writing else self._catalog.read()

    def pin_version(self) -> Handle | None:
        """For use inside `read`."""
        pinned = getattr(self._here, "pinned", None)
        return None if pinned is None else pinned[1]

    @property
    def _is_writing(self) -> bool:
        return getattr(self._here, "draft", None) is not None

    # -- writing, under the lease --------------------------------------------------------------------------------

    def write(self, work: Callable[[Handle | None], T], *, exclusive: bool = False) -> T:
        """`work(handle)` from the published version on, and what it wrote is published, or nothing of it."""
        with self._mutex:
            for _ in range(_ROUNDS):
                before = self._catalog.read()
                draft = self._here.draft = _Draft()
                try:
                    with typed_errors(remote=True):
                        if before is not None:
                            draft.name, draft.handle = before.table, self._writable(before)
                            draft.base = draft.handle.version
                        result = work(draft.handle)
                        made = None if draft.handle is None else draft.handle.version
                finally:
                    self._here.draft = None
                if made is None or (made == draft.base and not draft.replaces):
                    return result  # there was nothing to write
                if draft.replaces or made == draft.base + 1:
                    self._publish(PublishedTable(draft.name, made), before)
                    return result
            raise StoreBusy(
                f"another machine writes {self._catalog.place} at the same time",
                why="its lease is over, and it does not know yet",
                fix="call again; what it writes counts for nobody",
            )

    def _writable(self, before: PublishedTable) -> Any:
        handle = self._connection().open_table(before.table)
        if handle.version != before.version:  # by a machine that died before it published, or lost its lease
            handle.checkout(before.version)
            handle.restore()
        return handle

    def _publish(self, found: PublishedTable, before: PublishedTable | None) -> None:
        self._catalog.publish(found)
        if before is not None and before.table != found.table:
            self._remove({before.table}, found.table)

    def create(self, schema: Schema) -> Any:
        """An empty table, indexes included. Inside `write` only."""
        return self._make(lambda name: self._connection().create_table(name, schema=schema))

    def _make(self, fill: Callable[[str], object]) -> Any:
        draft: _Draft = self._here.draft
        draft.name = f"{self._name}_{self._catalog.term}_{secrets.token_hex(4)}"
        fill(draft.name)
        draft.handle, draft.replaces = self._connection().open_table(draft.name), True
        ensure_indexes(draft.handle, self._indexes, self._bitmap)
        draft.base = draft.handle.version
        return draft.handle

    def add_columns(self, handle: Handle, fields: Sequence[Any]) -> None:
        draft: _Draft = self._here.draft
        handle.add_columns(fields)
        draft.base += 1

    def rewrite(self, keep: Any, batch_rows: int = 1024) -> None:
        """A new table with only the rows that satisfy `keep`. Inside `write` only."""
        handle = self._here.draft.handle
        if handle is not None:
            schema, rows = handle.schema, copy_rows(handle, keep, batch_rows)
            self._make(lambda name: write_stream(self._connection(), name, schema, rows, "create"))

    def replace(self, schema: Schema, batches: Iterable[Batch]) -> None:
        """Another table in the place of this one, whatever state that is in."""
        with self._mutex:
            before = self._catalog.read()
            draft = self._here.draft = _Draft()
            try:
                with typed_errors(remote=True):
                    handle = self._make(lambda name: write_stream(self._connection(), name, schema, batches, "create"))
                    made = PublishedTable(draft.name, handle.version)
            finally:
                self._here.draft = None
            self._publish(made, before)

    def drop(self) -> None:
        before = self._catalog.read()
        self._catalog.publish(None)
        self._remove(set() if before is None else {before.table}, "")

    def sweep(self) -> int:
        """Nothing: publishing what replaces a table removes it."""
        return 0

    def _remove(self, names: set[str], kept: str) -> None:
        """Tables that nobody is to read any more, also what machines that died or were late have left."""
        with typed_errors(remote=True):
            connection = self._connection()
            for name in {*names, *filter(self._is_ours, _list_tables(connection))} - {kept}:
                try:
                    connection.drop_table(name)
                except ValueError as error:
                    if not is_missing_table(error):
                        raise

    def _is_ours(self, name: str) -> bool:
        """Of this term or one before: whoever takes over makes tables of later ones alone."""
        kind, _, rest = name.rpartition("_")[0].rpartition("_")
        return kind == self._name and rest.isdigit() and int(rest) <= self._catalog.term

    # -- care --------------------------------------------------------------------------------------------------

    @property
    def commits_since_maintenance(self) -> int:
        found = self._catalog.read()
        return 0 if found is None else max(0, found.version - _MADE)

    def maintain(self, alive: Callable[[], Any], force: bool) -> MaintenanceReport:
        """A new table without the rows that ended, compact and indexed."""
        if self._catalog.read() is None or (not force and self.commits_since_maintenance == 0):
            return MaintenanceReport(ran=False)
        started = time.perf_counter()
        self.write(lambda _: self.rewrite(alive()))
        return MaintenanceReport(ran=True, seconds=time.perf_counter() - started)

    def list_quarantined(self) -> list[Path]:
        return []

    def usage(self) -> tuple[int, int]:
        return 0, 0


def _list_tables(connection: Any) -> list[str]:
    names, token = list[str](), None
    while True:
        page = connection.list_tables(page_token=token, limit=1000)
        names += page.tables
        if not (token := page.page_token):
            return names
