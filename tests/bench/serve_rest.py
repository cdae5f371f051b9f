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
CASES, CLIENTS, CALLS_EACH = 2_000, 64, 40
_ROUTES = 20
QUIET = {"MEM0_TELEMETRY": "false"}


def run(*, full: bool = False) -> list[Row]:
    rows = [_row("mem0's Python client: calls that it accepts", _python, 12)]
    rows.append(_row("mem0's TypeScript client: calls that it accepts", _typescript, 11))
    with _served() as url:
        rows += _described(url)
    with _served() as url:
        rows += _many(url, CALLS_EACH * (10 if full else 1))
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


def _many(url: str, each: int) -> Iterator[Row]:
    """Beside them clients that send half a request and wait, and clients that go away in the middle."""
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {APP}"}, timeout=60) as web:
        for number in range(40):
            _call(web, 1_000, number)  # warms what both use
        alone = sorted(_call(web, 1_000, number)[0] for number in range(40, 140))
        broken = [_half(url) for _ in range(32)]
        told: list[tuple[float, bool]] = []
        sizes: list[float] = []
        with ThreadPoolExecutor(CLIENTS) as pool:
            for half in (range(each // 2), range(each // 2, each)):
                told += [one for many in pool.map(partial(_client, url, half), range(CLIENTS)) for one in many]
                sizes.append(_rss())
        for connection in broken:
            connection.close()
        times = sorted(took for took, _ in told)
        lost = sum(not kept for _, kept in told)
        grown = sizes[1] / sizes[0]
        users = [_stored(web, who) for who in range(CLIENTS)]
    p99 = times[int(len(times) * 0.99)]
    ratio = p99 / (alone[len(alone) // 2] * CLIENTS)
    yield Row(f"{CLIENTS} clients, {32} broken ones beside: calls that failed", lost, f"of {len(told)}", "0", lost == 0)
    missing = each * CLIENTS - sum(users)
    yield Row("… acknowledged turns that are not there afterwards", missing, f"of {each * CLIENTS}", "0", missing == 0)
    note = f"p50 {times[len(times) // 2] * 1e3:.0f} ms; alone p50 {alone[len(alone) // 2] * 1e3:.1f} ms"
    yield Row("… p99", p99 * 1e3, "ms", "aim 300", True, note)
    note = "p99 / (64 × p50 of one client alone)"
    yield Row("… p99 over its share of one worker", ratio, "×", "≤ 3", ratio <= 3, note)
    yield Row("… memory after the second half over after the first", grown, "×", "≤ 1.15", grown <= 1.15)


def _client(url: str, numbers: range, who: int) -> list[tuple[float, bool]]:
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {APP}"}, timeout=60) as web:
        return [_call(web, who, number) for number in numbers]


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


def _half(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)))
    with suppress(OSError):
        connection.sendall(b"POST /memkit/v1/add HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + APP.encode())
        connection.sendall(b"\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{")
    return connection


def _rss() -> float:
    return float(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


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
