"""The proxy, between the official clients and a stub API: what it adds, and that it changes nothing else."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import memkit_openai.proxy
from memkit import Memory
from memkit.cli.app import app
from memkit.net.tenants import Tenant, Tenants
from memkit_openai import proxy_app
from memkit_openai.dialects import Chat
from memkit_openai.listening import Attempts, Listener
from tests import stub_server
from tests.integrations._serving import running
from tests.stub_server import StubServer

pytest.importorskip("uvicorn", reason="needs the extra proxy")

ANA = {"x-memkit-user": "ana"}
SAID = {"model": "stub", "messages": [{"role": "user", "content": "I adopted a dog named Buddy."}]}
QUESTION = {"model": "stub", "messages": [{"role": "user", "content": "Which dog do I have?"}]}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as opened:
        yield opened


@pytest.fixture
def api() -> Iterator[StubServer]:
    with StubServer(reply="You have a dog named Buddy.") as server:
        yield server


def texts(memory: Memory, user_id: str = "ana") -> list[str]:
    memory.flush()
    return [record.text for record in memory.list(user_id=user_id)]


def settled(memory: Memory, count: int, user_id: str = "ana") -> list[str]:
    """Learning follows the last byte of a reply; wait for it, but not for ever."""
    deadline = time.monotonic() + 10
    while len(found := texts(memory, user_id)) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def post(base: str, body: Any, headers: dict[str, str] = ANA, path: str = "/v1/chat/completions") -> httpx.Response:
    return httpx.post(f"{base}{path}", json=body, headers=headers, timeout=20, trust_env=False)


def test_what_is_said_is_learned_and_comes_back_in_the_next_request_only(memory: Memory, api: StubServer) -> None:
    with running(proxy_app(memory, api.url)) as base:
        assert post(base, SAID).status_code == 200
        assert settled(memory, 1) == ["User adopted a dog named Buddy."]
        assert api.bodies[0] == SAID, "nothing is known yet, so the request passes as it is"
        reply = post(base, QUESTION)
    sent = api.bodies[1]["messages"]
    assert len(sent) == 1
    assert "User adopted a dog named Buddy." in sent[0]["content"]
    assert sent[0]["content"].endswith("Which dog do I have?")
    trace = reply.headers["x-memkit-trace"]
    assert memory.feedback(trace, label="up", user_id="ana")


def test_injected_memories_are_never_learned_even_when_the_app_sends_them_back(memory: Memory, api: StubServer) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    before = texts(memory)
    with running(proxy_app(memory, api.url)) as base:
        post(base, QUESTION)
        injected = api.bodies[-1]["messages"][0]["content"]
        post(base, {"model": "stub", "messages": [{"role": "user", "content": injected}]})
        post(base, {"model": "stub", "messages": [{"role": "user", "content": injected}]}, {"x-memkit-user": "ben"})
        time.sleep(0.2)
    assert texts(memory) == before
    assert texts(memory, "ben") == []


def test_only_words_since_the_last_reply_are_learned_and_never_the_assistants(memory: Memory, api: StubServer) -> None:
    history = [
        {"role": "system", "content": "My name is Bot."},
        {"role": "user", "content": "I live in Oslo."},
        {"role": "assistant", "content": "I have a cat named Tom."},
        {"role": "user", "content": "I work at Equinor."},
    ]
    with running(proxy_app(memory, api.url)) as base:
        post(base, {"model": "stub", "messages": history})
        found = settled(memory, 1)
    assert len(found) == 1
    assert "Equinor" in found[0]


def test_a_stream_passes_byte_for_byte_and_is_learned_from(memory: Memory, api: StubServer) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    body = {**QUESTION, "stream": True, "stream_options": {"include_usage": True}}
    direct = httpx.post(f"{api.url}/chat/completions", json=body, trust_env=False)
    said = {**SAID, "messages": [{"role": "user", "content": "I live in Oslo."}], "stream": True}
    plain = httpx.post(f"{api.url}/chat/completions", json=said, trust_env=False).content
    with running(proxy_app(memory, api.url)) as base:
        through = post(base, body)
        # the stub counts the tokens of the prompt, which is longer by the memories
        assert _without_usage(through.content) == _without_usage(direct.content)
        assert post(base, said, {"x-memkit-user": "new"}).content == plain
        assert settled(memory, 1, "new") == ["User lives in Oslo."]
    assert through.headers["content-type"] == "text/event-stream"
    observed = _observed(memory, through.headers["x-memkit-trace"])
    assert observed == "You have a dog named Buddy."


def _without_usage(raw: bytes) -> list[bytes]:
    return [line for line in raw.split(b"\n") if b'"usage"' not in line]


def _observed(memory: Memory, trace_id: str) -> str | None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        trace = memory._runtime.traces.get("ana", trace_id)
        if "answer" in trace.payload:
            return trace.payload["answer"]
        time.sleep(0.01)
    return None


def test_tool_calls_and_several_choices_pass_and_are_not_taken_for_the_answer(memory: Memory, api: StubServer) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    loop = [
        *QUESTION["messages"],
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {}}]},
        {"role": "tool", "tool_call_id": "1", "content": "Buddy"},
    ]
    two = {"choices": [{"index": i, "message": {"role": "assistant", "content": f"Buddy {i}"}} for i in (0, 1)]}
    with running(proxy_app(memory, api.url)) as base:
        called = post(base, {**QUESTION, "tools": [tool]})
        assert called.json()["choices"][0]["message"]["tool_calls"]
        post(base, {"model": "stub", "messages": loop})
        sent = api.bodies[-1]["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
        assert sent[1:] == loop[1:]
        api.reply = two
        several = post(base, {**QUESTION, "n": 2})
        time.sleep(0.2)
    assert several.json() == two
    for reply in (called, several):
        trace = memory._runtime.traces.get("ana", reply.headers["x-memkit-trace"])
        assert "answer" not in trace.payload


def test_a_retry_is_learned_once_and_the_same_words_later_are_new(memory: Memory, api: StubServer) -> None:
    def turns() -> int:
        return memory.stats()["turns"]

    with running(proxy_app(memory, api.url)) as base:
        api.plan(stub_server.status(500))
        assert post(base, SAID).status_code == 500
        assert post(base, SAID).status_code == 200
        settled(memory, 1)
        assert turns() == 1
        post(base, SAID, {**ANA, "x-stainless-retry-count": "1"})
        time.sleep(0.2)
        assert turns() == 1
        for _ in range(2):
            post(base, SAID, {**ANA, "idempotency-key": "k1"})
        time.sleep(0.2)
        assert turns() == 2
        post(base, SAID)
        deadline = time.monotonic() + 5
        while turns() < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert turns() == 3


def test_attempts_are_told_apart_by_user_body_and_delivery() -> None:
    attempts = Attempts()
    first = attempts.begin("ana", b"x", None, None)
    assert attempts.begin("ana", b"x", None, "0").key == first.key, "in flight, or never delivered"
    assert attempts.begin("ben", b"x", None, None).key != first.key
    assert attempts.begin("ana", b"y", None, None).key != first.key
    attempts.begin("ana", b"x", None, None).delivered = True
    assert attempts.begin("ana", b"x", None, "2").key == first.key
    attempts.begin("ana", b"x", None, "2").delivered = True
    assert attempts.begin("ana", b"x", None, None).key != first.key


def test_a_broken_stream_breaks_for_the_client_too_and_keeps_what_was_said(memory: Memory, api: StubServer) -> None:
    with running(proxy_app(memory, api.url)) as base:
        api.plan(stub_server.broken_stream)
        with pytest.raises(httpx.RequestError):
            post(base, {**SAID, "stream": True})
        assert settled(memory, 1) == ["User adopted a dog named Buddy."]


def test_a_stream_that_ends_in_an_error_is_no_answer_and_asked_again_counts_once(
    memory: Memory, api: StubServer
) -> None:
    half = {"choices": [{"index": 0, "delta": {"content": "half "}}]}
    api.plan(lambda handler: handler.send_events([half, {"error": {"message": "overloaded"}}], done=False))
    with running(proxy_app(memory, api.url)) as base:
        failed = post(base, {**SAID, "stream": True})
        assert "overloaded" in failed.text
        post(base, {**SAID, "stream": True})
        assert settled(memory, 1) == ["User adopted a dog named Buddy."]
    assert memory._runtime.traces.get("ana", failed.headers["x-memkit-trace"]).payload.get("answer") is None
    assert memory.stats()["turns"] == 1


def test_a_client_that_hangs_up_ends_the_request_and_is_learned_from(memory: Memory, api: StubServer) -> None:
    with running(proxy_app(memory, api.url)) as base:
        api.plan(stub_server.silent_stream)
        with (
            httpx.Client(trust_env=False) as client,
            client.stream("POST", f"{base}/v1/chat/completions", json={**SAID, "stream": True}, headers=ANA) as reply,
        ):
            next(reply.iter_raw())
        assert settled(memory, 1) == ["User adopted a dog named Buddy."]


def test_a_client_that_hangs_up_before_the_reply_begins_ends_the_request_and_is_learned_from_once(
    memory: Memory,
) -> None:
    ended: list[str] = []

    async def never(request: httpx.Request) -> httpx.Response:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("the request to the API")
        raise AssertionError("nobody waits for it")

    async def hang_up() -> None:
        app = proxy_app(memory, "http://127.0.0.1:1/v1", user_id="ana", transport=httpx.MockTransport(never))
        incoming = [{"type": "http.request", "body": json.dumps(SAID).encode()}, {"type": "http.disconnect"}]
        path = "/v1/chat/completions"
        asgi = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
        for _ in range(2):  # and a retry
            left = iter(incoming)

            async def receive(left: Iterator[Any] = left) -> Any:
                return next(left)

            async def send(message: Any) -> None:
                raise AssertionError("nobody is there")

            await asyncio.wait_for(app(asgi, receive, send), 20)

    asyncio.run(hang_up())
    assert len(ended) == 2
    assert [turn.text for turn in memory.bank(user_id="ana").turns()] == ["I adopted a dog named Buddy."]


def test_errors_of_the_api_pass_and_are_not_learned_from(memory: Memory, api: StubServer) -> None:
    with running(proxy_app(memory, api.url)) as base:
        api.plan(stub_server.status(429, retry_after=7))
        refused = post(base, SAID)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
        assert refused.json()["error"]["code"] == "stub"
        time.sleep(0.1)
    assert texts(memory) == []
    with running(proxy_app(memory, f"http://127.0.0.1:{_free_port()}/v1")) as base:
        assert post(base, SAID).status_code == 502


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_a_memory_that_fails_does_not_stop_the_chat(memory: Memory, api: StubServer) -> None:
    memory.close()
    with running(proxy_app(memory, api.url)) as base:
        assert post(base, SAID).json()["choices"][0]["message"]["content"] == "You have a dog named Buddy."


def test_users_are_told_apart_and_nobody_is_served_without_a_name(memory: Memory, api: StubServer) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    with running(proxy_app(memory, api.url)) as base:
        post(base, QUESTION, {"x-memkit-user": "ben"})
        post(base, QUESTION, {})
        assert api.bodies == [QUESTION, QUESTION]
        assert post(base, QUESTION, {"x-memkit-user": "x" * 600}).status_code == 400
    with running(proxy_app(memory, api.url, user_id="ana")) as base:
        post(base, QUESTION, {})
        assert "Buddy" in json.dumps(api.bodies[-1])
    assert all("x-memkit-user" not in seen.headers for seen in api.seen)


def test_an_empty_name_is_nobody_and_never_the_user_of_the_proxy(memory: Memory, api: StubServer) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    with running(proxy_app(memory, api.url, user_id="ana")) as base:
        post(base, QUESTION, {})
        assert "Buddy" in json.dumps(api.bodies[-1])
        post(base, QUESTION, {"x-memkit-user": ""})
        assert api.bodies[-1] == QUESTION


def test_with_tokens_only_the_token_says_who_speaks(memory: Memory, api: StubServer) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    tokens = {
        "token-of-ana-123": Tenant("ana"),
        "token-of-ben-123": Tenant("ben"),
        "token-to-read-12": Tenant("ana", read_only=True),
    }
    with running(proxy_app(memory, api.url, tenants=Tenants(tokens))) as base:
        for headers in ({}, ANA, {"x-memkit-token": "wrong-wrong-wrong"}, {"x-memkit-token": "token-to-read-12"}):
            assert post(base, QUESTION, headers).status_code == 401
        both = {"x-memkit-token": "token-of-ben-123", **ANA}
        assert post(base, QUESTION, both).status_code == 403
        assert api.calls == 0
        post(base, QUESTION, {"x-memkit-token": "token-of-ben-123"})
        assert "Buddy" not in json.dumps(api.bodies[-1])
        post(base, QUESTION, {"x-memkit-token": "token-of-ana-123"})
        assert "Buddy" in json.dumps(api.bodies[-1])
        assert all("x-memkit-token" not in seen.headers for seen in api.seen)


def test_pages_in_a_browser_are_refused_and_paths_cannot_leave_the_api(memory: Memory, api: StubServer) -> None:
    with running(proxy_app(memory, api.url, user_id="ana")) as base:
        assert post(base, SAID, {"origin": "https://evil.example"}).status_code == 403
        assert post(base, SAID, {"host": "evil.example"}).status_code == 403
        assert api.calls == 0
        with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as raw:
            raw.sendall(b"GET /v1/../admin HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert b" 400 " in raw.recv(200)
        for target in (b"/v1/#x", b"/v1/a?q=#x", b"/v1/" + b"a" * 70_000):
            with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as raw:
                raw.sendall(b"GET " + target + b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                assert b" 500 " not in raw.recv(200)
        for path in ("/v1/%2e%2e/admin", "/v1/.%2E/admin", "/v1/x%2f..%2fadmin", "/v1/..%5cadmin"):
            assert httpx.get(f"{base}{path}", trust_env=False).status_code == 400, path
        assert api.calls == 0
        post(base, {}, path="/v1/models/org%2Fname..v1")
        assert api.seen[-1].path.endswith("/models/org%2Fname..v1"), "passes as it is written"


def test_a_body_that_does_not_come_is_not_waited_for(
    memory: Memory, api: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memkit_openai.proxy, "BODY_S", 0.05)
    with running(proxy_app(memory, api.url, user_id="ana")) as base:
        with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2]))) as raw:
            raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 900\r\n\r\n{")
            assert b" 408 " in raw.recv(200)
        assert api.calls == 0


def test_other_routes_pass_as_they_are(memory: Memory, api: StubServer) -> None:
    with running(proxy_app(memory, api.url, user_id="ana")) as base:
        models = httpx.get(f"{base}/v1/models", trust_env=False)
        assert models.json()["data"][0]["id"] == "stub"
        vectors = post(base, {"model": "stub", "input": "dog"}, path="/v1/embeddings")
        assert vectors.json() == stub_server.embeddings({"model": "stub", "input": "dog"})


def test_feedback_reaches_the_trace_of_its_own_user_only(memory: Memory, api: StubServer) -> None:
    with running(proxy_app(memory, api.url)) as base:
        trace = post(base, SAID).headers["x-memkit-trace"]
        rated = post(base, {"trace_id": trace, "label": "up"}, path="/memkit/feedback")
        assert rated.json()["feedback_id"].startswith("f_")
        assert (
            post(base, {"trace_id": trace, "label": "up"}, {"x-memkit-user": "ben"}, "/memkit/feedback").status_code
            == 404
        )
        other = ANA | {"x-memkit-agent": "health"}
        assert post(base, {"trace_id": trace, "label": "up"}, other, "/memkit/feedback").status_code == 404
        assert post(base, {"trace_id": trace}, path="/memkit/feedback").status_code == 400
        assert (
            post(base, {"trace_id": trace, "user_id": "ben", "label": "up"}, path="/memkit/feedback").status_code == 400
        )
        url = f"{base}/memkit/feedback"
        for raw in (b"[" * 100_000, b'{"trace_id": "\\ud83d"}', b'{"trace_id": "x", "\\ud83d": 1}'):
            assert httpx.post(url, content=raw, headers=ANA, trust_env=False).status_code == 400
        memory.close()
        closed = post(base, {"trace_id": trace, "label": "up"}, path="/memkit/feedback")
        assert (closed.status_code, closed.json()["error"]["type"]) == (503, "memory_unavailable")
    assert api.calls == 1


def test_half_an_emoji_does_not_stop_the_chat(memory: Memory, api: StubServer) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    cut = {"role": "system", "content": "cut \ud83d"}
    body = json.dumps({"model": "stub", "messages": [cut, *QUESTION["messages"]]}).encode()
    with running(proxy_app(memory, api.url)) as base:
        reply = httpx.post(f"{base}/v1/chat/completions", content=body, headers=ANA, timeout=20, trust_env=False)
    assert reply.json()["choices"][0]["message"]["content"] == "You have a dog named Buddy."
    sent = api.bodies[-1]["messages"]
    assert sent[0] == cut
    assert "User adopted a dog" in sent[1]["content"]


def test_the_official_client_a_hundred_at_once_without_a_difference(memory: Memory, api: StubServer) -> None:
    openai = pytest.importorskip("openai", reason="needs the extra openai")
    api.reply = lambda body: "echo " + body["messages"][-1]["content"].rpartition("\n")[2]
    memory.add("I adopted a dog named Buddy.", user_id="ana")

    async def ask(client: Any, number: int) -> str:
        messages = [{"role": "user", "content": f"question {number} about my dog"}]
        if number % 2:
            reply = await client.chat.completions.create(model="stub", messages=messages)
            return reply.choices[0].message.content
        stream = await client.chat.completions.create(model="stub", messages=messages, stream=True)
        return "".join([event.choices[0].delta.content or "" async for event in stream])

    async def main(base: str) -> list[str]:
        async with openai.AsyncOpenAI(
            base_url=f"{base}/v1", api_key="unused", default_headers=ANA, max_retries=0, timeout=60
        ) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(100)))

    with running(proxy_app(memory, api.url)) as base:
        replies = asyncio.run(main(base))
        with openai.OpenAI(base_url=f"{base}/v1", api_key="unused", default_headers=ANA) as client:
            stream = client.chat.completions.create(model="stub", messages=QUESTION["messages"], stream=True)
            whole = "".join(event.choices[0].delta.content or "" for event in stream)
    assert replies == [f"echo question {number} about my dog" for number in range(100)]
    assert whole == "echo Which dog do I have?"
    assert all("<<memkit:memories" in json.dumps(body) for body in api.bodies)


def test_a_choice_that_is_oddly_numbered_stops_no_reply() -> None:
    for index in ([1], {"a": 1}, "0", None):
        for events in (False, True):
            part = {"index": index, "delta" if events else "message": {"content": "Oslo."}}
            raw = json.dumps({"choices": [part]}).encode()
            listener = Listener(Chat().heard(), events=events)
            listener.feed(b"data: " + raw + b"\n\n" if events else raw)
            assert listener.text() == "Oslo."


def test_a_model_by_name_is_asked_at_the_upstream(
    api: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def serve(memory: Memory, upstream: str, **_: object) -> None:
        memory.add("I moved to Oslo.", user_id="ana")

    monkeypatch.setattr("memkit_openai.serve_proxy", serve, raising=False)
    call = ["proxy", "--upstream", api.url, "--store", str(tmp_path / "store"), "--model", "openai:manager"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
    assert {body["model"] for body in api.bodies} == {"manager"}
