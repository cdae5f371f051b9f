"""Which rows hold which terms, and how often.

Postings come in two layers: a sorted one, and a short unsorted one of what came since. Adding a row costs about as
much as the row; now and then both layers become one. What is found does not depend on the layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memkit.retrieval.columns import Floats, Ints

Keys = NDArray[np.uint64]

_TAIL, _SHARE = 256, 32
"""The unsorted layer holds so many entries, or this part of the sorted one where that is more."""


@dataclass(frozen=True, slots=True)
class Entries:
    """(term, row, count) triples, narrow: they are most of what a bank takes beside its vectors."""

    keys: Keys
    rows: NDArray[np.int32]
    counts: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def sort(cls, parts: Sequence[Entries]) -> Entries:
        """All of `parts`, sorted by term."""
        keys = np.concatenate([part.keys for part in parts])
        rows = np.concatenate([part.rows for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        order = keys.argsort(kind="stable")
        return cls(keys[order], rows[order], counts[order])

    def move(self, to: Ints) -> Entries:
        """Each row at `to[row]`; where that is -1 it is left out."""
        rows = to[self.rows].astype(np.int32)
        alive = rows >= 0
        if np.logical_and.reduce(alive):
            return Entries(self.keys, rows, self.counts)
        return Entries(self.keys[alive], rows[alive], self.counts[alive])


@dataclass(frozen=True, slots=True)
class Found:
    """Where keys stand: for each entry its row, its count, and which of the keys it is of. A row is found at most once
    per key, and a row's entries are in the order of the keys."""

    rows: Ints
    counts: Floats
    which: Ints

    def sizes(self, keys: int) -> list[int]:
        """For each of so many keys, in how many rows it stands."""
        return np.bincount(self.which, minlength=keys).tolist()


@dataclass(frozen=True, slots=True)
class Postings:
    base: Entries
    """Sorted by term."""
    tail: Entries
    """In the order in which they came; a row is in one of the layers only."""

    @classmethod
    def none(cls) -> Postings:
        return cls(_NOTHING, _NOTHING)

    def with_entries(self, more: Entries, first: int) -> Postings:
        """With the entries of new rows (sorted by term), the first of which is row `first`."""
        if not len(self.base) and not len(self.tail):
            return Postings(Entries(more.keys, more.rows + np.int32(first), more.counts), _NOTHING)
        tail = Entries(
            np.concatenate((self.tail.keys, more.keys)),
            np.concatenate((self.tail.rows, more.rows + np.int32(first))),
            np.concatenate((self.tail.counts, more.counts)),
        )
        if len(tail) > max(_TAIL, len(self.base) // _SHARE):
            return Postings(Entries.sort((self.base, tail)), _NOTHING)
        return Postings(self.base, tail)

    def flat(self) -> Entries:
        """Both layers as one, sorted by term."""
        return Entries.sort((self.base, self.tail)) if len(self.tail) else self.base

    def find(self, keys: Keys) -> Found:
        """The entries of distinct `keys`."""
        base = self.base
        starts = base.keys.searchsorted(keys, "left")
        sizes = base.keys.searchsorted(keys, "right") - starts
        which = np.arange(len(keys)).repeat(sizes)
        at = np.arange(len(which)) + (starts - sizes.cumsum() + sizes)[which]
        rows, counts = base.rows.take(at), base.counts.take(at)
        if not len(self.tail) or not len(keys):
            return Found(rows.astype(np.int64), counts.astype(np.float64), which)
        order = keys.argsort()
        places = order.take(keys.searchsorted(self.tail.keys, sorter=order), mode="clip")
        at = (keys[places] == self.tail.keys).nonzero()[0]
        at = at[places[at].argsort(kind="stable")]
        also = places[at]
        return Found(
            np.concatenate((rows, self.tail.rows[at]), dtype=np.int64),
            np.concatenate((counts, self.tail.counts[at]), dtype=np.float64),
            np.concatenate((which, also)),
        )


_NOTHING = Entries(np.zeros(0, np.uint64), np.zeros(0, np.int32), np.zeros(0, np.float32))
