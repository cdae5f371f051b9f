"""`Projection`: the table `memories`, brought up to a sequence number of the journal and read by scope.

The watermark row is written in the same commit as the rows it speaks for, so whatever version is opened says exactly
which part of the journal it covers. Replaying from an older watermark changes nothing that is already there, and
brings nothing back: rows at or below the watermark are skipped, tombstones included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memkit.errors import EmbedderMismatch, MemkitError, NewerFormat, StoreDamaged, StoreFull
from memkit.filters import Condition
from memkit.seams.catalog import Catalog
from memkit.store import schema as layout
from memkit.store.bucket import BucketTable
from memkit.store.compile import among, differs, equals, every, none_of
from memkit.store.lance import (
    Batch,
    Handle,
    Schema,
    connect,
    forked_after_loading,
    modules,
    scan,
    schema_notes,
    typed_errors,
)
from memkit.store.making import count_rows
from memkit.store.preselect import preselect
from memkit.store.table import LanceTable, Lock
from memkit.store.values import EraseReport, MaintenanceReport, ProjectedRow, Slice, TableProblem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEWER_ONLY = "target.seq < source.seq"
_SCAN_ROWS = 2048
_INDEX_PROBES = 200


class Projection:
    """All methods are safe from several threads and processes. `apply`, `rebuild` and `maintain` expect to be called
    by one projector at a time (the journal's applier lock); where that is broken nothing is lost, only time."""

    def __init__(self, place: Path | Catalog, *, dim: int, identity: str, lock: Lock) -> None:
        """place: a folder, or what says where on object storage the table lies, which takes no lock."""
        self.dim, self.identity, self.is_remote = dim, identity, not isinstance(place, Path)
        indexes = ("user_id",)
        self._table: LanceTable | BucketTable = (
            LanceTable(place, layout.TABLE, lock=lock, probe=_read_watermark, indexes=indexes, bitmap=True)
            if isinstance(place, Path)
            else BucketTable(place, layout.TABLE, indexes=indexes, bitmap=True)
        )
        self._known: tuple[object, int] = (None, 0)
        """The watermark of one version of the table, by its stamp."""

    @classmethod
    def of_any_embedder(cls, path: Path, *, lock: Lock) -> Projection | None:
        """For reading a table whose embedder is not at hand; None where there is none that can be read."""
        try:
            with typed_errors():
                schema = connect(path).open_table(layout.TABLE).schema
        except MemkitError:
            return None
        identity = schema_notes(schema).get(layout.EMBEDDER_KEY, "")
        return cls(path, dim=schema.field("vector").type.list_size, identity=identity, lock=lock)

    @property
    def inherited(self) -> bool:
        """True in a child forked after LanceDB was loaded. Writes may crash there and reads, seldom, hang inside
        LanceDB, so a forked child answers from the journal and leaves projecting to processes that were not forked
        from a user of LanceDB."""
        return forked_after_loading()

    # -- writing -----------------------------------------------------------------------------------------------

    def watermark(self) -> int:
        """Every op up to this sequence number is in the table; 0 where there is no table."""
        return self._table.read(self._covered)

    def apply(self, rows: Sequence[ProjectedRow], seq: int) -> None:
        """Bring the table to `seq` in one commit: newer states replace older ones, tombstones end memories. The
        commit is read back: LanceDB was seen to acknowledge data that it could not read again."""
        self._table.write(lambda handle: self._merge(handle, rows, seq))

    def _covered(self, handle: Handle | None) -> int:
        if handle is None:
            return 0
        stamp, (known, watermark) = self._table.stamp(), self._known
        if stamp is None or stamp != known:
            self._verify(handle.schema)
            watermark = _read_watermark(handle, ["seq"])
            self._remember(stamp, watermark)
        return watermark

    def _remember(self, stamp: object, watermark: int) -> None:
        """`stamp` was taken before the watermark was read; where it moved meanwhile it says nothing."""
        if stamp == self._table.stamp():
            self._known = (stamp, watermark)

    def _merge(self, handle: Handle | None, rows: Sequence[ProjectedRow], seq: int) -> None:
        covered = self._covered(handle)
        if seq <= covered:
            return
        batch = layout.encode([row for row in rows if row.seq > covered], self.dim, self.identity, watermark=seq)
        target = handle or self._table.create(layout.memories_schema(self.dim, self.identity))
        if missing := layout.missing_fields(target.schema):
            self._table.add_columns(target, missing)
        _, pa = modules()
        merge = target.merge_insert("id").when_matched_update_all(where=NEWER_ONLY).when_not_matched_insert_all()
        # Not through an index: LanceDB's index path loses the conflict information that keeps ids unique.
        # Tombstones have no vector, which LanceDB takes for a bad one unless told otherwise.
        merge.use_index(False).execute(pa.Table.from_batches([batch]), on_bad_vectors="null")
        self._read_back(target, seq, batch.num_rows)

    def _read_back(self, handle: Handle, seq: int, written: int) -> None:
        stamp = self._table.stamp()
        try:
            found = _newest_watermark(handle, written) or _read_watermark(handle, ["seq"])
        except RuntimeError as error:
            if self.is_remote:
                raise
            raise StoreDamaged(
                "LanceDB acknowledged a write that cannot be read again",
                why="usually a full disk",
                fix="free some space; the write is repeated from the journal",
            ) from error
        if found < seq:
            raise StoreFull(
                f"the projection stands at {found} after a write up to {seq}",
                why="the commit did not reach the disk",
                fix="free some space and try again; nothing in the journal is lost",
            )
        self._remember(stamp, found)

    def rebuild(self, batches: Iterable[Sequence[ProjectedRow]], seq: int) -> None:
        """Replace the table by `batches` (the live memories of the journal) as of `seq`; readers see the old one
        until then. Works on an unreadable table and with another embedder than before."""

        def encoded() -> Iterator[Batch]:
            for rows in batches:
                yield layout.encode(rows, self.dim, self.identity)
            yield layout.encode((), self.dim, self.identity, watermark=seq)

        self._table.replace(layout.memories_schema(self.dim, self.identity), encoded())
        self._table.write(lambda _: self._table.sweep(), exclusive=True)

    # -- reading -----------------------------------------------------------------------------------------------

    def slice(
        self,
        user_id: str,
        agent_id: str | None = None,
        *,
        kinds: Collection[str] | None = None,
        only_bank: bool = False,
    ) -> Slice:
        """The live memories of a user (of one agent's bank, of some kinds) with their vectors, in one scan.
        `only_bank`: the user has hardly any other bank, so LanceDB need not look at agents."""
        pushed = None if only_bank else agent_id
        return self._table.read(lambda handle: self._slice(handle, user_id, agent_id, kinds, pushed))

    def _slice(
        self,
        handle: Handle | None,
        user_id: str,
        agent_id: str | None,
        kinds: Collection[str] | None,
        pushed: str | None,
    ) -> Slice:
        if handle is None:
            return self._empty()
        watermark, stamp = self._covered(handle), self._known[0]
        agent = [] if pushed is None else [equals("agent_id", pushed)]
        found = scan(handle, every([equals("user_id", user_id), *agent]))
        if stamp is None or stamp != self._table.stamp():  # the version moved: rows and watermark from one scan
            watermark, found = 0, scan(handle, _scope(user_id, pushed))
        return self._decode(found, lambda rows: _inside(rows, user_id, agent_id, kinds), watermark)

    def slice_users(self, user_ids: Sequence[str]) -> Slice:
        """The live memories of several users, in one scan."""
        import numpy as np

        def inside(rows: Mapping[str, Any]) -> NDArray[np.bool_]:
            return np.logical_or.reduce([layout.having(rows["user_id"], one) for one in user_ids])

        def work(handle: Handle | None) -> Slice:
            if handle is None:
                return self._empty()
            return self._decode(scan(handle, among("user_id", [*user_ids, layout.WATERMARK_USER])), inside)

        return self._table.read(work)

    def _decode(
        self, found: Batch, inside: Callable[[Mapping[str, Any]], NDArray[np.bool_]], watermark: int = 0
    ) -> Slice:
        """Rows are checked again here: the filter is an optimisation, this is the law. The watermark is that of the
        rows where they bring one."""
        self._verify(found.schema)
        scoped, bad = layout.to_slice(found, self.dim, inside, watermark)
        if bad:
            raise StoreDamaged(
                f"{len(bad)} rows of the projection were altered on disk",
                why="their checksums do not fit",
                fix="run `memkit doctor --repair`: the projection is rebuilt from the journal",
                memory_ids=bad[:20],
            )
        return scoped

    def preselect(
        self,
        user_id: str,
        agent_id: str | None = None,
        *,
        vector: NDArray[np.float32] | None,
        text: str,
        limit: int,
        kinds: Collection[str] | None = None,
        condition: Condition | None = None,
    ) -> Slice:
        """At most `2 * limit` rows of a very large bank that a full ranking should see: the nearest by exact vector
        search, and those that share the rarest words with `text`. Deterministic; only this scope's rows count."""

        def work(_: Handle | None) -> Slice:
            pinned = self._table.pin_version()
            if pinned is None:
                return self._empty()
            self._verify(pinned.schema)
            scope = _scope(user_id, agent_id)
            wanted_kinds = [] if kinds is None else [among("kind", kinds)]
            ids = preselect(pinned, every([scope, *wanted_kinds]), vector, text, limit, condition or Condition())
            wanted = every([scope, among("id", [layout.WATERMARK_ID, *ids])])
            found = pinned.search().where(wanted).to_arrow()
            return self._decode(found, lambda rows: _inside(rows, user_id, agent_id, kinds))

        return self._table.read(work)

    def _empty(self) -> Slice:
        empty = layout.encode((), self.dim, self.identity)
        return layout.to_slice(empty, self.dim, lambda rows: layout.flags(rows["deleted"]), 0)[0]

    def _verify(self, schema: Schema) -> None:
        """Refuse vectors of another embedder. Checked at every call: another process may have re-embedded."""
        notes = schema_notes(schema)
        if int(notes.get(layout.FORMAT_KEY, "1")) > layout.FORMAT:
            raise NewerFormat(
                f"the projection has format {notes[layout.FORMAT_KEY]}, this memkit reads up to {layout.FORMAT}",
                why="a newer memkit wrote it",
                fix="upgrade memkit",
            )
        stored = (notes.get(layout.EMBEDDER_KEY, ""), schema.field("vector").type.list_size)
        if stored != (self.identity, self.dim):
            raise EmbedderMismatch(
                f"the store was built with embedder {stored[0]!r} ({stored[1]} numbers per vector), "
                f"and {self.identity!r} ({self.dim}) is configured",
                why="vectors of two embedders cannot be compared",
                fix="open the store anew with the former, which is the usual fix; or embed everything anew: "
                "`memkit doctor --reembed --embedder NAME STORE`",
                stored=stored[0],
                stored_dim=stored[1],
            )

    # -- care --------------------------------------------------------------------------------------------------

    @property
    def commits_since_maintenance(self) -> int:
        return self._table.commits_since_maintenance

    def maintain(self, force: bool = False) -> MaintenanceReport:
        """Purge tombstones, compact, index, drop old versions. Worth it every 50 to 200 commits. Tombstones may go
        because no row at or below the watermark is ever applied again."""
        return self._table.maintain(_alive if self.is_remote else _dead, force)

    def users(self) -> set[str]:
        """Everybody who has a row here, ended ones included."""

        def work(handle: Handle | None) -> set[str]:
            if handle is None:
                return set()
            found = handle.search().select(["user_id"]).to_arrow()
            return set(found.column("user_id").unique().to_pylist()) - {"", None}

        return self._table.read(work)

    def erase(self, user_id: str) -> EraseReport:
        """Destroy every byte of a user, in all versions and indexes; other rows are copied unchanged. Works under
        the exclusive lock; when interrupted, call it again: it starts from whatever version is newest. A table that
        cannot be copied (damaged, or no room) is removed as a whole and comes back from the journal."""
        return self._erase(equals("user_id", user_id), differs("user_id", user_id))

    def erase_memories(self, ids: Collection[str]) -> EraseReport:
        """The same for single memories."""
        return self._erase(among("id", ids), none_of("id", ids))

    def _erase(self, gone: Any, kept: Any) -> EraseReport:
        def work(handle: Handle | None) -> EraseReport:
            found = 0
            if handle is not None:
                found = count_rows(handle, gone)
                self._table.rewrite(kept)
            return EraseReport(found, self._table.sweep())

        try:
            return self._table.write(work, exclusive=True)
        except (StoreDamaged, StoreFull):
            files, _ = self._table.usage()
            self.drop()
            return EraseReport(0, files)

    def check(self) -> list[TableProblem]:
        """Read every row and every checksum. Empty: the table says what was written."""
        try:
            return self._table.read(self._examine)
        except StoreDamaged as error:
            return [TableProblem("unreadable", str(error))]

    def _examine(self, handle: Handle | None) -> list[TableProblem]:
        found = [TableProblem("quarantine", f"{path.name} was moved aside") for path in self._table.list_quarantined()]
        if handle is None:
            return found
        self._verify(handle.schema)
        seen: set[str] = set()
        for batch in handle.search().to_batches(_SCAN_ROWS):
            found.extend(_examine_rows(*layout.read_rows(batch, self.dim), seen))
        if layout.WATERMARK_ID not in seen:
            found.append(TableProblem("watermark", "the watermark row is missing"))
        return found or _examine_index(handle)

    def heal(self) -> list[str]:
        """Make the table usable whatever is on disk: quarantine unreadable versions, and the whole table where rows
        are still wrong. Returns what was moved; then `watermark()` says from where to replay the journal. On object
        storage nothing is moved aside: what is wrong there is dropped, under the lease."""
        table = self._table
        if isinstance(table, BucketTable):
            if self.check():
                self.drop()
            return []
        moved = table.heal()
        wrong = {problem.what for problem in self.check()} - {"quarantine"}
        if wrong == {"index"}:
            table.write(lambda handle: table.ensure_indexes(handle, replace=True))
        elif wrong:
            moved.extend(filter(None, [table.quarantine()]))
        return moved

    def drop(self) -> None:
        """Remove the table; `watermark()` is 0 afterwards."""
        self._table.drop()


def _read_watermark(handle: Handle, columns: Sequence[str] | None = None) -> int:
    wanted = list(columns or layout.present_columns(handle.schema))
    rows = handle.search().where(equals("user_id", layout.WATERMARK_USER)).select(wanted).to_arrow()
    return max(rows.column("seq").to_pylist(), default=0)


def _newest_watermark(handle: Handle, written: int) -> int:
    """The watermark among the last rows of the table, which are those of the last commit; 0 where compaction moved
    them. Reads one file, where a filter would visit every file that is not indexed yet."""
    end = handle.count_rows()
    offsets = list(range(max(0, end - written), end))
    rows = handle.take_offsets(offsets).select(["id", "seq"]).to_arrow()
    return max((row["seq"] for row in rows.to_pylist() if row["id"] == layout.WATERMARK_ID), default=0)


def _scope(user_id: str, agent_id: str | None) -> Any:
    """The rows of a scope plus the watermark row, so that rows and watermark come from one version."""
    parts = [among("user_id", [user_id, layout.WATERMARK_USER])]
    if agent_id is not None:
        parts.append(among("agent_id", [agent_id, layout.WATERMARK_ID]))
    return every(parts)


def _inside(
    rows: Mapping[str, Any], user_id: str, agent_id: str | None, kinds: Collection[str] | None
) -> NDArray[np.bool_]:
    """Which rows are of the scope, byte for byte."""
    import numpy as np

    inside = layout.having(rows["user_id"], user_id)
    if agent_id is not None:
        inside &= layout.having(rows["agent_id"], agent_id)
    if kinds is not None:
        inside &= np.logical_or.reduce([np.zeros(len(inside), bool), *(layout.having(rows["kind"], k) for k in kinds)])
    return inside


def _dead() -> Any:
    """Tombstones, and not the watermark."""
    return every([equals("deleted", True), differs("user_id", layout.WATERMARK_USER)])


def _alive() -> Any:
    return equals("deleted", False) | equals("user_id", layout.WATERMARK_USER)


def _examine_index(handle: Handle) -> list[TableProblem]:
    """A damaged index silently hides rows, so what it finds is held against a plain scan."""
    scanned: Counter[str] = Counter()
    for batch in handle.search().select(["user_id"]).to_batches(1 << 16):
        scanned.update(batch.column("user_id").to_pylist())
    users = sorted(scanned)
    step = max(1, len(users) // _INDEX_PROBES)
    for start in range(0, len(users), step):
        some = users[start : start + step]
        rows = handle.search().where(among("user_id", some)).select(["user_id"]).to_arrow()
        if Counter(rows.column("user_id").to_pylist()) != Counter({user: scanned[user] for user in some}):
            return [TableProblem("index", "the index on user_id does not find what a scan finds")]
    return []


def _examine_rows(rows: list[tuple[Any, ...]], fits: list[bool], seen: set[str]) -> Iterator[TableProblem]:
    for row, whole in zip(rows, fits, strict=True):
        memory_id = str(row[0])
        if memory_id in seen:
            yield TableProblem("duplicate", "the id occurs more than once", memory_id)
        seen.add(memory_id)
        if not whole:
            yield TableProblem("checksum", "the row is not what was written", memory_id)
        elif row[1] == layout.WATERMARK_USER and memory_id != layout.WATERMARK_ID:
            yield TableProblem("scope", "the row belongs to no user", memory_id)
