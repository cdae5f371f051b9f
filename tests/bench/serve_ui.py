"""`memkit ui` over a store of 10,000 turns of 200 users: first bytes, weight, and who is let in.

Wall-clock times are printed; the bar is on CPU time of the request, on the second call of a page. What a browser says
of the pages (seven tasks, hostile words, console, other hosts, and what axe finds in four sizes and colours) are the
tests of tests/integrations/test_ui_browser.py, counted here; axe comes from npm."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from starlette.testclient import TestClient

from memkit import Memory
from memkit_http import BrowserSession, Door
from memkit_ui import ui_app
from memkit_ui.pages import ShownStore
from memkit_ui.showing import link
from tests.bench._serve_ui import fill
from tests.bench._table import Row

_BASE, _TOKEN, _USER = "http://127.0.0.1:8789", "a-token-of-this-bench", "user-001"
_REFUSED = (401, 403, 421)
_BROWSER_TESTS = Path(__file__).parents[1] / "integrations" / "test_ui_browser.py"


def run(full: bool = False) -> list[Row]:
    with tempfile.TemporaryDirectory() as work:
        store = fill(Path(work) / "memory", users=200, turns=50)
        with Memory(store, config={"workers": 0}) as memory:
            app = ui_app(ShownStore(memory, store), BrowserSession(_TOKEN), Door.at("127.0.0.1", 8789))
            client = TestClient(app, base_url=_BASE, headers={"accept": "text/html"}, follow_redirects=False)
            refused = _strangers(client)
            client.post("/enter", data={"token": _TOKEN})
            pages = [_page(client, name, address) for name, address in _addresses(memory).items()]
    return [*pages, refused, *_in_a_browser()]


def _addresses(memory: Memory) -> dict[str, str]:
    views = memory.views
    return {
        "users": "/",
        "user": link("/user", u=_USER),
        "said": link("/said", u=_USER),
        "why not": link("/said", u=_USER, q="lol whatever"),
        "timeline": link("/timeline", u=_USER),
        "asked": link("/asked", u=_USER),
        "decision": link("/decision", u=_USER, id=views.decisions(_USER).items[0]["decision_id"]),
        "answer": link("/answer", u=_USER, id=views.reads(_USER).items[0]["trace_id"]),
        "health": "/health",
        "learning": "/learning",
        "erasure": "/erasure",
    }


def _page(client: TestClient, name: str, address: str) -> Row:
    client.get(address)
    cpu, wall = time.process_time(), time.perf_counter()
    answer = client.get(address)
    cpu, wall = 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)
    ok = answer.status_code == 200 and cpu <= 150 and len(answer.content) <= 200_000
    note = f"{len(answer.content) / 1000:.1f} kB, wall {wall:.0f} ms"
    return Row(f"{name}: CPU time of a page", cpu, "ms", "≤ 150, page ≤ 200 kB", ok, note)


def _strangers(client: TestClient) -> Row:
    """No token, another name, another site's page."""
    attempts = [
        client.get("/health", params={"format": "json"}),
        client.get("/health", headers={"authorization": "Bearer guessed"}),
        client.get("/health", headers={"host": "evil.example:8789"}),
        client.get("/health", headers={"origin": "https://evil.example"}),
        client.post("/do/erase", data={"u": _USER, "typed": _USER}),
    ]
    let_in = sum(answer.status_code not in _REFUSED for answer in attempts)
    return Row("strangers let in", let_in, f"of {len(attempts)}", "0", let_in == 0)


def _in_a_browser() -> Iterator[Row]:
    names = {
        "tasks done by a browser alone": (7, re.compile(r"test_(find|undo|pin|see|compare|promote|erase)")),
        "hostile words: nothing runs, no console errors, no other host": (1, re.compile(r"test_hostile")),
        "screens without a violation that axe knows": (4, re.compile(r"test_pages_fit")),
    }
    try:
        passed = _browser_tests()
    except (OSError, subprocess.SubprocessError, ElementTree.ParseError) as error:
        passed, why = [], str(error)[-200:]
    else:
        why = ""
    for name, (count, named) in names.items():
        done = sum(named.match(one) is not None for one in passed)
        yield Row(name, done, f"of {count}", f"{count} of {count}", done == count, why)


def _browser_tests() -> list[str]:
    """The names of those that passed."""
    with tempfile.TemporaryDirectory() as work:
        call = ["npm", "install", "--silent", "--prefix", work, "axe-core"]
        subprocess.run(call, check=True, capture_output=True, timeout=300)
        told = Path(work) / "told.xml"
        call = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-m",
            "slow",
            f"--junit-xml={told}",
            str(_BROWSER_TESTS),
        ]
        axe = {"MEMKIT_AXE": f"{work}/node_modules/axe-core/axe.min.js"}
        subprocess.run(call, check=False, capture_output=True, timeout=900, env=os.environ | axe)
        return [one.attrib["name"] for one in ElementTree.parse(told).iter("testcase") if len(one) == 0]
