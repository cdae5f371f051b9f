"""`Trajectories`: sealed decisions as a plain LanceDB table, for trainers that scan more than fits into memory.

Append-only. A sealer moves decisions here in large commits and may repeat itself: what is already in the table is
skipped. The columns that a trainer selects on are lifted out of `payload`, the versioned record; token ids and
log-probs are columns only, because reading them out of JSON would cost more than all the rest (`record_of` puts them
back).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from memkit.errors import StoreDamaged
from memkit.models import JSON, micros, to_json
from memkit.store.compile import above, among, at_most, differs, equals, every, none_of
from memkit.store.lance import Batch, Handle, Schema, modules, typed_errors
from memkit.store.table import LanceTable, Lock
from memkit.store.values import EraseReport, MaintenanceReport, TableProblem, TrajectoryRow

TABLE = "trajectories"
_LIFTED = ("mode", "model", "adapter", "alias", "prompt_hash")
"""Texts of the payload that get a column; `propensity` is the number among them."""
_TEXTS = ("decision_id", "intake_id", "user_id", "agent_id", "role", *_LIFTED, "payload", "blobs", "checksum")
IDS = ("prompt_ids", "token_ids")
LOGPROBS = ("logprobs", "sampled_logprobs")
_ARRAYS = (*IDS, *LOGPROBS)
_CHECKED = ("seq", "decision_id", "user_id", "agent_id", "state_seq", "payload", "blobs", *_ARRAYS)
_PAGE = 1024


class Trajectories:
    """Safe from several threads and processes; `append` expects one sealer at a time (the journal's applier lock)."""

    def __init__(self, path: Path, *, lock: Lock, sealed: Callable[[], int] | None = None) -> None:
        """`sealed`: up to which number nothing else holds the decisions. A version that cannot be read is healed only
        by one that reaches it; without `sealed`, nothing is."""
        self.path = Path(path)
        self._table = LanceTable(
            self.path,
            TABLE,
            lock=lock,
            probe=_last_seq,
            indexes=("seq",),
            bitmap=False,
            suffices=lambda handle: sealed is not None and (0 if handle is None else _last_seq(handle)) >= sealed(),
            prove=_prove,
        )
        self._missing = set[int]()
        """What was looked for in vain."""

    def last_seq(self) -> int:
        """Where sealing continues; 0 where the table is empty."""
        return self._table.read(lambda handle: 0 if handle is None else _last_seq(handle))

    def append(self, rows: Iterable[TrajectoryRow]) -> int:
        """Append what lies beyond `last_seq()`, in commits of up to a thousand rows; returns how many that were."""
        source, total = iter(rows), 0
        while page := sorted(islice(source, _PAGE), key=lambda row: row.seq):
            total += self._table.write(lambda handle, page=page: _append(self._table, handle, page))
        return total

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        after: int = 0,
        upto: int | None = None,
        user_id: str | None = None,
        batch_rows: int = _PAGE,
    ) -> Generator[Batch]:
        """Arrow tables in order of `seq`, at most `batch_rows` rows each. No lock is held between two of them, so
        that a training run never keeps maintenance or an erasure waiting; rows are never changed, only added."""
        end = self.last_seq() if upto is None else upto
        low = after
        while low < end:
            high = min(end, low + batch_rows)
            page = self._page(columns, low, high, user_id)
            if page is not None and page.num_rows:
                yield page
            low = high

    def _page(self, columns: Sequence[str] | None, low: int, high: int, user_id: str | None) -> Batch | None:
        names = (
            trajectories_schema().names if columns is None else list(columns)
        )  # asked for by name: a lost one is told
        scope = [] if user_id is None else [equals("user_id", user_id)]
        where = every([above("seq", low), at_most("seq", high), *scope])

        def work(handle: Handle | None) -> Batch | None:
            if handle is None:
                return None
            found = handle.search().where(where).select(list(dict.fromkeys([*names, "seq"]))).to_arrow().sort_by("seq")
            return found if "seq" in names else found.select(names)

        return self._table.read(work)

    def fetch(self, seqs: Sequence[int]) -> dict[int, tuple[JSON, Mapping[str, str]]]:
        """Payload and prompts of single decisions; what is not there as it was written is left out. What is missed for
        the first time may be in the version before: a power cut can tear the newest one so that it still opens."""
        found = self._fetch(seqs)
        if missing := set(seqs) - found.keys() - self._missing:
            self._missing |= missing
            self._table.heal()
            found = self._fetch(seqs)
        return found

    def _fetch(self, seqs: Sequence[int]) -> dict[int, tuple[JSON, Mapping[str, str]]]:
        def work(handle: Handle | None) -> dict[int, tuple[JSON, Mapping[str, str]]]:
            if handle is None or not seqs:
                return {}
            where = every([among("seq", seqs), above("seq", min(seqs) - 1), at_most("seq", max(seqs))])
            rows = handle.search().where(where).select(["checksum", *_CHECKED]).to_arrow().to_pylist()
            return {
                row["seq"]: (record_of(row), json.loads(row["blobs"]))
                for row in rows
                if _checksum(row) == row["checksum"]
            }

        return self._table.read(work)

    def sync(self) -> None:
        """Make what was appended survive a power cut."""
        self._table.sync()

    def differing(self, rows: Sequence[TrajectoryRow]) -> list[int]:
        """Which of `rows` the table does not hold exactly as they are, by what is read back from it."""
        if not rows:
            return []
        low, high = min(row.seq for row in rows) - 1, max(row.seq for row in rows)
        page = self._page(None, low, high, None)
        held = {row["seq"]: _checksum(row) for row in page.to_pylist()} if page is not None else {}
        return [row.seq for row in rows if held.get(row.seq) != _flat(row)["checksum"]]

    # -- care --------------------------------------------------------------------------------------------------

    def heal(self) -> list[str]:
        """Go on from the newest version that can be read as it was written, where that has all that was sealed; what
        was moved aside for it."""
        return self._table.heal()

    @property
    def commits_since_maintenance(self) -> int:
        return self._table.commits_since_maintenance

    def maintain(self, force: bool = False) -> MaintenanceReport:
        return self._table.maintain(None, force)

    def erase(self, user_id: str) -> EraseReport:
        """As `Projection.erase`."""
        return self._erase(equals("user_id", user_id), differs("user_id", user_id))

    def erase_decisions(self, seqs: Collection[int]) -> EraseReport:
        return self._erase(among("seq", seqs), none_of("seq", seqs))

    def prune(self, below: int) -> EraseReport:
        """Decisions of lower numbers go. Where none is there, nothing is written anew."""
        gone = at_most("seq", below - 1)
        if self._table.read(lambda handle: handle is None or not handle.search().where(gone).limit(1).to_list()):
            return EraseReport(0, 0)
        return self._erase(gone, above("seq", below - 1))

    def _erase(self, gone: Any, kept: Any) -> EraseReport:
        def work(handle: Handle | None) -> EraseReport:
            found = 0 if handle is None else handle.search().where(gone).select(["seq"]).to_arrow().num_rows
            self._table.rewrite(kept, _PAGE)
            return EraseReport(found, self._table.sweep())

        return self._table.write(work, exclusive=True)

    def check(self) -> list[TableProblem]:
        found: list[TableProblem] = []
        seen = 0
        try:
            for page in self.scan():
                for row in page.to_pylist():
                    if _checksum(row) != row["checksum"]:
                        found.append(TableProblem("checksum", "the row is not what was written", row["decision_id"]))
                    if row["seq"] == seen:
                        found.append(TableProblem("duplicate", "the sequence number occurs twice", row["decision_id"]))
                    seen = row["seq"]
        except StoreDamaged as error:
            found.append(TableProblem("unreadable", str(error)))
        return found

    def list_quarantined(self) -> list[Path]:
        """What could not be read and was moved aside; nothing here deletes it."""
        return self._table.list_quarantined()

    def salvage(self) -> None:
        """Of a table that cannot be read: the rows that can be go on in a new one, and its files are moved aside."""
        try:
            rows = self._table.read(_readable)
        except StoreDamaged:
            self._table.quarantine()
        else:
            self._table.replace(trajectories_schema(), rows)

    def drop(self) -> None:
        self._table.drop()


def record_of(row: Mapping[str, Any]) -> JSON:
    """The versioned record of a row that was read: its payload with the arrays that have columns of their own."""
    return json.loads(row["payload"]) | {name: row[name] for name in _ARRAYS if row[name] is not None}


def was_used(payload: Mapping[str, Any]) -> bool:
    """Whether the reply could be read and was applied."""
    return payload.get("parse", {}).get("ok", True) and payload.get("apply", {}).get("ok", True)


@lru_cache(1)
def trajectories_schema() -> Schema:
    _, pa = modules()
    key = {"lance-schema:unenforced-primary-key": "true"}
    texts = [
        pa.field(name, pa.string(), name != "decision_id", key if name == "decision_id" else None) for name in _TEXTS
    ]
    return pa.schema(
        [
            pa.field("seq", pa.int64(), False),
            *texts,
            pa.field("state_seq", pa.int64()),
            pa.field("propensity", pa.float64()),
            pa.field("trainable", pa.bool_()),
            pa.field("ok", pa.bool_()),
            *(pa.field(name, pa.list_(pa.int32())) for name in IDS),
            *(pa.field(name, pa.list_(pa.float64())) for name in LOGPROBS),
            pa.field("created_at", pa.timestamp("us", "UTC")),
        ],
        metadata={"memkit.format": "1"},
    )


def _append(table: LanceTable, handle: Handle | None, rows: Sequence[TrajectoryRow]) -> int:
    covered = 0 if handle is None else _last_seq(handle)
    fresh = [_flat(row) for row in rows if row.seq > covered]
    if not fresh:
        return 0
    _, pa = modules()
    target = handle or table.create(trajectories_schema())
    target.add(pa.Table.from_pylist(fresh, schema=trajectories_schema()))
    if _last_seq(target) != fresh[-1]["seq"]:
        raise StoreDamaged(
            "LanceDB acknowledged trajectories that cannot be read again",
            why="usually a full disk",
            fix="free some space; they are sealed again from the journal",
        )
    return len(fresh)


def _prove(handle: Handle) -> None:
    """Before the versions go that hold the same rows: each can be read again as it was written."""
    for batch in handle.search().select(["checksum", *_CHECKED]).to_batches(_PAGE):
        if any(_checksum(row) != row["checksum"] for row in batch.to_pylist()):
            raise StoreDamaged(
                "sealed decisions cannot be read back as they were copied",
                why="the disk failed",
                fix="check the disk; the former version is still there",
            )


def _readable(handle: Handle | None) -> Generator[Batch]:
    """By halves down to single rows: a file that cannot be read costs its own rows alone."""
    _, pa = modules()
    if handle is None:
        return
    spans = [(0, handle.count_rows())]
    while spans:
        low, high = spans.pop()
        middle = (low + high) // 2
        if high - low <= _PAGE:
            try:
                with typed_errors():
                    rows = handle.take_offsets(list(range(low, high))).to_arrow().to_pylist()
                    whole = [row for row in rows if _checksum(row) == row["checksum"]]
                    yield from pa.Table.from_pylist(whole, schema=trajectories_schema()).to_batches()
                continue
            except StoreDamaged:
                if high - low <= 1:
                    continue
        if low < high:
            spans += [(middle, high), (low, middle)]


def _last_seq(handle: Handle) -> int:
    newest: Any = 0
    for batch in handle.search().select(["seq"]).to_batches(1 << 16):
        newest = max(newest, *batch.column("seq").to_pylist()) if batch.num_rows else newest
    return newest


def _flat(row: TrajectoryRow) -> dict[str, Any]:
    lifted: Mapping[str, Any] = row.payload
    flat: dict[str, Any] = {
        "seq": row.seq,
        "decision_id": row.decision_id,
        "intake_id": row.intake_id,
        "user_id": row.bank.user_id,
        "agent_id": row.bank.agent_id,
        "role": row.role,
        "state_seq": row.state_seq,
        **{name: None if lifted.get(name) is None else str(lifted[name]) for name in _LIFTED},
        "propensity": lifted.get("propensity"),
        "payload": to_json({name: value for name, value in lifted.items() if name not in _ARRAYS}),
        **{name: lifted.get(name) for name in _ARRAYS},
        "ok": was_used(lifted),
        "blobs": to_json(dict(row.blobs)),
        "trainable": row.trainable,
        "created_at": micros(row.created_at),
    }
    flat["checksum"] = _checksum(flat)
    return flat


def _checksum(row: Mapping[str, Any]) -> str:
    """Over what cannot be derived from anything else."""
    parts = [row[name] for name in _CHECKED]
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
