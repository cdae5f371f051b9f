"""The shared HTTP kit: who is let in, how much is taken, and how errors are told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

import memkit_http.app
from memkit.errors import InvalidConfig, MemkitError, NotFound
from memkit.net.tenants import Tenant, Tenants
from memkit_http import (
    BrowserSession,
    Declined,
    Door,
    bind,
    make_app,
    problem_of,
    read_form,
    read_json,
    status_of,
    tenant_of,
)

OURS = "http://127.0.0.1:8789"
TENANTS = Tenants({"t" * 20: Tenant("ana")})


async def _echo(request: Request) -> Response:
    return JSONResponse(await read_json(request))


async def _form(request: Request) -> Response:
    return JSONResponse(await read_form(request))


async def _whoami(request: Request) -> Response:
    return JSONResponse({"user": tenant_of(request, TENANTS).user_id})


async def _missing(_: Request) -> Response:
    raise NotFound("no live memory m_1", why="it was deleted", fix="list() shows what is there")


async def _bug(_: Request) -> Response:
    raise KeyError("my secret diary")


@pytest.fixture(scope="module")
def client() -> TestClient:
    paths: dict[str, Any] = {"/echo": _echo, "/form": _form, "/who": _whoami, "/missing": _missing, "/bug": _bug}
    routes = [Route(path, call, methods=["GET", "POST"]) for path, call in paths.items()]
    app = make_app(routes, door=Door.at("127.0.0.1", 8789), max_body=1_000)
    return TestClient(app, base_url=OURS)


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 200),
        ("GET", {"host": "localhost:8789"}, 200),
        ("GET", {"host": "evil.example:8789"}, 421),
        ("GET", {"host": "127.0.0.1:9999"}, 421),
        ("GET", {"host": ""}, 421),
        ("GET", {"origin": "https://evil.example"}, 403),
        ("POST", {"origin": OURS}, 200),
        ("POST", {"origin": "null"}, 403),
        ("POST", {"origin": "http://127.0.0.1:9999"}, 403),
        ("POST", {"sec-fetch-site": "cross-site"}, 403),
        ("POST", {"sec-fetch-site": "same-origin"}, 200),
        ("POST", {"content-length": "-1"}, 413),
    ],
)
def test_only_our_own_name_and_our_own_pages_are_let_in(
    client: TestClient, method: str, headers: dict[str, str], status: int
) -> None:
    assert client.request(method, "/echo", headers=headers).status_code == status


def test_a_body_beyond_the_limit_is_refused_announced_or_not(client: TestClient) -> None:
    kind = {"content-type": "application/json"}
    told = client.post("/echo", content=b'"' + b"x" * 2_000 + b'"', headers=kind)
    untold = client.post("/echo", content=(b"x" * 300 for _ in range(10)), headers=kind)
    assert [told.status_code, untold.status_code] == [413, 413]
    assert client.post("/echo", json={"a": "ü"}).json() == {"a": "ü"}


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memkit_http.app, "BODY_S", 0.05)
    app = make_app([Route("/echo", _echo, methods=["POST"])], door=None)
    scope = {"type": "http", "method": "POST", "path": "/echo", "headers": [], "query_string": b""}
    sent: list[Any] = []

    async def drip() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, drip, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", b"{}", 415),
        ("application/json", b"[1]", 400),
        ("application/json", b"[" * 900, 400),
        ("application/json", b"\xff", 400),
        ("application/json", b"", 200),
    ],
)
def test_what_is_no_json_object_is_refused_in_words(client: TestClient, kind: str, body: bytes, status: int) -> None:
    assert client.post("/echo", content=body, headers={"content-type": kind}).status_code == status


def test_a_form_is_read_as_it_was_sent(client: TestClient) -> None:
    assert client.post("/form", data={"u": "a/b ü", "empty": ""}).json() == {"u": "a/b ü", "empty": ""}
    many = "&".join(f"f{n}=1" for n in range(150)).encode()
    for wrong in (b"u=%ff", many[:900]):
        answer = client.post("/form", content=wrong, headers={"content-type": "application/x-www-form-urlencoded"})
        assert answer.status_code == 400
    assert client.post("/form", json={}).status_code == 415


def test_a_token_names_the_user_and_its_absence_is_told(client: TestClient) -> None:
    assert client.get("/who", headers={"authorization": f"Bearer {'t' * 20}"}).json() == {"user": "ana"}
    refused = client.get("/who", headers={"authorization": "Bearer nobody"})
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


def test_errors_of_the_library_are_told_with_their_next_step(client: TestClient) -> None:
    answer = client.get("/missing")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:memkit:problem:NotFound",
        "title": "no live memory m_1",
        "status": 404,
        "why": "it was deleted",
        "next": "list() shows what is there",
    }
    assert client.get("/nowhere").json()["status"] == 404
    assert client.delete("/echo").status_code == 405


def test_a_bug_is_told_without_its_words(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    answer = client.get("/bug")
    assert answer.status_code == 500
    assert "diary" not in answer.text + caplog.text
    assert "KeyError" in caplog.text


def test_every_answer_binds_the_browser(client: TestClient) -> None:
    for path in ("/echo", "/nowhere", "/bug"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert (headers["x-frame-options"], headers["cache-control"]) == ("DENY", "no-store")


def test_every_error_has_a_status() -> None:
    def below(kind: type[MemkitError]) -> list[type[MemkitError]]:
        return [kind, *(inner for one in kind.__subclasses__() for inner in below(one))]

    statuses = {status_of(kind("x")) for kind in below(MemkitError)}
    assert statuses == {400, 403, 404, 409, 413, 422, 500, 501, 502, 503, 504, 507}
    assert problem_of(Declined(401, "who?"))["status"] == 401


def test_a_session_is_known_by_its_cookie_its_token_and_its_seal() -> None:
    session, other = BrowserSession("secret-token"), BrowserSession("another-token")
    assert session.knows(session.cookie, None)
    assert session.knows(None, "Bearer secret-token")
    assert not session.knows(other.cookie, None)
    assert not session.knows(session.cookie, "Bearer wrong")
    session.check_form({"seal": session.seal}, None)
    for form in ({}, {"seal": session.cookie}, {"seal": other.seal}, {"seal": "ü"}):
        with pytest.raises(Declined):
            session.check_form(form, None)


def test_a_port_in_use_is_told_before_anything_is_served() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(InvalidConfig, match="--port"):
            bind("127.0.0.1", taken.getsockname()[1])
