"""A bank as a value: the fold of its ops. Never mutated, so a snapshot is a reference and costs O(1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from memkit.models import MemoryRecord, Op, digest


class BankState:
    """Live memories of one bank after a number of ops. Equal content, equal `hash()`."""

    __slots__ = ("_by_content", "_records", "seq")

    def __init__(self, records: Mapping[str, MemoryRecord] | None = None, seq: int = 0) -> None:
        self._records: dict[str, MemoryRecord] = dict(records or {})
        self._by_content = {record.content_hash: key for key, record in self._records.items()}
        self.seq = seq

    def get(self, memory_id: str) -> MemoryRecord | None:
        return self._records.get(memory_id)

    def find(self, content_hash: str) -> str | None:
        return self._by_content.get(content_hash)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[MemoryRecord]:
        """Live memories in the order of the op that last wrote them."""
        return iter(sorted(self._records.values(), key=lambda record: (record.seq, record.id)))

    def values(self) -> Iterable[MemoryRecord]:
        """Live memories in no order."""
        return self._records.values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BankState) and self._records == other._records

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def fold(self, ops: Iterable[Op]) -> BankState:
        """The bank after `ops`, in sequence order. Only the images count: folding never re-decides."""
        ordered = sorted(ops, key=lambda op: op.seq)
        if not ordered:
            return self
        state = BankState(seq=ordered[-1].seq)
        state._records, state._by_content = self._records.copy(), self._by_content.copy()
        for op in ordered:
            state._apply_image(op)
        return state

    def _apply_image(self, op: Op) -> None:
        if op.memory_id is None:
            return
        previous = self._records.pop(op.memory_id, None)
        if previous is not None and self._by_content.get(previous.content_hash) == op.memory_id:
            del self._by_content[previous.content_hash]
        if op.after is not None:
            self._records[op.memory_id] = op.after
            self._by_content[op.after.content_hash] = op.memory_id

    def content(self) -> dict[str, tuple[object, ...]]:
        """What the bank says, without record times, revisions and sequence numbers."""
        return {
            key: (
                r.text,
                r.kind,
                dict(r.metadata),
                r.source_turns,
                r.at,
                r.confirmed_at,
                r.speaker,
                r.session_id,
                r.origin,
                r.trust,
            )
            for key, r in self._records.items()
        }

    def hash(self) -> str:
        """Digest of the live memories: content, provenance and revision; not of record times. A bank without
        `confirmed_at` has the digest that earlier versions gave it."""
        rows = [
            [r.id, r.text, r.kind, dict(r.metadata), list(r.source_turns), r.revision, r.at, r.speaker, r.origin]
            + ([r.confirmed_at] if r.confirmed_at else [])
            + (["standing"] if r.standing else [])
            for r in sorted(self._records.values(), key=lambda record: record.id)
        ]
        return digest(rows)
