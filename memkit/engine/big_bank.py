"""A bank whose records are looked up one by one, because all of them would be too many to keep at hand.

Up to `Config.preselect_from` memories it is still ranked as a whole. Above, LanceDB pre-selects rows for each question
and the one scorer ranks those; word statistics are then those of the selected rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from memkit.engine.bank import LiveBank
from memkit.models import Kind, MemoryRecord, Op, Turn
from memkit.ops import BankView
from memkit.retrieval import RankerWeights, Scored
from memkit.seams.embedder import Embedder, embed_queries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memkit.filters import Condition


class Narrow(Protocol):
    """The rows that a full ranking should see, at the bank's newest sequence number."""

    def __call__(
        self, text: str, vector: NDArray[np.float32], kinds: Sequence[Kind] | None, condition: Condition | None
    ) -> LiveBank: ...


class StoredView(BankView, Protocol):
    """A bank that is looked up memory by memory."""

    def written_by(self, intake_ids: Sequence[str]) -> list[MemoryRecord]:
        """The live memories that some `add` calls had to do with."""
        ...


@dataclass(frozen=True, slots=True)
class BigBank:
    seq: int
    size: int
    """Live memories."""
    view: StoredView
    narrow: Narrow
    ahead: tuple[Op, ...] = ()
    """Ops of a decision in progress, which the journal does not have yet."""

    def __len__(self) -> int:
        return self.size

    @property
    def state(self) -> BankView:
        return _Ahead(self.view, self.ahead) if self.ahead else self.view

    @property
    def memories(self) -> int:
        return self.size

    def words_said(self, turns: Collection[str]) -> list[MemoryRecord]:
        """The words of these turns: the bank is too large to be looked through."""
        return [record for turn in sorted(turns) if (record := self.state.get(turn)) is not None]

    def after(self, ops: Sequence[Op], embedder: Embedder) -> BigBank:
        if not ops:
            return self
        grown = sum((op.after is not None) - (op.before is not None) for op in ops)
        return replace(self, seq=ops[-1].seq, size=self.size + grown, ahead=(*self.ahead, *ops))

    def by_now(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord | None]:
        """What the decision in progress has made of records of this bank."""
        images = {op.memory_id: op.after for op in self.ahead}
        return [images.get(record.id, record) for record in records]

    def drawn_from(self, turns: Sequence[Turn]) -> list[MemoryRecord]:
        """The memories that name one of these turns as a source."""
        said = {turn.turn_id for turn in turns}
        written = self.view.written_by(list(dict.fromkeys(turn.intake_id for turn in turns)))
        records = [record for record in self.by_now(written) if record is not None]
        return [record for record in records if not said.isdisjoint(record.source_turns)]

    def standing(self, text: str, embedder: Embedder, *, now: datetime) -> list[MemoryRecord]:
        """The facts that always matter; LanceDB selects them beside what it has for the text."""
        (vector,) = embed_queries(embedder, [text])
        return self.narrow(text, vector, ("fact",), None).after(self.ahead, embedder).standing(text, embedder, now=now)

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
        found: list[list[Scored]] = []
        for text, vector in zip(texts, embed_queries(embedder, list(texts)) if texts else (), strict=True):
            rows = self.narrow(text, vector, kinds, None).after(self.ahead, embedder)
            found += rows.candidates([text], embedder, k=k, now=now, kinds=kinds, weights=weights)
        return found


class _Ahead:
    """A bank as it will be after some ops."""

    def __init__(self, view: BankView, ops: Sequence[Op]) -> None:
        self._view = view
        self._images: dict[str, MemoryRecord | None] = {op.memory_id: op.after for op in ops if op.memory_id}
        self._by_content = {image.content_hash: image.id for image in self._images.values() if image}

    def get(self, memory_id: str) -> MemoryRecord | None:
        return self._images[memory_id] if memory_id in self._images else self._view.get(memory_id)

    def find(self, content_hash: str) -> str | None:
        if (found := self._by_content.get(content_hash)) is not None:
            return found
        found = self._view.find(content_hash)
        return None if found in self._images else found
