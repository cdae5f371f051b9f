"""A bank that can be searched: its records, and the index of the same records. Immutable.

The runtime loads one per warm bank; replay builds one in memory. Both search and step it through this class, which is
why a decision sees the same candidates in production and in training. A snapshot is a reference; a step is embedded and
indexed when somebody searches it, from the nearest bank before it that was searched, so that the many states of a
replay which nobody searches cost next to nothing. Where nobody asks for more than rankings, as searches do, a bank has
no `state`: it would be a copy of every record."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from memkit.engine.core import core
from memkit.models import Kind, MemoryRecord, Op, Turn
from memkit.ops import BankState
from memkit.retrieval import TO_MANAGERS, BankIndex, Query, RankerWeights, Scored, embed_text, rank
from memkit.seams.embedder import Embedder, embed_queries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]


@dataclass(frozen=True, slots=True)
class _Step:
    """What leads from the bank before to this one."""

    start: LiveBank
    """The newest bank before that had been searched."""
    before: weakref.ref[LiveBank]
    """Weak, so that a long run of states does not keep all of them alive."""
    changed: list[MemoryRecord]
    removed: list[str]
    embedder: Embedder


class LiveBank:
    def __init__(self, index: BankIndex | _Step, seq: int, state: BankState | None = None) -> None:
        """`state` holds the records of `index`; it is made when somebody asks for more than a ranking."""
        self.seq = seq
        self._index, self._step = (None, index) if isinstance(index, _Step) else (index, None)
        if state is not None:
            self.state = state

    @property
    def index(self) -> BankIndex:
        step = self._step
        if step is not None:  # two threads may both get here, and come to the same
            self._index = self._stepped(step)
            self._step = None
        assert self._index is not None
        return self._index

    def _stepped(self, step: _Step) -> BankIndex:
        before, changed, removed = step.before(), step.changed, step.removed
        if before is None or before._index is None:
            start = self._nearest(step)
            here = {record.id: record for record in start.records}
            changed = [record for record in self.state.values() if here.get(record.id) is not record]
            removed = [key for key in here if self.state.get(key) is None]
        else:
            start = before._index
        return _updated(start, changed, removed, step.embedder)

    def _nearest(self, step: _Step) -> BankIndex:
        """The index of the nearest bank before that has one by now."""
        later: _Step | None = step
        while later is not None and (bank := later.before()) is not None:
            if bank._index is not None:
                return bank._index
            later = bank._step
        return step.start.index

    @cached_property
    def state(self) -> BankState:
        return BankState({record.id: record for record in self.index.records}, self.seq)

    @classmethod
    def empty(cls, embedder: Embedder) -> LiveBank:
        return cls.of((), embedder, 0)

    @classmethod
    def of(cls, records: Sequence[MemoryRecord], embedder: Embedder, seq: int) -> LiveBank:
        vectors = embedder.embed([embed_text(record) for record in records]) if records else None
        return cls(BankIndex.build(records, vectors), seq, BankState({record.id: record for record in records}, seq))

    @classmethod
    def join(cls, parts: Sequence[LiveBank]) -> LiveBank:
        """Several banks of one user as one, to be read."""
        return cls(BankIndex.join([part.index for part in parts]), max(part.seq for part in parts))

    def __len__(self) -> int:
        return len(self.state if self._index is None else self._index)

    @property
    def memories(self) -> int:
        """How many a manager has to do with: words that were said, and passages of documents, are none."""
        if self._index is not None:
            return len(self._index) - sum(int(self._index.kinds[kind].sum()) for kind in ("turn", "chunk"))
        return sum(record.kind not in ("turn", "chunk") for record in self.state.values())

    def words_said(self, turns: Collection[str]) -> list[MemoryRecord]:
        """The words that were said in this bank; `turns` are those that must be among them."""
        return [record for record in self.state if record.kind == "turn"]

    def after(self, ops: Sequence[Op], embedder: Embedder) -> LiveBank:
        """The bank after `ops`. Only what they changed will be embedded and re-indexed."""
        if not ops:
            return self
        if "state" not in self.__dict__:
            return self.searchable_after(ops, embedder)
        state = self.state.fold(ops)
        touched = {op.memory_id for op in ops if op.memory_id is not None and op.before != op.after}
        changed = [record for key in touched if (record := state.get(key)) is not None]
        removed = [key for key in touched if state.get(key) is None and self.state.get(key) is not None]
        step = self._step
        return LiveBank(
            _Step(self if step is None else step.start, weakref.ref(self), changed, removed, embedder), state.seq, state
        )

    def by_now(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord | None]:
        """What became of records of this bank."""
        return [self.state.get(record.id) for record in records]

    def drawn_from(self, turns: Sequence[Turn]) -> list[MemoryRecord]:
        """The memories that name one of these turns as a source."""
        said = {turn.turn_id for turn in turns}
        return [record for record in self.state.values() if not said.isdisjoint(record.source_turns)]

    def standing(self, text: str, embedder: Embedder, *, now: datetime) -> list[MemoryRecord]:
        """The facts that always matter, whatever the text."""
        return core(self.index, now, kinds=("fact",))

    def searchable_after(self, ops: Sequence[Op], embedder: Embedder) -> LiveBank:
        """The bank after `ops`, indexed at once and without a `state`."""
        if not ops:
            return self
        images = {op.memory_id: op.after for op in ops if op.memory_id is not None and op.before != op.after}
        changed = [image for image in images.values() if image is not None]
        removed = [key for key, image in images.items() if image is None]
        return LiveBank(_updated(self.index, changed, removed, embedder), max(self.seq, ops[-1].seq))

    def candidates(
        self,
        texts: Sequence[str],
        embedder: Embedder,
        *,
        k: int,
        now: datetime,
        kinds: Sequence[Kind] = ("fact",),
        weights: RankerWeights | None = None,
    ) -> list[list[Scored]]:
        """The memories that a manager is shown for each text: exact, scoped, deterministic."""
        if not len(self) or not texts:
            return [[] for _ in texts]
        vectors = embed_queries(embedder, list(texts))
        queries = (
            Query(text=text, vector=vector, k=k, kinds=tuple(kinds), now=now)
            for text, vector in zip(texts, vectors, strict=True)
        )
        return [rank(self.index, query, weights or TO_MANAGERS) for query in queries]


def _updated(
    index: BankIndex, changed: Sequence[MemoryRecord], removed: Sequence[str], embedder: Embedder
) -> BankIndex:
    if not changed and not removed:
        return index
    vectors = embedder.embed([embed_text(record) for record in changed]) if changed else ()
    return index.with_changes(list(zip(changed, vectors, strict=True)), removed)
