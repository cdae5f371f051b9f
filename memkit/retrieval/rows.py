"""A state of a bank: which rows of a shelf it has, in canonical order. Immutable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

import numpy as np

from memkit.models import MemoryRecord
from memkit.retrieval.columns import Floats, Ints
from memkit.retrieval.postings import Found, Keys
from memkit.retrieval.shelf import OWN, TRAITS, VECTOR_SCALE, Matrix, RowBatch, Shelf

_FEW = 8
"""Memories up to which looking for each is cheaper than looking for all at once."""


class Rows:
    def __init__(self, shelf: Shelf, count: int, places: Ints | None = None) -> None:
        """`places` (ascending) None: the first `count` of the shelf."""
        self._shelf, self._count, self._places = shelf, count, places

    @classmethod
    def of(cls, batch: RowBatch) -> Rows:
        return cls(Shelf(batch), len(batch))

    def __len__(self) -> int:
        return self._count

    # ---- columns -----------------------------------------------------------------------------------------------

    @cached_property
    def _numbers(self) -> Ints:
        """(NUMBERS, rows)"""
        table = self._shelf.numbers
        return table[:, : self._count] if self._places is None else table.take(self._places, axis=1)

    @property
    def seqs(self) -> Ints:
        return self._numbers[0]

    @property
    def at(self) -> Ints:
        return self._numbers[1]

    @property
    def days(self) -> Ints:
        return self._numbers[2]

    @property
    def expires(self) -> Ints:
        return self._numbers[3]

    @property
    def lengths(self) -> Ints:
        return self._numbers[4]

    @property
    def kinds(self) -> Ints:
        """Each a place in `models.KINDS`."""
        return self._numbers[5]

    @property
    def sessions(self) -> Ints:
        """Numbers of the sessions that callers named; 0 where they named none."""
        return self._numbers[OWN + 1]

    @cached_property
    def traits(self) -> dict[str, Floats]:
        table = self._shelf.traits
        own = table[:, : self._count] if self._places is None else table.take(self._places, axis=1)
        return dict(zip(TRAITS, own, strict=True))

    @property
    def ids(self) -> list[str]:
        return [self._shelf.ids[place] for place in self._where.tolist()]

    def in_session(self, session_id: str) -> np.ndarray:
        return self.sessions == self._shelf.sessions.get(session_id, -1)

    def speakers_among(self, words: Iterable[str]) -> dict[str, Floats]:
        """For each speaker whose folded name begins with one of `words`, 1 for the rows that he said."""
        said: dict[str, Floats] = {}
        by_first_word, spoken = self._shelf.by_first_word, self._numbers[OWN]
        for word in words:
            for name in by_first_word.get(word, ()):
                own = spoken == self._shelf.speakers[name]
                if np.logical_or.reduce(own):
                    said[name] = own.astype(np.float64)
        return said

    # ---- records, words and vectors ------------------------------------------------------------------------------

    def pick(self, rows: Sequence[int]) -> list[MemoryRecord]:
        """The records of some rows."""
        if self._places is not None:
            rows = self._places[rows].tolist() if len(rows) else []
        return self._shelf.records.pick(rows)

    def find(self, keys: Keys) -> Found:
        """The entries of distinct `keys`."""
        found = self._shelf.postings.find(keys)
        rows = found.rows if self._places is None else self._row_at.take(found.rows)
        here = rows < self._count if self._places is None else rows >= 0
        if np.logical_and.reduce(here):
            return Found(rows, found.counts, found.which)
        at = here.nonzero()[0]
        return Found(rows.take(at), found.counts.take(at), found.which.take(at))

    @property
    def width(self) -> int:
        return self._shelf.vectors.shape[1]

    @property
    def vectors(self) -> Matrix:
        """In whole numbers."""
        table = self._shelf.vectors
        return table[: self._count] if self._places is None else table[self._places]

    def cosines(self, query: Matrix, rows: Ints | None = None) -> Floats:
        """Cosines of unit vectors (of some rows), to about 1e-4, identical in whatever order the sums are taken."""
        asked = np.rint(np.asarray(query, dtype=np.float32).reshape(-1) * np.float32(VECTOR_SCALE))
        if rows is not None:
            products = self._shelf.vectors[self._where[rows]] @ asked
        else:
            products = self._shelf.vectors[: self._end] @ asked
            if self._places is not None:
                products = products.take(self._places)
        return products.astype(np.float64) / float(VECTOR_SCALE * VECTOR_SCALE)

    # ---- following a change ------------------------------------------------------------------------------------

    def rows_of(self, ids: Collection[str]) -> list[int]:
        """The rows of these memories, as far as they are here, in order."""
        marks, names = self._shelf.numbers[OWN + 2, : self._end], self._shelf.ids
        wanted = [hash(memory_id) for memory_id in ids]
        if len(wanted) <= _FEW:
            at = [place for mark in wanted for place in (marks == mark).nonzero()[0].tolist()]
        else:
            at = np.isin(marks, wanted).nonzero()[0].tolist()
        places = [place for place in at if names[place] in ids]
        if self._places is None:
            return sorted(places)
        return sorted(row for place in places if (row := int(self._row_at[place])) >= 0)

    def without(self, gone: Sequence[int]) -> Rows:
        return Rows(self._shelf, self._count - len(gone), np.delete(self._where, gone)) if gone else self

    def with_batch(self, batch: RowBatch) -> Rows:
        """With the rows of `batch` behind the others."""
        first = self._shelf.put(batch) if self._end <= 2 * self._count + 32 else None
        if first is None:  # the shelf is full, or mostly of rows that ended
            shelf = Shelf(self.batch(), len(batch))
            shelf.put(batch)
            return Rows(shelf, self._count + len(batch))
        count = self._count + len(batch)
        if self._places is None and first == self._count:
            return Rows(self._shelf, count)
        return Rows(self._shelf, count, np.concatenate((self._where, np.arange(first, first + len(batch)))))

    def batch(self) -> RowBatch:
        """These rows alone."""
        shelf, where = self._shelf, self._where.tolist()
        speakers, sessions = list(shelf.speakers), list(shelf.sessions)
        postings = shelf.postings.flat()
        return RowBatch(
            self.ids,
            [speakers[number] for number in self._numbers[OWN].tolist()],
            [sessions[number] for number in self.sessions.tolist()],
            self._numbers[:OWN],
            np.stack(list(self.traits.values())),
            self.vectors,
            1.0,
            postings.move(self._row_at),
            shelf.records.take(where),
        )

    @property
    def _where(self) -> Ints:
        return np.arange(self._count) if self._places is None else self._places

    @property
    def _end(self) -> int:
        """One past the last place."""
        return self._count if self._places is None else int(self._places[-1]) + 1 if self._count else 0

    @cached_property
    def _row_at(self) -> Ints:
        """Place → row, or -1 where no row of this state stands."""
        row_at = np.full(self._shelf.room, -1)
        row_at[self._where] = np.arange(self._count)
        return row_at
