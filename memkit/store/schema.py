"""Columns of the table `memories`: rows in, records out, and the checksum that notices a flipped bit.

The table is meant to be opened with lancedb, pandas, Polars or DuckDB as it is: `WHERE NOT deleted` are the memories.
Times are UTC microseconds; the offset in which a time was given is kept beside them, because a prompt shows local
dates. LanceDB has no checksums of its own (one flipped bit is returned as data), hence ours, over the whole row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memkit.errors import EmbedderError, OpRejected
from memkit.models import Bank, MemoryRecord, micros, to_json
from memkit.store.lance import Batch, Schema, list_array, modules, vectors_of
from memkit.store.values import ProjectedRow, Slice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TABLE = "memories"
WATERMARK_ID = "__wm__"
WATERMARK_USER = ""
"""No user can have the empty id."""

FORMAT = 1
EMBEDDER_KEY, FORMAT_KEY = "memkit.embedder", "memkit.format"
TIMES = ("at", "created_at", "updated_at", "expires_at")
SCALARS = ("id", "user_id", "agent_id", "kind", "text", "metadata", "source_turns", *TIMES, "utc_offsets", "speaker",
            "session_id", "origin", "trust", "trainable", "revision", "content_hash", "seq", "deleted")  # fmt: skip
COLUMNS = (*SCALARS, "checksum", "vector")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Row = tuple[Any, ...]
"""One row in the order of `SCALARS`, times as microseconds."""


@lru_cache(8)
def memories_schema(dim: int, identity: str) -> Schema:
    _, pa = modules()
    moment = pa.timestamp("us", "UTC")
    # Without this key metadata, concurrent merge-inserts duplicate ids.
    key = {"lance-schema:unenforced-primary-key": "true"}
    types: dict[str, Any] = {
        "source_turns": pa.list_(pa.string()), "utc_offsets": pa.list_(pa.int32()), **dict.fromkeys(TIMES, moment),
        "trust": pa.float64(), "trainable": pa.bool_(), "deleted": pa.bool_(), "revision": pa.int64(),
        "seq": pa.int64(), "vector": pa.list_(pa.float32(), dim),
    }  # fmt: skip
    required = {"id", "user_id", "agent_id", "seq", "deleted", "checksum"}
    fields = [
        pa.field(name, types.get(name, pa.string()), name not in required, key if name == "id" else None)
        for name in COLUMNS
    ]
    return pa.schema(fields, metadata={EMBEDDER_KEY: identity, FORMAT_KEY: str(FORMAT)})


def encode(rows: Sequence[ProjectedRow], dim: int, identity: str, watermark: int | None = None) -> Batch:
    """Rows (and the watermark row) as one batch. Of several states of one memory only the newest is kept: a merge
    with two source rows of the same key is refused by LanceDB."""
    import numpy as np

    _, pa = modules()
    newest: dict[str, ProjectedRow] = {}
    for row in rows:
        if row.memory_id not in newest or newest[row.memory_id].seq <= row.seq:
            newest[row.memory_id] = row
    kept = list(newest.values())
    scalars = [_scalars(row) for row in kept]
    vectors = np.zeros((len(kept) + (watermark is not None), dim), np.float32)
    present = np.zeros(len(vectors), bool)
    for index, row in enumerate(kept):
        if row.record is not None:
            vectors[index] = _vector(row, dim)
            present[index] = True
    if watermark is not None:
        scalars.append(_watermark_scalars(watermark))
    sums = [checksum(row, vectors[i].data if present[i] else b"") for i, row in enumerate(scalars)]
    schema = memories_schema(dim, identity)
    columns = list(zip(*scalars, strict=True)) if scalars else [()] * len(SCALARS)
    named = zip(SCALARS, columns, strict=True)
    arrays: list[Any] = [pa.array(column, schema.field(name).type) for name, column in named]
    arrays += [pa.array(sums, pa.string()), list_array(vectors, present)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def scalars_of(table: Batch) -> list[_Row]:
    _, pa = modules()
    columns: list[list[Any]] = []
    for name in SCALARS:
        column = table.column(name)
        columns.append((column.cast(pa.int64()) if name in TIMES else column).to_pylist())
    return list(zip(*columns, strict=True))


def decode(table: Batch, dim: int) -> tuple[list[_Row], list[str], NDArray[np.float32]]:
    """(scalars, stored checksums, vectors) of an Arrow table with all columns."""
    sums: list[str] = table.column("checksum").to_pylist()
    return scalars_of(table), sums, vectors_of(table.column("vector"), dim)


def to_slice(table: Batch, dim: int) -> tuple[Slice, list[str]]:
    """Records, vectors and watermark of an Arrow table, tombstones left out; and the ids whose row was altered."""
    import numpy as np

    rows, sums, vectors = decode(table, dim)
    watermark, bad, kept = 0, list[str](), list[tuple[int, str, int]]()
    for index, row in enumerate(rows):
        deleted = row[-1]
        if checksum(row, b"" if deleted else vectors[index].data) != sums[index]:
            bad.append(str(row[0]))
        elif row[0] == WATERMARK_ID and row[1] == WATERMARK_USER:
            watermark = row[-2]
        elif not deleted:
            kept.append((row[-2], row[0], index))
    kept.sort()
    order = [index for _, _, index in kept]
    records = [(Bank(rows[i][1], rows[i][2]), record_of(rows[i])) for i in order]
    matrix = vectors if order == list(range(len(vectors))) else vectors[np.asarray(order, np.int64)]
    return Slice(records, matrix, watermark), bad


def checksum(row: _Row, vector: bytes | memoryview) -> str:
    """Integrity of the exact row. `repr` of the plain values is unambiguous and the same on every platform."""
    state = hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=16)
    state.update(vector)
    return state.hexdigest()


def _scalars(row: ProjectedRow) -> _Row:
    if row.memory_id == WATERMARK_ID or row.bank.user_id == WATERMARK_USER:
        raise OpRejected(
            f"memory {row.memory_id!r} of user {row.bank.user_id!r} cannot be projected",
            why="the empty user id and the id of the watermark row are reserved",
            fix="give the memory a user",
        )
    record = row.record
    if record is None:
        empty = (None,) * len(TIMES)
        return (row.memory_id, row.bank.user_id, row.bank.agent_id, None, None, None, None, *empty, None, None, None,
                None, None, None, None, None, row.seq, True)  # fmt: skip
    times = [getattr(record, name) for name in TIMES]
    return (
        row.memory_id, row.bank.user_id, row.bank.agent_id, record.kind, record.text,
        to_json(dict(record.metadata)), list(record.source_turns),
        *(None if at is None else micros(at) for at in times), _offsets(times), record.speaker, record.session_id,
        record.origin, float(record.trust), record.trainable, record.revision, record.content_hash, row.seq, False,
    )  # fmt: skip


def _watermark_scalars(seq: int) -> _Row:
    blank: list[Any] = [None] * len(SCALARS)
    blank[0], blank[1], blank[2], blank[-2], blank[-1] = WATERMARK_ID, WATERMARK_USER, WATERMARK_ID, seq, True
    return tuple(blank)


def _offsets(times: Iterable[datetime | None]) -> list[int] | None:
    offsets = [0 if at is None else round((at.utcoffset() or timedelta()).total_seconds()) for at in times]
    return offsets if any(offsets) else None


def record_of(row: _Row) -> MemoryRecord:
    (memory_id, _user, _agent, kind, text, metadata, sources, at, created, updated, expires, offsets, speaker, session,
     origin, trust, trainable, revision, content, seq, _deleted) = row  # fmt: skip
    zones = offsets or (0, 0, 0, 0)
    return MemoryRecord(
        id=memory_id, text=text, kind=kind, metadata={} if metadata == "{}" else json.loads(metadata),
        source_turns=tuple(sources), at=_moment(at, zones[0]), created_at=_moment(created, zones[1]),
        updated_at=_moment(updated, zones[2]), expires_at=_moment(expires, zones[3]), revision=revision,
        speaker=speaker, session_id=session, origin=origin, trust=trust, trainable=trainable, content_hash=content,
        seq=seq,
    )  # fmt: skip


def _moment(value: int | None, offset: int) -> datetime | None:
    if value is None:
        return None
    at = _EPOCH + timedelta(microseconds=value)
    return at.astimezone(timezone(timedelta(seconds=offset))) if offset else at


def _vector(row: ProjectedRow, dim: int) -> NDArray[np.float32]:
    import numpy as np

    vector = None if row.vector is None else np.asarray(row.vector, np.float32)
    if vector is None or vector.shape != (dim,) or not bool(np.isfinite(vector).all()):
        shape = None if vector is None else vector.shape
        raise EmbedderError(
            f"memory {row.memory_id} has no usable vector",
            why=f"the store holds {dim} finite numbers per memory, and this one has shape {shape}",
            fix="check the embedder",
        )
    return vector
