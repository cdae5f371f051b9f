"""MCP, the wrapped clients, the proxy, tracing and moving in: against official clients and a stub API on loopback.

Times are of processes of their own, medians, and the machine may be shared."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memkit import Memory
from tests.bench._table import Row
from tests.integrations._env import ENV, ROOT
from tests.integrations.test_packaging import PLUGS
from tests.stub_server import StubServer

TESTS = ("mcp", "openai", "proxy", "otel", "migrate", "packaging", "plugs_readme")


def rows(full: bool) -> list[Row]:
    found: list[Row] = []
    for part in (_mcp, _handshake, _concurrent, _overhead, _network, _tests):
        try:
            found += part(full)
        except BaseException as error:  # a row that cannot run is a row that is missed
            if isinstance(error, KeyboardInterrupt):
                raise
            name = (part.__doc__ or part.__name__).splitlines()[0].rstrip(".")
            found.append(Row(name, None, "", "must run", False, f"{type(error).__name__}: {error}"[:160]))
    return found


def _mcp(full: bool) -> list[Row]:
    """MCP: the official client lists and calls every tool."""
    from tests.integrations import test_mcp as mcp

    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        mcp.over_stdio(Path(folder) / "stdio", mcp.every_tool)
        found.append(_tools("MCP over stdio: tools listed and called", len(mcp.TOOLS)))
        with Memory(Path(folder) / "http") as memory, mcp.running(mcp.http_app(memory)) as base:
            mcp.over_http(base, "token-of-ana-123", mcp.every_tool)
        found.append(_tools("MCP over HTTP: tools listed and called", len(mcp.TOOLS)))
    return found


def _tools(name: str, count: int) -> Row:
    return Row(name, count, "tools", "8 of 8", count == 8, "mcp's own Client; add, undo and profile included")


def _handshake(full: bool) -> list[Row]:
    """MCP: from starting the server to the end of the handshake."""
    from mcp import Client, StdioServerParameters

    async def once(args: list[str]) -> float:
        server = StdioServerParameters(command=sys.executable, args=args, env=ENV)
        start = time.perf_counter()
        async with Client(server):
            return time.perf_counter() - start

    found: list[Row] = []
    commands = {
        "python -m memkit_mcp": ["-m", "memkit_mcp"],
        "memkit serve": ["-c", "from memkit.cli import main; main()", "serve"],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, command in commands.items():
            args = [*command, "--store", f"{folder}/m", "--user", "ana"]
            times = [asyncio.run(once(args)) for _ in range(9 if full else 5)]
            note = f"median of {len(times)}, worst {max(times):.2f} s, load {os.getloadavg()[0]:.0f}"
            middle = statistics.median(times)
            found.append(Row(f"MCP initialize, {name}", middle, "s", "< 1", middle < 1, note))
    return found


@contextlib.contextmanager
def _proxy(store: Path, upstream: str) -> Iterator[str]:
    """`memkit proxy` in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from memkit.cli import main; main()",
            "proxy",
            "--upstream",
            upstream,
            "--store",
            str(store),
            "--port",
            str(port),
            "--user",
            "ana",
        ],
        env=ENV,
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, "the proxy did not start"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def _filled(store: Path, memories: int = 200) -> None:
    with Memory(store) as memory:
        memory.import_(
            {"text": f"User bought item number {n} in shop {n % 17}.", "user_id": "ana"} for n in range(memories)
        )


def _echo(body: dict[str, Any]) -> str:
    return "echo " + str(body["messages"][-1]["content"]).rpartition("\n")[2]


def _concurrent(full: bool) -> list[Row]:
    """Proxy: 100 requests at once, official client."""
    import openai

    async def ask(client: Any, number: int) -> str:
        messages = [{"role": "user", "content": f"question {number} about item number {number}"}]
        if number % 2:
            reply = await client.chat.completions.create(model="stub", messages=messages)
            return reply.choices[0].message.content
        stream = await client.chat.completions.create(model="stub", messages=messages, stream=True)
        return "".join([event.choices[0].delta.content or "" async for event in stream])

    async def all_at_once(url: str) -> list[str]:
        async with openai.AsyncOpenAI(base_url=url, api_key="unused", timeout=120, max_retries=0) as client:
            return await asyncio.gather(*(ask(client, number) for number in range(100)))

    def one_by_one(url: str) -> list[str]:
        with openai.OpenAI(base_url=url, api_key="unused", timeout=120, max_retries=0) as client:
            replies: list[str] = []
            for number in range(20):
                messages: Any = [{"role": "user", "content": f"question {number}"}]
                if number % 2:
                    reply = client.chat.completions.create(model="stub", messages=messages)
                    replies.append(reply.choices[0].message.content or "")
                else:
                    stream = client.chat.completions.create(model="stub", messages=messages, stream=True)
                    replies.append("".join(event.choices[0].delta.content or "" for event in stream))
            return replies

    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, StubServer(reply=_echo) as api:
        store = Path(folder) / "m"
        _filled(store)
        with _proxy(store, api.url) as url:
            for name, use in (
                ("async, 100 at once", lambda at: asyncio.run(all_at_once(at))),
                ("sync", one_by_one),
            ):
                direct, through = use(api.url), use(url)
                wrong = sum(a != b for a, b in zip(direct, through, strict=True))
                note = f"{len(direct)} replies, half of them streamed; memories went into every request"
                found.append(Row(f"proxy, {name}: replies that differ", wrong, "", "0", wrong == 0, note))
            injected = sum("<<memkit:memories" in json.dumps(body) for body in api.bodies)
            found.append(
                Row("proxy: requests with memories", injected, "", "120", injected == 120, "of 120 through it")
            )
    return found


def _overhead(full: bool) -> list[Row]:
    """Proxy: what it adds before the first token."""
    import httpx

    def first_byte(client: httpx.Client, url: str, number: int) -> float:
        body = {"model": "stub", "stream": True, "messages": [{"role": "user", "content": f"item number {number}?"}]}
        start = time.perf_counter()
        with client.stream("POST", f"{url}/chat/completions", json=body) as response:
            chunks = response.iter_raw()
            next(chunks)
            took = time.perf_counter() - start
            for _ in chunks:
                pass
        return took * 1000

    count = 200 if full else 80
    with (
        tempfile.TemporaryDirectory() as folder,
        StubServer(reply=_echo) as api,
        httpx.Client(trust_env=False, timeout=60) as client,
    ):
        store = Path(folder) / "m"
        _filled(store)
        with _proxy(store, api.url) as url:
            pairs = [(first_byte(client, api.url, n), first_byte(client, url, n)) for n in range(count + 10)][10:]
    direct = statistics.median(one for one, _ in pairs)
    through = statistics.median(one for _, one in pairs)
    note = f"{direct:.1f} ms direct, {through:.1f} ms through it; {count} pairs, 200 memories, hash embedder"
    return [Row("proxy: added before the first byte, p50", through - direct, "ms", "< 30", through - direct < 30, note)]


_WATCHED = """
import ipaddress, sys
outside = []
def watch(event, args):
    if event == "socket.getaddrinfo" and args[0] not in ("localhost", "127.0.0.1", "::1", None):
        outside.append(str(args[0]))
    if event == "socket.connect" and isinstance(args[1], tuple):
        if not ipaddress.ip_address(args[1][0].split("%")[0]).is_loopback:
            outside.append(str(args[1][0]))
sys.addaudithook(watch)
import importlib, pathlib, pkgutil
from memkit import Memory
for name in sys.argv[2:]:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, name + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
from memkit_otel import instrument
folder = pathlib.Path(sys.argv[1])
with Memory(folder / "m") as memory:
    instrument(memory)
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    assert memory.search("which dog?", user_id="ana")
    memory.flush()
from memkit_train.retrain.run import retrain
from tests.train.stores import lived, teacher, world
from tests.train.test_retrain import config
episodes = world(8, seed=7)
store = lived(folder / "lived", episodes, teacher(episodes))
assert retrain(config(store, folder / "runs"), smoke=True).status == "smoke"
print(len(outside), *outside)
"""


def _network(full: bool) -> list[Row]:
    """Network: names looked up and addresses connected to beyond loopback."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, "-c", _WATCHED, folder, *PLUGS], capture_output=True, text=True, env=ENV, cwd=ROOT
        )
    if run.returncode:
        raise RuntimeError(run.stderr.strip().splitlines()[-1])
    count, *places = run.stdout.splitlines()[-1].split()
    note = ", ".join(places) or f"importing every module of {len(PLUGS)} plugs, construct, add, search, traced, train"
    return [Row("network beyond loopback", int(count), "calls", "0", count == "0", note)]


def _tests(full: bool) -> list[Row]:
    """Tests of the plugs."""
    found: list[Row] = []
    for name in TESTS:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/integrations/test_{name}.py"],
            capture_output=True,
            text=True,
            env=ENV,
            cwd=ROOT,
        )
        last = run.stdout.strip().splitlines()[-1].strip("= ")
        passed = next((int(part.split()[0]) for part in last.split(", ") if " passed" in part), 0)
        ok = run.returncode == 0 and passed > 0
        found.append(Row(f"tests of {name}", passed, "passed", "all", ok, last))
    return found
