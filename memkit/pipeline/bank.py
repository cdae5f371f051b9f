"""A bank that can be searched: its records, and the index of the same records. Immutable.

The runtime loads one per warm bank; replay builds one in memory. Both search and step it through this class, which is
why a decision sees the same candidates in production and in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from memkit.embedders.base import Embedder
from memkit.models import Kind, MemoryRecord, Op
from memkit.ops import BankState
from memkit.retrieval import BankIndex, Query, RankerWeights, Scored, embed_text, rank

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memkit.store import Slice

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]


class LiveBank:
    def __init__(self, index: BankIndex, seq: int, state: BankState | None = None) -> None:
        """`state` holds the records of `index`; it is made when somebody asks for more than a ranking."""
        self.index, self.seq = index, seq
        if state is not None:
            self.state = state

    @cached_property
    def state(self) -> BankState:
        return BankState({record.id: record for record in self.index.records}, self.seq)

    @classmethod
    def empty(cls, embedder: Embedder) -> LiveBank:
        return cls.of((), embedder, 0)

    @classmethod
    def of(cls, records: Sequence[MemoryRecord], embedder: Embedder, seq: int) -> LiveBank:
        if not records:
            return cls(BankIndex.build((), None), seq)
        return cls.with_vectors(records, embedder.embed([embed_text(record) for record in records]), seq)

    @classmethod
    def with_vectors(cls, records: Sequence[MemoryRecord], vectors: NDArray[np.float32], seq: int) -> LiveBank:
        """`vectors[i]` belongs to `records[i]`; the order of the rows does not matter."""
        return cls(BankIndex.build(records, vectors), seq)

    @classmethod
    def projected(cls, found: Slice) -> LiveBank:
        """What LanceDB holds of a bank."""
        return cls(BankIndex.of_columns(found.columns, found.vectors, found.stored), found.watermark)

    @classmethod
    def joined(cls, parts: Sequence[LiveBank]) -> LiveBank:
        """Several banks of one user as one, to be read."""
        return cls(BankIndex.joined([part.index for part in parts]), max(part.seq for part in parts))

    def __len__(self) -> int:
        return len(self.index)

    def after(self, ops: Sequence[Op], embedder: Embedder) -> LiveBank:
        """The bank after `ops`; only what they changed is embedded and re-indexed."""
        if not ops:
            return self
        state = self.state.fold(ops)
        touched = {op.memory_id for op in ops if op.memory_id is not None and op.before != op.after}
        changed = [record for key in touched if (record := state.get(key)) is not None]
        changed.sort(key=lambda record: (record.seq, record.id))
        removed = [key for key in touched if state.get(key) is None and self.state.get(key) is not None]
        if not changed and not removed:
            return LiveBank(self.index, state.seq, state)
        vectors = embedder.embed([embed_text(record) for record in changed])
        return LiveBank(self.index.updated(list(zip(changed, vectors, strict=True)), removed), state.seq, state)

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
        vectors = embedder.embed(list(texts))
        queries = (
            Query(text=text, vector=vector, k=k, kinds=tuple(kinds), now=now)
            for text, vector in zip(texts, vectors, strict=True)
        )
        return [rank(self.index, query, weights) if weights else rank(self.index, query) for query in queries]
