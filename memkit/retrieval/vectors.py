"""Vectors of a bank's rows, shared by the many states of a bank: following a change copies what changed.

Rows of vectors are written once into a shelf and never again; a state of the bank is a list of places on it. States
that follow one another, or branch off from one, use one shelf until it is full; then the next one moves what it holds
to a shelf of its own. Vectors are small whole numbers in float32: their dot products are exact, so no BLAS kernel,
thread count or place on a shelf can change a score.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memkit.retrieval.columns import Floats, Ints

Matrix = NDArray[np.float32]

VECTOR_SCALE = 4000
"""Unit vectors × 4000, rounded: every partial sum of a dot product stays below 2^24, where float32 is exact."""
_ROOM, _SHARE = 32, 4
"""Free places of a new shelf: so many, or this part of what it holds where that is more."""


class _Shelf:
    __slots__ = ("lock", "rows", "used")

    def __init__(self, held: Matrix) -> None:
        size = len(held)
        self.rows = np.empty((size + max(_ROOM, size // _SHARE), held.shape[1]), dtype=np.float32)
        self.rows[:size] = held
        self.used, self.lock = size, threading.Lock()

    def put(self, more: Matrix) -> int | None:
        """The place of the first one, or None where they do not fit."""
        with self.lock:
            first, last = self.used, self.used + len(more)
            if last > len(self.rows):
                return None
            self.used = last
        self.rows[first:last] = more
        return first


class Vectors:
    """Immutable: one vector per row, in whole numbers."""

    __slots__ = ("_places", "_shelf")

    def __init__(self, shelf: _Shelf | Matrix, places: Ints | None = None) -> None:
        """`places` None: row for row."""
        self._shelf, self._places = shelf, places

    @classmethod
    def of(cls, vectors: Matrix) -> Vectors:
        return cls(np.rint(vectors * np.float32(VECTOR_SCALE)))

    @property
    def rows(self) -> Matrix:
        shelf = self._shelf
        if isinstance(shelf, _Shelf):
            return shelf.rows[self._places]
        return shelf

    @property
    def width(self) -> int:
        return (self._shelf.rows if isinstance(self._shelf, _Shelf) else self._shelf).shape[1]

    def following(self, gone: Sequence[int], more: Vectors) -> Vectors:
        """Without `gone` (ascending), and with `more` behind the others."""
        shelf, places = self._shelf, self._places
        if not isinstance(shelf, _Shelf) or places is None:
            shelf = _Shelf(self.rows)
            places = np.arange(len(self.rows))
        added = more.rows if len(more.rows) else shelf.rows[:0]
        first = shelf.put(added)
        if first is None:
            shelf = _Shelf(shelf.rows[places])
            places, first = np.arange(len(places)), shelf.put(added)
        if first is None:  # more than a shelf keeps free
            shelf, first = _Shelf(np.concatenate((shelf.rows[places], added))), len(places)
        edges = pairwise([-1, *gone, len(places)])
        return Vectors(
            shelf, np.concatenate([*(places[a + 1 : b] for a, b in edges), np.arange(first, first + len(added))])
        )

    def cosines(self, query: Matrix) -> Floats:
        """Cosines of unit vectors, to about 1e-4, identical in whatever order the sums are taken."""
        asked = np.rint(np.asarray(query, dtype=np.float32).reshape(-1) * np.float32(VECTOR_SCALE))
        shelf = self._shelf
        products = (shelf.rows[: shelf.used] @ asked)[self._places] if isinstance(shelf, _Shelf) else shelf @ asked
        return products.astype(np.float64) / float(VECTOR_SCALE * VECTOR_SCALE)
