"""What those who operate the service ask it: whether it can serve now, and figures for Prometheus. No text of a memory,
and no user's name."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from memkit.errors import MemkitError
from memkit_http import Declined, problem_of

if TYPE_CHECKING:
    from memkit_rest.service import Service

Act = Callable[[Request], Awaitable[Response]]
READY_S = 3.0
"""A store that answers later than this serves nobody."""
_ABOUT = {
    "memkit_calls_total": ("counter", "Calls, by name and status."),
    "memkit_call_seconds_total": ("counter", "How long they took together."),
    "memkit_turns_pending": ("gauge", "Acknowledged turns of the store that are not decided yet."),
    "memkit_turns_parked": ("gauge", "Turns that could not be decided, and wait for memkit retry."),
    "memkit_operations_unprojected": ("gauge", "Operations that this process has yet to write to LanceDB."),
}


class Watched:
    def __init__(self) -> None:
        self._calls, self._seconds = Counter[tuple[str, int]](), defaultdict[str, float](float)

    def counting(self, name: str, act: Act) -> Act:
        async def counted(request: Request) -> Response:
            began, status = time.monotonic(), 500
            try:
                answer = await act(request)
                status = answer.status_code
                return answer
            except (MemkitError, Declined) as error:
                status = problem_of(error)["status"]
                raise
            finally:
                self._calls[name, status] += 1
                self._seconds[name] += time.monotonic() - began

        return counted

    def page(self, load: dict[str, int]) -> str:
        found: dict[str, dict[str, float]] = {
            "memkit_calls_total": {f'call="{n}",status="{s}"': c for (n, s), c in self._calls.items()},
            "memkit_call_seconds_total": {f'call="{name}"': took for name, took in self._seconds.items()},
            "memkit_turns_pending": {"": load["pending"]},
            "memkit_turns_parked": {"": load["parked"]},
            "memkit_operations_unprojected": {"": load["waiting_for_lancedb"]},
        }
        lines: list[str] = []
        for name, values in found.items():
            kind, about = _ABOUT[name]
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
            for labels, value in values.items():
                lines.append(f"{name}{{{labels}}} {value}" if labels else f"{name} {value}")
        return "\n".join(lines) + "\n"


def routes(service: Service, watched: Watched) -> list[Route]:
    async def ready(_: Request) -> Response:
        """Open, for whoever balances the load."""
        try:
            async with asyncio.timeout(READY_S):
                await service.run(service.memory.views.load, leaves=True)
        except TimeoutError:
            raise Declined(503, f"the store did not answer within {READY_S:g} s", fix="look at its database") from None
        return JSONResponse({"status": "ready"})

    async def metrics(request: Request) -> Response:
        if not service.enter(request, writes=False).is_app:
            raise Declined(403, "the figures are of all users, and the token is one user's", fix="use an app's token")
        load = await service.run(service.memory.views.load)
        return PlainTextResponse(watched.page(load), media_type="text/plain; version=0.0.4")

    return [Route("/ready", ready, methods=["GET"]), Route("/metrics", metrics, methods=["GET"])]
