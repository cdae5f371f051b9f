"""An ASGI application between an app and its model API: the app's base URL points here, everything else stays.

Requests of a dialect that we speak get the user's memories; all replies pass byte for byte, and are read along. What
the user said is learned once the reply has passed. A client that hangs up, also before the reply begins, ends the
request to the API; its words are learned, unless the API had refused them, and sent again they count once. Every other
route passes as it is. `POST /memkit/feedback` takes the thumb, for apps in any language: the trace comes with each
reply, in the header `x-memkit-trace`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import httpx

from memkit import Memory
from memkit.errors import InvalidInput, MemkitError, NotAllowed, NotFound, StoreError
from memkit.inputs import scope_id, whole_number
from memkit.net.pinned import PinnedTransport
from memkit.net.tenants import Tenants
from memkit.net.urls import BaseURL, check_base_url, literal
from memkit_openai.asgi import (
    App,
    ClientGone,
    Message,
    Receive,
    Refused,
    Send,
    body_of,
    header,
    send_json,
    send_refusal,
    without,
)
from memkit_openai.dialects import ChatRequest, Heard, dialect_of
from memkit_openai.listening import Attempts, Delivery, Listener
from memkit_plug.bound import AnyMemory
from memkit_plug.talk import HostTalk, Recalled

MAX_BODY_BYTES = 32_000_000
"""What the APIs behind it take; some take more of other things than talk."""
BODY_S = 120.0
"""How long all of a body may take."""
MAX_CONNECTIONS = 512
TIMEOUT = httpx.Timeout(600.0, connect=10.0)
FEEDBACK = "/memkit/feedback"
OWN = b"x-memkit-"


@dataclass(slots=True)
class Exchange:
    """One request of a dialect that we speak."""

    talk: HostTalk
    asked: ChatRequest
    recalled: Recalled
    heard: Heard
    attempt: Delivery
    text: str = ""


def proxy_app(
    memory: Memory,
    upstream: str,
    *,
    user_id: str | None = None,
    tenants: Tenants | None = None,
    max_tokens: int = 800,
    local: bool = True,
    transport: httpx.AsyncBaseTransport | None = None,
) -> App:
    """user_id: who speaks where the header `x-memkit-user` does not say so. tenants: then the header `x-memkit-token`
    says who speaks, and nothing else does. A request with the header `x-memkit-space` is about that space, as whoever
    speaks. local: refuse what a page in a browser on this machine might send."""
    return _Proxy(
        memory,
        check_base_url(upstream),
        None if user_id is None else scope_id(user_id, "user_id"),
        tenants,
        whole_number(max_tokens, "max_tokens", 1, 1_000_000),
        local,
        transport,
    )


class _Proxy:
    def __init__(
        self,
        memory: Memory,
        upstream: BaseURL,
        user_id: str | None,
        tenants: Tenants | None,
        max_tokens: int,
        local: bool,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._memory, self._upstream, self._user_id, self._tenants = memory, upstream, user_id, tenants
        self._max_tokens, self._local = max_tokens, local
        self._attempts = Attempts()
        self._client = httpx.AsyncClient(
            transport=transport or PinnedTransport(upstream, max_connections=MAX_CONNECTIONS),
            timeout=TIMEOUT,
            follow_redirects=False,
            trust_env=False,
        )

    async def __call__(self, asgi: Message, receive: Receive, send: Send) -> None:
        if asgi["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif asgi["type"] == "http":
            with contextlib.suppress(ClientGone):
                try:
                    await self._handle(asgi, receive, send)
                except Refused as refused:
                    await send_refusal(send, refused)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await self._client.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _handle(self, asgi: Message, receive: Receive, send: Send) -> None:
        if self._local:
            _refuse_pages(asgi)
        talk = self._talk(asgi)
        body = await body_of(receive, MAX_BODY_BYTES, BODY_S)
        if asgi["path"] == FEEDBACK:
            await self._feedback(asgi, body, talk, send)
            return
        exchange, body = await self._recall(asgi, body, talk)
        try:
            await self._pass(asgi, body, exchange, receive, send)
        finally:
            if exchange is not None and exchange.attempt.reached:
                learning = exchange.talk.alearn(
                    exchange.asked.new,
                    key=exchange.attempt.key,
                    reply=exchange.text,
                    trace_id=exchange.recalled.trace_id,
                )
                await asyncio.shield(learning)

    def _talk(self, asgi: Message) -> HostTalk | None:
        session = header(asgi, b"x-memkit-session")
        user, agent = header(asgi, b"x-memkit-user"), header(asgi, b"x-memkit-agent")
        if self._tenants is not None:
            tenant = self._tenants.of_token(header(asgi, b"x-memkit-token") or "")
            if tenant is None or tenant.read_only:
                raise Refused(401, "authentication_error", "send a token that may write in the header x-memkit-token")
            if user not in (None, tenant.user_id):
                raise Refused(403, "permission_error", "the token speaks for another user than x-memkit-user says")
            user, agent = tenant.user_id, tenant.agent_id or agent
        user, space = self._user_id if user is None else user, header(asgi, b"x-memkit-space")
        if not user:
            return None  # also where an app names nobody: an empty name is not the user whom the proxy serves else
        try:
            if space is None:
                return HostTalk.of(self._memory, user, agent or None, session or None, self._max_tokens)
            if agent:
                raise Refused(403, "permission_error", "a space has no agents: leave x-memkit-agent out")
            here: AnyMemory = self._memory.principal(user).space(space)
            return HostTalk.of(here, session_id=session or None, max_tokens=self._max_tokens)
        except InvalidInput as error:
            raise Refused(400, "invalid_request_error", str(error)) from None

    async def _recall(self, asgi: Message, body: bytes, talk: HostTalk | None) -> tuple[Exchange | None, bytes]:
        dialect = dialect_of(asgi["path"]) if asgi["method"] == "POST" else None
        if dialect is None or talk is None:
            return None, body
        try:
            request: Any = json.loads(body)
        except (ValueError, RecursionError):
            return None, body  # the API says what is wrong with it
        asked = dialect.read_request(request) if isinstance(request, dict) else None
        if asked is None:
            return None, body
        recalled = await talk.arecall(asked.query)
        who = f"{talk.bound.user_id}\x1f{talk.bound.place}\x1f{talk.session_id or ''}"
        attempt = self._attempts.begin(
            who, body, header(asgi, b"idempotency-key"), header(asgi, b"x-stainless-retry-count")
        )
        if recalled.block:
            # whatever does not go into JSON again, the app gets an answer to its own words
            with contextlib.suppress(ValueError, RecursionError):
                body = json.dumps(dialect.inject(request, recalled.block)).encode()  # ASCII: half an emoji passes
        return Exchange(talk, asked, recalled, dialect.heard(), attempt), body

    async def _pass(self, asgi: Message, body: bytes, exchange: Exchange | None, receive: Receive, send: Send) -> None:
        request = self._client.build_request(
            asgi["method"],
            self._url(asgi),
            content=body,
            headers=[
                *without(asgi["headers"], b"host", b"content-length", b"accept-encoding", prefix=OWN),
                (b"accept-encoding", b"identity"),
            ],
        )
        response: httpx.Response | None = None
        try:
            async with _until_gone(receive):
                response = await self._answered(request)
                await self._relay(response, exchange, send)
        except ClientGone:
            if response is None and exchange is not None:
                exchange.attempt.reached = True
            raise
        finally:
            if response is not None:
                await response.aclose()

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._client.send(request, stream=True)
        except httpx.TimeoutException:
            raise Refused(504, "upstream_timeout", "the API behind the proxy did not answer in time") from None
        except (httpx.RequestError, MemkitError) as error:
            what = f"the API behind the proxy cannot be reached ({type(error).__name__})"
            raise Refused(502, "upstream_unavailable", what) from None

    async def _relay(self, response: httpx.Response, exchange: Exchange | None, send: Send) -> None:
        headers = without(response.headers.raw)
        listener: Listener | None = None
        if exchange is not None:
            headers.append((b"x-memkit-trace", exchange.recalled.trace_id.encode()))
            if response.status_code == 200:
                exchange.attempt.reached = True
                events = "text/event-stream" in response.headers.get("content-type", "")
                listener = Listener(exchange.heard, events=events)
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        try:
            async for chunk in response.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if listener is not None:
                    listener.feed(chunk)
        except httpx.RequestError:
            return  # cut short as the API cut it: ending it properly would pass it off as whole
        if exchange is not None and listener is not None:
            exchange.text = listener.text()
            exchange.attempt.delivered = not listener.failed
        await send({"type": "http.response.body", "body": b""})

    def _url(self, asgi: Message) -> httpx.URL:
        """The base URL's own path stands for a leading /v1."""
        path: bytes = asgi.get("raw_path") or asgi["path"].encode()
        path = path.partition(b"?")[0]
        # the API may read an escaped dot or slash as a plain one
        parts = re.split(rb"[/\\]", unquote_to_bytes(path))
        if not path.startswith(b"/") or b"//" in path or b"." in parts or b".." in parts:
            raise Refused(400, "invalid_request_error", "this path is not passed on")
        if self._upstream.path.endswith("/v1") and (path == b"/v1" or path.startswith(b"/v1/")):
            path = path[3:]
        query: bytes = asgi.get("query_string", b"")
        raw = self._upstream.path.encode() + path + (b"?" + query if query else b"")
        try:
            return httpx.URL(str(self._upstream)).copy_with(raw_path=raw or b"/")
        except (httpx.InvalidURL, UnicodeDecodeError):
            raise Refused(400, "invalid_request_error", "this path is no URL's") from None

    async def _feedback(self, asgi: Message, body: bytes, talk: HostTalk | None, send: Send) -> None:
        if asgi["method"] != "POST" or talk is None:
            raise Refused(400, "invalid_request_error", "POST it, with the header x-memkit-user")
        try:
            given = json.loads(body)
            trace_id = given.pop("trace_id")
            noted = await asyncio.to_thread(self._note, talk, trace_id, given)
        except NotFound as error:
            raise Refused(404, "not_found", str(error)) from None
        except NotAllowed as error:
            raise Refused(403, "permission_error", str(error)) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = str(error) if isinstance(error, InvalidInput) else 'send {"trace_id": …, "label": "up"}'
            raise Refused(400, "invalid_request_error", why) from None
        except MemkitError as error:
            what = f"the memory could not note it ({type(error).__name__}); send it again later"
            raise Refused(503 if isinstance(error, StoreError) else 500, "memory_unavailable", what) from None
        await send_json(send, 200, {"feedback_id": noted})

    def _note(self, talk: HostTalk, trace_id: Any, given: dict[str, Any]) -> str:
        bound = talk.bound
        if bound.place and not bound.has_rights and not bound.bank().knows(scope_id(trace_id, "trace_id")):
            raise NotFound(f"no trace {trace_id} for this agent", fix="pass the trace_id of an answer it was given")
        return bound.writes.feedback(trace_id, **given)


@contextlib.asynccontextmanager
async def _until_gone(receive: Receive) -> AsyncGenerator[None]:
    """Stops the block when the client hangs up, so that a model does not go on writing for nobody."""
    task = asyncio.current_task()
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        if task is not None:
            task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not gone or task is None or task.uncancel() > 0:
            raise
        raise ClientGone from None
    finally:
        watcher.cancel()


def _refuse_pages(asgi: Message) -> None:
    """A page in a browser can reach this port too; it shows by its Origin, or by a name that was rebound to us."""
    origin, host = header(asgi, b"origin"), header(asgi, b"host")
    for url in (origin, f"//{host}" if host else None):
        try:
            name = urlsplit(url).hostname if url else "localhost"
        except ValueError:
            name = None
        ip = literal(name) if name else None
        if name != "localhost" and (ip is None or not ip.is_loopback):
            raise Refused(403, "permission_error", "this proxy serves programs on this machine only")
