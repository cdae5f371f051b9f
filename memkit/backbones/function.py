"""A plain function as backbone: `def reply(messages: list[dict]) -> str`, or its `async` twin."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from memkit.errors import BadReply, ModelError, ModelTimeout, ModelUnavailable, ReplyTooLarge
from memkit.net.loop import LoopThread
from memkit.roles.prompting import check_style
from memkit.seams.backbone import GenReply, GenRequest, Replies

_T = TypeVar("_T")
Call = Callable[[list[dict[str, str]]], "str | Awaitable[str]"]

MAX_REPLY_CHARS = 1_000_000
_IDLE_S = 10.0
"""So long a thread waits for the next call."""
_MISSING: Mapping[str, str] = {
    name: "a plain function returns text only" for name in ("prompt_ids", "token_ids", "logprobs", "sampled_logprobs")
}


class CallableBackbone:
    """Called from several threads at once, at most `max_parallel`. A call that outlives its deadline is left behind
    on its thread and keeps its place among the parallel ones until it ends, so such threads cannot pile up."""

    def __init__(self, call: Call, *, style: str = "json", max_parallel: int = 8, name: str | None = None) -> None:
        self._call, self.style, self.max_parallel = call, check_style(style), max_parallel
        self._name = name or getattr(call, "__qualname__", type(call).__qualname__)
        self.identity = f"callable:{self._name}"
        self._slots = threading.BoundedSemaphore(max_parallel)
        self._loop = LoopThread("memkit-callable")
        self._workers = _Workers()

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        if len(requests) == 1:
            return [self._outcome(requests[0])]
        waiting = iter(list(enumerate(requests)))
        outcomes: list[GenReply | ModelError | None] = [None] * len(requests)
        lock = threading.Lock()

        def worker() -> None:
            while True:
                with lock:
                    item = next(waiting, None)
                if item is None:
                    return
                index, request = item
                outcomes[index] = self._outcome(request)

        wait([self._workers.start(worker) for _ in range(min(len(requests), self.max_parallel))])
        return [outcome for outcome in outcomes if outcome is not None]

    def close(self) -> None:
        self._loop.close()

    def _outcome(self, request: GenRequest) -> GenReply | ModelError:
        try:
            return self._one(request)
        except ModelError as error:
            return error

    def _one(self, request: GenRequest) -> GenReply:
        started = time.monotonic()
        ends = started + request.deadline_s
        if request.adapter is not None:
            raise ModelUnavailable(
                "a plain function has no adapters", why="it was asked for one", fix="use an in-process or vLLM backbone"
            )
        if not self._slots.acquire(timeout=request.deadline_s):
            raise self._late(request)

        def call() -> str:
            try:
                return self._checked(request, ends)
            finally:
                self._slots.release()

        result = self._workers.start(call)
        # not `result(timeout=)`: its TimeoutError could be the function's own
        wait([result], timeout=max(0.0, ends - time.monotonic()))
        if not result.done():
            raise self._late(request)
        try:
            text = result.result()
        except ModelError:
            raise
        except Exception as error:
            raise ModelUnavailable(
                f"the function {self._name} raised {type(error).__name__}",
                fix="see the cause in the traceback",
                calls=1,
            ) from error
        return GenReply(text, model=self.identity, latency_ms=(time.monotonic() - started) * 1000, missing=_MISSING)

    def _checked(self, request: GenRequest, ends: float) -> str:
        messages = [{"role": message.role, "content": message.content} for message in request.prompt.messages]
        value: Any = self._call(messages)
        if inspect.isawaitable(value):
            value = self._loop.run(self._awaited(value, request, ends))
        if not isinstance(value, str):
            raise BadReply(
                f"the function {self._name} returned {type(value).__name__}", why="a reply is text", fix="return a str"
            )
        if len(value) > MAX_REPLY_CHARS:
            raise ReplyTooLarge(f"the function {self._name} returned {len(value)} characters", fix="bound its output")
        return value

    async def _awaited(self, value: Awaitable[str], request: GenRequest, ends: float) -> str:
        scope = asyncio.timeout(max(0.0, ends - time.monotonic()))
        try:
            async with scope:
                return await value
        except TimeoutError:
            if scope.expired():
                raise self._late(request) from None
            raise

    def _late(self, request: GenRequest) -> ModelTimeout:
        return ModelTimeout(
            f"the function {self._name} gave no reply within {request.deadline_s:g} s",
            fix="raise the deadline, or see why it is slow",
            calls=1,
        )


class _Workers:
    """Threads that wait a while for the next call. Daemons, so that a function that never returns does not keep the
    program from ending. Context variables are handed on: tracing tools live in them."""

    def __init__(self) -> None:
        self._idle: list[SimpleQueue[Callable[[], None]]] = []
        self._lock, self._pid = threading.Lock(), os.getpid()

    def start(self, work: Callable[[], _T]) -> Future[_T]:
        context, result = contextvars.copy_context(), Future[_T]()

        def call() -> None:
            try:
                result.set_result(context.run(work))
            except BaseException as error:
                result.set_exception(error)

        self._free().put(call)
        return result

    def _free(self) -> SimpleQueue[Callable[[], None]]:
        """The queue of a thread that waits, or of a new one. A fork takes no threads along."""
        if self._pid != os.getpid():
            self._lock, self._idle, self._pid = threading.Lock(), [], os.getpid()
        with self._lock:
            if self._idle:
                return self._idle.pop()
        queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._serve, args=(queue,), name="memkit-callable", daemon=True).start()
        return queue

    def _serve(self, queue: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            try:
                queue.get(timeout=_IDLE_S)()
            except Empty:
                with self._lock:
                    if queue in self._idle:
                        self._idle.remove(queue)
                        return
                continue  # somebody has just taken it
            with self._lock:
                self._idle.append(queue)
