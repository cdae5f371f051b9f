"""The app around the routes: the door, the limit on bodies, headers that bind the browser, errors in words."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memkit.errors import MemkitError
from memkit_http.door import Door
from memkit_http.problems import UNEXPECTED, Declined, problem_of

log = logging.getLogger("memkit.http")
ShowError = Callable[[Request, MemkitError | Declined], Response]
MAX_BODY_BYTES = 4_000_000
BODY_S = 30.0
"""How long all of a body may take."""
BOUND = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers hide the Origin of our own forms
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}
"""What every answer carries, unless a route says otherwise."""


def make_app(
    routes: Sequence[BaseRoute],
    *,
    door: Door | None,
    show_error: ShowError | None = None,
    headers: Mapping[str, str] | None = None,
    max_body: int = MAX_BODY_BYTES,
) -> Starlette:
    """`door` None: whoever holds a token may call by any name, as services do behind a proxy. `headers`: beside, or in
    place of, those in BOUND."""
    show = show_error or show_problem

    async def show_typed(request: Request, error: Exception) -> Response:
        return show(request, _declined(error))

    handlers = {kind: show_typed for kind in (MemkitError, Declined, HTTPException, ClientDisconnect)}
    app = Starlette(routes=list(routes), exception_handlers=handlers)
    app.add_middleware(Guarded, door=door, show=show, headers={**BOUND, **(headers or {})}, max_body=max_body)
    return app


def show_problem(_: Request, error: MemkitError | Declined) -> Response:
    problem = problem_of(error)
    more = error.headers if isinstance(error, Declined) else {}
    return JSONResponse(problem, problem["status"], more, media_type="application/problem+json")


def _declined(error: Exception) -> MemkitError | Declined:
    if isinstance(error, MemkitError | Declined):
        return error
    if isinstance(error, HTTPException):
        fix = {404: "check the address", 405: "use one of the methods that it takes"}.get(error.status_code, "")
        what = {404: "there is nothing at this address", 405: "the address does not take this method"}
        headers = dict(error.headers or {})
        return Declined(error.status_code, what.get(error.status_code, error.detail), fix=fix, headers=headers)
    return Declined(400, "the client went away")


class Guarded:
    """Around everything, starlette's own answers included."""

    def __init__(
        self, app: ASGIApp, *, door: Door | None, show: ShowError, headers: Mapping[str, str], max_body: int
    ) -> None:
        self._app, self._door, self._show, self._headers, self._max_body = app, door, show, headers, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def bound(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                found = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    found.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, self._limited(receive), bound)
        except Declined as error:
            await self._refuse(scope, receive, bound, error)
        except Exception as error:
            log.error("a request failed: %s at %s", type(error).__name__, _place(error))
            if begun:
                raise
            await self._refuse(scope, receive, bound, UNEXPECTED)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if len(headers.getlist("host")) > 1 or len(headers.getlist("origin")) > 1:
            raise Declined(400, "a header is there twice that says who is asked, and by whom")
        if self._door is not None:
            self._door.check(scope["method"], headers)
        size = headers.get("content-length", "0")
        if not size.isascii() or not size.isdecimal() or len(size) > 15 or int(size) > self._max_body:
            raise self._too_large()

    def _limited(self, receive: Receive) -> Receive:
        left, end = self._max_body, 0.0
        whole = False

        async def limited() -> Message:
            nonlocal left, end, whole
            end = end or asyncio.get_running_loop().time() + BODY_S
            try:
                async with asyncio.timeout_at(None if whole else end):
                    message = await receive()
            except TimeoutError:
                raise Declined(408, f"the body did not come within {BODY_S:g} s", fix="send it at once") from None
            whole = not message.get("more_body", False)
            left -= len(message.get("body", b""))
            if left < 0:
                raise self._too_large()
            return message

        return limited

    def _too_large(self) -> Declined:
        return Declined(413, f"the request has more than {self._max_body} bytes", fix="send less at a time")

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, error: Declined) -> None:
        await self._show(Request(scope), error)(scope, receive, send)


def _place(error: Exception) -> str:
    """Where it happened. Its own words stay unsaid: they may quote memories."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
