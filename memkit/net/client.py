"""POST JSON to one endpoint: total deadline, byte cap, bounded retries, typed errors that never quote a body."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import httpx

from memkit import __version__
from memkit.errors import BadReply, InvalidConfig, ModelError, ModelTimeout, ModelUnavailable, ReplyTooLarge
from memkit.net.loop import network
from memkit.net.pinned import PinnedTransport
from memkit.net.retry import backoff, is_passing, retry_after
from memkit.net.secret import Secret
from memkit.net.urls import BaseURL
from memkit.seams.clock import Clock

T = TypeVar("T")

MAX_REPLY_BYTES = 1_000_000
_CONNECT_S = 10.0


class Budget:
    """What one request may cost in all, retries and negotiation included. Made on the event loop that spends it."""

    def __init__(self, deadline_s: float, max_calls: int) -> None:
        self.deadline_s, self.max_calls, self.calls = deadline_s, max(1, max_calls), 0
        self._loop = asyncio.get_running_loop()
        self.ends = self._loop.time() + deadline_s

    @property
    def left_s(self) -> float:
        return self.ends - self._loop.time()

    @property
    def spent(self) -> bool:
        return self.calls >= self.max_calls


class PassingFailure(Exception):
    """One call failed in a way that the next may not. Holds no content of request or reply."""

    def __init__(self, what: str, *, status: int | None = None, wait_s: float | None = None) -> None:
        super().__init__(what)
        self.what, self.status, self.wait_s = what, status, wait_s


Read = Callable[[httpx.Response], Awaitable[T]]


class JsonClient:
    """Used on the network thread only. Opened with the first call; after a fork the child opens its own."""

    def __init__(
        self,
        url: BaseURL,
        *,
        key: Secret | None,
        key_header: str = "authorization",
        headers: Mapping[str, str] | None = None,
        max_parallel: int,
        trust_env: bool,
        transport: httpx.AsyncBaseTransport | None,
        rng: random.Random,
        clock: Clock,
    ) -> None:
        if transport is not None and trust_env:
            raise InvalidConfig("transport= and trust_env= exclude each other", fix="drop one of them")
        self.url = url
        self._key, self._key_header, self._headers = key, key_header, dict(headers or {})
        self._max_parallel = max_parallel
        self._trust_env, self._transport = trust_env, transport
        self._rng, self._clock = rng, clock
        self._open: tuple[int, httpx.AsyncClient, asyncio.Semaphore] | None = None
        self._of_parents: list[object] = []

    async def post(self, path: str, body: Mapping[str, Any], budget: Budget, read: Read[T]) -> T:
        """`read` gets every response that is not a passing failure, 4xx included, and must bound what it reads."""
        content = json.dumps(body).encode()
        while True:
            budget.calls += 1
            failure = await self._once(path, content, budget, read)
            if not isinstance(failure, PassingFailure | BadReply):
                return failure
            delay = backoff(budget.calls, self._rng)
            if isinstance(failure, PassingFailure) and failure.wait_s is not None:
                delay = max(delay, failure.wait_s)
            if budget.spent or delay >= budget.left_s:
                raise _final(failure, budget)
            await asyncio.sleep(delay)

    async def _once(self, path: str, content: bytes, budget: Budget, read: Read[T]) -> T | PassingFailure | BadReply:
        client, slots = self._opened()
        try:
            async with (
                asyncio.timeout_at(budget.ends),
                slots,
                client.stream("POST", f"{self.url}{path}", content=content) as response,
            ):
                if is_passing(response.status_code):
                    wait_s = retry_after(response.headers, self._clock.now())
                    what = f"the endpoint answered {response.status_code}"
                    return PassingFailure(what, status=response.status_code, wait_s=wait_s)
                return await read(response)
        except TimeoutError:
            raise ModelTimeout(
                f"no complete reply within {budget.deadline_s:g} s",
                why=f"{budget.calls} call(s) were made to {self.url.host}",
                fix="raise the deadline, or see why the endpoint is slow",
                calls=budget.calls,
            ) from None
        except httpx.RequestError as error:
            return PassingFailure(f"the connection failed ({type(error).__name__})")
        except PassingFailure as failure:
            return failure
        except BadReply as error:
            return error
        except ModelError as error:
            error.details.setdefault("calls", budget.calls)
            raise

    def close(self) -> None:
        if self._open is not None:
            network.run(self._close())

    async def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None and opened[0] == os.getpid():
            await opened[1].aclose()

    def _opened(self) -> tuple[httpx.AsyncClient, asyncio.Semaphore]:
        if self._open is not None and self._open[0] != os.getpid():
            # its sockets are the parent's: neither used nor closed here, so it must not be collected either
            self._of_parents.append(self._open)
            self._open = None
        if self._open is None:
            headers = {
                "content-type": "application/json",
                "accept": "application/json, text/event-stream",
                "accept-encoding": "identity",
                "user-agent": f"memkit/{__version__}",
                **self._headers,
            }
            if self._key is not None:
                bearer = "Bearer " if self._key_header == "authorization" else ""
                headers[self._key_header] = bearer + self._key.reveal()
            transport = self._transport
            if transport is None and not self._trust_env:
                transport = PinnedTransport(self.url, max_connections=self._max_parallel)
            client = httpx.AsyncClient(
                headers=headers,
                transport=transport,
                trust_env=self._trust_env,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=_CONNECT_S),
            )
            self._open = (os.getpid(), client, asyncio.Semaphore(self._max_parallel))
        return self._open[1], self._open[2]


async def read_capped(response: httpx.Response, max_bytes: int = MAX_REPLY_BYTES) -> bytes:
    """The whole body, or `ReplyTooLarge` as soon as it exceeds the cap."""
    body = bytearray()
    async for chunk in capped_chunks(response, max_bytes):
        body += chunk
    return bytes(body)


async def capped_chunks(response: httpx.Response, max_bytes: int = MAX_REPLY_BYTES) -> AsyncIterator[bytes]:
    """Raw bytes as they come. A compressed body was not asked for and is not unpacked: it could be a bomb."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise BadReply("the endpoint compressed its reply", why="it was asked not to", **{"class": "encoding"})
    total = 0
    async for chunk in response.aiter_raw():
        total += len(chunk)
        if total > max_bytes:
            raise ReplyTooLarge(
                f"the reply exceeds {max_bytes} bytes", why="no role needs that much", fix="check the endpoint"
            )
        yield chunk


def _final(failure: PassingFailure | BadReply, budget: Budget) -> ModelError:
    """The failure that ended the last call, as callers see it."""
    if isinstance(failure, BadReply):
        failure.details["calls"] = budget.calls
        return failure
    details: dict[str, Any] = {"calls": budget.calls}
    if failure.status is not None:
        details["status"] = failure.status
    if failure.wait_s is not None:
        details["retry_after_s"] = failure.wait_s
    waits = failure.wait_s is not None and failure.wait_s >= budget.left_s
    return ModelUnavailable(
        failure.what,
        why="it asks to wait longer than the deadline allows" if waits else f"{budget.calls} call(s) were made",
        fix="check that base_url is right and that the endpoint is up, then retry()",
        **details,
    )
