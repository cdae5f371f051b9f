"""The REST service: mem0's own clients, every documented answer, and many clients at once.

The clients of others come from the registries, into environments of their own; a row whose client cannot be had is
missed. Times are printed, and judged by a ratio to the same calls made one after another in the same run."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from memkit import Memory
from memkit.net.tenants import Tenant, Tenants
from memkit_http import bind
from memkit_rest import rest_app
from memkit_rest.calls import BASE
from tests.bench._peer import PeerMissing, peer_python, run_peer
from tests.bench._table import Row

APP, ANA = "some-token-of-the-app", "some-token-of-ana-"
HERE = Path(__file__).parent
CASES, CLIENTS, BROKEN = 2_000, 64, 33
_HEADERS = {"authorization": f"Bearer {APP}"}
_ROUTES = 20
QUIET = {"MEM0_TELEMETRY": "false"}


def run(*, full: bool = False) -> list[Row]:
    rows = [_row("mem0's Python client: calls that it accepts", _python, 12)]
    rows.append(_row("mem0's TypeScript client: calls that it accepts", _typescript, 11))
    with _served() as url:
        rows += _described(url)
    rows += _many(600 if full else 30)
    return rows


def _row(name: str, act: Callable[[str], dict[str, Any]], count: int) -> Row:
    try:
        with _served() as url:
            done = act(url)
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        return Row(name, None, "", f"{count} of {count}", False, str(error)[-200:])
    good = sum(told is True for told in done.values())
    why = "; ".join(f"{call}: {told}" for call, told in done.items() if told is not True)
    return Row(name, good, f"of {len(done)}", f"{count} of {count}", good == count == len(done), why[:200])


def _python(url: str) -> dict[str, Any]:
    return run_peer(["mem0ai"], HERE / "_mem0_calls.py", {"url": url, "token": APP})


def _typescript(url: str) -> dict[str, Any]:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise PeerMissing("npm and node are not installed")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "package.json").write_text("{}")
        done = subprocess.run(
            [npm, "install", "--silent", "mem0ai"], cwd=folder, capture_output=True, text=True, timeout=600
        )
        if done.returncode != 0:
            raise PeerMissing(f"npm could not install mem0ai: {done.stderr[-200:]}")
        script = Path(shutil.copy(HERE / "_mem0_calls.mjs", folder))
        call = [node, str(script), url, APP]
        told = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=120, env=os.environ | QUIET)
    if told.returncode != 0:
        raise PeerMissing(told.stderr[-200:])
    return json.loads(told.stdout.strip().splitlines()[-1])


def _described(url: str) -> Iterator[Row]:
    """schemathesis makes requests from the description, and holds each answer against it."""
    checks = (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
    )
    name = "OpenAPI: failures over generated requests"
    try:
        program = peer_python(["schemathesis"]).with_name("schemathesis")
        call = [str(program), "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {ANA}", "--seed", "1"]
        call += ["--max-examples", str(CASES // _ROUTES), "--checks", ",".join(checks), "--continue-on-failure"]
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        with tempfile.TemporaryDirectory() as folder:
            told = subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=900, env=env).stdout
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        yield Row(name, None, "", "0", False, str(error)[-200:])
        return
    made = re.search(r"(\d+) generated(?:, (\d+) found)?", told)
    cases, failed = (int(made[1]), int(made[2] or 0)) if made else (0, None)
    codes = ", ".join(sorted(set(re.findall(r"ST\d+ [^\n:]+", told))))
    yield Row(name, failed, f"of {cases}", f"0 of ≥ {CASES}", failed == 0 and cases >= CASES, codes)


def _many(seconds: float) -> Iterator[Row]:
    """`memkit serve --rest` in a process of its own, decided by the rules (0 ms of a model). Beside the clients are
    some that send half a request and wait, that send it letter by letter, and that go away before the answer."""
    with _command() as (url, pid), httpx.Client(base_url=url, headers=_HEADERS, timeout=60) as web:
        for number in range(40):
            _call(web, 1_000, number)  # warms what all use
        alone = sorted(_call(web, 1_000, number)[0] for number in range(40, 140))
        over = threading.Event()
        broken = [threading.Thread(target=_broken, args=(url, kind, over)) for kind in range(BROKEN)]
        for one in broken:
            one.start()
        told: list[list[tuple[float, bool]]] = [[] for _ in range(CLIENTS)]
        sizes: list[float] = []
        try:
            with ThreadPoolExecutor(CLIENTS) as pool:
                for _ in range(4):
                    until = time.monotonic() + seconds / 4
                    list(pool.map(partial(_client, url, until, told), range(CLIENTS)))
                    sizes.append(_rss(pid))
        finally:
            over.set()
            for one in broken:
                one.join()
        missing = sum(max(len(done) - _stored(web, who), 0) for who, done in enumerate(told))
    calls = [one for done in told for one in done]
    times = sorted(took for took, _ in calls)
    failed = sum(not kept for _, kept in calls)
    p99 = times[int(len(times) * 0.99)]
    ratio = p99 / (alone[len(alone) // 2] * CLIENTS)
    name = f"{CLIENTS} clients, {BROKEN} slow and broken ones beside, {seconds:g} s: calls that failed"
    yield Row(name, failed, f"of {2 * len(calls)}", "0", failed == 0)
    yield Row("… acknowledged turns that are not there afterwards", missing, f"of {len(calls)}", "0", missing == 0)
    note = f"p50 {times[len(times) // 2] * 1e3:.0f} ms; alone p50 {alone[len(alone) // 2] * 1e3:.1f} ms"
    yield Row("… p99", p99 * 1e3, "ms", "aim 300", True, note)
    note = "p99 / (64 × p50 of one client alone)"
    yield Row("… p99 over its share of one worker", ratio, "×", "≤ 3", ratio <= 3, note)
    grown = sizes[3] / sizes[1]
    note = "MB after each quarter: " + ", ".join(f"{size / 1000:.0f}" for size in sizes)
    yield Row("… memory at the end over that at half-time", grown, "×", "≤ 1.15", grown <= 1.15, note)


def _client(url: str, until: float, told: list[list[tuple[float, bool]]], who: int) -> None:
    with httpx.Client(base_url=url, headers=_HEADERS, timeout=60) as web:
        while time.monotonic() < until:
            told[who].append(_call(web, who, len(told[who])))


def _call(web: httpx.Client, who: int, number: int) -> tuple[float, bool]:
    began = time.perf_counter()
    said = {"messages": f"My friend number{number} lives in Town{number}.", "user_id": f"user{who}"}
    try:
        told = web.post(f"{BASE}/add", json=said)
        found = web.post(f"{BASE}/search", json={"query": f"number{number}", "user_id": f"user{who}", "k": 1})
        kept = told.status_code == found.status_code == 200 and f"Town{number}" in found.text
    except httpx.HTTPError:
        kept = False
    return (time.perf_counter() - began) / 2, kept


def _stored(web: httpx.Client, who: int) -> int:
    count, cursor = 0, None
    while True:
        params: dict[str, Any] = {"user_id": f"user{who}", "limit": 1000} | ({"cursor": cursor} if cursor else {})
        page = web.get(f"{BASE}/memories", params=params).json()
        count, cursor = count + len(page["memories"]), page["cursor"]
        if cursor is None:
            return count


def _broken(url: str, kind: int, over: threading.Event) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    body = json.dumps({"messages": "I will not wait.", "user_id": "nobody"}).encode()
    head = f"POST {BASE}/add HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {APP}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    parts = [
        head.encode() + body[:9],
        [head.encode(), *(body[n : n + 1] for n in range(len(body)))],
        head.encode() + body,
    ]
    part = parts[kind % 3]
    while not over.is_set():
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=10) as connection:
            for piece in part if isinstance(part, list) else [part]:
                connection.sendall(piece)
                over.wait(0.5 if kind % 3 == 1 else 0)
            over.wait(40 if kind % 3 == 0 else 2)  # longer than the service waits for a body


def _rss(pid: int) -> float:
    return float(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])  # type: ignore[index]


@contextmanager
def _command() -> Iterator[tuple[str, int]]:
    """`memkit serve --rest` as it is typed; where it listens is read from what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = Path(folder) / "tokens.json"
        tokens.write_text(json.dumps({APP: {"app": True}}))
        call = [sys.executable, "-m", "memkit", "serve", "--rest", "--port", "0", "--tokens", str(tokens)]
        served = subprocess.Popen([*call, "--store", f"{folder}/m"], stdout=subprocess.PIPE, text=True)
        assert served.stdout is not None
        try:
            said = re.search(r"http://[\d.:]+", served.stdout.readline())
            assert said is not None, "the service did not say where it listens"
            yield said[0], served.pid
        finally:
            served.terminate()
            served.wait(60)
            served.stdout.close()


@contextmanager
def _served() -> Iterator[str]:
    tenants = Tenants({APP: Tenant("", is_app=True), ANA: Tenant("ana")})
    model = {"answerer": lambda _: '{"used": [], "answer": "unknown"}'}
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "m", model=model) as memory:
        at = bind("127.0.0.1", 0)
        server = uvicorn.Server(uvicorn.Config(rest_app(memory, tenants), log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{at.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            thread.join(30)
