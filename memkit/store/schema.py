"""Columns of the table `memories`: rows in, records out, and the checksum that notices a flipped bit.

The table is meant to be opened with lancedb, pandas, Polars or DuckDB as it is: `WHERE NOT deleted` are the memories.
Times are UTC microseconds; the offset in which a time was given is kept beside them, because a prompt shows local
dates. LanceDB has no checksums of its own (one flipped bit is returned as data), hence ours, over the whole row.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memkit.errors import EmbedderError, OpRejected
from memkit.models import MemoryRecord, micros, to_json
from memkit.store.lance import Batch, Schema, list_array, modules, vectors_of
from memkit.store.values import ProjectedRow, Slice

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memkit.retrieval.columns import Columns, Records

TABLE = "memories"
WATERMARK_ID = "__wm__"
WATERMARK_USER = ""
"""No user can have the empty id."""

FORMAT = 1
EMBEDDER_KEY, FORMAT_KEY = "memkit.embedder", "memkit.format"
TIMES = ("at", "created_at", "updated_at", "expires_at", "confirmed_at")
LATER = ("confirmed_at", "standing")
"""Columns that older tables lack until they are written to."""
SCALARS = ("id", "user_id", "agent_id", "kind", "text", "metadata", "source_turns", *TIMES, "utc_offsets", "speaker",
            "session_id", "origin", "trust", "trainable", "standing", "revision", "content_hash", "seq",
            "deleted")  # fmt: skip
COLUMNS = (*SCALARS, "checksum", "vector")
_TEXTS = ("id", "user_id", "agent_id", "kind", "text", "metadata", "speaker", "session_id", "origin", "content_hash")
_NUMBERS = (*TIMES[:-1], "trainable", "revision", "seq", "deleted")
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
        "source_turns": pa.list_(pa.string()),
        "utc_offsets": pa.list_(pa.int32()),
        **dict.fromkeys(TIMES, moment),
        "trust": pa.float64(),
        "trainable": pa.bool_(),
        "standing": pa.bool_(),
        "deleted": pa.bool_(),
        "revision": pa.int64(),
        "seq": pa.int64(),
        "vector": pa.list_(pa.float32(), dim),
    }
    required = {"id", "user_id", "agent_id", "seq", "deleted", "checksum"}
    fields = [
        pa.field(name, types.get(name, pa.string()), name not in required, key if name == "id" else None)
        for name in COLUMNS
    ]
    return pa.schema(fields, metadata={EMBEDDER_KEY: identity, FORMAT_KEY: str(FORMAT)})


def missing_fields(schema: Schema) -> list[Any]:
    """The columns that a table still lacks."""
    _, pa = modules()
    types = {"confirmed_at": pa.timestamp("us", "UTC"), "standing": pa.bool_()}
    return [pa.field(name, types[name]) for name in LATER if name not in schema.names]


def present_columns(schema: Schema, columns: Sequence[str] = COLUMNS) -> list[str]:
    """`columns`, but for those that older tables lack."""
    return [name for name in columns if name not in LATER or name in schema.names]


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
    schema = memories_schema(dim, identity)
    columns = list(zip(*scalars, strict=True)) if scalars else [()] * len(SCALARS)
    named = zip(SCALARS, columns, strict=True)
    arrays: list[Any] = [pa.array(column, schema.field(name).type) for name, column in named]
    sums = checksums(dict(zip(SCALARS, arrays, strict=True)), vectors)
    arrays += [pa.array(sums, pa.string()), list_array(vectors, present)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def scalars_of(table: Batch) -> list[_Row]:
    return list(zip(*(column.to_pylist() for column in flat_columns(table).values()), strict=True))


def read_rows(table: Batch, dim: int) -> tuple[list[_Row], list[bool]]:
    """Every row of an Arrow table with all columns, and whether its checksum fits."""
    fits = checksums(flat_columns(table), vectors_of(table.column("vector"), dim)) == _stored_sums(table)
    return scalars_of(table), fits.tolist()


def to_slice(
    table: Batch, dim: int, inside: Callable[[Mapping[str, Any]], NDArray[np.bool_]], watermark: int
) -> tuple[Slice, list[str]]:
    """The live rows of an Arrow table that are `inside` (a mask over its columns), with vectors and watermark (the
    table's own where it has that row); and the ids whose row was altered. Everything stays in columns: records are
    made when they are asked for."""
    import numpy as np

    columns, vectors = flat_columns(table), vectors_of(table.column("vector"), dim)
    fits = checksums(columns, vectors) == _stored_sums(table)
    ids, seqs = columns["id"].to_pylist(), numbers(columns["seq"], 0)
    bad = [ids[row] for row in np.flatnonzero(~fits).tolist()]
    live = ~flags(columns["deleted"])
    marks = [row for row in np.flatnonzero(~live).tolist() if ids[row] == WATERMARK_ID]
    marks = [row for row in marks if columns["user_id"][row].as_py() == WATERMARK_USER]
    watermark = max((int(seqs[row]) for row in marks), default=watermark)
    rows = np.flatnonzero(live & fits & inside(columns))
    order: list[int] = rows.tolist()
    if not bool((np.diff(seqs[rows]) > 0).all()):
        order = [row for _, _, row in sorted(zip(seqs[rows].tolist(), [ids[row] for row in order], order, strict=True))]
    if order != list(range(len(ids))):
        columns = take(columns, order)
        vectors = vectors[np.asarray(order, np.int64)]
    return Slice(columns, to_columns(columns), _stored(columns), vectors, watermark), bad


def _stored_sums(table: Batch) -> NDArray[np.object_]:
    import numpy as np

    return np.array(table.column("checksum").to_pylist(), dtype=object)


def flat_columns(table: Batch) -> dict[str, Any]:
    """The scalar columns, each in one piece; times as microseconds."""
    _, pa = modules()
    found: dict[str, Any] = {}
    there = present_columns(table.schema, SCALARS)
    for name in SCALARS:
        column = (
            table.column(name)
            if name in there
            else pa.nulls(table.num_rows, pa.int64() if name in TIMES else pa.bool_())
        )
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        found[name] = column.cast(pa.int64()) if name in TIMES else column
    return found


def take(columns: Mapping[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    _, pa = modules()
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return dict(zip(columns, batch.take(pa.array(rows, pa.int64())).columns, strict=True))


def numbers(column: Any, missing: int) -> NDArray[np.int64]:
    _, pa = modules()
    return column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)


def having(column: Any, value: str) -> NDArray[np.bool_]:
    import pyarrow.compute

    kernels: Any = pyarrow.compute
    return flags(kernels.equal(column, value))


def flags(column: Any) -> NDArray[np.bool_]:
    return column.fill_null(False).to_numpy(zero_copy_only=False)


def checksums(columns: Mapping[str, Any], vectors: NDArray[np.float32]) -> NDArray[np.object_]:
    """Integrity of each exact row: a CRC over its texts as UTF-8, its numbers and its vector, seeded with what only
    later tables have. Against damage, not against forgers."""
    import numpy as np
    import pyarrow.compute

    _, pa = modules()
    kernels: Any = pyarrow.compute
    rows = len(columns["id"])
    if not rows:
        return np.array([], dtype=object)
    texts = [columns[name] for name in _TEXTS]
    texts += [_lines(columns["source_turns"]), _lines(columns["utc_offsets"])]
    joined = kernels.binary_join_element_wise(*texts, "\x1f", null_handling="replace", null_replacement="\0").cast(
        pa.large_binary()
    )
    _, where, data = joined.buffers()
    ends = np.frombuffer(where, np.int64)[joined.offset : joined.offset + rows + 1].tolist()
    fixed = np.stack([numbers(columns[name], np.iinfo(np.int64).min) for name in _NUMBERS], axis=1)
    trust = columns["trust"].fill_null(-1.0).to_numpy(zero_copy_only=False).view(np.int64)
    whole = np.concatenate([fixed.view(np.uint8), trust.reshape(-1, 1).view(np.uint8), vectors.view(np.uint8)], axis=1)
    width, said, held = whole.shape[1], memoryview(data), whole.reshape(-1).data
    crc = zlib.crc32
    confirmed = columns["confirmed_at"].cast(pa.int64()).to_pylist()
    seeds = [0 if at is None else crc(str(at).encode()) for at in confirmed]
    for row in np.flatnonzero(flags(columns["standing"])).tolist():
        seeds[row] = crc(b"standing", seeds[row])
    return np.array(
        [
            f"{crc(held[row * width : (row + 1) * width], crc(said[ends[row] : ends[row + 1]], seeds[row])):08x}"
            for row in range(rows)
        ],
        dtype=object,
    )


def _lines(lists: Any) -> Any:
    """A list per row as one text per row."""
    import pyarrow.compute

    _, pa = modules()
    if lists.null_count == len(lists):
        return pa.nulls(len(lists), pa.string())
    kernels: Any = pyarrow.compute
    if kernels.list_flatten(lists).null_count:  # only damage does that; it must not pass for an absent list
        return pa.array([repr(one) for one in lists.to_pylist()])
    return kernels.binary_join(lists.cast(pa.list_(pa.string())), "\x1e")


def _stored(columns: Mapping[str, Any]) -> Records:
    """Records that are made from the columns when they are asked for."""
    from memkit.retrieval.columns import Records

    def make(rows: list[int]) -> list[MemoryRecord]:
        lists = [column.to_pylist() for column in take(columns, rows).values()]
        return [record_of(row) for row in zip(*lists, strict=True)]

    return Records([None] * len(columns["id"]), make)


def to_columns(columns: Mapping[str, Any]) -> Columns:
    """What the scorer reads of the rows (`Columns.of` gives the same from records)."""
    import numpy as np

    from memkit.retrieval.columns import KINDS, NEVER, NO_TIME, Columns

    at = numbers(columns["at"], NO_TIME)
    known = at != NO_TIME
    zones = np.zeros(len(at), dtype=np.int64)
    if columns["utc_offsets"].null_count < len(at):
        zones[:] = [offsets[0] if offsets else 0 for offsets in columns["utc_offsets"].to_pylist()]
    ordinals = (at + zones * 1_000_000) // 86_400_000_000 + _EPOCH.toordinal()
    return Columns(
        ids=columns["id"].to_pylist(),
        texts=columns["text"].to_pylist(),
        speakers=columns["speaker"].to_pylist(),
        sessions=columns["session_id"].to_pylist(),
        seqs=numbers(columns["seq"], 0),
        kinds=np.select([having(columns["kind"], kind) for kind in KINDS], list(range(len(KINDS)))).astype(np.int64),
        from_user=having(columns["origin"], "user"),
        at=at,
        days=ordinals * known,
        expires=numbers(columns["expires_at"], NEVER),
        trust=columns["trust"].to_numpy(zero_copy_only=False),
        standing=flags(columns["standing"]),
    )


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
                None, None, None, None, None, None, row.seq, True)  # fmt: skip
    times = [getattr(record, name) for name in TIMES]
    return (
        row.memory_id,
        row.bank.user_id,
        row.bank.agent_id,
        record.kind,
        record.text,
        to_json(dict(record.metadata)),
        list(record.source_turns),
        *(None if at is None else micros(at) for at in times),
        _offsets(times),
        record.speaker,
        record.session_id,
        record.origin,
        float(record.trust),
        record.trainable,
        record.standing or None,
        record.revision,
        record.content_hash,
        row.seq,
        False,
    )


def _watermark_scalars(seq: int) -> _Row:
    blank: list[Any] = [None] * len(SCALARS)
    blank[0], blank[1], blank[2], blank[-2], blank[-1] = WATERMARK_ID, WATERMARK_USER, WATERMARK_ID, seq, True
    return tuple(blank)


def _offsets(times: Iterable[datetime | None]) -> list[int] | None:
    offsets = [0 if at is None else round((at.utcoffset() or timedelta()).total_seconds()) for at in times]
    return offsets if any(offsets) else None


def record_of(row: _Row) -> MemoryRecord:
    (memory_id, _user, _agent, kind, text, metadata, sources, at, created, updated, expires, confirmed, offsets,
     speaker, session, origin, trust, trainable, standing, revision, content, seq, _deleted) = row  # fmt: skip
    zones = (*(offsets or ()), *[0] * len(TIMES))
    return MemoryRecord(
        id=memory_id,
        text=text,
        kind=kind,
        metadata={} if metadata == "{}" else json.loads(metadata),
        source_turns=tuple(sources),
        at=_moment(at, zones[0]),
        created_at=_moment(created, zones[1]),
        updated_at=_moment(updated, zones[2]),
        expires_at=_moment(expires, zones[3]),
        confirmed_at=_moment(confirmed, zones[4]),
        revision=revision,
        speaker=speaker,
        session_id=session,
        origin=origin,
        trust=trust,
        trainable=trainable,
        standing=bool(standing),
        content_hash=content,
        seq=seq,
    )


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
