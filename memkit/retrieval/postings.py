"""Which rows hold which terms, and how often.

A bank changes a row or two per decision, so postings come in two layers: a sorted one that stays as it was read, seen
through a table of where its rows stand now, and a short unsorted one of what came since. Following a change costs about
as much as the change; now and then both layers become one. What is found does not depend on the layers.
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
    """(term, row, count) triples."""

    keys: Keys
    rows: Ints
    counts: Floats

    def __len__(self) -> int:
        return len(self.keys)


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
    moved: Ints | None = None
    """Row of `base` → row of the bank, or -1 where it ended. None: they stand as they were read."""

    @classmethod
    def of(cls, keys: Keys, rows: Ints, counts: Floats) -> Postings:
        """From triples that are sorted by term."""
        return cls(Entries(keys, rows, counts), _NOTHING)

    @classmethod
    def joined(cls, parts: Sequence[Entries], order: Ints) -> Postings:
        """Entries of several banks whose rows are counted through; `order` says where each row goes."""
        keys = np.concatenate([part.keys for part in parts])
        rows = np.concatenate([part.rows for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        by_key = keys.argsort(kind="stable")
        return cls.of(keys[by_key], order[rows[by_key]], counts[by_key])

    def flat(self) -> Entries:
        """Both layers as one, sorted by term."""
        if self.moved is None and not len(self.tail):
            return self.base
        base = self.base if self.moved is None else _renumbered(self.base, self.moved)
        keys = np.concatenate((base.keys, self.tail.keys))
        order = keys.argsort(kind="stable")
        rows, counts = np.concatenate((base.rows, self.tail.rows)), np.concatenate((base.counts, self.tail.counts))
        return Entries(keys[order], rows[order], counts[order])

    def following(self, rows: int, gone: Sequence[int], added: Postings) -> Postings:
        """After `gone` (ascending) of `rows` rows ended and the rows of `added` came behind the others."""
        moved, tail = self.moved, self.tail
        if gone:
            step = np.arange(rows + 1)
            for place in gone:
                step[place:] -= 1
            step[list(gone)] = step[rows] = -1  # the last one is where -1 leads
            moved = step if moved is None else step[moved]
            if len(tail):
                tail = _renumbered(tail, step)
        new = added.flat()
        if len(new):
            tail = Entries(
                np.concatenate((tail.keys, new.keys)),
                np.concatenate((tail.rows, new.rows + (rows - len(gone)))),
                np.concatenate((tail.counts, new.counts)),
            )
        after = Postings(self.base, tail, moved)
        return Postings(after.flat(), _NOTHING) if len(tail) > max(_TAIL, len(self.base) // _SHARE) else after

    def find(self, keys: Keys) -> Found:
        """The entries of distinct `keys`."""
        base = self.base
        starts = base.keys.searchsorted(keys, "left")
        sizes = base.keys.searchsorted(keys, "right") - starts
        which = np.arange(len(keys)).repeat(sizes)
        at = np.arange(len(which)) + (starts - sizes.cumsum() + sizes)[which]
        rows, counts = base.rows.take(at), base.counts.take(at)
        if self.moved is not None:
            rows = self.moved.take(rows)
            alive = (rows >= 0).nonzero()[0]
            if len(alive) < len(rows):
                rows, counts, which = rows.take(alive), counts.take(alive), which.take(alive)
        if not len(self.tail) or not len(keys):
            return Found(rows, counts, which)
        order = keys.argsort()
        places = order.take(keys.searchsorted(self.tail.keys, sorter=order), mode="clip")
        at = (keys[places] == self.tail.keys).nonzero()[0]
        at = at[places[at].argsort(kind="stable")]
        also = places[at]
        return Found(
            np.concatenate((rows, self.tail.rows[at])),
            np.concatenate((counts, self.tail.counts[at])),
            np.concatenate((which, also)),
        )


_NOTHING = Entries(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0))


def _renumbered(entries: Entries, moved: Ints) -> Entries:
    """With rows as `moved` says; those that ended are left out."""
    rows = moved[entries.rows]
    alive = rows >= 0
    if np.logical_and.reduce(alive):
        return Entries(entries.keys, rows, entries.counts)
    return Entries(entries.keys[alive], rows[alive], entries.counts[alive])
