"""The little of ASGI that the proxy needs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# connection matters of one hop, not of the message
HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


class Refused(Exception):
    """Answered with this status and these words; they quote nothing of the request."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


class ClientGone(Exception):
    """The client has hung up."""


def header(asgi: Message, name: bytes) -> str | None:
    found = [value for key, value in asgi["headers"] if key == name]
    if len(found) > 1:
        raise Refused(400, "invalid_request_error", f"the header {name.decode()} is there more than once")
    try:
        return found[0].decode("utf-8") if found else None
    except UnicodeDecodeError:
        raise Refused(400, "invalid_request_error", f"the header {name.decode()} is not UTF-8") from None


def without(headers: Iterable[tuple[bytes, bytes]], *names: bytes, prefix: bytes | None = None) -> Headers:
    dropped = HOP | set(names)
    return [
        (key, value)
        for key, value in headers
        if key.lower() not in dropped and not (prefix and key.lower().startswith(prefix))
    ]


async def body_of(receive: Receive, most: int, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await _body_of(receive, most)
    except TimeoutError:
        raise Refused(408, "invalid_request_error", "the request did not come in time; send it again") from None


async def _body_of(receive: Receive, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > most:
            raise Refused(413, "invalid_request_error", f"the request has more than {most} bytes")
        chunks.append(chunk)
        if not message.get("more_body"):
            return b"".join(chunks)


async def send_json(send: Send, status: int, data: Any) -> None:
    raw = json.dumps(data).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": raw})


async def send_refusal(send: Send, refused: Refused) -> None:
    error = {"message": refused.message, "type": refused.kind, "code": "memkit"}
    await send_json(send, refused.status, {"error": error})
