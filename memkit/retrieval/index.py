"""The rows of one bank, ready to be ranked. Immutable, and the same whether built at once or by deltas.

That sameness is by construction. Rows stand in one canonical order, (seq, id). Everything that depends on a single
row is computed from its record alone; everything else (document frequencies, neighbours, sessions) is derived from
the columns by exact integer arithmetic. Terms are 64-bit hashes, so there is no vocabulary that could depend on
history. Vectors are kept as small integers in float32: their dot products are exact, so no BLAS kernel, thread count
or row position can change a score.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from memkit.errors import EmbedderError
from memkit.models import MemoryRecord, micros
from memkit.retrieval.stem import stem
from memkit.retrieval.text import STOP_WORDS, embed_text, words

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

VECTOR_SCALE = 4000
"""Unit vectors × 4000, rounded: every partial sum of a dot product stays below 2^24, where float32 is exact."""
SESSION_GAP = 4 * 3600 * 1_000_000
"""Where callers name no session, a silence this long (microseconds) in the conversation starts a new one."""
K1, B = 1.2, 0.75
"""BM25's usual saturation and length normalisation."""
NEVER = np.iinfo(np.int64).max
NO_TIME = np.iinfo(np.int64).min

_MIX = np.uint64(0x9E3779B97F4A7C15)
_TELLS_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|ago|(?:last|next|this|past)\s+\w+|monday|tuesday|wednesday|thursday|friday"
    r"|saturday|sunday|weekend|january|february|march|april|june|july|august|september|october|november|december"
    r"|in\s+may|may\s+\d|(?:19|20)\d\d|since|recently|just)\b",
    re.IGNORECASE,
)
_TELLS_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|once|twice|couple|dozen|hundred|several)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=65_536)
def term_key(word: str) -> int:
    """The term that a folded word counts as; 0 for a stop word."""
    if word in STOP_WORDS:
        return 0
    return int.from_bytes(blake2b(stem(word).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") | 1


def term_keys(text: str) -> Keys:
    """Terms in order, stop words left out."""
    return np.array([key for word in words(text) if (key := term_key(word))], dtype=np.uint64)


def pair_keys(keys: Keys) -> Keys:
    """Keys of neighbouring terms, so that "support group" is one thing too. They live in the same key space."""
    return (keys[:-1] * _MIX) ^ (keys[1:] + _MIX)


@dataclass(frozen=True, slots=True)
class Row:
    """All that the scorer needs of one record, computed from the record alone."""

    record: MemoryRecord
    keys: Keys
    counts: NDArray[np.float64]
    length: int
    """Terms, repeated ones included."""
    speaker: str
    session: str
    day: int
    at: int
    expires: int
    traits: tuple[float, ...]


TRAITS = ("length", "question", "tells_time", "tells_number", "fact", "trust", "from_user")
"""Numbers that a row has by itself, whatever is asked."""


def read_row(record: MemoryRecord) -> Row:
    line = term_keys(embed_text(record))
    counted = Counter(line.tolist())
    counted.update(set(pair_keys(line).tolist()))
    plain = record.text
    return Row(
        record=record,
        keys=np.fromiter(counted, dtype=np.uint64, count=len(counted)),
        counts=np.fromiter(counted.values(), dtype=np.float64, count=len(counted)),
        length=len(line),
        speaker=" ".join(words(record.speaker)),
        session=record.session_id,
        day=record.at.toordinal() if record.at else 0,
        at=micros(record.at) if record.at else NO_TIME,
        expires=micros(record.expires_at) if record.expires_at else NEVER,
        traits=(
            min(math.log1p(len(plain.split()) or len(plain) / 4) / 4.0, 1.5),
            float(plain.rstrip().endswith(("?", "？"))),
            float(_TELLS_TIME.search(plain) is not None),
            float(_TELLS_NUMBER.search(plain) is not None),
            float(record.kind == "fact"),
            record.trust,
            float(record.origin == "user"),
        ),
    )


@dataclass(frozen=True, slots=True)
class Postings:
    """(term, row, count) triples, sorted by term."""

    keys: Keys
    rows: Ints
    counts: NDArray[np.float64]

    def find(self, keys: Keys) -> list[tuple[Ints, NDArray[np.float64]]]:
        starts = self.keys.searchsorted(keys, "left").tolist()
        ends = self.keys.searchsorted(keys, "right").tolist()
        return [(self.rows[a:b], self.counts[a:b]) for a, b in zip(starts, ends, strict=True)]


class BankIndex:
    """Rows of one bank with their vectors and BM25 statistics. Make one with `build`, follow the bank by `updated`."""

    def __init__(self, rows: Sequence[Row], vectors: NDArray[np.float32], postings: Postings) -> None:
        """`rows` and `vectors` in canonical order."""
        self.rows = tuple(rows)
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
        rows = [read_row(records[i]) for i in order]
        matrix = np.asarray(vectors, dtype=np.float32)
        if matrix.ndim != 2:
            matrix = matrix.reshape(len(records), -1)
        stored = _fixed_point(matrix[order])
        return cls(rows, stored, _postings(rows, range(len(rows))))

    @classmethod
    def joined(cls, parts: Sequence[BankIndex]) -> BankIndex:
        """The rows of several banks as one: what a search over all of a user's banks ranks."""
        rows = [row for part in parts for row in part.rows]
        order = sorted(range(len(rows)), key=lambda i: (rows[i].record.seq, rows[i].record.id))
        in_order = [rows[i] for i in order]
        vectors = np.concatenate([part.vectors for part in parts if len(part)] or [np.zeros((0, 0), dtype=np.float32)])
        return cls(in_order, vectors[order], _postings(in_order, range(len(in_order))))

    def updated(
        self, changed: Sequence[tuple[MemoryRecord, NDArray[np.float32]]], removed: Collection[str]
    ) -> BankIndex:
        """The index after `changed` memories were added or rewritten and `removed` ones (ids) ended."""
        fresh = {record.id: (record, vector) for record, vector in changed}
        gone = {*removed, *fresh}
        kept = [i for i, row in enumerate(self.rows) if row.record.id not in gone]
        new_rows = [read_row(record) for record, _ in fresh.values()]
        merged: list[Row] = [self.rows[i] for i in kept] + new_rows
        order = sorted(range(len(merged)), key=lambda i: (merged[i].record.seq, merged[i].record.id))
        place = np.empty(len(merged), dtype=np.int64)
        place[order] = np.arange(len(merged))
        return BankIndex(
            [merged[i] for i in order],
            self._merged_vectors(kept, [vector for _, vector in fresh.values()])[order],
            self._merged_postings(kept, new_rows, place),
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

    def _merged_postings(self, kept: Sequence[int], new_rows: Sequence[Row], place: Ints) -> Postings:
        moved = np.full(len(self.rows), -1, dtype=np.int64)
        moved[list(kept)] = place[: len(kept)]
        rows = moved[self.postings.rows]
        alive = rows >= 0
        keys, rows, counts = self.postings.keys[alive], rows[alive], self.postings.counts[alive]
        added = _postings(new_rows, place[len(kept) :].tolist())
        at = keys.searchsorted(added.keys, "right")
        return Postings(
            np.insert(keys, at, added.keys), np.insert(rows, at, added.rows), np.insert(counts, at, added.counts)
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def records(self) -> list[MemoryRecord]:
        return [row.record for row in self.rows]

    @cached_property
    def lengths(self) -> Ints:
        return np.array([row.length for row in self.rows], dtype=np.int64)

    @cached_property
    def average_length(self) -> float:
        return max(int(self.lengths.sum()), 1) / max(len(self.rows), 1)

    @cached_property
    def saturation(self) -> Floats:
        """BM25's share of document length: k1 · (1 - b + b · length / average)."""
        return K1 * (1.0 - B + B * (self.lengths / self.average_length))

    @cached_property
    def days(self) -> Ints:
        return np.array([row.day for row in self.rows], dtype=np.int64)

    @cached_property
    def expires(self) -> Ints:
        return np.array([row.expires for row in self.rows], dtype=np.int64)

    @cached_property
    def traits(self) -> dict[str, Floats]:
        table = np.array([row.traits for row in self.rows], dtype=np.float64).reshape(len(self.rows), len(TRAITS))
        return {name: np.ascontiguousarray(table[:, column]) for column, name in enumerate(TRAITS)}

    @cached_property
    def speakers(self) -> dict[str, Ints]:
        """Folded speaker name → its rows."""
        found: dict[str, list[int]] = {}
        for position, row in enumerate(self.rows):
            if row.speaker:
                found.setdefault(row.speaker, []).append(position)
        return {name: np.array(rows, dtype=np.int64) for name, rows in found.items()}

    @cached_property
    def name_keys(self) -> dict[str, Keys]:
        """Folded speaker name → the term of its first word, by which others speak of them."""
        return {name: np.array([term_key(name.split()[0]) or 1], dtype=np.uint64) for name in self.speakers}

    @cached_property
    def has_speaker(self) -> Floats:
        return np.array([bool(row.speaker) for row in self.rows], dtype=np.float64)

    @cached_property
    def kinds(self) -> dict[str, NDArray[np.bool_]]:
        is_fact = self.traits["fact"] > 0
        return {"fact": is_fact, "episode": ~is_fact}

    @cached_property
    def sessions(self) -> Ints:
        """Number of the conversation that each row belongs to, -1 for facts: they are no part of a talk. A session is
        what the caller named, else an unbroken stretch of time."""
        numbers = np.full(len(self.rows), -1, dtype=np.int64)
        named: dict[str, int] = {}
        following, unnamed, last_at = 0, -1, NO_TIME
        for position, row in enumerate(self.rows):
            if row.record.kind != "episode":
                continue
            if row.session:
                if row.session not in named:
                    named[row.session], following = following, following + 1
                numbers[position] = named[row.session]
                continue
            if unnamed < 0 or (row.at != NO_TIME and abs(row.at - last_at) > SESSION_GAP):
                unnamed, following = following, following + 1
            last_at = row.at
            numbers[position] = unnamed
        return numbers

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


def _postings(rows: Sequence[Row], places: Sequence[int]) -> Postings:
    if not rows:
        return Postings(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.float64))
    keys = np.concatenate([row.keys for row in rows])
    counts = np.concatenate([row.counts for row in rows])
    owners = np.repeat(np.asarray(places, dtype=np.int64), [len(row.keys) for row in rows])
    order = np.argsort(keys, kind="stable")
    return Postings(keys[order], owners[order], counts[order])


def _fixed_point(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.rint(vectors * np.float32(VECTOR_SCALE))


def exact_cosines(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> Floats:
    """Cosines of unit vectors, to about 1e-4, identical in whatever order the sums are taken."""
    products = vectors @ _fixed_point(np.asarray(query, dtype=np.float32).reshape(-1))
    return products.astype(np.float64) / float(VECTOR_SCALE * VECTOR_SCALE)
