"""`AsyncMemory`: the same verbs, awaitable. Disk and models work in threads, so the event loop never waits."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from memkit.errors import StoreClosed
from memkit.inputs import verb, wrong_verb
from memkit.memory import Decisions, Memory, Ops, Records
from memkit.models import Kind, MemoryRecord, Op
from memkit.results import AddResult, Answer, ContextBlock, EraseReceipt, Hits, Imported, Page, PruneReceipt, TidyResult
from memkit.runtime.read_request import AS_OF
from memkit.upkeep import Entities, Names, ParkedTurns, Problems

if TYPE_CHECKING:
    from memkit.adapters import AdapterSet

T = TypeVar("T")

_THREADS = 64
"""Calls in flight. They wait for disk or a model, not for the processor."""


class AsyncMemory:
    """Takes the same arguments as `Memory`. A call that is cancelled may still take effect: use an idempotency_key
    where that matters."""

    def __init__(self, path: str | Path = "./memory", **options: Any) -> None:
        self._memory = Memory(path, **options)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="memkit-async")
        self._closing = False

    @property
    def sync(self) -> Memory:
        """The same memory with blocking verbs, for code that runs in threads of its own."""
        return self._memory

    async def _run(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        if self._closing:
            raise StoreClosed("this AsyncMemory is closed", fix="open it again: AsyncMemory(path)")
        return await self._in_thread(call, *args, **kwargs)

    async def _in_thread(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        # context variables travel with the call, as with asyncio.to_thread: a tracer finds the span it belongs to
        work = functools.partial(contextvars.copy_context().run, call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    # ---- writing -------------------------------------------------------------------------------------------------

    @verb
    async def add(
        self,
        messages: Any,
        *,
        user_id: str,
        agent_id: str | None = None,
        session_id: str | None = None,
        at: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        infer: bool = True,
        wait: bool = True,
        expires_at: datetime | str | None = None,
        keep_turns: str | None = None,
    ) -> AddResult:
        return await self._run(
            self._memory.add,
            messages,
            user_id=user_id,
            agent_id=agent_id,
            session_id=session_id,
            at=at,
            metadata=metadata,
            idempotency_key=idempotency_key,
            infer=infer,
            wait=wait,
            expires_at=expires_at,
            keep_turns=keep_turns,
        )

    @verb
    async def learn(
        self,
        steps: Any,
        *,
        task: str,
        outcome: str | bool,
        user_id: str,
        agent_id: str | None = None,
        note: str | None = None,
        trace_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
    ) -> AddResult:
        return await self._run(
            self._memory.learn,
            steps,
            task=task,
            outcome=outcome,
            user_id=user_id,
            agent_id=agent_id,
            note=note,
            trace_id=trace_id,
            metadata=metadata,
            idempotency_key=idempotency_key,
            wait=wait,
        )

    @verb
    async def add_document(
        self,
        source: str | Path,
        *,
        user_id: str,
        agent_id: str | None = None,
        name: str | None = None,
        at: datetime | str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: datetime | str | None = None,
    ) -> AddResult:
        return await self._run(
            self._memory.add_document,
            source,
            user_id=user_id,
            agent_id=agent_id,
            name=name,
            at=at,
            metadata=metadata,
            expires_at=expires_at,
        )

    @verb
    async def update(
        self,
        id: str,
        text: str | None = None,
        *,
        user_id: str,
        metadata: Mapping[str, Any] | None = None,
        expected_revision: int | None = None,
    ) -> MemoryRecord:
        return await self._run(
            self._memory.update, id, text, user_id=user_id, metadata=metadata, expected_revision=expected_revision
        )

    @verb
    async def pin(self, id: str, *, user_id: str, pinned: bool = True) -> MemoryRecord:
        return await self._run(self._memory.pin, id, user_id=user_id, pinned=pinned)

    async def delete(self, id: str, *, user_id: str) -> Op:
        return await self._run(self._memory.delete, id, user_id=user_id)

    @verb
    async def delete_all(self, *, user_id: str, agent_id: str | None = None) -> int:
        return await self._run(self._memory.delete_all, user_id=user_id, agent_id=agent_id)

    @verb
    async def undo(
        self,
        *,
        user_id: str,
        op_id: str | None = None,
        turn_id: str | None = None,
        since: int | datetime | None = None,
    ) -> Ops:
        return await self._run(self._memory.undo, user_id=user_id, op_id=op_id, turn_id=turn_id, since=since)

    # ---- reading -------------------------------------------------------------------------------------------------

    @verb
    async def search(
        self,
        query: str,
        *,
        user_id: str,
        agent_id: str | None = None,
        k: int = 10,
        kinds: Sequence[Kind] | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        as_of: AS_OF | str = None,
        expand: str | None = None,
        min_score: float | None = None,
    ) -> Hits:
        return await self._run(
            self._memory.search,
            query,
            user_id=user_id,
            agent_id=agent_id,
            k=k,
            kinds=kinds,
            session_id=session_id,
            filters=filters,
            as_of=as_of,
            expand=expand,
            min_score=min_score,
        )

    @verb
    async def context(
        self,
        query: str,
        *,
        user_id: str,
        agent_id: str | None = None,
        max_tokens: int = 800,
        k: int = 60,
        kinds: Sequence[Kind] | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        as_of: AS_OF | str = None,
        expand: str | None = None,
        min_score: float | None = None,
    ) -> ContextBlock:
        return await self._run(
            self._memory.context,
            query,
            user_id=user_id,
            agent_id=agent_id,
            max_tokens=max_tokens,
            k=k,
            kinds=kinds,
            session_id=session_id,
            filters=filters,
            as_of=as_of,
            expand=expand,
            min_score=min_score,
        )

    @verb
    async def answer(
        self,
        question: str,
        *,
        user_id: str,
        agent_id: str | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        as_of: AS_OF | str = None,
        max_tokens: int | None = None,
    ) -> Answer:
        return await self._run(
            self._memory.answer,
            question,
            user_id=user_id,
            agent_id=agent_id,
            session_id=session_id,
            filters=filters,
            as_of=as_of,
            max_tokens=max_tokens,
        )

    @verb
    async def get(self, id: str, *, user_id: str) -> MemoryRecord:
        return await self._run(self._memory.get, id, user_id=user_id)

    @verb
    async def profile(self, *, user_id: str, agent_id: str | None = None) -> Records:
        return await self._run(self._memory.profile, user_id=user_id, agent_id=agent_id)

    async def list(
        self,
        *,
        user_id: str,
        agent_id: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        kinds: Sequence[Kind] | None = None,
        session_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> Page:
        return await self._run(
            self._memory.list,
            user_id=user_id,
            agent_id=agent_id,
            limit=limit,
            cursor=cursor,
            kinds=kinds,
            session_id=session_id,
            filters=filters,
        )

    @verb
    async def history(self, *, user_id: str, memory_id: str | None = None, limit: int | None = None) -> Ops:
        return await self._run(self._memory.history, user_id=user_id, memory_id=memory_id, limit=limit)

    @verb
    async def decisions(self, *, user_id: str, trace_id: str | None = None, last: int = 20) -> Decisions:
        return await self._run(self._memory.decisions, user_id=user_id, trace_id=trace_id, last=last)

    # ---- learning ------------------------------------------------------------------------------------------------

    @verb
    async def observe(self, trace_id: str, answer: str, *, user_id: str) -> tuple[str, ...]:
        return await self._run(self._memory.observe, trace_id, answer, user_id=user_id)

    @verb
    async def feedback(
        self,
        trace_id: str,
        *,
        user_id: str,
        reward: float | None = None,
        label: str | None = None,
        expected: str | None = None,
        comment: str | None = None,
    ) -> str:
        return await self._run(
            self._memory.feedback,
            trace_id,
            user_id=user_id,
            reward=reward,
            label=label,
            expected=expected,
            comment=comment,
        )

    @property
    def adapters(self) -> AdapterSet:
        """Aliases move in a millisecond, so these verbs are not awaited."""
        return self._memory.adapters

    # ---- keeping house -------------------------------------------------------------------------------------------

    def user(self, user_id: str, *, agent_id: str | None = None) -> Any:
        """The same awaitable verbs, bound to a scope."""
        from memkit.user import UserMemory

        return UserMemory(self, user_id, agent_id)

    def principal(self, user_id: str, *, roles: Iterable[str] = ()) -> Any:
        """Calls made as somebody, in spaces that several share; all but `space` are awaited."""
        from memkit.principal import InThreads

        return InThreads(self._run, self._memory.principal(user_id, roles=roles))

    @verb
    async def users(self) -> Names:
        return await self._run(self._memory.users)

    @verb
    async def entities(self, *, user_id: str, agent_id: str | None = None, limit: int = 100) -> Entities:
        return await self._run(self._memory.entities, user_id=user_id, agent_id=agent_id, limit=limit)

    @verb
    async def about(self, name: str, *, user_id: str, agent_id: str | None = None, limit: int = 100) -> Records:
        return await self._run(self._memory.about, name, user_id=user_id, agent_id=agent_id, limit=limit)

    @verb
    async def parked(self, *, user_id: str | None = None) -> ParkedTurns:
        return await self._run(self._memory.parked, user_id=user_id)

    @verb
    async def retry(
        self, trace_ids: Iterable[str] | None = None, *, user_id: str | None = None, wait: bool = True
    ) -> int:
        return await self._run(self._memory.retry, trace_ids, user_id=user_id, wait=wait)

    @verb
    async def trainable(self, value: bool, *, user_id: str, agent_id: str | None = None) -> None:
        await self._run(self._memory.trainable, value, user_id=user_id, agent_id=agent_id)

    @verb
    async def erase(
        self, *, user_id: str, turn_id: str | None = None, memory_id: str | None = None, session_id: str | None = None
    ) -> EraseReceipt:
        return await self._run(
            self._memory.erase, user_id=user_id, turn_id=turn_id, memory_id=memory_id, session_id=session_id
        )

    @verb
    async def tidy(self, *, user_id: str, agent_id: str | None = None, budget: int | None = None) -> TidyResult:
        return await self._run(self._memory.tidy, user_id=user_id, agent_id=agent_id, budget=budget)

    @verb
    async def prune(self, *, days: int | None = None, megabytes: int | None = None) -> PruneReceipt:
        return await self._run(self._memory.prune, days=days, megabytes=megabytes)

    @verb
    async def backup(self, path: str | Path) -> int:
        return await self._run(self._memory.backup, path)

    @verb
    async def export(self, path: str | Path, *, user_id: str | None = None) -> int:
        return await self._run(self._memory.export, path, user_id=user_id)

    @verb
    async def import_(self, path: str | Path | Iterable[Mapping[str, Any]], *, drop_dangling: bool = False) -> Imported:
        return await self._run(self._memory.import_, path, drop_dangling=drop_dangling)

    @verb
    async def flush(self) -> None:
        await self._run(self._memory.flush)

    @verb
    async def stats(self) -> dict[str, Any]:
        return await self._run(self._memory.stats)

    @verb
    async def doctor(self, *, repair: bool = False, reembed: bool = False, keep_turns: bool = False) -> Problems:
        return await self._run(self._memory.doctor, repair=repair, reembed=reembed, keep_turns=keep_turns)

    async def close(self) -> None:
        """Drain and close. Safe to call twice."""
        if not self._closing:
            self._closing = True
            await self._in_thread(self._memory.close)
            self._threads.shutdown(wait=False)

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._memory!r}"

    def __getattr__(self, name: str) -> Any:
        raise wrong_verb(name, "AsyncMemory")
