"""The rows of a bank, written once and never again: what makes following a bank cheap.

A shelf holds all that the scorer reads of each row. A state of a bank is a list of places on a shelf (`Rows`); states
that follow one another, or branch off from one, share a shelf until it is full. Then the next state moves its own rows
to a new one, with some room behind them: in the long run a row is moved a few times, whatever the size of the bank.

Vectors are small whole numbers in float32: their dot products are exact, so no BLAS kernel, thread count or place on
a shelf can change a score.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memkit.retrieval.columns import Floats, Ints, Records
from memkit.retrieval.postings import Entries, Postings

Matrix = NDArray[np.float32]

VECTOR_SCALE = 4000
"""Unit vectors × 4000, rounded: every partial sum of a dot product stays below 2^24, where float32 is exact."""
NUMBERS = ("seqs", "at", "days", "expires", "lengths", "kinds", "speakers", "sessions", "marks")
"""Whole numbers of a row. Speakers and sessions are numbered by the shelf; a mark is the hash of the memory's id."""
OWN = 6
"""So many of `NUMBERS` a row has by itself; the shelf adds the others."""
TRAITS = ("length", "question", "tells_time", "tells_number", "fact", "trust", "from_user", "standing", "has_speaker")
"""Numbers that a row has by itself, whatever is asked."""
_ROOM, _SHARE = 32, 4
"""Free places of a new shelf: so many, or this part of what it holds where that is more."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows to be put on a shelf, in canonical order."""

    ids: list[str]
    speakers: list[str]
    """Folded names."""
    sessions: list[str]
    numbers: Ints
    """(OWN, rows)"""
    traits: Floats
    """(TRAITS, rows)"""
    vectors: Matrix
    scale: float
    """What makes whole numbers of `vectors`."""
    entries: Entries
    """Sorted by term; rows counted from 0."""
    records: Records

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    @classmethod
    def join(cls, parts: Sequence[RowBatch]) -> RowBatch:
        """The rows of `parts` (of whole numbers) in canonical order."""
        ids, speakers, sessions = (
            [one for part in parts for one in getattr(part, name)] for name in ("ids", "speakers", "sessions")
        )
        numbers = np.concatenate([part.numbers for part in parts], axis=1)
        order = [row for _, _, row in sorted(zip(numbers[0].tolist(), ids, range(len(ids)), strict=True))]
        ids, speakers, sessions = ([one[row] for row in order] for one in (ids, speakers, sessions))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        first = np.cumsum([0, *(len(part) for part in parts)]).tolist()
        through = [part.entries.move(place[first[n] : first[n + 1]]) for n, part in enumerate(parts)]
        return cls(
            ids,
            speakers,
            sessions,
            numbers[:, order],
            np.concatenate([part.traits for part in parts], axis=1)[:, order],
            np.concatenate([part.vectors for part in parts])[order],
            1.0,
            Entries.sort(through),
            Records.join([part.records for part in parts]).take(order),
        )


class _Names(dict[str, int]):
    """Name → number, in order of first use; nobody ("") is 0."""

    def __init__(self) -> None:
        super().__init__({"": 0})

    def number(self, names: Sequence[str]) -> list[int]:
        return [self.setdefault(name, len(self)) for name in names]


class Shelf:
    __slots__ = (
        "by_first_word",
        "ids",
        "lock",
        "numbers",
        "postings",
        "records",
        "sessions",
        "speakers",
        "traits",
        "used",
        "vectors",
    )

    def __init__(self, held: RowBatch, more: int = 0) -> None:
        """Holds `held`, and has room for `more` rows and some."""
        rows = len(held) + more
        room = rows + max(_ROOM, rows // _SHARE)
        self.numbers = np.empty((len(NUMBERS), room), dtype=np.int64)
        self.traits = np.empty((len(TRAITS), room))
        self.vectors = np.empty((room, held.width), dtype=np.float32)
        self.ids, self.records = list[str](), held.records.take(range(len(held)))
        self.speakers, self.sessions = _Names(), _Names()
        self.by_first_word: dict[str, list[str]] = {}
        self.postings = Postings.none()
        self.used, self.lock = 0, threading.Lock()
        self._write(0, held)

    @property
    def room(self) -> int:
        return len(self.vectors)

    def put(self, batch: RowBatch) -> int | None:
        """The place of the first row of `batch`, or None where it does not fit."""
        with self.lock:
            first = self.used
            if first + len(batch) > self.room:
                return None
            self.records.extend(batch.records)
            self._write(first, batch)
            return first

    def _write(self, first: int, batch: RowBatch) -> None:
        last = first + len(batch)
        for name in batch.speakers:
            if name and name not in self.speakers:
                self.by_first_word.setdefault(name.split()[0], []).append(name)
                self.speakers[name] = len(self.speakers)
        self.numbers[:OWN, first:last] = batch.numbers
        self.numbers[OWN, first:last] = self.speakers.number(batch.speakers)
        self.numbers[OWN + 1, first:last] = self.sessions.number(batch.sessions)
        self.numbers[OWN + 2, first:last] = [hash(memory_id) for memory_id in batch.ids]
        self.traits[:, first:last] = batch.traits
        vectors = self.vectors[first:last]
        np.multiply(batch.vectors, np.float32(batch.scale), out=vectors)
        np.rint(vectors, out=vectors)
        self.ids += batch.ids
        self.postings = self.postings.with_entries(batch.entries, first)
        self.used = last
