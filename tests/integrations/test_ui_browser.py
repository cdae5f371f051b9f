"""Seven things that a person does with `memkit ui`, in Chromium; and what axe says of the pages, where it is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

from tests.bench._serve_ui import HOSTILE, fill, publish_two
from tests.integrations._browser import needs_browser
from tests.integrations._pictures import PICTURES, take_pictures
from tests.integrations._shown import Shown, showing

pytestmark = [pytest.mark.slow, needs_browser]
USER = "user-001"
AXE = os.environ.get("MEMKIT_AXE")
"""The file axe.min.js: `npm pack axe-core`, unpacked. Without it the pages are driven, and not judged."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def adapters(folder: Path) -> list[str]:
    return publish_two(fill(folder / "memory", users=4, turns=12), folder / "work")


@pytest.fixture(scope="module")
def shown(folder: Path, adapters: list[str]) -> Iterator[Shown]:
    with showing(folder, folder / "memory") as one:
        yield one


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


def test_compare_two_adapters_on_one_turn(shown: Shown, adapters: list[str]) -> None:
    pytest.importorskip("memkit_train")
    turn = next(one for one in shown.memory.views.turns(USER, limit=50).items if "Kim" in one.turn.text)
    shown.go("/decision", u=USER, id=turn.decisions[0])
    for digest in adapters:
        shown.browser.fill("select[name=beside]", digest)
        shown.browser.click("Compare")
        told = shown.browser.text()
        assert f"With {digest[:12]}" in told
        assert "Nothing of it was applied." in told


def test_promote_and_roll_back(shown: Shown, adapters: list[str]) -> None:
    for digest in adapters:
        shown.go("/adapter", digest=digest)
        shown.browser.click("Promote…")
        shown.browser.click("Promote")
    registry = shown.memory.adapters.registry
    assert registry.alias("production").route("manager").stable == adapters[1]
    shown.browser.click("Roll back…")
    shown.browser.click("Roll back")
    assert "Rolled back" in shown.browser.text()
    assert registry.alias("production").route("manager").stable == adapters[0]


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


def test_the_pictures_of_the_guides_are_of_these_pages(tmp_path: Path) -> None:
    take_pictures(tmp_path)
    made = {path.name for path in tmp_path.glob("*.png")}
    assert made == {path.name for path in PICTURES.glob("*.png")}
    told = (PICTURES.parent / "guides" / "ui.md").read_text(encoding="utf-8")
    assert made == set(re.findall(r"pictures/(\S+\.png)", told))
