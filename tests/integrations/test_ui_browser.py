"""Seven things that a person does with `memkit ui`, in Chromium; and what axe says of the pages, where it is there."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

import uvicorn

from memkit import Memory
from memkit_http import BrowserSession, Door, bind
from memkit_ui import ui_app
from memkit_ui.pages import ShownStore
from memkit_ui.showing import link
from tests.bench._serve_ui import HOSTILE, fill, publish_two
from tests.integrations._browser import Browser, needs_browser

pytestmark = [pytest.mark.slow, needs_browser]
TOKEN = "a-token-of-this-test"
USER = "user-001"
AXE = os.environ.get("MEMKIT_AXE")
"""The file axe.min.js: `npm pack axe-core`, unpacked. Without it the pages are driven, and not judged."""


@dataclass(frozen=True)
class Shown:
    memory: Memory
    browser: Browser
    base: str
    adapters: list[str]

    def go(self, path: str, **query: object) -> None:
        self.browser.go(self.base + link(path, **query))


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("browser")
    store = fill(folder / "memory", users=4, turns=12)
    adapters = publish_two(store, folder / "work")
    with Memory(store, config={"workers": 0}) as memory, bind("127.0.0.1", 0) as at:
        port = at.getsockname()[1]
        app = ui_app(ShownStore(memory, store, model="small"), BrowserSession(TOKEN), Door.at("127.0.0.1", port))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [at]})
        thread.start()
        browser = Browser(folder / "profile")
        base = f"http://127.0.0.1:{port}"
        try:
            browser.go(f"{base}/enter#{TOKEN}")
            while "Users" not in browser.text():
                browser.go(f"{base}/")
            yield Shown(memory, browser, base, adapters)
        finally:
            browser.close()
            server.should_exit = True
            thread.join()


def test_find_why_a_turn_was_not_remembered(shown: Shown) -> None:
    shown.go("/")
    shown.browser.click(USER)
    shown.browser.click("Said")
    shown.browser.fill("input[type=search]", "lol whatever")
    shown.browser.click("Ask")
    told = shown.browser.text()
    assert "It was said, and no memory was made of it." in told
    assert "Why: a greeting or small talk" in told


def test_undo(shown: Shown) -> None:
    before = {one.text for one in shown.memory.list(user_id=USER)}
    shown.go("/timeline", u=USER)
    shown.browser.click("Undo", ".card")
    assert "Taken back" in shown.browser.text()
    assert {one.text for one in shown.memory.list(user_id=USER)} != before


def test_pin(shown: Shown) -> None:
    shown.go("/user", u=USER)
    shown.browser.click("Pin", ".card")
    assert "always told".casefold() in shown.browser.text().casefold()
    assert len(shown.memory.profile(user_id=USER)) == 1


def test_see_which_decision_a_thumb_blamed(shown: Shown) -> None:
    pytest.importorskip("memkit_train")
    memory, user = shown.memory, "thumb"
    memory.add("I live in Oslo.", user_id=user)
    hits = memory.search("where do I live?", user_id=user)
    memory.observe(hits.trace_id, "You live in Oslo.", user_id=user)
    memory.feedback(hits.trace_id, user_id=user, label="up")
    shown.go("/asked", u=user)
    shown.browser.click("why this answer")
    shown.browser.click("Which decision does this blame or praise?")
    assert "earned" in shown.browser.text()
    shown.browser.click("the manager’s decision")
    assert "User lives in Oslo." in shown.browser.text()


def test_compare_two_adapters_on_one_turn(shown: Shown) -> None:
    pytest.importorskip("memkit_train")
    turn = next(one for one in shown.memory.views.turns(USER, limit=50).items if "Kim" in one.turn.text)
    shown.go("/decision", u=USER, id=turn.decisions[0])
    for digest in shown.adapters:
        shown.browser.fill("select[name=beside]", digest)
        shown.browser.click("Compare")
        told = shown.browser.text()
        assert f"With {digest[:12]}" in told
        assert "Nothing of it was applied." in told


def test_promote_and_roll_back(shown: Shown) -> None:
    for digest in shown.adapters:
        shown.go("/adapter", digest=digest)
        shown.browser.click("Promote…")
        shown.browser.click("Promote")
    registry = shown.memory.adapters.registry
    assert registry.alias("production").route("manager").stable == shown.adapters[1]
    shown.browser.click("Roll back…")
    shown.browser.click("Roll back")
    assert "Rolled back" in shown.browser.text()
    assert registry.alias("production").route("manager").stable == shown.adapters[0]


def test_erase_with_a_receipt(shown: Shown) -> None:
    shown.go("/user", u="user-003")
    shown.browser.click("Erase…")
    shown.browser.fill("input[name=typed]", "user-003")
    shown.browser.click("Erase for good")
    assert shown.memory.views.erasures().receipts[0]["erasure_id"] in shown.browser.text()
    assert "user-003" not in shown.memory.users()


def test_hostile_words_run_nothing_and_no_other_host_is_asked(shown: Shown) -> None:
    shown.browser.errors.clear()
    for user in HOSTILE:
        for path in ("/", "/user", "/said", "/timeline", "/asked"):
            shown.go(path, u=user, q="" if path == "/" else user[:40])
            assert "owned" not in shown.browser.ask("document.title")
    assert shown.browser.errors == []
    assert shown.browser.hosts == {shown.base.removeprefix("http://")}


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (390, False), (390, True)])
def test_pages_fit_the_screen_and_axe_finds_nothing(shown: Shown, width: int, dark: bool) -> None:
    shown.browser.size(width, dark=dark)
    views = shown.memory.views
    one = {
        "/decision": views.decisions(USER).items[0]["decision_id"],
        "/answer": views.reads(USER).items[0]["trace_id"],
    }
    of_user = ("/user", "/said", "/timeline", "/asked", "/decisions")
    addresses = [("/", {}), ("/health", {}), ("/learning", {}), ("/erasure", {}), ("/sure", {"do": "erase", "u": USER})]
    addresses += [(path, {"u": USER}) for path in of_user] + [
        (path, {"u": USER, "id": name}) for path, name in one.items()
    ]
    for path, query in addresses:
        shown.go(path, **query)
        assert shown.browser.ask("document.documentElement.scrollWidth <= innerWidth"), path
        if AXE:
            shown.browser.call("Runtime.evaluate", expression=Path(AXE).read_text(encoding="utf-8"))
            found = shown.browser.ask("axe.run().then(r => r.violations.map(v => v.id + ' ' + v.nodes[0].html))")
            assert found == [], path
