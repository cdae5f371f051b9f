"""MCP over streamable HTTP, behind tokens. The token is checked before a byte of the body is read; then the
body has the size and the time that memkit's servers allow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from memkit import Memory
from memkit.net.tenants import Tenant, Tenants
from memkit_http import MAX_BODY_BYTES, Guarded, show_problem
from memkit_mcp.scope import Scope, caller
from memkit_mcp.server import build_server

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

PATH = "/mcp"


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
            await _refuse(send)
            return
        known = caller.set(tenant)
        try:
            await inner(asgi, receive, send)
        finally:
            caller.reset(known)

    return guarded, scope


def _tenant(asgi: Message, tenants: Tenants) -> Tenant | None:
    given = [value for name, value in asgi["headers"] if name == b"authorization"]
    return tenants.of_bearer(given[0].decode("latin-1")) if len(given) == 1 else None


async def _refuse(send: Send) -> None:
    body = b'{"error":"unauthorized","next":"send Authorization: Bearer TOKEN"}'
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
