"""`MemkitUserStore`: a label of each namespace says whose items are there, so that they are exported, undone and erased
with everything else of that user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from langgraph.store.base import (
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from memkit import AsyncMemory, Memory
from memkit.errors import InvalidScope
from memkit.inputs import scope_id, whole_number
from memkit_langgraph.store import MemkitStore


@dataclass(slots=True)
class _Plan:
    """A batch, dealt out: the ops over all users, which come first, and those of each one."""

    ops: list[Op]
    over_all: list[int] = field(default_factory=list[int])
    of: dict[str, list[int]] = field(default_factory=dict[str, list[int]])


class MemkitUserStore(MemkitStore):
    """As `MemkitStore`, with a bank for each user.

    user_at: which label of a namespace names the user: 1 for ("memories", "ana"), 0 for ("ana", "memories").
    user_id: whose the items of shorter namespaces are.

    A batch is one commit for each user that it puts to. A search or a list of namespaces that names no user goes over
    all of them."""

    __slots__ = ("_at", "_default", "_memory", "_stores")

    def __init__(
        self,
        memory: Memory | AsyncMemory | str | Path,
        *,
        user_at: int,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        user_id: str = "langgraph",
    ) -> None:
        self._at = whole_number(user_at, "user_at", 0, 100)
        self._default, self._stores = user_id, dict[str, MemkitStore]()
        if not isinstance(memory, Memory | AsyncMemory | str | Path):
            raise InvalidScope(
                f"{memory!r:.60} speaks for one, and this store holds the items of all users",
                fix="use MemkitStore(memory.principal(user_id).space(name))",
            )
        super().__init__(memory, index=index, ttl=ttl, user_id=user_id)
        opened = self._owned or memory
        self._memory = cast("Memory", opened.sync if isinstance(opened, AsyncMemory) else opened)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        plan = self._plan(ops)
        results: dict[int, Result] = {}
        for number in plan.over_all:
            op = plan.ops[number]
            results[number] = _merged(op, [store.batch([_whole(op)])[0] for store in self._all()])
        for user, numbers in plan.of.items():
            found = self._store(user).batch([plan.ops[number] for number in numbers])
            results.update(zip(numbers, found, strict=True))
        return [results[number] for number in range(len(plan.ops))]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        plan = self._plan(ops)
        results: dict[int, Result] = {}
        for number in plan.over_all:
            op = plan.ops[number]
            stores = await asyncio.to_thread(self._all)
            results[number] = _merged(op, [(await store.abatch([_whole(op)]))[0] for store in stores])
        for user, numbers in plan.of.items():
            found = await self._store(user).abatch([plan.ops[number] for number in numbers])
            results.update(zip(numbers, found, strict=True))
        return [results[number] for number in range(len(plan.ops))]

    def sweep_ttl(self) -> int:
        return sum(store.sweep_ttl() for store in self._all())

    def _plan(self, ops: Iterable[Op]) -> _Plan:
        plan = _Plan(self._prepared(ops).ops)
        for number, op in enumerate(plan.ops):
            user = self._user_of(op)
            (plan.over_all if user is None else plan.of.setdefault(user, [])).append(number)
        for user in plan.of:
            scope_id(user, "user_id")
        return plan

    def _user_of(self, op: Op) -> str | None:
        """None: everybody's."""
        if isinstance(op, GetOp | PutOp):
            return self._owner(op.namespace) or self._default
        if isinstance(op, SearchOp):
            return self._owner(op.namespace_prefix)
        starts = [one.path for one in op.match_conditions or () if one.match_type == "prefix"]
        named = [owner for path in starts if (owner := self._owner(path)) not in (None, "*")]
        return named[0] if named else None

    def _owner(self, labels: Sequence[str]) -> str | None:
        return str(labels[self._at]) if len(labels) > self._at else None

    def _store(self, user: str) -> MemkitStore:
        if user not in self._stores:
            self._stores[user] = MemkitStore(self._memory, index=self.index_config, ttl=self.ttl_config, user_id=user)
        self._stores[user].ttl_config = self.ttl_config
        return self._stores[user]

    def _all(self) -> list[MemkitStore]:
        return [self._store(user) for user in dict.fromkeys([*self._memory.users(), self._default])]


def _whole(op: Op) -> Op:
    """From the first item on: pages are cut once all are together."""
    if isinstance(op, SearchOp):
        return op._replace(limit=op.offset + op.limit, offset=0)
    return cast("ListNamespacesOp", op)._replace(limit=2**62, offset=0)


def _merged(op: Op, parts: Sequence[Any]) -> Result:
    found = [one for part in parts for one in part]
    if isinstance(op, SearchOp):
        items = sorted(cast("list[SearchItem]", found), key=_place if op.query else _newest_first)
        return items[op.offset : op.offset + op.limit]
    spaces = cast("ListNamespacesOp", op)
    return sorted(set(found))[spaces.offset : spaces.offset + spaces.limit]


def _place(item: SearchItem) -> tuple[bool, float]:
    return item.score is None, -(item.score or 0.0)


def _newest_first(item: SearchItem) -> float:
    return -item.updated_at.timestamp()
