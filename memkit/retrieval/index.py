"""The rows of one bank, ready to be ranked. Immutable, and the same whether built at once or by deltas.

That sameness is by construction. Rows stand in one canonical order, (seq, id). Everything that depends on a single
row is computed from that row alone; everything else (document frequencies, neighbours, sessions) is derived from
the columns by exact integer arithmetic. Vectors are kept as small integers in float32: their dot products are exact,
so no BLAS kernel, thread count or row position can change a score.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from memkit.errors import EmbedderError
from memkit.models import MemoryRecord
from memkit.retrieval.columns import NO_TIME, Columns, Flags, Floats, Ints, Records
from memkit.retrieval.lexicon import Keys, Postings, fold_speaker, name_key, read_lines

VECTOR_SCALE = 4000
"""Unit vectors × 4000, rounded: every partial sum of a dot product stays below 2^24, where float32 is exact."""
SESSION_GAP = 4 * 3600 * 1_000_000
"""Where callers name no session, a silence this long (microseconds) in the conversation starts a new one."""
K1, B = 1.2, 0.75
"""BM25's usual saturation and length normalisation."""
TRAITS = ("length", "question", "tells_time", "tells_number", "fact", "trust", "from_user")
"""Numbers that a row has by itself, whatever is asked."""


@dataclass(frozen=True, slots=True)
class Rows:
    """All that the scorer needs of the rows beside vectors and postings, in canonical order."""

    ids: list[str]
    speakers: list[str]
    """Folded names."""
    sessions: list[str]
    seqs: Ints
    at: Ints
    days: Ints
    expires: Ints
    lengths: Ints
    traits: Floats
    """(rows, TRAITS)"""

    @classmethod
    def joined(cls, parts: Sequence[Rows], order: Ints) -> Rows:
        """The rows of `parts`, one part after the other, in the given order."""
        picked = order.tolist()

        def strings(name: str) -> list[str]:
            every = [one for part in parts for one in getattr(part, name)]
            return [every[row] for row in picked]

        def numbers(name: str) -> NDArray[np.generic]:
            return np.concatenate([getattr(part, name) for part in parts])[order]

        lists = {name: strings(name) for name in ("ids", "speakers", "sessions")}
        arrays = {name: numbers(name) for name in ("seqs", "at", "days", "expires", "lengths", "traits")}
        return cls(**lists, **arrays)  # pyright: ignore[reportArgumentType]

    def take(self, rows: Sequence[int]) -> Rows:
        return Rows.joined([self], np.asarray(rows, dtype=np.int64))

    @property
    def canonical(self) -> Ints:
        """The rows in canonical order."""
        if len(self.seqs) < 2 or bool((np.diff(self.seqs) > 0).all()):
            return np.arange(len(self.seqs))
        keys = sorted(zip(self.seqs.tolist(), self.ids, range(len(self.ids)), strict=True))
        return np.array([row for _, _, row in keys], dtype=np.int64)


class BankIndex:
    """Rows of one bank with their vectors and BM25 statistics. Make one with `build`, follow the bank by `updated`."""

    def __init__(self, stored: Records, rows: Rows, vectors: NDArray[np.float32], postings: Postings) -> None:
        """Everything in canonical order."""
        self._records = stored
        self.rows = rows
        self.vectors = vectors
        self.postings = postings

    @classmethod
    def build(cls, records: Sequence[MemoryRecord], vectors: NDArray[np.float32] | None) -> BankIndex:
        """`vectors[i]` is the embedding of `embed_text(records[i])`. None: a bank without embeddings."""
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
        return cls.of_columns(Columns.of(in_order), matrix[order], Records(in_order))

    @classmethod
    def of_columns(cls, columns: Columns, vectors: NDArray[np.float32], stored: Records) -> BankIndex:
        """The same from columns, all in canonical order; `stored` makes the records that are asked for."""
        read = read_lines(columns)
        traits = (
            read.size, read.asks, read.tells_time, read.tells_number, columns.facts, columns.trust, columns.from_user,
        )  # fmt: skip
        rows = Rows(
            ids=columns.ids,
            speakers=[fold_speaker(name) for name in columns.speakers],
            sessions=columns.sessions,
            seqs=columns.seqs,
            at=columns.at,
            days=columns.days,
            expires=columns.expires,
            lengths=read.lengths,
            traits=np.stack(traits, axis=1).astype(np.float64).reshape(len(columns), len(TRAITS)),
        )
        return cls(stored, rows, _fixed_point(vectors), read.postings)

    @classmethod
    def joined(cls, parts: Sequence[BankIndex]) -> BankIndex:
        """The rows of several banks as one: what a search over all of a user's banks ranks."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) < 2:
            return parts[0] if parts else cls.build((), None)
        together = Rows.joined([part.rows for part in parts], np.arange(sum(map(len, parts))))
        order = together.canonical
        place = _inverse(order)
        records = [record for part in parts for record in part.records]
        first = np.cumsum([0, *(len(part) for part in parts)])
        keys = np.concatenate([part.postings.keys for part in parts])
        owners = np.concatenate([part.postings.rows + first[n] for n, part in enumerate(parts)])
        counts = np.concatenate([part.postings.counts for part in parts])
        by_key = np.argsort(keys, kind="stable")
        return cls(
            Records([records[row] for row in order.tolist()]),
            together.take(order.tolist()),
            np.concatenate([part.vectors for part in parts])[order],
            Postings(keys[by_key], place[owners[by_key]], counts[by_key]),
        )

    def updated(
        self, changed: Sequence[tuple[MemoryRecord, NDArray[np.float32]]], removed: Collection[str]
    ) -> BankIndex:
        """The index after `changed` memories were added or rewritten and `removed` ones (ids) ended."""
        fresh = {record.id: (record, vector) for record, vector in changed}
        gone = {*removed, *fresh}
        kept = [row for row, memory_id in enumerate(self.rows.ids) if memory_id not in gone]
        records = [record for record, _ in fresh.values()]
        columns = Columns.of(records)
        added = BankIndex.of_columns(columns, np.zeros((len(records), 0), np.float32), Records(records))
        together = Rows.joined([self.rows.take(kept), added.rows], np.arange(len(kept) + len(records)))
        order = together.canonical
        place = _inverse(order)
        every = [*self._records.pick(kept), *records]
        return BankIndex(
            Records([every[row] for row in order.tolist()]),
            together.take(order.tolist()),
            self._merged_vectors(kept, [vector for _, vector in fresh.values()])[order],
            self._merged_postings(kept, added.postings, place),
        )

    def _merged_vectors(self, kept: Sequence[int], new: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        if not new:
            return self.vectors[list(kept)]
        added = _fixed_point(np.stack([np.asarray(vector, dtype=np.float32).reshape(-1) for vector in new]))
        if not kept:
            return added
        if added.shape[1] != self.vectors.shape[1]:
            raise EmbedderError(
                f"a vector of {added.shape[1]} numbers cannot join a bank of {self.vectors.shape[1]}",
                why="all vectors of a bank come from one embedder",
                fix="embed the whole bank with the embedder that is configured",
            )
        return np.concatenate([self.vectors[list(kept)], added])

    def _merged_postings(self, kept: Sequence[int], added: Postings, place: Ints) -> Postings:
        """`added` numbers its rows from 0, behind the kept ones."""
        moved = np.full(len(self), -1, dtype=np.int64)
        moved[list(kept)] = place[: len(kept)]
        rows = moved[self.postings.rows]
        alive = rows >= 0
        keys, rows, counts = self.postings.keys[alive], rows[alive], self.postings.counts[alive]
        at = keys.searchsorted(added.keys, "right")
        return Postings(
            np.insert(keys, at, added.keys),
            np.insert(rows, at, place[added.rows + len(kept)]),
            np.insert(counts, at, added.counts),
        )

    def __len__(self) -> int:
        return len(self.rows.ids)

    @property
    def records(self) -> list[MemoryRecord]:
        return self._records.all()

    def pick(self, rows: Sequence[int]) -> list[MemoryRecord]:
        """The records of some rows."""
        return self._records.pick(rows)

    @cached_property
    def average_length(self) -> float:
        return max(int(self.rows.lengths.sum()), 1) / max(len(self), 1)

    @cached_property
    def saturation(self) -> Floats:
        """BM25's share of document length: k1 · (1 - b + b · length / average)."""
        return K1 * (1.0 - B + B * (self.rows.lengths / self.average_length))

    @cached_property
    def traits(self) -> dict[str, Floats]:
        return {name: np.ascontiguousarray(self.rows.traits[:, column]) for column, name in enumerate(TRAITS)}

    @cached_property
    def speakers(self) -> dict[str, Ints]:
        """Folded speaker name → its rows."""
        found: dict[str, list[int]] = {}
        for position, speaker in enumerate(self.rows.speakers):
            if speaker:
                found.setdefault(speaker, []).append(position)
        return {name: np.array(rows, dtype=np.int64) for name, rows in found.items()}

    @cached_property
    def name_keys(self) -> dict[str, Keys]:
        """Folded speaker name → the term of its first word, by which others speak of them."""
        return {name: name_key(name) for name in self.speakers}

    @cached_property
    def has_speaker(self) -> Floats:
        return np.array([bool(speaker) for speaker in self.rows.speakers], dtype=np.float64)

    @cached_property
    def kinds(self) -> dict[str, Flags]:
        is_fact = self.traits["fact"] > 0
        return {"fact": is_fact, "episode": ~is_fact}

    @cached_property
    def sessions(self) -> Ints:
        """Number of the conversation that each row belongs to, -1 for facts: they are no part of a talk. A session is
        what the caller named, else an unbroken stretch of time."""
        names: dict[str, int] = {"": 0}
        numbers = np.array([names.setdefault(name, len(names)) for name in self.rows.sessions], dtype=np.int64)
        episodes = self.kinds["episode"]
        unnamed = np.flatnonzero(episodes & (numbers == 0))
        at = self.rows.at[unnamed]
        before = np.append(np.int64(NO_TIME), at[:-1])
        known = (at != NO_TIME) & (before != NO_TIME)
        silence = np.abs(np.where(known, at, 0) - np.where(known, before, 0))
        starts = (at != NO_TIME) & (~known | (silence > SESSION_GAP))
        numbers[unnamed] = len(names) + np.cumsum(starts)
        return np.where(episodes, numbers, -1)

    @cached_property
    def talk(self) -> Talk:
        return Talk.of(self.sessions)


@dataclass(frozen=True, slots=True)
class Talk:
    """Who stands next to whom. `order` lists the episodes session by session; `before[d]`/`after[d]` give the row d+1
    turns earlier or later in the same session (or `rows`, one past the end, where a zero is looked up)."""

    order: Ints
    starts: Ints
    """Where each session begins in `order`."""
    numbers: Ints
    """For each position in `order`, which of the sessions (by `starts`) it is."""
    before: tuple[Ints, ...]
    after: tuple[Ints, ...]

    @classmethod
    def of(cls, sessions: Ints) -> Talk:
        rows = len(sessions)
        order = np.argsort(sessions, kind="stable")
        order = order[sessions[order] >= 0]
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


def _inverse(order: Ints) -> Ints:
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def _fixed_point(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.rint(vectors * np.float32(VECTOR_SCALE))


def exact_cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> Floats:
    """Cosines of unit vectors, to about 1e-4, identical in whatever order the sums are taken."""
    products = vectors @ _fixed_point(np.asarray(query, dtype=np.float32).reshape(-1))
    return products.astype(np.float64) / float(VECTOR_SCALE * VECTOR_SCALE)
