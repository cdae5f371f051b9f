"""The rows of one bank, ready to be ranked. Immutable, and the same whether built at once or by deltas.

That sameness is by construction. Rows stand in one canonical order, (seq, id). Everything that depends on a single
row is computed from that row alone; everything else (document frequencies, neighbours, sessions) is derived from
the columns by exact integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memkit.errors import EmbedderError
from memkit.models import KINDS, MemoryRecord
from memkit.retrieval.columns import NO_TIME, Columns, Flags, Floats, Ints, Records
from memkit.retrieval.lexicon import fold_speaker, read_lines
from memkit.retrieval.rows import Rows
from memkit.retrieval.shelf import VECTOR_SCALE, RowBatch

SESSION_GAP = 4 * 3600 * 1_000_000
"""Where callers name no session, a silence this long (microseconds) in the conversation starts a new one."""
K1, B = 1.2, 0.75
"""BM25's usual saturation and length normalisation."""


class BankIndex:
    """Rows of one bank with their vectors and BM25 statistics. Make one with `build`, follow the bank by `updated`."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @classmethod
    def build(cls, records: Sequence[MemoryRecord], vectors: NDArray[np.float32] | None) -> BankIndex:
        """`vectors[i]` is the embedding of `embed_text(records[i])`. None: a bank without embeddings."""
        return cls(Rows.of(_read(records, vectors)))

    @classmethod
    def of_columns(cls, columns: Columns, vectors: NDArray[np.float32], stored: Records) -> BankIndex:
        """The same from columns, all in canonical order; `stored` makes the records that are asked for."""
        return cls(Rows.of(_batch(columns, vectors, stored)))

    @classmethod
    def join(cls, parts: Sequence[BankIndex]) -> BankIndex:
        """The rows of several banks as one: what a search over all of a user's banks ranks."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) < 2:
            return parts[0] if parts else cls.build((), None)
        return cls(Rows.of(RowBatch.join([part.rows.batch() for part in parts])))

    def with_changes(
        self, changed: Sequence[tuple[MemoryRecord, NDArray[np.float32]]], removed: Collection[str]
    ) -> BankIndex:
        """The index after `changed` memories were added or rewritten and `removed` ones (ids) ended."""
        fresh = {record.id: (record, vector) for record, vector in changed}
        left = self.rows.without(self.rows.rows_of({*removed, *fresh}))
        if not fresh:
            return BankIndex(left)
        vectors = np.stack([np.asarray(vector, dtype=np.float32).reshape(-1) for _, vector in fresh.values()])
        added = _read([record for record, _ in fresh.values()], vectors)
        if not len(left):
            return BankIndex(Rows.of(added))
        if added.width != left.width:
            raise EmbedderError(
                f"a vector of {added.width} numbers cannot join a bank of {left.width}",
                why="all vectors of a bank come from one embedder",
                fix="embed the whole bank with the embedder that is configured",
            )
        if added.numbers[0, 0] > left.seqs[-1]:
            return BankIndex(left.with_batch(added))
        return BankIndex(Rows.of(RowBatch.join([left.batch(), Rows.of(added).batch()])))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def records(self) -> list[MemoryRecord]:
        return self.rows.pick(range(len(self)))

    @cached_property
    def average_length(self) -> float:
        return max(int(np.add.reduce(self.rows.lengths)), 1) / max(len(self), 1)

    @cached_property
    def saturation(self) -> Floats:
        """BM25's share of document length: k1 · (1 - b + b · length / average)."""
        return K1 * (1.0 - B + B * (self.rows.lengths / self.average_length))

    @cached_property
    def kinds(self) -> dict[str, Flags]:
        return {kind: self.rows.kinds == code for code, kind in enumerate(KINDS)}

    @cached_property
    def said(self) -> Flags:
        """The rows that are words as they were said."""
        return self.kinds["episode"] | self.kinds["turn"]

    @cached_property
    def has_talk(self) -> bool:
        """Whether any row is part of a conversation."""
        return bool(np.logical_or.reduce(self.said))

    @cached_property
    def sessions(self) -> Ints:
        """Number of the conversation that each row belongs to, -1 for facts: they are no part of a talk. A session is
        what the caller named, else an unbroken stretch of time."""
        numbers = self.rows.sessions
        out = np.where(self.said, numbers, -1)
        unnamed = (out == 0).nonzero()[0]
        if not len(unnamed):
            return out
        at = self.rows.at[unnamed]
        before = np.append(np.int64(NO_TIME), at[:-1])
        known = (at != NO_TIME) & (before != NO_TIME)
        silence = np.abs(np.where(known, at, 0) - np.where(known, before, 0))
        starts = (at != NO_TIME) & (~known | (silence > SESSION_GAP))
        out[unnamed] = numbers.max(initial=0) + 1 + np.cumsum(starts)
        return out

    @cached_property
    def talk(self) -> TalkOrder:
        return TalkOrder.of(self.sessions)


@dataclass(frozen=True, slots=True)
class TalkOrder:
    """Who stands next to whom. `order` lists the rows that were said, session by session; `before[d]`/`after[d]` give
    the row d+1 turns earlier or later in the same session (or `rows`, one past the end, where a zero is looked up)."""

    order: Ints
    starts: Ints
    """Where each session begins in `order`."""
    numbers: Ints
    """For each position in `order`, which of the sessions (by `starts`) it is."""
    before: tuple[Ints, ...]
    after: tuple[Ints, ...]

    @classmethod
    def of(cls, sessions: Ints) -> TalkOrder:
        rows = len(sessions)
        order = np.argsort(sessions, kind="stable")[np.count_nonzero(sessions < 0) :]
        grouped = sessions[order]
        fresh = np.ones(len(order), dtype=bool)
        fresh[1:] = grouped[1:] != grouped[:-1]
        before: list[Ints] = []
        after: list[Ints] = []
        for distance in (1, 2):
            earlier, later = np.full(rows, rows, dtype=np.int64), np.full(rows, rows, dtype=np.int64)
            same = grouped[distance:] == grouped[:-distance]
            left, right = order[:-distance][same], order[distance:][same]
            earlier[right], later[left] = left, right
            before.append(earlier)
            after.append(later)
        return cls(order, np.flatnonzero(fresh), np.cumsum(fresh) - 1, tuple(before), tuple(after))


def _read(records: Sequence[MemoryRecord], vectors: NDArray[np.float32] | None) -> RowBatch:
    if vectors is None:
        vectors = np.zeros((len(records), 0), dtype=np.float32)
    if len(records) != len(vectors):
        raise EmbedderError(
            f"{len(records)} memories came with {len(vectors)} vectors",
            why="every memory of a bank needs one",
            fix="embed embed_text(record) of each record and pass both in the same order",
        )
    order = sorted(range(len(records)), key=lambda i: (records[i].seq, records[i].id))
    in_order = [records[i] for i in order]
    matrix = np.asarray(vectors, dtype=np.float32)
    if matrix.ndim != 2:
        matrix = matrix.reshape(len(records), -1)
    return _batch(Columns.of(in_order), matrix[order], Records(in_order))


def _batch(columns: Columns, vectors: NDArray[np.float32], stored: Records) -> RowBatch:
    read, speakers = read_lines(columns), [fold_speaker(name) for name in columns.speakers]
    traits = (
        *(read.size, read.asks, read.tells_time, read.tells_number),
        *(columns.kinds == 0, columns.trust, columns.from_user, columns.standing),
        [name != "" for name in speakers],
    )
    numbers = (columns.seqs, columns.at, columns.days, columns.expires, read.lengths, columns.kinds)
    return RowBatch(
        columns.ids,
        speakers,
        columns.sessions,
        np.array(numbers, dtype=np.int64),
        np.array(traits, dtype=np.float64),
        vectors,
        VECTOR_SCALE,
        read.entries,
        stored,
    )
