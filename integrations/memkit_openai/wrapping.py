"""`wrap(client, memory, user_id=...)`: the same client, with a memory.

Both SDKs send every call through `client.request`, retries inside; a subclass made for the client's own class adds
recall before it and learning after it. So `create`, `parse`, `stream`, the responses API and `with_options` all work
as before, and one logical call is learned once however often it was retried.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from memkit import AsyncMemory
from memkit.errors import InvalidInput
from memkit.inputs import whole_number
from memkit.principal import InThreads
from memkit_openai.dialects import ChatDialect, ChatRequest, Heard, dialect_of
from memkit_plug.bound import AnyMemory
from memkit_plug.talk import HostTalk, Recalled

Client = TypeVar("Client")

_TRACE = "memkit_trace_id"
_WRAPPED = "memkit_wrapped"
"""On a class made here: the client's own class. To wrap on top of it would show one user's memories to another."""


def wrap(
    client: Client,
    memory: AnyMemory,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    session_id: str | None = None,
    max_tokens: int = 800,
) -> Client:
    """A copy of an OpenAI or Anthropic client (sync or async) that remembers for one user; or as somebody, where
    `memory` is what `principal` made, without user_id. Cheap: make one per request in a server with many users.
    `client` itself stays as it is; of one that is wrapped already, the copy serves this user alone."""
    kind: Any = getattr(type(client), _WRAPPED, type(client))
    if not callable(getattr(kind, "request", None)) or not callable(getattr(kind, "copy", None)):
        raise InvalidInput(f"{kind.__name__} cannot be wrapped", fix="pass OpenAI(), AsyncOpenAI(), Anthropic() …")
    is_async = inspect.iscoroutinefunction(kind.request)
    if isinstance(memory, AsyncMemory | InThreads) and not is_async:
        raise InvalidInput(
            f"{kind.__name__} is synchronous, the memory is not", fix=f"pass a Memory, or wrap Async{kind.__name__}"
        )
    talk = HostTalk.of(memory, user_id, agent_id, session_id, whole_number(max_tokens, "max_tokens", 1, 1_000_000))
    wrapped: Any = client.copy()  # type: ignore[attr-defined]
    wrapped.__class__ = (_remembering_async if is_async else _remembering)(kind, talk)
    return wrapped


def trace_id(response: Any) -> str:
    """The trace of a reply (or stream) of a wrapped client, for `memory.feedback`; "" where there is none. The SDKs'
    `stream()` helpers hold the stream that was marked."""
    return getattr(response, _TRACE, "") or getattr(getattr(response, "_raw_stream", None), _TRACE, "")


@dataclass(slots=True)
class Call:
    """One model call on its way."""

    dialect: ChatDialect
    asked: ChatRequest
    heard: Heard
    recalled: Recalled = field(default_factory=Recalled)
    complete: bool = False
    learned: bool = False

    @classmethod
    def of(cls, options: Any) -> Call | None:
        """None where a request is none that memory has to do with."""
        dialect = dialect_of(str(options.url).partition("?")[0])
        body = options.json_data
        if dialect is None or str(options.method).lower() != "post" or not isinstance(body, dict):
            return None
        asked = dialect.read_request(body)
        return None if asked is None else cls(dialect, asked, dialect.heard())

    def with_memory(self, options: Any, recalled: Recalled) -> Any:
        self.recalled = recalled
        if not recalled.block:
            return options
        return options.model_copy(update={"json_data": self.dialect.inject(options.json_data, recalled.block)})

    @property
    def reply(self) -> str:
        return self.heard.text if self.complete else ""

    def first_time(self) -> bool:
        learned, self.learned = self.learned, True
        return not learned


def _remembering(kind: Any, talk: HostTalk) -> type:
    def request(self: Any, cast_to: Any, options: Any, *, stream: bool = False, stream_cls: Any = None) -> Any:
        call = Call.of(options)
        if call is None:
            return kind.request(self, cast_to, options, stream=stream, stream_cls=stream_cls)
        options = call.with_memory(options, talk.recall(call.asked.query))
        response = kind.request(self, cast_to, options, stream=stream, stream_cls=stream_cls)

        def learn() -> None:
            if call.first_time():
                talk.learn(call.asked.new, reply=call.reply, trace_id=call.recalled.trace_id)

        _mark(response, call)
        if stream and hasattr(type(response), "__next__"):
            return _teed(response, _sync_tee(type(response)), call, learn)
        call.heard.whole(response)
        call.complete = True
        learn()
        return response

    return type(kind.__name__, (kind,), {"request": request, _WRAPPED: kind})


def _remembering_async(kind: Any, talk: HostTalk) -> type:
    async def request(self: Any, cast_to: Any, options: Any, *, stream: bool = False, stream_cls: Any = None) -> Any:
        call = Call.of(options)
        if call is None:
            return await kind.request(self, cast_to, options, stream=stream, stream_cls=stream_cls)
        options = call.with_memory(options, await talk.arecall(call.asked.query))
        response = await kind.request(self, cast_to, options, stream=stream, stream_cls=stream_cls)

        async def learn() -> None:
            if call.first_time():
                await talk.alearn(call.asked.new, reply=call.reply, trace_id=call.recalled.trace_id)

        _mark(response, call)
        if stream and hasattr(type(response), "__anext__"):
            return _teed(response, _async_tee(type(response)), call, learn)
        call.heard.whole(response)
        call.complete = True
        await learn()
        return response

    return type(kind.__name__, (kind,), {"request": request, _WRAPPED: kind})


def _mark(response: Any, call: Call) -> None:
    """Beside the reply's fields, so that what it dumps and compares as stays what the API said. A reply that is no
    model (text where a server does not say that it sends JSON, a dict that was asked for) takes no mark."""
    with contextlib.suppress(AttributeError):
        object.__setattr__(response, _TRACE, call.recalled.trace_id)


def _teed(stream: Any, kind: type, call: Call, learn: Any) -> Any:
    stream.__class__ = kind
    stream.memkit_call, stream.memkit_learn = call, learn
    return stream


@functools.cache
def _sync_tee(kind: Any) -> type:
    class Teed(kind):
        def __iter__(self) -> Iterator[Any]:
            try:
                for item in super().__iter__():
                    self.memkit_call.heard.event(item)
                    yield item
                self.memkit_call.complete = True
            finally:
                self.memkit_learn()

        def __next__(self) -> Any:
            try:
                item = super().__next__()
            except Exception as end:
                self.memkit_call.complete = isinstance(end, StopIteration)
                self.memkit_learn()
                raise
            self.memkit_call.heard.event(item)
            return item

        def close(self) -> None:
            super().close()
            self.memkit_learn()

    return Teed


@functools.cache
def _async_tee(kind: Any) -> type:
    class TeedAsync(kind):
        async def __aiter__(self) -> AsyncIterator[Any]:
            try:
                async for item in super().__aiter__():
                    self.memkit_call.heard.event(item)
                    yield item
                self.memkit_call.complete = True
            finally:
                await self.memkit_learn()

        async def __anext__(self) -> Any:
            try:
                item = await super().__anext__()
            except Exception as end:
                self.memkit_call.complete = isinstance(end, StopAsyncIteration)
                await self.memkit_learn()
                raise
            self.memkit_call.heard.event(item)
            return item

        async def close(self) -> None:
            await super().close()
            await self.memkit_learn()

    return TeedAsync
