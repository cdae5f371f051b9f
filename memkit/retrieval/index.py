"""The rows of one bank, ready to be ranked. Immutable, and the same whether built at once or by deltas.

That sameness is by construction. Rows stand in one canonical order, (seq, id). Everything that depends on a single
row is computed from that row alone; everything else (document frequencies, neighbours, sessions) is derived from
the columns by exact integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memkit.errors import EmbedderError
from memkit.models import MemoryRecord
from memkit.retrieval.columns import KINDS, NO_TIME, Columns, Flags, Floats, Ints, Records
from memkit.retrieval.lexicon import fold_speaker, read_lines
from memkit.retrieval.postings import Entries, Postings
from memkit.retrieval.vectors import Vectors

T = TypeVar("T")
Number = TypeVar("Number", bound=np.generic)

SESSION_GAP = 4 * 3600 * 1_000_000
"""Where callers name no session, a silence this long (microseconds) in the conversation starts a new one."""
K1, B = 1.2, 0.75
"""BM25's usual saturation and length normalisation."""
TRAITS = ("length", "question", "tells_time", "tells_number", "fact", "trust", "from_user", "has_speaker")
"""Numbers that a row has by itself, whatever is asked."""


_FEW = 8
"""Memories up to which looking for each is cheaper than looking at every row."""
NUMBERS = ("seqs", "at", "days", "expires", "lengths", "kinds")
"""Whole numbers of a row."""


@dataclass(frozen=True, slots=True)
class Rows:
    """All that the scorer needs of the rows beside vectors and postings, in canonical order."""

    ids: list[str]
    speakers: list[str]
    """Folded names."""
    sessions: list[str]
    numbers: Ints
    """(NUMBERS, rows)"""
    traits: Floats
    """(TRAITS, rows)"""

    @property
    def seqs(self) -> Ints:
        return self.numbers[0]

    @property
    def at(self) -> Ints:
        return self.numbers[1]

    @property
    def days(self) -> Ints:
        return self.numbers[2]

    @property
    def expires(self) -> Ints:
        return self.numbers[3]

    @property
    def lengths(self) -> Ints:
        return self.numbers[4]

    @property
    def kinds(self) -> Ints:
        return self.numbers[5]

    def without(self, gone: Sequence[int], more: Rows) -> Rows:
        """These rows but for `gone` (ascending), and `more` behind them."""
        return Rows(
            _spliced_list(self.ids, gone, more.ids),
            _spliced_list(self.speakers, gone, more.speakers),
            _spliced_list(self.sessions, gone, more.sessions),
            _spliced(self.numbers, gone, more.numbers),
            _spliced(self.traits, gone, more.traits),
        )

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> tuple[Rows, Ints]:
        """The rows of `parts` in canonical order, and that order: which row, counted through, stands where."""
        ids, speakers, sessions = (
            [one for part in parts for one in getattr(part, name)] for name in ("ids", "speakers", "sessions")
        )
        numbers = np.concatenate([part.numbers for part in parts], axis=1)
        traits = np.concatenate([part.traits for part in parts], axis=1)
        order = [row for _, _, row in sorted(zip(numbers[0].tolist(), ids, range(len(ids)), strict=True))]
        ids, speakers, sessions = ([one[row] for row in order] for one in (ids, speakers, sessions))
        return cls(ids, speakers, sessions, numbers[:, order], traits[:, order]), np.array(order, dtype=np.int64)


class BankIndex:
    """Rows of one bank with their vectors and BM25 statistics. Make one with `build`, follow the bank by `updated`."""

    def __init__(self, stored: Records, rows: Rows, vectors: Vectors, postings: Postings) -> None:
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
        read, speakers = read_lines(columns), [fold_speaker(name) for name in columns.speakers]
        traits = (
            read.size, read.asks, read.tells_time, read.tells_number, columns.kinds == 0, columns.trust,
            columns.from_user, [name != "" for name in speakers],
        )  # fmt: skip
        rows = Rows(
            ids=columns.ids,
            speakers=speakers,
            sessions=columns.sessions,
            numbers=np.array(
                (columns.seqs, columns.at, columns.days, columns.expires, read.lengths, columns.kinds), dtype=np.int64
            ),
            traits=np.array(traits, dtype=np.float64),
        )
        return cls(stored, rows, Vectors.of(vectors), read.postings)

    @classmethod
    def joined(cls, parts: Sequence[BankIndex]) -> BankIndex:
        """The rows of several banks as one: what a search over all of a user's banks ranks."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) < 2:
            return parts[0] if parts else cls.build((), None)
        rows, order = Rows.joined([part.rows for part in parts])
        records = [record for part in parts for record in part.records]
        first = np.cumsum([0, *(len(part) for part in parts)])
        flat = [part.postings.flat() for part in parts]
        through = [Entries(one.keys, one.rows + first[n], one.counts) for n, one in enumerate(flat)]
        return cls(
            Records([records[row] for row in order.tolist()]),
            rows,
            Vectors(np.concatenate([part.vectors.rows for part in parts])[order]),
            Postings.joined(through, _inverse(order)),
        )

    def updated(
        self, changed: Sequence[tuple[MemoryRecord, NDArray[np.float32]]], removed: Collection[str]
    ) -> BankIndex:
        """The index after `changed` memories were added or rewritten and `removed` ones (ids) ended."""
        fresh = {record.id: (record, vector) for record, vector in changed}
        gone = self._places({*removed, *fresh})
        vectors = [np.asarray(vector, dtype=np.float32).reshape(-1) for _, vector in fresh.values()]
        added = BankIndex.build([one for one, _ in fresh.values()], np.stack(vectors)) if vectors else _nothing()
        if len(gone) == len(self):
            return added
        if not len(added):
            return self._followed(gone, added)
        self._check_width(added)
        if added.rows.seqs[0] > self._newest_beside(gone):
            return self._followed(gone, added)
        return BankIndex.joined([self._followed(gone, _nothing()), added])

    def _followed(self, gone: Sequence[int], added: BankIndex) -> BankIndex:
        """Without some rows (ascending), and with newer ones behind the others: what nearly every change comes to."""
        return BankIndex(
            Records(_spliced_list(self._records.all(), gone, added.records)),
            self.rows.without(gone, added.rows),
            self.vectors.following(gone, added.vectors),
            self.postings.following(len(self), gone, added.postings),
        )

    def _places(self, ids: Collection[str]) -> list[int]:
        """The rows of these memories, as far as they are here, in order."""
        if len(ids) > _FEW:
            return [row for row, memory_id in enumerate(self.rows.ids) if memory_id in ids]
        here = self.rows.ids
        return sorted(here.index(memory_id) for memory_id in ids if memory_id in here)

    def _newest_beside(self, gone: Sequence[int]) -> int:
        """The highest sequence number among the other rows."""
        row = len(self) - 1
        for place in reversed(gone):
            if place != row:
                break
            row -= 1
        return int(self.rows.seqs[row])

    def _check_width(self, added: BankIndex) -> None:
        width, expected = added.vectors.width, self.vectors.width
        if width != expected:
            raise EmbedderError(
                f"a vector of {width} numbers cannot join a bank of {expected}",
                why="all vectors of a bank come from one embedder",
                fix="embed the whole bank with the embedder that is configured",
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
        return max(int(np.add.reduce(self.rows.lengths)), 1) / max(len(self), 1)

    @cached_property
    def saturation(self) -> Floats:
        """BM25's share of document length: k1 · (1 - b + b · length / average)."""
        return K1 * (1.0 - B + B * (self.rows.lengths / self.average_length))

    @cached_property
    def traits(self) -> dict[str, Floats]:
        return dict(zip(TRAITS, self.rows.traits, strict=True))

    @cached_property
    def speakers(self) -> frozenset[str]:
        """Folded names."""
        return frozenset(self.rows.speakers) - {""}

    def said_by(self, speaker: str) -> Floats:
        """1 for the rows of a folded name."""
        return np.array([name == speaker for name in self.rows.speakers], dtype=np.float64)

    @cached_property
    def kinds(self) -> dict[str, Flags]:
        return {kind: self.rows.kinds == code for code, kind in enumerate(KINDS)}

    @cached_property
    def said(self) -> Flags:
        """The rows that are words as they were said."""
        return ~self.kinds["fact"]

    @cached_property
    def has_talk(self) -> bool:
        """Whether any row is part of a conversation."""
        return bool(np.logical_or.reduce(self.said))

    @cached_property
    def sessions(self) -> Ints:
        """Number of the conversation that each row belongs to, -1 for facts: they are no part of a talk. A session is
        what the caller named, else an unbroken stretch of time."""
        names: dict[str, int] = {"": 0}
        numbers = np.array([names.setdefault(name, len(names)) for name in self.rows.sessions], dtype=np.int64)
        said = self.said
        unnamed = np.flatnonzero(said & (numbers == 0))
        at = self.rows.at[unnamed]
        before = np.append(np.int64(NO_TIME), at[:-1])
        known = (at != NO_TIME) & (before != NO_TIME)
        silence = np.abs(np.where(known, at, 0) - np.where(known, before, 0))
        starts = (at != NO_TIME) & (~known | (silence > SESSION_GAP))
        numbers[unnamed] = len(names) + np.cumsum(starts)
        return np.where(said, numbers, -1)

    @cached_property
    def talk(self) -> Talk:
        return Talk.of(self.sessions)


@dataclass(frozen=True, slots=True)
class Talk:
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


@cache
def _nothing() -> BankIndex:
    return BankIndex.build((), None)


def _inverse(order: Ints) -> Ints:
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place


def _spliced(table: NDArray[Number], gone: Sequence[int], more: NDArray[Number]) -> NDArray[Number]:
    """A table (one column per row of the bank) without `gone` (ascending), with `more` behind."""
    edges = [-1, *gone, table.shape[1]]
    return np.concatenate([*(table[:, a + 1 : b] for a, b in pairwise(edges)), more], axis=1)


def _spliced_list(table: Sequence[T], gone: Sequence[int], more: Sequence[T]) -> list[T]:
    out = list(table)
    for place in reversed(gone):
        del out[place]
    out += more
    return out
