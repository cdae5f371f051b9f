"""Any OpenAI-compatible chat endpoint, hosted or on this machine.

One asynchronous implementation runs on the network thread; `generate` blocks on it, `agenerate` awaits it from any
event loop. Explicit configuration wins over the environment, of which only OPENAI_BASE_URL and OPENAI_API_KEY are
read; a key found there is sent to the endpoint found there (or to the default one), never to one that code names.
"""

from __future__ import annotations

import asyncio
import queue
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import httpx

from memkit.backbones.streams import AsyncTextStream, Item, TextStream
from memkit.backbones.wire import Dialect, Draft, EventStream, Structured, body, load_json, narrow, refusal_slugs
from memkit.errors import InvalidConfig, ModelError, ModelRefused, ModelUnavailable
from memkit.net.client import Budget, JsonClient, PassingFailure, capped_chunks, read_capped
from memkit.net.endpoint import resolve_endpoint
from memkit.net.loop import network
from memkit.net.secret import Secret
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit.seams.clock import Clock, SystemClock

DEFAULT_URL = "https://api.openai.com/v1"
_PATH = "/chat/completions"
_FIXES = {
    401: "check the key: pass api_key=, or set OPENAI_API_KEY",
    403: "check what this key may use",
    404: "check the model's name, and that base_url ends in the API's root, often /v1",
    413: "send less in one call",
}


class OpenAIBackbone:
    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | Secret | None = None,
        style: str = "json",
        structured: Structured = "json_schema",
        logprobs: bool = True,
        max_parallel: int = 8,
        allow_insecure: bool = False,
        trust_env: bool = False,
        adapter_model_name: Callable[[str], str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        rng: random.Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        """
        structured: how replies are held to their schema; on a refusal, json_schema falls back to json_object and
            to prompting alone. `tool` asks for a forced tool call instead.
        allow_insecure: plain http beyond this machine, and names that lead to this machine.
        trust_env: proxies and certificate files that the environment names; a proxy then resolves names unjudged.
        adapter_model_name: adapter digest → the `model` that this server knows it by; by default the digest itself.
        extra_body: further fields of every request, e.g. {"return_token_ids": True} for vLLM.
        """
        if not model:
            raise InvalidConfig("the model has no name", fix='pass model="openai:NAME", e.g. "openai:gpt-4.1-mini"')
        if style not in ("json", "compact"):
            raise InvalidConfig(f"style {style!r} is unknown", fix="pass style='json' or style='compact'")
        self._url, key = resolve_endpoint(base_url, api_key, default_url=DEFAULT_URL, allow_insecure=allow_insecure)
        self._model, self._style, self._max_parallel = model, style, max_parallel
        self._model_of = adapter_model_name or (lambda adapter: adapter)
        self._extra = dict(extra_body or {})
        self._clock = clock or SystemClock()
        self._dialect = Dialect(structured=structured, logprobs=logprobs)
        self._client = JsonClient(
            self._url,
            key=key,
            max_parallel=max_parallel,
            trust_env=trust_env,
            transport=transport,
            rng=rng or random.Random(),
            clock=self._clock,
        )

    @property
    def identity(self) -> str:
        return f"openai:{self._model}"

    @property
    def style(self) -> str:
        return self._style

    @property
    def max_parallel(self) -> int:
        return self._max_parallel

    @property
    def endpoint(self) -> str:
        """Where prompts go."""
        return str(self._url)

    def __repr__(self) -> str:
        return f"OpenAIBackbone({self._model!r}, base_url={self.endpoint!r})"

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return network.run(self._each(requests))

    async def agenerate(self, requests: Sequence[GenRequest]) -> Replies:
        return await network.run_async(self._each(requests))

    def stream(self, request: GenRequest) -> TextStream:
        """Chunks of the reply's text as they arrive; afterwards `.reply` holds the whole of it."""
        items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        return TextStream(items.get, network.submit(self._pump(request, items.put)))

    def astream(self, request: GenRequest) -> AsyncTextStream:
        loop = asyncio.get_running_loop()
        items: asyncio.Queue[Item] = asyncio.Queue()

        def hand_over(item: Item) -> None:
            loop.call_soon_threadsafe(items.put_nowait, item)

        return AsyncTextStream(items.get, network.submit(self._pump(request, hand_over)))

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> OpenAIBackbone:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _each(self, requests: Sequence[GenRequest]) -> list[GenReply | ModelError]:
        """A request's clock starts when its list has come to it: at most `max_parallel` are under way."""
        waiting = iter(enumerate(requests))
        outcomes: list[GenReply | ModelError | None] = [None] * len(requests)

        async def worker() -> None:
            for index, request in waiting:
                try:
                    outcomes[index] = await self._whole(request)
                except ModelError as error:
                    outcomes[index] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(min(len(requests), self._max_parallel)):
                group.create_task(worker())
        return [outcome for outcome in outcomes if outcome is not None]

    async def _whole(self, request: GenRequest) -> GenReply:
        async def read(response: httpx.Response, draft: Draft) -> None:
            draft.take(load_json(await read_capped(response)))

        return await self._converse(request, read, stream=False)

    async def _pump(self, request: GenRequest, emit: Callable[[Item], None]) -> None:
        """The stream's producer. It ends by the deadline whoever listens, and its output is bounded by the byte cap,
        so a slow or vanished listener holds nothing back."""
        emitted = False

        async def read(response: httpx.Response, draft: Draft) -> None:
            nonlocal emitted
            try:
                async for data in _payloads(response):
                    if text := draft.take(data):
                        emitted = True
                        emit(text)
                if not draft.finish:
                    raise PassingFailure("the stream broke off")
            except (PassingFailure, httpx.RequestError) as error:
                if not emitted:
                    raise
                raise ModelUnavailable(
                    "the stream broke off", why=f"{type(error).__name__} after part of the text", fix="ask again"
                ) from None

        try:
            emit(await self._converse(request, read, stream=True))
        except ModelError as error:
            emit(error)

    async def _converse(
        self, request: GenRequest, read: Callable[[httpx.Response, Draft], Awaitable[None]], *, stream: bool
    ) -> GenReply:
        """One request to its reply; a refusal that names an optional parameter is answered by leaving it out."""
        budget = Budget(request.deadline_s, request.max_calls)
        started = self._clock.monotonic()
        model = self._model if request.adapter is None else self._model_of(request.adapter)
        dialect = known = self._dialect
        while True:
            sent = body(request, model, dialect, extra=self._extra, stream=stream)

            async def answered(response: httpx.Response, dialect: Dialect = dialect) -> GenReply | tuple[int, bytes]:
                if not 200 <= response.status_code < 300:
                    return response.status_code, await read_capped(response)
                draft = Draft()
                await read(response, draft)
                latency_ms = (self._clock.monotonic() - started) * 1000
                return draft.reply(request, model, dialect, calls=budget.calls, latency_ms=latency_ms)

            outcome = await self._client.post(_PATH, sent, budget, answered)
            if isinstance(outcome, GenReply):
                if dialect is not known:
                    self._dialect = dialect
                return outcome
            status, raw = outcome
            if status not in (400, 422) or budget.spent:
                raise _refused(status, raw, budget.calls)
            last = budget.calls + 1 == budget.max_calls
            narrower = narrow(dialect, sent, raw.decode("utf-8", "replace"), last=last)
            if narrower is None:
                raise _refused(status, raw, budget.calls)
            dialect = narrower


async def _payloads(response: httpx.Response) -> AsyncIterator[Any]:
    """The JSON objects of a streamed reply, also where the server sent it whole."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        yield load_json(await read_capped(response))
        return
    events = EventStream()
    async for chunk in capped_chunks(response):
        for event in events.feed(chunk):
            if event == b"[DONE]":
                return
            yield load_json(event)


def _refused(status: int, raw: bytes, calls: int) -> ModelRefused:
    try:
        slugs = refusal_slugs(load_json(raw))
    except ModelError:
        slugs = {}
    why = ", ".join(f"{name}: {value}" for name, value in slugs.items())
    if 300 <= status < 400:
        why = "redirects are not followed: they would carry the prompt to another address"
    return ModelRefused(
        f"the endpoint refused the request with status {status}",
        why=why,
        fix=_FIXES.get(status, "check base_url, the model's name and extra_body"),
        status=status,
        calls=calls,
        **slugs,
    )
