"""From the journal to LanceDB, in groups, in the background. Whoever holds the applier lock does the work for all."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from memkit.config import Config
from memkit.embedders.recorded import Recorded
from memkit.errors import (
    EmbedderMismatch,
    MemkitError,
    StorageRefused,
    StoreBusy,
    StoreDamaged,
    StoreUnreachable,
)
from memkit.models import Op
from memkit.runtime.followed import Followed
from memkit.runtime.sealer import Sealer
from memkit.runtime.store_embedder import is_named, mismatch, name_embedder
from memkit.seams.embedder import Embedder

if TYPE_CHECKING:
    from memkit.journal import Journal
    from memkit.store import ProjectedRow, Projection

log = logging.getLogger("memkit")

GROUP = 2_000
"""Ops read from the journal per LanceDB commit."""
_SOON_S = 0.05
"""What is written within so long is embedded together; a short script ends before it loads a model."""
_EMBED = 16
"""Texts embedded at a time: a search that comes meanwhile waits for none of them, and repeats few."""


RECOVER = (
    "make a new store with `memkit recover`, which takes what the log and LanceDB still hold; or restore the newest"
    " backup; or, to go on with what the journal has, forget the rest"
)


def journal_behind(covered: int, last: int) -> StoreDamaged:
    return StoreDamaged(
        f"LanceDB holds operations up to {covered}, and the journal ends at {last}",
        why="the journal lost its newest operations: its log was damaged, or an older copy was put in its place",
        fix=f"{RECOVER}, and move the folder `lance` aside",
    )


class Projector:
    def __init__(
        self, journal: Journal, projection: Callable[[], Projection], embedder: Embedder, config: Config, sealer: Sealer
    ) -> None:
        self._journal, self._projection, self._embedder, self._config = journal, projection, embedder, config
        self._sealer, self._followed = sealer, Followed(journal)
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_lock = threading.Lock()
        self._waiting = 0
        self._fresh: deque[Op] = deque(maxlen=GROUP)
        self._failures = 0
        self.failing: str | None = None
        """The error that the background thread keeps running into; it tries again and again."""
        if journal.is_shared and not isinstance(embedder, Recorded) and (journal.catalog or self.has_lance):
            self._start()  # what others erase goes from here, even where nobody writes

    def project(self, *, maintain: bool = False, wait: bool = True) -> int:
        """Bring LanceDB up to the journal's newest op. Returns how many ops were written. A child that was forked
        from a user of LanceDB leaves that to others: writing there may hang, and the journal has everything. wait:
        also for another machine that is at it, where LanceDB is shared."""
        try:
            return self._project(maintain, wait)
        except StoreDamaged:
            if self.behind() is not None:
                raise
            self._heal()  # the journal has what goes
            return self._project(maintain, wait)
        except EmbedderMismatch as error:
            if error.details.get("stored") == self._embedder.identity or not self._restored():
                raise
            return self._project(maintain, wait)

    def _heal(self) -> None:
        projection = self._projection()
        with self._journal.applier_lock() if projection.is_remote else nullcontext():
            projection.heal()

    def _project(self, maintain: bool, wait: bool) -> int:
        projection, written, waiting = self._projection(), 0, self._waiting
        if projection.inherited:
            return 0
        self._follow(projection, wait)
        covered, target = projection.watermark(), self._journal.last_seq()
        if covered > target:
            raise journal_behind(covered, target)
        if covered == target and not maintain:
            self._waiting = max(0, self._waiting - waiting)
            return 0
        with self._journal.applier_lock(wait):
            watermark = projection.watermark()
            while watermark < target:
                ops = self._journal.ops(after=watermark, upto=target, limit=GROUP)
                if not ops:
                    break
                projection.apply(self._rows(ops), ops[-1].seq)
                watermark, written = ops[-1].seq, written + len(ops)
            self._waiting = 0
            if maintain or projection.commits_since_maintenance >= self._config.maintain_commits:
                projection.maintain(force=maintain)
                self._journal.checkpoint()
        return written

    def _follow(self, projection: Projection, wait: bool) -> None:
        """What was erased on other machines goes from here first."""
        self._followed.follow_here()
        if self._followed.is_current:
            return
        with self._journal.applier_lock(wait):
            if self._followed.follow(projection):
                self._rewrite(projection)

    def finish(self) -> None:
        """At the end. The journal has everything, and who opens the store next is told what is wrong with LanceDB."""
        shared = (StoreBusy, StoreUnreachable, StorageRefused) if self._journal.catalog is not None else ()
        try:
            self.project(wait=False)
        except (StoreDamaged, *shared) as error:
            log.warning("LanceDB was not brought up to the journal: %s", error.what)

    def rebuild(self, *, adopt: bool = False) -> None:
        """Write the table anew from the journal; readers see the old one until it is complete, unless it was
        unreadable. Nothing that was moved aside is kept. `adopt`: the store becomes one of this embedder, once every
        memory has been embedded."""
        if (behind := self.behind()) is not None:
            raise behind
        projection = self._projection()
        self._try_embedder()
        with self._journal.applier_lock():
            if not adopt and not is_named(self._journal, self._embedder):
                raise mismatch(self._journal.meta_get("embedder") or "", self._embedder.identity, self._journal.name)
            self._rewrite(projection)
            if adopt:
                name_embedder(self._journal, self._embedder)
        self.project()

    def behind(self) -> StoreDamaged | None:
        """What is wrong where LanceDB knows of more than the journal, as far as LanceDB can be read."""
        try:
            covered = self._projection().watermark()
        except MemkitError:
            return None
        last = self._journal.last_seq()
        return journal_behind(covered, last) if covered > last else None

    def _restored(self) -> bool:
        """LanceDB holds vectors of another embedder, and the journal names ours: adopting that one was cut short. The
        journal is right."""
        projection = self._projection()
        with self._journal.applier_lock():
            if not is_named(self._journal, self._embedder):
                return False
            try:
                projection.watermark()  # another process may have been here
            except EmbedderMismatch:
                log.warning("LanceDB has vectors of an embedder that the journal does not name; it is built anew")
                self._try_embedder()
                self._rewrite(projection)
            return True

    def _rewrite(self, projection: Projection) -> None:
        erased, seq = self._followed.list_erased(), self._journal.last_seq()
        projection.rebuild(self._live(seq), seq)
        self._followed.note(erased)

    def _try_embedder(self) -> None:
        """One that does not work is found out before anything is touched."""
        from memkit.embedders.check import unit_rows

        unit_rows(self._embedder.embed(["memkit"]), 1, self._embedder.dim, self._embedder.identity)

    def _live(self, upto: int) -> Iterator[list[ProjectedRow]]:
        """Live memories a page at a time. What is written meanwhile is left out: it comes as ops."""
        from memkit.retrieval import embed_text
        from memkit.store import ProjectedRow

        after = 0
        while page := self._journal.live(after_seq=after, limit=GROUP):
            after = page[-1][1].seq
            kept = [(bank, record) for bank, record in page if record.seq <= upto]
            vectors = self._embedder.embed([embed_text(record) for _, record in kept]) if kept else ()
            yield [
                ProjectedRow(bank, record, record.id, record.seq, vector)
                for (bank, record), vector in zip(kept, vectors, strict=True)
            ]

    def notice(self, ops: int, fresh: Sequence[Op] = ()) -> None:
        """The journal has grown; the background thread writes it soon, and embeds what is `fresh` at once, so that
        the next search need not."""
        self._waiting += ops
        if isinstance(self._embedder, Recorded):
            return  # whoever opens the store with its embedder writes it
        if self._thread is None or not self._thread.is_alive():
            self._start()
        if not self._embedder.cheap:
            self._fresh += fresh
        if self._fresh or self._waiting >= self._config.project_every:
            self._wake.set()

    @property
    def is_whole(self) -> bool:
        """Whether LanceDB is there, and holds nothing that was erased."""
        return self.has_lance and self._followed.is_current

    @property
    def has_lance(self) -> bool:
        return self._followed.is_there

    @property
    def waiting(self) -> int:
        return self._waiting

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout=60)
        self._thread = None

    @property
    def _has_to_follow(self) -> bool:
        try:
            return not self._followed.is_current
        except MemkitError:
            return False  # the database is away; a later look finds it

    def _start(self) -> None:
        with self._start_lock:
            if self._stop.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._run, name="memkit-projector", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            woken = self._wake.wait(self._config.project_idle_s * (1 + min(self._failures, 30)))
            self._wake.clear()
            if self._stop.is_set() or not (self._waiting or self._has_to_follow):
                continue
            try:
                if self._fresh:
                    self._stop.wait(_SOON_S)
                    self._embed_fresh()
                if self._stop.is_set() or (woken and 0 < self._waiting < self._config.project_every):
                    continue
                self.project(wait=False)
                self._sealer.seal()
                self._failures, self.failing = 0, None
            except StoreBusy as error:
                if self._journal.catalog is None:  # else another machine is at it
                    self._note_failure(error)
            except Exception as error:
                # The journal holds everything; a later pass catches up, and `flush` reports the error to its caller.
                # An embedder or LanceDB may raise anything: whatever it is, the thread lives on.
                self._note_failure(error)

    def _note_failure(self, error: Exception) -> None:
        self._failures, self.failing = self._failures + 1, type(error).__name__
        log.warning("projection into LanceDB failed: %s", type(error).__name__)

    def _embed_fresh(self) -> None:
        """The embedder remembers the vectors."""
        from memkit.retrieval import embed_text

        while self._fresh and not self._stop.is_set():
            ops = [self._fresh.popleft() for _ in range(min(_EMBED, len(self._fresh)))]
            texts = [embed_text(op.after) for op in ops if op.after is not None and op.after != op.before]
            if texts:
                self._embedder.embed(texts)

    def _rows(self, ops: Sequence[Op]) -> list[ProjectedRow]:
        """The last state of each memory that the ops touched; deletions become tombstones."""
        from memkit.retrieval import embed_text
        from memkit.store import ProjectedRow

        newest: dict[str, Op] = {}
        for op in ops:
            if op.memory_id is not None and op.before != op.after:
                newest[op.memory_id] = op
        living = [op.after for op in newest.values() if op.after is not None]
        vectors = iter(self._embedder.embed([embed_text(record) for record in living]) if living else ())
        return [
            ProjectedRow(op.bank, op.after, memory_id, op.seq, next(vectors) if op.after is not None else None)
            for memory_id, op in newest.items()
        ]
