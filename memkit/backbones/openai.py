"""Any OpenAI-compatible chat endpoint, hosted or on this machine."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

from memkit.backbones.hosted import HostedBackbone
from memkit.backbones.streams import AsyncTextStream, Item, TextStream
from memkit.backbones.wire import Dialect, Draft, EventStream, body, load_json
from memkit.errors import ModelError, ModelUnavailable
from memkit.net.client import PassingFailure, capped_chunks, read_capped
from memkit.net.endpoint import OPENAI
from memkit.net.loop import network
from memkit.seams.backbone import GenRequest


class OpenAIBackbone(HostedBackbone):
    access = OPENAI
    provider = "openai"
    example = "gpt-4.1-mini"
    root = ", and that base_url ends in the API's root, often /v1"

    def _path(self, model: str) -> str:
        return "/chat/completions"

    def _body(self, request: GenRequest, model: str, dialect: Dialect, *, stream: bool) -> dict[str, Any]:
        return body(request, model, dialect, stream=stream)

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
