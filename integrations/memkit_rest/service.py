"""The app: each call of the table becomes a route; verbs run in threads, so that one that waits for a model holds up
nobody else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import anyio.to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from memkit import Memory
from memkit.errors import MemkitError
from memkit.net.tenants import Tenant, Tenants
from memkit_http import Declined, announce, bind, listen, make_app, problem_of, read_json, show_problem, tenant_of
from memkit_rest import mem0, watched
from memkit_rest.callers import Rate, refuse_beyond_agent, settle_scope
from memkit_rest.calls import BASE, CALLS, Offer
from memkit_rest.openapi import describe
from memkit_rest.spaces import InSpace, refuse_in_spaces
from memkit_rest.wire import AnswerRequest, Scoped, Wire

T = TypeVar("T")
THREADS = 64
SCHEMES = ("bearer", "token")
"""mem0's clients write `Token`."""
SAY_WAITING_S = 10.0


class Service:
    """What the routes share: the memory, who may call, and the threads that verbs run in."""

    def __init__(self, memory: Memory, tenants: Tenants, rate: float = 0.0) -> None:
        self.memory, self._tenants, self._rate = memory, tenants, Rate(rate)
        self._threads: anyio.CapacityLimiter | None = None

    async def run(self, act: Callable[[], T], *, leaves: bool = False) -> T:
        """leaves: whoever asked may go before the answer is there."""
        self._threads = self._threads or anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(act, limiter=self._threads, abandon_on_cancel=leaves)

    def enter(self, request: Request, *, writes: bool) -> Tenant:
        who = tenant_of(request, self._tenants, SCHEMES)
        self._rate.take(who)
        if writes and who.read_only:
            raise Declined(
                403, "this token may only read", why="its entry says read_only", fix="use one that may write"
            )
        return who


def rest_app(memory: Memory, tenants: Tenants, *, rate: float = 0.0) -> Starlette:
    """rate: calls a second for each token; 0 sets no limit."""
    service = Service(memory, tenants, rate)
    described, seen = describe(), watched.Watched()

    async def openapi(_: Request) -> Response:
        return JSONResponse(described)

    ends: dict[str, dict[str, Any]] = {}
    for call in CALLS:
        ends.setdefault(BASE + call.path, {})[call.method] = seen.counting(call.name, _endpoint(service, call))
    routes = [Route(path, _by_method(each), methods=list(each)) for path, each in ends.items()]
    routes += [Route("/openapi.json", openapi, methods=["GET"]), *mem0.routes(service), *watched.routes(service, seen)]
    return make_app(routes, door=None, show_error=_show)


def serve_rest(memory: Memory, tenants: Tenants, *, host: str, port: int, rate: float) -> None:
    at = bind(host, port)
    announce("memkit (described at /openapi.json)", host, at, BASE, memory)
    listen(rest_app(memory, tenants, rate=rate), at)


def _by_method(ends: dict[str, Any]) -> Callable[[Request], Any]:
    """One route for each address, so that a refused method is told all that would do."""

    async def answer(request: Request) -> Response:
        return await ends["GET" if request.method == "HEAD" else request.method](request)

    return answer


def _endpoint(service: Service, call: Offer) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        if call.is_open:
            return JSONResponse(call.act(service.memory, call.asked()).model_dump(mode="json"))
        who = service.enter(request, writes=call.writes)
        if call.for_apps and not who.is_app:
            raise Declined(403, "the call is about all users, and the token is one user's", fix="use an app's token")
        asked = await _read(service, request, call)
        memory: Any = service.memory
        if isinstance(asked, Scoped):
            asked.user_id, asked.agent_id = settle_scope(who, asked.user_id, asked.agent_id)
            refuse_in_spaces(who, asked, of_spaces=call.of_spaces)
            if asked.space is not None and not call.of_spaces:
                memory = InSpace(service.memory, asked)
        key = {"key": request.headers.get("idempotency-key")} if call.keyed else {}

        def act() -> Wire:
            refuse_beyond_agent(service.memory, who, call.name, asked)
            return call.act(memory, asked, **key)

        if isinstance(asked, AnswerRequest) and asked.stream:
            return StreamingResponse(_events(service, act), media_type="text/event-stream")
        told = await service.run(act)
        pending = getattr(told, "status", None) == "pending"
        return JSONResponse(told.model_dump(mode="json"), 202 if pending else 200)

    return answer


async def _read(service: Service, request: Request, call: Offer) -> Wire:
    if call.in_body:
        given = await read_json(request)
        if both := sorted(set(given) & set(request.path_params)):
            raise Declined(400, f"{both[0]} stands in the address and in the body", fix="leave it out of the body")
        # as JSON, so that a number in quotes is no number, and a list is a list
        text = json.dumps(given | request.path_params)
        return _checked(lambda: call.asked.model_validate_json(text, strict=True))
    return _checked(lambda: call.asked.model_validate(dict(request.query_params) | request.path_params))


def _checked(read: Callable[[], Wire]) -> Wire:
    try:
        return read()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the request"
        raise Declined(
            400, f"{where} cannot be read", why=first["msg"], fix="/openapi.json says what is taken"
        ) from None


async def _events(service: Service, act: Callable[[], Wire]) -> AsyncIterator[str]:
    """What stands between client and server closes what is silent for long: `waiting` says that it is not."""
    task = asyncio.ensure_future(service.run(act))
    try:
        while not (await asyncio.wait({task}, timeout=SAY_WAITING_S))[0]:
            yield _event("waiting", {})
        yield _event("answer", task.result().model_dump(mode="json"))
    except (MemkitError, Declined) as error:
        yield _event("problem", problem_of(error))


def _event(name: str, data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def _show(request: Request, error: MemkitError | Declined) -> Response:
    if not request.url.path.startswith(mem0.PREFIXES):
        return show_problem(request, error)
    problem = problem_of(error)
    parts = [problem["title"], problem.get("why"), problem.get("next")]
    told = {**problem, "detail": ". ".join(part for part in parts if part)}  # what mem0's clients show
    return JSONResponse(told, problem["status"])
