"""The items of one bank as a fold of its ops, and how an item is written down as a memory.

An item is an episode: `text` is its value as JSON, metadata says where it belongs. So history, undo, export and erase
work on items as on any memory, and several processes see each other's puts: a shelf steps over the ops it missed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from memkit.errors import InvalidInput
from memkit.inputs import has_surrogates
from memkit.models import MemoryRecord, Op, OpDraft, digest
from memkit.runtime.open_bank import OpenBank
from memkit_langgraph.filters import Predicate
from memkit_langgraph.vectors import Vectors, pack, unpack

Namespace = tuple[str, ...]

NEVER = datetime(9999, 1, 1, tzinfo=UTC)
"""An update cannot take an expiry off a memory; this one moves it out of sight."""

_REFRESH_SHARE = 0.01
"""A read renews a time to live once this share of it has passed: hot items do not cost a write per read."""


@dataclass(frozen=True, slots=True)
class Put:
    """What is to become of one key. `text` None deletes."""

    namespace: Namespace
    key: str
    text: str | None = None
    index: Any = None
    ttl: float | None = None
    """Minutes."""
    vectors: Vectors | None = None


@dataclass(slots=True)
class Entry:
    namespace: Namespace
    key: str
    record: MemoryRecord
    order: int
    """Rises with every put; a renewed time to live leaves it."""
    value: dict[str, Any]
    index: Any
    ttl: float | None
    put_at: datetime
    vectors: Vectors | None
    """None until a search asks for them, where they are cheap to compute."""
    doubles: tuple[str, ...] = ()
    """Memories of the same key that an undo brought back beside this one; the next put or delete ends them."""

    def fresh_value(self) -> dict[str, Any]:
        """A copy, so that what a caller does to it stays with the caller."""
        return json.loads(self.record.text)

    def is_expired(self, now: datetime) -> bool:
        return self.record.expires_at is not None and self.record.expires_at <= now


@dataclass(slots=True)
class ItemShelf:
    bank: OpenBank
    seq: int = -1
    _epoch: int = -1
    _spaces: dict[Namespace, dict[str, Entry]] = field(default_factory=dict)
    _homes: dict[str, tuple[Namespace, str]] = field(default_factory=dict)
    """Memory id → key."""
    _orders: int = 0

    # -- following the journal ------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Make the shelf what the bank is now."""
        seq, epoch = self.bank.version()
        if self.seq < 0 or epoch != self._epoch:
            self._reload(seq, epoch)
        elif seq > self.seq:
            self.fold(self.bank.ops(after=self.seq, upto=seq))

    def fold(self, ops: Iterable[Op]) -> None:
        for op in ops:
            self.seq = op.seq
            if op.memory_id is None or op.before == op.after:
                continue
            if not self._write(op.memory_id, op.after):
                self._reload(*self.bank.version())
                return

    def _reload(self, seq: int, epoch: int) -> None:
        self._spaces, self._homes = {}, {}
        for record in self.bank.live():
            self._write(record.id, record)
        entries = sorted(self.entries(()), key=lambda entry: (entry.put_at, entry.record.seq))
        self._spaces = {}
        for order, entry in enumerate(entries):
            entry.order = order
            self._spaces.setdefault(entry.namespace, {})[entry.key] = entry
        self.seq, self._epoch, self._orders = seq, epoch, len(entries)

    def _write(self, memory_id: str, record: MemoryRecord | None) -> bool:
        """False where one op does not tell what holds now: one of two memories of a key has ended, or a memory got
        another key."""
        entry = None if record is None else _entry(record)
        home = self._homes.get(memory_id)
        if entry is None:
            if home is None:
                return True
            del self._homes[memory_id]
            ended = self._spaces[home[0]][home[1]]
            if ended.doubles or ended.record.id != memory_id:
                return False
            self._remove(ended)
            return True
        if home not in (None, (entry.namespace, entry.key)):
            return False
        self._homes[memory_id] = (entry.namespace, entry.key)
        space = self._spaces.setdefault(entry.namespace, {})
        earlier = space.get(entry.key)
        if earlier is not None:
            if earlier.record.id != memory_id:
                entry.doubles = (*earlier.doubles, earlier.record.id)
            else:
                entry.doubles = earlier.doubles
            if earlier.put_at == entry.put_at and earlier.record.id == memory_id:
                entry.order = earlier.order
                space[entry.key] = entry
                return True
            del space[entry.key]
        self._orders += 1
        entry.order = self._orders
        space[entry.key] = entry
        return True

    def _remove(self, entry: Entry) -> None:
        space = self._spaces[entry.namespace]
        del space[entry.key]
        if not space:
            del self._spaces[entry.namespace]

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, namespace: Namespace, key: str) -> Entry | None:
        return self._spaces.get(namespace, {}).get(key)

    def entries(self, prefix: Namespace) -> Iterator[Entry]:
        """What lies under a prefix of whole labels, the newest put first."""
        size = len(prefix)
        spaces = [space for namespace, space in self._spaces.items() if namespace[:size] == prefix]
        return merge(*(reversed(space.values()) for space in spaces), key=lambda entry: -entry.order)

    def choose(self, prefix: Namespace, matches: Predicate | None, now: datetime | None) -> Iterator[Entry]:
        """`now` leaves out what has expired by then."""
        for entry in self.entries(prefix):
            if (now is None or not entry.is_expired(now)) and (matches is None or matches(entry.value)):
                yield entry

    def page(
        self, prefix: Namespace, matches: Predicate | None, now: datetime | None, offset: int, limit: int
    ) -> list[Entry]:
        return list(islice(self.choose(prefix, matches, now), offset, offset + limit))

    def namespaces(self, now: datetime | None) -> Iterator[Namespace]:
        for namespace, space in self._spaces.items():
            if now is None or any(not entry.is_expired(now) for entry in space.values()):
                yield namespace

    # -- what is to be written ------------------------------------------------------------------------------------

    def drafts(self, puts: Sequence[Put], now: datetime) -> list[OpDraft]:
        return [draft for put in puts for draft in self._draft(put, now)]

    def _draft(self, put: Put, now: datetime) -> Iterator[OpDraft]:
        entry = self.get(put.namespace, put.key)
        if entry is not None:
            ended = entry.doubles if put.text is not None else (*entry.doubles, entry.record.id)
            yield from (OpDraft("delete", memory_id, origin="api", at=now) for memory_id in ended)
        if put.text is None:
            return
        metadata: dict[str, Any] = {
            "namespace": list(put.namespace),
            "key": put.key,
            "put_at": now.astimezone(UTC).isoformat(timespec="microseconds"),
            **({} if put.index is None else {"index": put.index}),
            **({} if put.ttl is None else {"ttl": put.ttl}),
            **({} if put.vectors is None else {"vectors": pack(put.vectors)}),
        }
        expires = None if put.ttl is None else _after(now, put.ttl)
        if entry is not None and expires is None and entry.record.expires_at is not None:
            expires = NEVER
        yield OpDraft(
            "add" if entry is None else "update",
            None if entry is None else entry.record.id,
            put.text,
            kind="episode",
            metadata=metadata,
            at=now,
            origin="api",
            expires_at=expires,
            content_salt=digest([list(put.namespace), put.key]),
        )

    def renewals(self, read: Iterable[Entry], now: datetime) -> list[OpDraft]:
        """A read starts the time to live of an item anew."""
        drafts: list[OpDraft] = []
        for entry in {entry.record.id: entry for entry in read}.values():
            if entry.ttl is None:
                continue
            expires = _after(now, entry.ttl)
            passed = expires - (entry.record.expires_at or now)
            if passed.total_seconds() > entry.ttl * 60 * _REFRESH_SHARE:
                drafts.append(OpDraft("update", entry.record.id, expires_at=expires, origin="api", at=now))
        return drafts


def _entry(record: MemoryRecord) -> Entry | None:
    """None for memories that were not put here by a store, or were changed since so that they are no item any more."""
    meta: Mapping[str, Any] = record.metadata
    namespace, key = meta.get("namespace"), meta.get("key")
    if record.kind != "episode" or not isinstance(namespace, list) or not isinstance(key, str):
        return None
    try:
        value, written = json.loads(record.text), datetime.fromisoformat(meta["put_at"])
    except (KeyError, TypeError, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    return Entry(
        tuple(namespace),
        key,
        record,
        0,
        value,
        meta.get("index"),
        meta.get("ttl"),
        written,
        unpack(meta.get("vectors")),
    )


def _after(now: datetime, minutes: float) -> datetime:
    try:
        return min(now + timedelta(minutes=minutes), NEVER)
    except OverflowError:
        return NEVER


def as_text(value: Mapping[str, Any]) -> str:
    """The value as JSON. Times and ids become text, as in every store that keeps JSON."""
    try:
        text = json.dumps(dict(value), ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("the value is not JSON", why=str(error), fix="put text, numbers, lists and dicts") from None
    return json.dumps(dict(value), default=_plain) if has_surrogates(text) else text


def _plain(value: Any) -> Any:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if type(value).__name__ == "UUID":
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON")
