"""The rows of a bank column by column: what the scorer reads of each memory, and nothing else.

A cold bank is read from LanceDB in columns and ranked in columns; a record is made only for the few rows that are
returned. The same columns can be taken from records, so both ways give the same index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memkit.models import KINDS, MemoryRecord, micros

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NEVER = np.iinfo(np.int64).max
NO_TIME = np.iinfo(np.int64).min


class Records:
    """Records by row, some of them made on first use."""

    __slots__ = ("_made", "_make", "_origins")

    def __init__(
        self,
        made: Sequence[MemoryRecord | None],
        make: Callable[[list[int]], list[MemoryRecord]] | None = None,
        origins: Sequence[int] | None = None,
    ) -> None:
        """`make(origins)` gives the records of rows that `made` leaves open; without `origins` they are the rows."""
        self._made, self._make, self._origins = list(made), make, origins

    def pick(self, rows: Sequence[int]) -> list[MemoryRecord]:
        made, origins = self._made, self._origins
        missing = [row for row in rows if made[row] is None]
        if missing and self._make is not None:
            asked = missing if origins is None else [origins[row] for row in missing]
            for row, record in zip(missing, self._make(asked), strict=True):
                made[row] = record
        return [record for row in rows if (record := made[row]) is not None]

    def all(self) -> list[MemoryRecord]:
        return self.pick(range(len(self._made)))

    def take(self, rows: Sequence[int]) -> Records:
        """Those of some rows; `rows` is kept."""
        origins = self._origins
        return Records(
            [self._made[row] for row in rows],
            self._make,
            rows if origins is None else [origins[row] if row < len(origins) else -1 for row in rows],
        )

    def extend(self, more: Records) -> None:
        """Put records behind the others."""
        self._made += more.all()

    @classmethod
    def join(cls, parts: Sequence[Records]) -> Records:
        """Those of `parts`, one after the other."""
        origins = [(part, row) for part, one in enumerate(parts) for row in range(len(one))]

        def make(rows: list[int]) -> list[MemoryRecord]:
            return [record for part, row in map(origins.__getitem__, rows) for record in parts[part].pick([row])]

        return cls([record for part in parts for record in part._made], make)

    def __len__(self) -> int:
        return len(self._made)


@dataclass(frozen=True, slots=True)
class Columns:
    """One entry per row in every field; times in UTC microseconds."""

    ids: list[str]
    texts: list[str]
    speakers: list[str]
    sessions: list[str]
    seqs: Ints
    kinds: Ints
    """Position in `KINDS`."""
    from_user: Flags
    at: Ints
    """`NO_TIME` where none is known."""
    days: Ints
    """Local date of `at` as a proleptic ordinal; 0 where there is none."""
    expires: Ints
    """`NEVER` where it does not."""
    trust: Floats
    standing: Flags

    @classmethod
    def of(cls, records: Sequence[MemoryRecord]) -> Columns:
        return cls(
            ids=[record.id for record in records],
            texts=[record.text for record in records],
            speakers=[record.speaker for record in records],
            sessions=[record.session_id for record in records],
            seqs=_ints(record.seq for record in records),
            kinds=_ints(KINDS.index(record.kind) for record in records),
            from_user=np.array([record.origin == "user" for record in records], dtype=bool),
            at=_ints(NO_TIME if record.at is None else micros(record.at) for record in records),
            days=_ints(0 if record.at is None else record.at.toordinal() for record in records),
            expires=_ints(NEVER if record.expires_at is None else micros(record.expires_at) for record in records),
            trust=np.array([record.trust for record in records], dtype=np.float64),
            standing=np.array([record.standing for record in records], dtype=bool),
        )

    def __len__(self) -> int:
        return len(self.ids)


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
