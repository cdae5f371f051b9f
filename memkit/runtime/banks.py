"""Read-your-writes: a bank as it stands at its newest sequence number, warm where it can be.

The journal knows the newest number of every bank. A warm bank steps forward over the ops it missed; a cold one is read
from LanceDB and then steps over what LanceDB has not seen yet. So no read waits for the projection, and none is stale,
whichever process wrote last. Whatever is wrong with LanceDB, the journal can answer: it is only slower."""

from __future__ import annotations

import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from memkit.config import Config
from memkit.errors import (
    EmbedderMismatch,
    StorageRefused,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreUnreachable,
)
from memkit.models import Bank, MemoryRecord, Op
from memkit.ops import BankState
from memkit.runtime.store_embedder import is_named
from memkit.seams.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memkit.engine.bank import LiveBank
    from memkit.engine.big_bank import BigBank
    from memkit.filters import Condition
    from memkit.journal import Journal
    from memkit.models import Kind
    from memkit.store import Projection, Slice

log = logging.getLogger("memkit")

T = TypeVar("T")
_Scope = tuple[str, str | None]
"""A user and an agent; None for all of the user's banks."""
_Seqs = list[tuple[Bank, int]]
"""The newest op of each bank of a scope."""

_CHEAP_RELOAD, _CHEAP_IMPORT = 500, 5_000
"""Rows up to which a cheap embedder beats reading LanceDB, and up to which it beats importing it, too."""
_HELD_STATE = 1_024
"""Rows up to which a warm bank keeps its records at hand. Decisions in larger ones look theirs up in the journal."""
_SIZES = 10_000
"""Scopes whose number of memories is remembered."""
_BYTES_PER_ROW = 2_048
"""Rough size of a warm row beside its vector: columns, postings, record."""


@dataclass(slots=True)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    live: LiveBank | None = None
    seqs: dict[Bank, int] = field(default_factory=dict[Bank, int])
    """Where each of its banks stands in `live`."""
    epoch: int = 0
    """Erasures the store had seen when it was loaded: an erased bank may come back under its old name."""


class BankReader:
    def __init__(
        self,
        journal: Journal,
        projection: Callable[[], Projection],
        embedder: Embedder,
        config: Config,
        catch_up: Callable[[], object],
        projected: Callable[[], bool],
    ) -> None:
        """`catch_up` brings LanceDB up to the journal; `projected` says whether anything was ever written there."""
        self._journal, self._projection, self._embedder, self._config = journal, projection, embedder, config
        self._catch_up, self._projected = catch_up, projected
        self._slots: OrderedDict[_Scope, _Slot] = OrderedDict()
        self._sizes: OrderedDict[_Scope, int] = OrderedDict()
        self._lock = threading.Lock()

    def bank(self, bank: Bank) -> LiveBank | BigBank:
        """The bank at its newest sequence number, for a decision."""
        from memkit.engine.big_bank import BigBank

        found = self.scope(bank.user_id, bank.agent_id)
        if isinstance(found, BigBank) or len(found) <= _HELD_STATE:
            return found

        def whole(
            text: str, vector: NDArray[np.float32], kinds: Sequence[Kind] | None, condition: Condition | None
        ) -> LiveBank:
            return found

        return BigBank(found.seq, len(found), _JournalView(self._journal, bank), whole)

    def scope(self, user_id: str, agent_id: str | None) -> LiveBank | BigBank:
        """What a read covers: one bank, or all banks of the user where no agent is named."""
        size = self._size(user_id, agent_id)
        if size > self._config.preselect_from and not self._projection().inherited:
            return self._big(user_id, agent_id, size)
        live = self._whole(user_id, agent_id)
        with self._lock:
            self._sizes[user_id, agent_id] = len(live)
            if len(self._sizes) > _SIZES:
                self._sizes.popitem(last=False)
        return live

    def _size(self, user_id: str, agent_id: str | None) -> int:
        """Live memories, as of the last look where they were few."""
        known = self._sizes.get((user_id, agent_id))
        if known is not None and known <= self._config.preselect_from:
            return known
        bank = None if agent_id is None else Bank(user_id, agent_id)
        return self._journal.count_live(bank=bank, user_id=None if bank else user_id)

    def _whole(self, user_id: str, agent_id: str | None) -> LiveBank:
        from memkit.engine.bank import LiveBank

        if agent_id is not None:
            bank = Bank(user_id, agent_id)
            seq, epoch = self._journal.bank_version(bank)
            return self._at((user_id, agent_id), [(bank, seq)], epoch)
        banks, epoch = self._journal.user_version(user_id)
        if not banks:
            return LiveBank.empty(self._embedder)
        return self._at((user_id, banks[0][0].agent_id if len(banks) == 1 else None), banks, epoch)

    # -- banks too large to be held ------------------------------------------------------------------------------

    def _big(self, user_id: str, agent_id: str | None, size: int) -> BigBank:
        from memkit.engine.big_bank import BigBank

        def narrow(
            text: str, vector: NDArray[np.float32], kinds: Sequence[Kind] | None, condition: Condition | None
        ) -> LiveBank:
            try:
                return self._narrowed(user_id, agent_id, text, vector, kinds, condition)
            except self._passed_over as error:
                log.warning("LanceDB cannot pre-select (%s); the whole bank is read", error.what)
                return self._whole(user_id, agent_id)

        seq = max((seq for _, seq in self._banks(user_id, agent_id)), default=0)
        return BigBank(seq, size, _JournalView(self._journal, Bank(user_id, agent_id or "")), narrow)

    def _narrowed(
        self,
        user_id: str,
        agent_id: str | None,
        text: str,
        vector: NDArray[np.float32],
        kinds: Sequence[Kind] | None,
        condition: Condition | None,
    ) -> LiveBank:
        """The rows that LanceDB selects, and every row that was written since LanceDB's watermark."""

        def selected() -> Slice:
            return self._projection().preselect(
                user_id,
                agent_id,
                vector=vector,
                text=text,
                limit=max(1, self._config.preselect // 2),
                kinds=kinds,
                condition=condition,
            )

        if not self._projected():
            self._bring_up()
        found = self._healing(selected)
        if self._journal.last_seq() - found.watermark > self._config.preselect:
            self._bring_up()
            found = self._healing(selected)
        tail = [
            op
            for bank, seq in self._banks(user_id, agent_id)
            for op in self._journal.ops(bank=bank, after=found.watermark, upto=seq)
        ]
        return _live(found).after(tail, self._embedder)

    def _banks(self, user_id: str, agent_id: str | None) -> list[tuple[Bank, int]]:
        if agent_id is None:
            return self._journal.user_banks(user_id)
        bank = Bank(user_id, agent_id)
        return [(bank, self._journal.bank_seq(bank))]

    def as_of(self, user_id: str, agent_id: str | None, when: int | datetime) -> LiveBank:
        """What the store knew at a sequence number, or what had been said by a moment of conversation time."""
        from memkit.engine.bank import LiveBank

        banks = [Bank(user_id, agent_id)] if agent_id is not None else [b for b, _ in self._journal.user_banks(user_id)]
        if isinstance(when, int) and len(banks) > 1:
            self._journal.settle(when)
        records: list[MemoryRecord] = []
        seq = 0
        for bank in banks:
            upto = when if isinstance(when, int) else None
            ops = self._journal.ops(bank=bank, upto=upto)
            state = BankState().fold(ops if isinstance(when, int) else said_by(ops, when))
            records.extend(state)
            seq = max(seq, state.seq)
        return LiveBank.of(records, self._embedder, seq)

    def forget(self, user_id: str) -> None:
        with self._lock:
            for held in (self._slots, self._sizes):
                for key in [key for key in held if key[0] == user_id]:
                    del held[key]

    def _at(self, scope: _Scope, banks: _Seqs, epoch: int) -> LiveBank:
        slot = self._slot(scope)
        with slot.lock:
            live, seqs = slot.live, slot.seqs
            if live is None or slot.epoch != epoch:
                live, seqs = self._loaded(banks, epoch), {}
                slot.epoch = epoch
            elif ops := [op for bank, seq in banks for op in self._since(bank, seqs.get(bank, 0), seq)]:
                ops.sort(key=lambda op: op.seq)
                follow = live.after if len(live) <= _HELD_STATE else live.searchable_after
                live = follow(ops, self._embedder)
            _ = live.index  # made here, under the lock: searches that come together embed what is new once
            moved = live is not slot.live
            ahead = live.seq if len(banks) == 1 else 0  # LanceDB may have known more than was asked for
            slot.live, slot.seqs = live, {bank: max(seq, seqs.get(bank, 0), ahead) for bank, seq in banks}
        if moved:
            self._trim()
        return live

    def _since(self, bank: Bank, seen: int, seq: int) -> Sequence[Op]:
        return self._journal.ops(bank=bank, after=seen, upto=seq) if seen < seq else ()

    def _loaded(self, banks: _Seqs, epoch: int) -> LiveBank:
        from memkit.engine.bank import LiveBank

        if len(banks) == 1:
            return self._load(*banks[0])
        return LiveBank.join([self._at((bank.user_id, bank.agent_id), [(bank, seq)], epoch) for bank, seq in banks])

    def _load(self, bank: Bank, seq: int) -> LiveBank:
        count = self._journal.count_live(bank=bank)
        if self._is_cheaper_anew(count) or self._projection().inherited:
            return self._from_journal(bank, seq)
        try:
            live = self._healing(lambda: self._from_projection(bank, seq))
        except self._passed_over as error:
            log.warning("LanceDB cannot be read (%s); the bank is read from the journal", error.what)
            return self._from_journal(bank, seq)
        if live.seq > self._journal.last_seq():
            log.warning("LanceDB knows of more than the journal, which is the truth; run `memkit doctor`")
            return self._from_journal(bank, seq)
        if len(live) != count and len(live) != self._count_at(bank, max(seq, live.seq)):
            log.warning("LanceDB lacks rows of a bank, which is read from the journal; run `memkit doctor --repair`")
            return self._from_journal(bank, seq)
        return live

    def _is_cheaper_anew(self, count: int) -> bool:
        """Whether embedding so many memories costs less than reading their vectors."""
        if not self._projected():
            return True
        return self._embedder.cheap and count <= (_CHEAP_RELOAD if "lancedb" in sys.modules else _CHEAP_IMPORT)

    def _count_at(self, bank: Bank, seq: int) -> int:
        """Live memories at `seq`; the bank may have moved on."""
        if self._journal.bank_seq(bank) <= seq:
            return self._journal.count_live(bank=bank)
        return len(BankState().fold(self._journal.ops(bank=bank, upto=seq)))

    def _from_projection(self, bank: Bank, seq: int) -> LiveBank:
        only = len(self._journal.user_banks(bank.user_id)) == 1
        live = _live(self._projection().slice(bank.user_id, bank.agent_id, only_bank=only))
        return live.searchable_after(self._journal.ops(bank=bank, after=live.seq, upto=seq), self._embedder)

    def _from_journal(self, bank: Bank, seq: int) -> LiveBank:
        from memkit.engine.bank import LiveBank

        return LiveBank.of([record for _, record in self._journal.live(bank=bank)], self._embedder, seq)

    def _healing(self, read: Callable[[], T]) -> T:
        """`read`, once more after damaged files were moved aside; then the journal's tail is all the longer. Or after
        vectors that an interrupted re-embedding left were replaced; a store of another embedder stays refused."""
        try:
            return read()
        except StoreDamaged:
            if self._is_remote:
                raise  # whoever writes it heals it
            self._projection().heal()
            return read()
        except EmbedderMismatch:
            if self._is_remote and not is_named(self._journal, self._embedder):
                raise
            self._bring_up()
            return read()

    def _bring_up(self) -> None:
        if self._is_remote:
            raise StoreBusy("LanceDB on object storage is not far enough", why="another machine brings it up")
        self._catch_up()

    @property
    def _is_remote(self) -> bool:
        return self._journal.catalog is not None

    @property
    def _passed_over(self) -> tuple[type[StoreError], ...]:
        """Errors of LanceDB that a read does without it."""
        return (StoreDamaged, StoreUnreachable, StorageRefused, StoreBusy) if self._is_remote else (StoreDamaged,)

    def _slot(self, scope: _Scope) -> _Slot:
        with self._lock:
            slot = self._slots.setdefault(scope, _Slot())
            self._slots.move_to_end(scope)
            return slot

    def _trim(self) -> None:
        per_row = self._embedder.dim * 4 + _BYTES_PER_ROW
        with self._lock:
            total = sum(_rows(slot) for slot in self._slots.values()) * per_row
            while total > self._config.cache_bytes and len(self._slots) > 1:
                _, oldest = self._slots.popitem(last=False)
                total -= _rows(oldest) * per_row


def _rows(slot: _Slot) -> int:
    """What a slot counts for; an empty bank takes room, too, and anybody can ask about banks that are not there."""
    return 1 + (len(slot.live) if slot.live is not None else 0)


class _JournalView:
    """What resolving operations needs of a bank, looked up one by one."""

    def __init__(self, journal: Journal, bank: Bank) -> None:
        self._journal, self._bank = journal, bank

    def get(self, memory_id: str) -> MemoryRecord | None:
        found = self._journal.get(self._bank.user_id, memory_id)
        return found[1] if found is not None and found[0] == self._bank else None

    def find(self, content_hash: str) -> str | None:
        return self._journal.find(self._bank, content_hash)

    def written_by(self, intake_ids: Sequence[str]) -> list[MemoryRecord]:
        return self._journal.written_by(self._bank, intake_ids)


def _live(found: Slice) -> LiveBank:
    """What LanceDB holds of a bank."""
    from memkit.engine.bank import LiveBank
    from memkit.retrieval import BankIndex

    return LiveBank(BankIndex.of_columns(found.columns, found.vectors, found.stored), found.watermark)


def said_by(ops: list[Op], when: datetime) -> list[Op]:
    """The ops whose words had been spoken by `when`, each memory's chain in sequence order. A chain ends where
    something later was said: what was written after it (an older talk that was loaded afterwards) rests on that."""
    kept, ended = list[Op](), set[str]()
    for op in ops:
        if op.at > when:
            ended |= {op.memory_id} if op.memory_id is not None else set()
        elif op.memory_id not in ended:
            kept.append(op)
    return kept
