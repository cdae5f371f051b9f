"""`MemkitStore`: LangGraph's `BaseStore` on a memkit journal.

A batch reads what was there before its own puts, then writes them in one commit. Callers that come while one commit is
under way share the next one. A commit names the state it was decided on and is refused when another process wrote
meanwhile; then it is decided again, so a key is never there twice."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from memkit import AsyncMemory, Memory
from memkit.errors import Conflict, InvalidInput, MemkitError, NotFound, StoreClosed
from memkit.inputs import has_surrogates
from memkit.models import OpDraft
from memkit_langgraph.filters import Predicate, predicate_of
from memkit_langgraph.shelf import Entry, ItemShelf, Namespace, Put, as_text
from memkit_langgraph.vectors import Index, Known
from memkit_plug.bound import AnyMemory, open_bank

log = logging.getLogger("memkit")

_ATTEMPTS = 100
"""Commits that lost to another process before a batch gives up. Each loss means that another one won."""

_SWEEP_MINUTES = 5.0
_NOBODY = "langgraph"
"""Whose the items are where nobody is named."""


@dataclass(slots=True)
class _Call:
    """One batch on its way."""

    ops: list[Op]
    puts: dict[tuple[Namespace, str], Put]
    predicates: dict[int, Predicate | None]
    texts: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    asked: Known = field(default_factory=dict)
    done: bool = False
    results: list[Result] = field(default_factory=list)
    error: BaseException | None = None


class MemkitStore(BaseStore):
    """Verbatim items under (namespace, key). Thread-safe; several processes may share the memory.

    memory: a Memory, an AsyncMemory, or a path to open. user_id: whose bank holds the items ("langgraph");
        `memory.history`, `undo` and `erase` work on it. Or `memory.principal(...).space(...)`, without user_id: the
        items are the space's, and a call that no grant allows raises NotAllowed.
    index: `dims`, `embed`, `fields` as LangGraph has them, and `distance_type` ("cosine", "inner_product", "l2"). Left
        out, the memory's own embedder searches the whole value.
    ttl: `default_ttl`, `refresh_on_read`, `omit_expired`, `sweep_interval_minutes` (a thread then sweeps). Where it is
        given without `refresh_on_read`, reads renew only where they say so, as in LangGraph's SqliteStore."""

    supports_ttl = True
    __slots__ = (
        "_bank",
        "_commit",
        "_index",
        "_lock",
        "_owned",
        "_queue",
        "_shelf",
        "_sweeper",
        "_sweeper_stop",
        "index_config",
        "ttl_config",
    )

    def __init__(
        self,
        memory: AnyMemory | str | Path,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        user_id: str | None = None,
    ) -> None:
        self._owned = Memory(memory) if isinstance(memory, str | Path) else None
        opened = self._owned or memory
        if user_id is None and isinstance(opened, Memory | AsyncMemory):
            user_id = _NOBODY
        self._bank = open_bank(opened, user_id)
        self.index_config = index
        self.ttl_config = None if ttl is None else {"refresh_on_read": False, **ttl}
        self._index = Index(index, self._bank.embedder)
        self._shelf = ItemShelf(self._bank)
        self._lock, self._queue = threading.Lock(), threading.Lock()
        self._commit: list[_Call] = []
        self._sweeper: threading.Thread | None = None
        self._sweeper_stop = threading.Event()
        if ttl and ttl.get("sweep_interval_minutes"):
            self.start_ttl_sweeper()

    # -- the two methods that LangGraph calls ----------------------------------------------------------------------

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Also where an event loop runs, as in LangGraph's own stores that are not bound to one: a notebook always runs
        one, and `graph.invoke` calls its nodes there. The loop waits meanwhile; what is async had better await."""
        call = self._prepared(ops)
        known, call.asked = self._index.embed(call.texts, call.queries)
        return self._run(call, known)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        call = self._prepared(ops)
        known, call.asked = await self._index.aembed(call.texts, call.queries)
        return await asyncio.to_thread(self._run, call, known)

    # -- time to live -------------------------------------------------------------------------------------------------

    def sweep_ttl(self) -> int:
        """Delete what has expired. Returns how many items that were."""
        expired: list[Entry] = []
        with self._lock:
            for attempt in range(_ATTEMPTS):
                self._shelf.follow()
                now = self._bank.now()
                expired = [entry for entry in self._shelf.entries(()) if entry.is_expired(now)]
                drafts = self._shelf.drafts([Put(entry.namespace, entry.key) for entry in expired], now)
                if self._written(drafts, now, last=attempt == _ATTEMPTS - 1):
                    break
        return len(expired)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep in the background until `stop_ttl_sweeper`, `close`, or the store is gone."""
        minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes") or _SWEEP_MINUTES
        future: Future[None] = Future()
        if self._sweeper is not None and self._sweeper.is_alive():
            future.set_result(None)
            return future
        self._sweeper_stop = threading.Event()
        self._sweeper = threading.Thread(
            target=_sweep,
            args=(weakref.ref(self), self._sweeper_stop, minutes * 60, future),
            name="memkit-ttl",
            daemon=True,
        )
        self._sweeper.start()
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """True where no sweeper runs any more."""
        self._sweeper_stop.set()
        if self._sweeper is not None and self._sweeper is not threading.current_thread():
            self._sweeper.join(timeout)
            return not self._sweeper.is_alive()
        return True

    def close(self) -> None:
        """Stop sweeping, and close the memory where the store opened it."""
        self.stop_ttl_sweeper(5)
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> MemkitStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def _omits(self) -> bool:
        """Asked at every read: LangGraph's stores take it from the live `ttl_config`, which may be changed."""
        return bool(self.ttl_config and self.ttl_config.get("omit_expired"))

    # -- before the lock ---------------------------------------------------------------------------------------------

    def _prepared(self, ops: Iterable[Op]) -> _Call:
        """Everything that can be wrong with a batch is found here, before any of it has an effect."""
        call = _Call(list(ops), {}, {})
        for number, op in enumerate(call.ops):
            validate_op_namespace(op)
            if isinstance(op, PutOp):
                put = self._put(op)
                call.puts[put.namespace, put.key] = put
            elif isinstance(op, SearchOp):
                _check_page(op.limit, op.offset)
                call.predicates[number] = predicate_of(op.filter)
                if op.query:
                    call.queries.append(op.query)
            elif isinstance(op, ListNamespacesOp):
                _check_page(op.limit, op.offset)
            elif not isinstance(op, GetOp):
                raise ValueError(f"Unknown operation type: {type(op)}")
        if not self._index.is_cheap:
            for put in call.puts.values():
                if put.text is not None:
                    call.texts += self._index.texts(_value(put), put.index)
        return call

    def _put(self, op: PutOp) -> Put:
        namespace, key = tuple(op.namespace), str(op.key)
        if has_surrogates(key) or any(has_surrogates(label) for label in namespace):
            raise InvalidInput("a key or label holds a lone surrogate", fix="repair the text where it was decoded")
        if op.value is None:
            return Put(namespace, key)
        if op.ttl is not None and not 0 <= op.ttl < float("inf"):
            raise InvalidInput(f"a time to live of {op.ttl} minutes", fix="pass minutes from 0 on, or None for ever")
        index = op.index if op.index is None or op.index is False else list(op.index)
        return Put(namespace, key, self._text(op.value), index, op.ttl)

    def _text(self, value: Any) -> str:
        """Redacted as it is written: what a model, a set or another mapping holds is text only then."""
        try:
            return as_text(_redacted(json.loads(as_text(value)), self._bank.redact))
        except RecursionError:
            raise InvalidInput("the value is nested too deeply", fix="store it as text, or flatten it") from None

    # -- one commit for all who wait -------------------------------------------------------------------------------

    def _run(self, call: _Call, known: Known) -> list[Result]:
        if not self._index.is_cheap:
            for place, put in call.puts.items():
                if put.text is not None:
                    texts = self._index.texts(_value(put), put.index)
                    call.puts[place] = replace(put, vectors=self._index.vectors(texts, known))
        with self._queue:
            self._commit.append(call)
        with self._lock:
            if not call.done:
                with self._queue:
                    calls, self._commit = self._commit, []
                self._settle_all(calls)
        if call.error is not None:
            raise call.error
        return call.results

    def _settle_all(self, calls: Sequence[_Call]) -> None:
        """Together, or one by one where that fails, so that nobody fails for another."""
        try:
            self._settle(calls)
        except BaseException as error:
            if len(calls) > 1:
                for call in calls:
                    self._settle_all([call])
            else:
                calls[0].error = error
        for call in calls:
            call.done = True

    def _settle(self, calls: Sequence[_Call]) -> None:
        for attempt in range(_ATTEMPTS):
            self._shelf.follow()
            now = self._bank.now()
            puts: dict[tuple[Namespace, str], Put] = {}
            read: list[Entry] = []
            for call in calls:
                call.results = [self._result(call, number, op, now, read) for number, op in enumerate(call.ops)]
                for place, put in call.puts.items():
                    puts.pop(place, None)
                    puts[place] = put
            kept = [entry for entry in read if (entry.namespace, entry.key) not in puts]
            drafts = [*self._shelf.renewals(kept, now), *self._shelf.drafts(list(puts.values()), now)]
            if self._written(drafts, now, last=attempt == _ATTEMPTS - 1):
                return

    def _written(self, drafts: Sequence[OpDraft], now: datetime, *, last: bool) -> bool:
        if not drafts:
            return True
        shelf = self._shelf
        try:
            ops = self._bank.commit(drafts, expected_seq=shelf.seq, at=now)
        except (Conflict, NotFound):
            if last:
                raise
            return False
        shelf.fold(ops)
        return True

    # -- reading -----------------------------------------------------------------------------------------------------

    def _result(self, call: _Call, number: int, op: Op, now: datetime, read: list[Entry]) -> Result:
        unexpired_at = now if self._omits else None
        if isinstance(op, GetOp):
            entry = self._shelf.get(tuple(op.namespace), str(op.key))
            if entry is None or (self._omits and entry.is_expired(now)):
                return None
            if op.refresh_ttl:
                read.append(entry)
            return Item(
                value=entry.fresh_value(),
                key=entry.key,
                namespace=entry.namespace,
                created_at=_time(entry.record.created_at, entry),
                updated_at=entry.put_at,
            )
        if isinstance(op, SearchOp):
            found = self._found(call, number, op, unexpired_at)
            if op.refresh_ttl:
                read.extend(entry for entry, _ in found)
            return [
                SearchItem(
                    value=entry.fresh_value(),
                    key=entry.key,
                    namespace=entry.namespace,
                    score=score,
                    created_at=_time(entry.record.created_at, entry),
                    updated_at=entry.put_at,
                )
                for entry, score in found
            ]
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op, unexpired_at)
        return None

    def _found(self, call: _Call, number: int, op: SearchOp, now: datetime | None) -> list[tuple[Entry, float | None]]:
        prefix, matches = tuple(op.namespace_prefix), call.predicates[number]
        if not op.query:
            return [(entry, None) for entry in self._shelf.page(prefix, matches, now, op.offset, op.limit)]
        candidates = list(self._shelf.choose(prefix, matches, now))
        ranked = self._ranked(candidates, call.asked[op.query])
        return ranked[op.offset : op.offset + op.limit]

    def _ranked(self, entries: Sequence[Entry], query: Any) -> list[tuple[Entry, float | None]]:
        """By the best of each item's vectors; items that are not indexed come last, without a score."""
        self._embed_missing(entries)
        indexed = [entry for entry in entries if entry.vectors is not None and len(entry.vectors.rows)]
        plain: list[tuple[Entry, float | None]] = [
            (entry, None) for entry in entries if entry.vectors is None or not len(entry.vectors.rows)
        ]
        if not indexed:
            return plain
        rows = [entry.vectors.rows for entry in indexed if entry.vectors is not None]
        scores = self._index.similarities(np.concatenate(rows), query)
        starts = np.cumsum([0, *(len(row) for row in rows[:-1])])
        best = np.maximum.reduceat(scores, starts)
        order = np.argsort(-best, kind="stable")
        return [(indexed[i], float(best[i])) for i in order] + plain

    def _embed_missing(self, entries: Sequence[Entry]) -> None:
        """What a cheap embedder left for now, and what another model embedded before."""
        missing = [
            (entry, self._index.texts(entry.value, entry.index))
            for entry in entries
            if entry.vectors is None or entry.vectors.made_by != self._index.identity
        ]
        known, _ = self._index.embed([text for _, texts in missing for text in texts], [])
        for entry, texts in missing:
            entry.vectors = self._index.vectors(texts, known)

    def _namespaces(self, op: ListNamespacesOp, now: datetime | None) -> list[Namespace]:
        conditions = op.match_conditions or ()
        found = {
            namespace if op.max_depth is None else namespace[: op.max_depth]
            for namespace in self._shelf.namespaces(now)
            if all(_lies_at(namespace, condition) for condition in conditions)
        }
        return sorted(found)[op.offset : op.offset + op.limit]


def _check_page(limit: int, offset: int) -> None:
    if limit < 0 or offset < 0:
        raise InvalidInput(f"limit={limit}, offset={offset}: neither may be negative", fix="count from 0")


def _lies_at(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        labels = namespace[: len(path)]
    elif condition.match_type == "suffix":
        labels = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    return all(wanted in ("*", label) for label, wanted in zip(labels, path, strict=True))


def _value(put: Put) -> Any:
    return json.loads(put.text or "{}")


def _time(moment: datetime | None, entry: Entry) -> datetime:
    return entry.put_at if moment is None else moment


def _redacted(value: Any, redact: Any) -> Any:
    """Every text of a value, as the memory redacts messages."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(inner, redact) for key, inner in value.items()}
    if isinstance(value, list):
        return [_redacted(inner, redact) for inner in value]
    return value


def _sweep(store: weakref.ref[MemkitStore], stop: threading.Event, seconds: float, future: Future[None]) -> None:
    """Holds the store only while it sweeps, so that a forgotten one can go."""
    while not stop.wait(seconds):
        alive = store()
        if alive is None:
            break
        try:
            alive.sweep_ttl()
        except StoreClosed:
            break
        except MemkitError as error:
            log.warning("expired items could not be swept; the next sweep tries again (%s)", type(error).__name__)
        del alive
    future.set_result(None)
