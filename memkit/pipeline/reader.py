"""Read-your-writes: a bank as it stands at its newest sequence number, warm where it can be.

The journal knows the newest number of every bank. A warm bank steps forward over the ops it missed; a cold one is read
from LanceDB and then steps over what LanceDB has not seen yet. So no read waits for the projection, and none is stale,
whichever process wrote last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from memkit.config import Config
from memkit.embedders.base import Embedder
from memkit.models import Bank, MemoryRecord, Op
from memkit.ops import BankState

if TYPE_CHECKING:
    from memkit.journal import Journal
    from memkit.pipeline.bank import LiveBank
    from memkit.store import Projection

_Version = tuple[int, tuple[tuple[Bank, int], ...]]

_CHEAP_RELOAD = 500
"""Rows up to which a cheap embedder beats importing LanceDB."""
_UNIONS = 256
"""Users with several agents whose banks are kept joined."""
_BYTES_PER_ROW = 4_096
"""Rough size of a warm row beside its vector: record, tokens, postings."""


@dataclass(slots=True)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    live: LiveBank | None = None
    epoch: int = 0
    """Erasures the store had seen when it was loaded: an erased bank may come back under its old name."""


class BankReader:
    def __init__(
        self, journal: Journal, projection: Callable[[], Projection], embedder: Embedder, config: Config
    ) -> None:
        self._journal, self._projection, self._embedder, self._config = journal, projection, embedder, config
        self._slots: OrderedDict[Bank, _Slot] = OrderedDict()
        self._unions: OrderedDict[str, tuple[_Version, LiveBank]] = OrderedDict()
        self._lock = threading.Lock()

    def bank(self, bank: Bank) -> LiveBank:
        """The bank at its newest sequence number."""
        return self._at(bank, *self._journal.bank_version(bank))

    def scope(self, user_id: str, agent_id: str | None) -> LiveBank:
        """What a read covers: one bank, or all banks of the user where no agent is named."""
        if agent_id is not None:
            return self.bank(Bank(user_id, agent_id))
        banks = tuple(self._journal.user_banks(user_id))
        if len(banks) == 1:
            return self.bank(banks[0][0])
        from memkit.pipeline.bank import LiveBank

        if not banks:
            return LiveBank.empty(self._embedder)
        epoch = self._journal.erase_epoch()
        with self._lock:
            cached = self._unions.get(user_id)
        if cached and cached[0] == (epoch, banks):
            return cached[1]
        union = LiveBank.joined([self._at(bank, seq, epoch) for bank, seq in banks])
        with self._lock:
            self._unions[user_id] = ((epoch, banks), union)
            if len(self._unions) > _UNIONS:
                self._unions.popitem(last=False)
        return union

    def as_of(self, user_id: str, agent_id: str | None, when: int | datetime) -> LiveBank:
        """What the store knew at a sequence number, or what had been said by a moment of conversation time."""
        from memkit.pipeline.bank import LiveBank

        banks = [Bank(user_id, agent_id)] if agent_id is not None else [b for b, _ in self._journal.user_banks(user_id)]
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
            for bank in [bank for bank in self._slots if bank.user_id == user_id]:
                del self._slots[bank]
            self._unions.pop(user_id, None)

    def _at(self, bank: Bank, seq: int, epoch: int) -> LiveBank:
        slot = self._slot(bank)
        with slot.lock:
            live = slot.live
            if live is None or slot.epoch != epoch:
                live = self._load(bank, seq)
                slot.epoch = epoch
            elif live.seq < seq:
                live = live.after(self._journal.ops(bank=bank, after=live.seq, upto=seq), self._embedder)
            slot.live = live
        self._trim()
        return live

    def _load(self, bank: Bank, seq: int) -> LiveBank:
        from memkit.pipeline.bank import LiveBank

        if self._embedder.cheap and self._journal.count_live(bank=bank) <= _CHEAP_RELOAD:
            records = [record for _, record in self._journal.live(bank=bank)]
            return LiveBank.of(records, self._embedder, seq)
        projected = self._projection().slice(bank.user_id, bank.agent_id)
        live = LiveBank.projected(projected)
        return live.after(self._journal.ops(bank=bank, after=projected.watermark, upto=seq), self._embedder)

    def _slot(self, bank: Bank) -> _Slot:
        with self._lock:
            slot = self._slots.setdefault(bank, _Slot())
            self._slots.move_to_end(bank)
            return slot

    def _trim(self) -> None:
        per_row = self._embedder.dim * 4 + _BYTES_PER_ROW
        with self._lock:
            total = sum(len(slot.live) for slot in self._slots.values() if slot.live) * per_row
            while total > self._config.cache_bytes and len(self._slots) > 1:
                _, oldest = self._slots.popitem(last=False)
                total -= len(oldest.live) * per_row if oldest.live else 0


def said_by(ops: list[Op], when: datetime) -> list[Op]:
    """The ops whose words had been spoken by `when`, each memory's chain kept in sequence order."""
    return [op for op in ops if op.at <= when]
