"""The app: a token is traded for a cookie, addresses for pages, sealed forms for verbs."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from memkit.errors import MemkitError
from memkit_http import BrowserSession, Declined, Door, make_app, problem_of, read_form, show_problem
from memkit_ui import showing
from memkit_ui.doing import do
from memkit_ui.pages import PAGES, PageQuery, ShownStore
from memkit_ui.rendering import HERE, Renderer

STATIC = {"style.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'"
)


def ui_app(place: ShownStore, session: BrowserSession, door: Door) -> Starlette:
    """An ASGI application over one open store, for whoever holds the session's token: the person who runs the store."""
    return _Ui(place, session, door).app


class _Ui:
    def __init__(self, place: ShownStore, session: BrowserSession, door: Door) -> None:
        self._place, self._session = place, session
        self._cookie = f"memkit_{hashlib.sha256('|'.join(sorted(door.hosts)).encode()).hexdigest()[:8]}"
        self._pages = Renderer()
        routes = [Route(path, self._show, methods=["GET"]) for path in PAGES]
        routes += [
            Route("/enter", self._enter, methods=["GET", "POST"]),
            Route("/do/{verb}", self._do, methods=["POST"]),
            Route("/export", self._export, methods=["GET"]),
            Route("/static/{name}", self._static, methods=["GET"]),
        ]
        self.app = make_app(routes, door=door, show_error=self._show_error, headers={"content-security-policy": POLICY})

    # ---- pages -----------------------------------------------------------------------------------------------------

    async def _show(self, request: Request) -> Response:
        if not self._admits(request):
            return self._turn_away(request)
        page = PAGES[request.url.path]
        query = dict(request.query_params)
        data = await run_in_threadpool(page.build, self._place, PageQuery(query))
        if query.get("format") == "json":
            return JSONResponse(showing.as_data(data))
        saved = query.get("save") == "1"
        seal = "" if saved else self._session.seal
        text = self._pages.page(self._place.store, request.url.path, query, data, seal)
        name = f"memkit-{request.url.path.strip('/') or 'users'}.html"
        headers = {"content-disposition": f'attachment; filename="{name}"'} if saved else {}
        return HTMLResponse(text, headers=headers)

    async def _export(self, request: Request) -> Response:
        if not self._admits(request):
            return self._turn_away(request)
        user = PageQuery(request.query_params).need("u")

        def written() -> bytes:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "export.jsonl"
                self._place.memory.export(path, user_id=user)
                return path.read_bytes()

        headers = {"content-disposition": 'attachment; filename="memkit-export.jsonl"'}
        return Response(await run_in_threadpool(written), media_type="application/jsonl", headers=headers)

    async def _static(self, request: Request) -> Response:
        """Nothing of a store, so anybody may have it; a sign-in page needs it."""
        name = request.path_params["name"]
        if name not in STATIC:
            raise Declined(404, "there is nothing at this address")
        return Response((HERE / "static" / name).read_bytes(), media_type=STATIC[name])

    # ---- doing -----------------------------------------------------------------------------------------------------

    async def _do(self, request: Request) -> Response:
        if not self._admits(request):
            return self._turn_away(request)
        form = await read_form(request)
        self._session.check_form(form, request.headers.get("authorization"))
        where, told = await run_in_threadpool(do, self._place, request.path_params["verb"], form)
        if self._wants_json(request):
            return JSONResponse({"done": told, "next": where})
        return RedirectResponse(where + ("&" if "?" in where else "?") + showing.link("", told=told)[1:], 303)

    # ---- coming in -------------------------------------------------------------------------------------------------

    def _admits(self, request: Request) -> bool:
        return self._session.knows(request.cookies.get(self._cookie), request.headers.get("authorization"))

    def _turn_away(self, request: Request) -> Response:
        if request.method != "GET" or self._wants_json(request) or "authorization" in request.headers:
            raise Declined(
                401,
                "this store is shown to whoever has the token",
                fix="send Authorization: Bearer TOKEN; memkit ui prints it when it starts",
                headers={"www-authenticate": "Bearer"},
            )
        return RedirectResponse("/enter", 303)

    async def _enter(self, request: Request) -> Response:
        """The token comes in the form's body; in the address it stands behind #, which no server is ever sent."""
        wrong = False
        if request.method == "POST":
            given = (await read_form(request)).get("token", "").strip()
            if self._session.admits(given):
                answer = RedirectResponse("/", 303)
                answer.set_cookie(self._cookie, self._session.cookie, httponly=True, samesite="strict", path="/")
                return answer
            wrong = True
        text = self._pages.fill("enter.html", wrong=wrong)
        return HTMLResponse(text, 401 if wrong else 200)

    # ---- errors ----------------------------------------------------------------------------------------------------

    def _show_error(self, request: Request, error: MemkitError | Declined) -> Response:
        if self._wants_json(request):
            return show_problem(request, error)
        problem = problem_of(error)
        text = self._pages.fill("problem.html", problem=problem)
        more = error.headers if isinstance(error, Declined) else {}
        return HTMLResponse(text, problem["status"], more)

    def _wants_json(self, request: Request) -> bool:
        asked = request.query_params.get("format") == "json"
        return asked or "text/html" not in request.headers.get("accept", "text/html")
