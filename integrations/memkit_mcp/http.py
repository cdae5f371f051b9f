"""MCP over streamable HTTP, behind tokens. The token is checked before a byte of the body is read; then the
body has the size and the time that memkit's servers allow. A request with the header `x-memkit-space` is about that
space, as the token's user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from memkit import Memory
from memkit.net.tenants import Tenant, Tenants
from memkit_http import MAX_BODY_BYTES, Guarded, show_problem
from memkit_mcp.scope import Scope, asked_space, caller
from memkit_mcp.server import build_server

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

PATH = "/mcp"
SPACE_HEADER = b"x-memkit-space"


def http_app(open_memory: Callable[[], Memory], tenants: Tenants, *, host: str = "127.0.0.1") -> tuple[App, Scope]:
    """An ASGI application. Stateless: each request stands on its own token, so no session can be handed on."""
    server, scope = build_server(open_memory)
    inner = server.streamable_http_app(streamable_http_path=PATH, stateless_http=True, json_response=True, host=host)
    inner.add_middleware(Guarded, door=None, show=show_problem, headers={}, max_body=MAX_BODY_BYTES)

    async def guarded(asgi: Message, receive: Receive, send: Send) -> None:
        if asgi["type"] != "http":
            await inner(asgi, receive, send)
            return
        tenant = _tenant(asgi, tenants)
        if tenant is None:
            await _refuse(send, 401, b'{"error":"unauthorized","next":"send Authorization: Bearer TOKEN"}')
            return
        spaces = [value for name, value in asgi["headers"] if name == SPACE_HEADER]
        try:
            space = spaces[0].decode() if spaces else None
        except UnicodeDecodeError:
            space = ""
        if space == "" or len(spaces) > 1:
            await _refuse(send, 400, b'{"error":"unclear space","next":"send x-memkit-space once, in UTF-8, or not"}')
            return
        known, at = caller.set(tenant), asked_space.set(space)
        try:
            await inner(asgi, receive, send)
        finally:
            caller.reset(known)
            asked_space.reset(at)

    return guarded, scope


def _tenant(asgi: Message, tenants: Tenants) -> Tenant | None:
    given = [value for name, value in asgi["headers"] if name == b"authorization"]
    return tenants.of_bearer(given[0].decode("latin-1")) if len(given) == 1 else None


async def _refuse(send: Send, status: int, body: bytes) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *([(b"www-authenticate", b"Bearer")] if status == 401 else []),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
