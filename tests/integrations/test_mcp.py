"""The MCP server, asked by the official client over both transports."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from memkit import Memory
from memkit.errors import InvalidConfig
from memkit.net.tenants import Tenant, Tenants
from memkit_mcp.greeting import first_answer
from tests.integrations._env import ENV
from tests.integrations._serving import running

pytest.importorskip("mcp", reason="needs the extra mcp")

TOOLS = {
    "add_memory",
    "search_memory",
    "list_memories",
    "update_memory",
    "delete_memory",
    "undo",
    "feedback",
    "answer",
}
READ_ONLY = {"search_memory", "list_memories", "answer"}
DESTRUCTIVE = {"update_memory", "delete_memory", "undo"}
TOKENS = {
    "token-of-ana-123": Tenant("ana"),
    "token-of-ben-123": Tenant("ben"),
    "token-to-read-12": Tenant("ana", read_only=True),
    "token-of-coder-1": Tenant("ana", "coder"),
}
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def discover() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "server/discover", "params": {"_meta": MODERN}}


def initialize(version: str = "2025-06-18") -> dict[str, Any]:
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
    return {"jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params}


def over_stdio(store: Path, check: Callable[[Any], Awaitable[None]], *command: str) -> None:
    from mcp import Client, StdioServerParameters

    args = [*(command or ("-m", "memkit_mcp")), "--store", str(store), "--user", "ana"]
    server = StdioServerParameters(command=sys.executable, args=args, env=ENV)

    async def main() -> None:
        async with Client(server) as client:
            await check(client)

    asyncio.run(main())


def over_http(base: str, token: str, check: Callable[[Any], Awaitable[None]]) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def main() -> None:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, trust_env=False)
        async with http, Client(streamable_http_client(f"{base}/mcp", http_client=http)) as client:
            await check(client)

    asyncio.run(main())


async def called(client: Any, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content


async def remembered(client: Any, count: int = 1) -> list[dict[str, Any]]:
    """Adding returns before anything is decided; wait for the decision."""
    deadline = time.monotonic() + 20
    while True:
        found = (await called(client, "list_memories"))["memories"]
        if len(found) >= count or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.02)


async def every_tool(client: Any) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == TOOLS
    for name, tool in tools.items():
        assert tool.annotations.read_only_hint is (name in READ_ONLY)
        if name not in READ_ONLY:
            assert tool.annotations.destructive_hint is (name in DESTRUCTIVE)
        taken = json.dumps(tool.input_schema)
        assert "user_id" not in taken, "a model may not say whose memory it uses"
        assert "agent_id" not in taken
    added = await called(client, "add_memory", text="I adopted a dog named Buddy.")
    assert added["status"] == "pending"
    (memory,) = await remembered(client)
    assert memory["text"] == "User adopted a dog named Buddy."
    found = await called(client, "search_memory", query="which dog?", k=3)
    assert found["memories"][0]["id"] == memory["id"]
    assert (await called(client, "feedback", trace_id=found["trace_id"], label="up"))["feedback_id"]
    answered = await called(client, "answer", question="which dog?")
    assert answered["answer"] is None
    assert "Buddy" in answered["context"]
    changed = await called(client, "update_memory", id=memory["id"], text="User has a dog named Max.")
    assert changed["text"] == "User has a dog named Max."
    deleted = await called(client, "delete_memory", id=memory["id"])
    assert deleted["action"] == "delete"
    assert await remembered(client, 0) == []
    assert (await called(client, "undo", op_id=deleted["op_id"]))["undone"]
    assert [one["text"] for one in await remembered(client)] == ["User has a dog named Max."]
    profile = await client.read_resource("memkit://profile")
    assert [one["text"] for one in json.loads(profile.contents[0].text)["memories"]] == ["User has a dog named Max."]
    refused = await client.call_tool("delete_memory", {"id": "m_nobody"})
    assert refused.is_error
    assert "NotFound" in refused.content[0].text


def test_every_tool_over_stdio(tmp_path: Path) -> None:
    over_stdio(tmp_path / "m", every_tool)


def test_every_tool_over_http(tmp_path: Path) -> None:
    with Memory(tmp_path / "m") as memory, running(http_app(memory)) as base:
        over_http(base, "token-of-ana-123", every_tool)


def http_app(memory: Memory) -> Any:
    from memkit_mcp import http_app

    return http_app(lambda: memory, Tenants(TOKENS))[0]


def test_what_agents_say_of_the_user_is_understood(tmp_path: Path) -> None:
    async def check(client: Any) -> None:
        await called(client, "add_memory", text="The user prefers tabs over spaces.")
        assert [one["text"] for one in await remembered(client)] == ["User prefers tabs over spaces."]

    with Memory(tmp_path / "m") as memory, running(http_app(memory)) as base:
        over_http(base, "token-of-ana-123", check)


def test_an_argument_that_a_model_leaves_blank_is_left_out(tmp_path: Path) -> None:
    async def check(client: Any) -> None:
        added = await called(client, "add_memory", text="I like tea.", session_id="")
        assert [one["text"] for one in await remembered(client)] == ["User likes tea."]
        assert (await called(client, "search_memory", query="tea", session_id=""))["memories"]
        refused = await client.call_tool("undo", {"op_id": "", "trace_id": ""})
        assert "op_id or trace_id" in refused.content[0].text
        assert (await called(client, "undo", op_id="", trace_id=added["trace_id"]))["undone"]

    with Memory(tmp_path / "m") as memory, running(http_app(memory)) as base:
        over_http(base, "token-of-ana-123", check)


def test_adding_returns_before_a_slow_model_has_decided(tmp_path: Path) -> None:
    asked, answered = threading.Event(), list[bool]()

    def slow(messages: Any) -> str:
        answered.append(asked.wait(60))
        return "NONE"

    async def check(client: Any) -> None:
        assert (await called(client, "add_memory", text="I like tea."))["status"] == "pending"
        assert not answered
        asked.set()

    with Memory(tmp_path / "m", model=slow) as memory, running(http_app(memory)) as base:
        over_http(base, "token-of-ana-123", check)


def test_the_token_says_whose_memory_it_is(tmp_path: Path) -> None:
    async def bens(client: Any) -> None:
        assert await remembered(client, 0) == []
        theirs = await client.call_tool("delete_memory", {"id": id_of_ana, "user_id": "ana"})
        assert theirs.is_error
        assert json.loads((await client.read_resource("memkit://profile")).contents[0].text) == {"memories": []}

    async def readers(client: Any) -> None:
        assert len(await remembered(client)) == 1
        for name, arguments in (
            ("add_memory", {"text": "I like tea."}),
            ("delete_memory", {"id": id_of_ana}),
            ("update_memory", {"id": id_of_ana, "text": "x"}),
            ("undo", {"trace_id": trace}),
            ("feedback", {"trace_id": trace, "label": "up"}),
        ):
            refused = await client.call_tool(name, arguments)
            assert refused.is_error
            assert "may only read" in refused.content[0].text

    with Memory(tmp_path / "m") as memory, running(http_app(memory)) as base:
        added = memory.add("I adopted a dog named Buddy.", user_id="ana")
        trace, id_of_ana = added.trace_id, memory.list(user_id="ana")[0].id
        over_http(base, "token-of-ben-123", bens)
        over_http(base, "token-to-read-12", readers)
        assert [record.id for record in memory.list(user_id="ana")] == [id_of_ana]


def test_a_token_of_one_agent_reaches_nothing_of_the_users_others(tmp_path: Path) -> None:
    async def coders(client: Any) -> None:
        for name, arguments in (
            ("delete_memory", {"id": id}),
            ("update_memory", {"id": id, "text": "x"}),
            ("undo", {"trace_id": trace}),
            ("undo", {"trace_id": turn}),
            ("undo", {"op_id": op}),
            ("feedback", {"trace_id": trace, "label": "up"}),
            ("feedback", {"trace_id": read, "label": "up"}),
        ):
            refused = await client.call_tool(name, arguments)
            assert refused.is_error, (name, arguments)
            assert "NotFound" in refused.content[0].text, (name, arguments)
        (own,) = await remembered(client, 0)
        assert (await called(client, "update_memory", id=own["id"], text="User writes Go."))[
            "text"
        ] == "User writes Go."
        deleted = await called(client, "delete_memory", id=own["id"])
        assert (await called(client, "undo", op_id=deleted["op_id"]))["undone"]
        found = await called(client, "search_memory", query="Go?")
        assert (await called(client, "feedback", trace_id=found["trace_id"], label="up"))["feedback_id"]
        added = await called(client, "add_memory", text="I like tea.")
        await remembered(client, 2)
        assert (await called(client, "feedback", trace_id=added["trace_id"], label="up"))["feedback_id"]
        assert (await called(client, "undo", trace_id=added["trace_id"]))["undone"]

    with Memory(tmp_path / "m") as memory, running(http_app(memory)) as base:
        added = memory.add("I adopted a dog named Buddy.", user_id="ana", agent_id="home")
        memory.add("I write Rust.", user_id="ana", agent_id="coder", infer=False)
        id, trace, turn, op = added.ops[0].memory_id, added.trace_id, added.turns[0].turn_id, added.ops[0].op_id
        read = memory.search("dog?", user_id="ana", agent_id="home").trace_id
        over_http(base, "token-of-coder-1", coders)
        assert [one.text for one in memory.list(user_id="ana", agent_id="home")] == ["User adopted a dog named Buddy."]


@pytest.mark.parametrize("path", ["/mcp", "/", "/mcp/other", "/.well-known/oauth-protected-resource"])
@pytest.mark.parametrize("token", [None, "", "wrong-wrong-wrong-wrong", "token-of-ana-12"])
def test_without_a_token_nothing_is_read_and_no_store_is_opened(tmp_path: Path, path: str, token: str | None) -> None:
    from memkit_mcp import http_app

    opened: list[int] = []

    def open_memory() -> Memory:
        opened.append(1)
        return Memory(tmp_path / "m")

    app, _ = http_app(open_memory, Tenants(TOKENS))
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    bodies: list[bytes] = [b"", b"{", json.dumps(initialize()).encode(), b"x" * 1_000_000]

    async def main() -> None:
        for body in bodies:
            read = 0

            async def receive(body: bytes = body) -> dict[str, Any]:
                nonlocal read
                read += 1
                return {"type": "http.request", "body": body, "more_body": False}

            sent: list[Any] = []

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            raw = [(name.encode(), value.encode()) for name, value in headers.items()]
            scope = {"type": "http", "method": "POST", "path": path, "headers": raw, "query_string": b""}
            await app(scope, receive, send)
            assert sent[0]["status"] == 401
            assert read == 0, "refused before the body was read"

    asyncio.run(main())
    assert opened == []


@pytest.mark.parametrize(("chunk", "status"), [(b"x", 408), (b"x" * 1_000_000, 413)])
def test_a_body_that_never_ends_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: bytes, status: int
) -> None:
    import memkit_http.app
    from memkit_mcp import http_app

    monkeypatch.setattr(memkit_http.app, "BODY_S", 0.05 if status == 408 else 60.0)
    sent: list[Any] = []

    async def drip() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return {"type": "http.request", "body": chunk, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    async def main() -> None:
        app, _ = http_app(lambda: Memory(tmp_path / "m"), Tenants(TOKENS))
        known = [(b"host", b"127.0.0.1:8787"), (b"authorization", b"Bearer token-of-ana-123")]
        headers = [*known, (b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream")]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b""}
        await app(scope, drip, send)

    asyncio.run(main())
    assert sent[0]["status"] == status, sent


def test_many_callers_at_once_are_never_mixed_up(tmp_path: Path) -> None:
    with Memory(tmp_path / "m") as memory, running(http_app(memory)) as base:
        memory.add("I adopted a dog named Buddy.", user_id="ana")
        memory.add("I adopted a cat named Tom.", user_id="ben")

        def body(number: int) -> dict[str, Any]:
            params = {"name": "list_memories", "arguments": {}}
            return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

        async def ask(client: httpx.AsyncClient, number: int) -> str:
            token = ("token-of-ana-123", "token-of-ben-123")[number % 2]
            headers = {
                "authorization": f"Bearer {token}",
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": "2025-06-18",
            }
            return (await client.post(f"{base}/mcp", json=body(number), headers=headers)).text

        async def main() -> list[str]:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
                return await asyncio.gather(*(ask(client, number) for number in range(60)))

        for number, reply in enumerate(asyncio.run(main())):
            assert ("Buddy" in reply, "Tom" in reply) == ((True, False) if number % 2 == 0 else (False, True))


def _line(request: dict[str, Any], *command: str) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENV,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.stdin.close()
        assert process.stdout.read() == b"", "the SDK's own answer is dropped, and nothing else is printed"
    assert process.returncode == 0
    return answer


@pytest.mark.parametrize("request_", [initialize("2025-11-25"), discover()])
def test_the_early_answer_is_the_sdks_own(tmp_path: Path, request_: dict[str, Any]) -> None:
    early = _line(request_, "-m", "memkit_mcp", "--store", str(tmp_path / "m"), "--user", "ana")
    assert early == first_answer(json.dumps(request_).encode())
    assert early == _line(request_, str(Path(__file__).with_name("_mcp_stdio.py")))
    assert not (tmp_path / "m").exists(), "the store waits for the first tool call"


def test_what_is_not_known_is_left_to_the_sdk(tmp_path: Path) -> None:
    for odd in (b"", b"{", b"[]", b"7", b'{"id":1}', json.dumps(initialize("1999-01-01")).encode()):
        assert first_answer(odd) is None
    for params in ({"protocolVersion": ["2025-11-25"]}, {"_meta": [1]}):
        asked = initialize("2025-11-25")
        assert first_answer(json.dumps(asked | {"params": asked["params"] | params}).encode()) is None
    unknown = _line(initialize("1999-01-01"), "-m", "memkit_mcp", "--store", str(tmp_path / "m"), "--user", "ana")
    assert unknown["result"]["protocolVersion"] == "2025-11-25"


def test_tokens_must_name_users_and_be_long(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    for bad in ("", "[]", "{}", '{"short": "ana"}', '{"token-of-ana-123": {"admin": true}}', '{"token-of-ana-123": 7}'):
        path.write_text(bad)
        with pytest.raises(InvalidConfig):
            Tenants.read(path)
    path.write_text('{"token-of-ana-123": {"user_id": "ana", "read_only": true}, "token-of-ben-123": "ben"}')
    tenants = Tenants.read(path)
    assert tenants.of_bearer("bearer token-of-ana-123") == Tenant("ana", read_only=True)
    assert tenants.of_bearer("Basic token-of-ana-123") is None
    assert "token-of" not in repr(vars(tenants))


def test_the_command_line_refuses_http_without_tokens_and_stdio_without_a_user(tmp_path: Path) -> None:
    program = "from memkit.cli import main; main()"
    for arguments in (["--http"], ["--http", "--user", "ana"], []):
        run = subprocess.run(
            [sys.executable, "-c", program, "serve", "--store", str(tmp_path / "m"), *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=ENV,
        )
        assert run.returncode == 2, run.stderr
        assert run.stdout == ""
        assert "--tokens" in run.stderr
