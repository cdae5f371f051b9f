"""`memkit ui`: what the pages show, who may see them, and that looking changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("jinja2")

from starlette.testclient import TestClient

from memkit import Memory
from memkit.adapters.registry import Registry
from memkit_http import BrowserSession, Door
from memkit_ui import ui_app
from memkit_ui.pages import PAGES, ShownStore
from memkit_ui.showing import link, visible
from tests.bench._serve_ui import HOSTILE, fill, run_record
from tests.views.test_views import rows

BASE = "http://127.0.0.1:8789"
TOKEN = "a-token-of-this-test"
USER = "user-001"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ui")
    fill(made / "memory", users=3, turns=12)
    run_record(made / "runs" / "first", "0" * 64)
    return made


@pytest.fixture(scope="module")
def memory(folder: Path) -> Iterator[Memory]:
    with Memory(folder / "memory", config={"workers": 0}) as opened:
        yield opened


@pytest.fixture(scope="module")
def anybody(memory: Memory, folder: Path) -> TestClient:
    place = ShownStore(memory, folder / "memory", folder / "runs")
    app = ui_app(place, BrowserSession(TOKEN), Door.at("127.0.0.1", 8789))
    return TestClient(app, base_url=BASE, headers={"accept": "text/html"}, follow_redirects=False)


@pytest.fixture
def person(anybody: TestClient) -> Iterator[TestClient]:
    assert anybody.post("/enter", data={"token": TOKEN}).status_code == 303
    yield anybody
    anybody.cookies.clear()


def addresses(memory: Memory) -> list[str]:
    views = memory.views
    decision = views.decisions(USER).items[0]["decision_id"]
    read = views.reads(USER).items[0]["trace_id"]
    known = views.memories(USER).memories[0].id
    user = [link(path, u=USER) for path in ("/user", "/said", "/timeline", "/asked", "/decisions")]
    more = [link("/user", u=USER, q="where"), link("/user", u=USER, step=3), link("/said", u=USER, q="lol whatever")]
    one = [link("/decision", u=USER, id=decision), link("/answer", u=USER, id=read), link("/memory", u=USER, id=known)]
    rest = ["/", "/health", "/learning", "/erasure", link("/run", name="first"), link("/sure", do="erase", u=USER)]
    return [*user, *more, *one, *rest]


def seal_of(page: str) -> str:
    found = re.search(r'name="seal" value="(\w+)"', page)
    assert found is not None
    return found[1]


def test_every_page_is_shown_as_json_and_as_one_file_and_looking_changes_nothing(
    person: TestClient, memory: Memory, folder: Path
) -> None:
    memory.flush()
    before = rows(folder / "memory")
    for address in addresses(memory):
        page = person.get(address)
        assert (page.status_code, "http://" in page.text) == (200, False), address
        assert len(page.content) < 200_000, address
        assert " style=" not in page.text, address
        assert not re.search(r"<script(?! src=\"/static/script\.js\" defer)", page.text), address
        more = "&" if "?" in address else "?"
        assert isinstance(json.loads(person.get(f"{address}{more}format=json").text), dict)
        saved = person.get(f"{address}{more}save=1")
        assert "attachment" in saved.headers["content-disposition"]
        assert not re.search(r"<script|<link|name=.seal|/static/|href=.[^#]", saved.text), address
    memory.flush()
    assert rows(folder / "memory") == before
    assert not (folder / "memory" / "adapters").exists()


@pytest.mark.parametrize("path", [*PAGES, "/export"])
def test_nothing_is_shown_without_the_token(anybody: TestClient, path: str) -> None:
    anybody.cookies.clear()
    assert anybody.get(path, params={"u": USER}).headers.get("location") == "/enter"
    assert anybody.get(path, params={"u": USER, "format": "json"}).status_code == 401
    assert anybody.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401


def test_names_pages_and_forms_of_others_are_refused(person: TestClient, memory: Memory) -> None:
    page = person.get(link("/timeline", u=USER)).text
    op = re.search(r'name="op_id" value="(\w+)"', page)
    assert op is not None
    form = {"u": USER, "op_id": op[1]}
    assert person.get("/", headers={"host": "evil.example:8789"}).status_code == 421
    evil = {"origin": "https://evil.example"}
    assert person.get("/health", headers=evil).status_code == 403
    assert person.post("/do/undo", data={**form, "seal": seal_of(page)}, headers=evil).status_code == 403
    assert person.post("/do/undo", data=form).status_code == 403
    assert person.get("/do/undo", params=form).status_code == 405
    assert person.post("/do/eval", data={"seal": seal_of(page)}).status_code == 404
    assert person.post("/do/pin", data={"seal": seal_of(page), "u": USER}).status_code == 400
    wrong = person.post("/enter", data={"token": "wrong"})
    assert (wrong.status_code, wrong.headers.get("set-cookie")) == (401, None)


def test_the_cookie_is_kept_from_scripts_and_other_sites(anybody: TestClient) -> None:
    told = anybody.post("/enter", data={"token": TOKEN}).headers["set-cookie"].lower()
    assert TOKEN not in told
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in told.split(";")}
    anybody.cookies.clear()


def test_hostile_words_are_shown_and_do_nothing(person: TestClient) -> None:
    for user in (*HOSTILE, "a million letters"):
        for path in ("/user", "/said", "/timeline", "/asked", "/decisions"):
            page = person.get(link(path, u=user))
            assert page.status_code == 200
            assert len(page.content) < 200_000
            shown = re.sub(r'type="hidden" name="\w+" value="[^"]*"', "", page.text)  # ids go back as they are
            assert not re.search(r"<script>|<img src=x|<b>bold| onmouseover=\"|\u202e|\u2066", shown)
    assert "49" not in person.get(link("/user", u=HOSTILE[2])).text.split("</header>")[1].split("memories")[0]
    assert visible("a\u202eb\x00\u200d") == "a\\u202eb\\u0000\u200d"


def test_a_person_undoes_corrects_pins_and_forgets(person: TestClient, memory: Memory) -> None:
    user = "user-002"
    record = next(one for one in memory.list(user_id=user) if "bought" in one.text)
    seal = seal_of(person.get(link("/user", u=user)).text)

    def do(verb: str, **form: str | int) -> str:
        answer = person.post(f"/do/{verb}", data={"seal": seal, "u": user, **form})
        assert answer.status_code == 303, answer.text
        return person.get(answer.headers["location"]).text

    assert "Corrected" in do("correct", id=record.id, text="User owns 1 <kayak>.", revision=record.revision)
    assert "User owns 1 &lt;kayak&gt;." in person.get(link("/user", u=user)).text
    stale = person.post("/do/correct", data={"seal": seal, "u": user, "id": record.id, "text": "x", "revision": 1})
    assert stale.status_code == 409
    assert "Pinned" in do("pin", id=record.id, pinned="1")
    assert [one.id for one in memory.profile(user_id=user)] == [record.id]
    assert "Forgotten" in do("forget", id=record.id)
    op = memory.history(user_id=user)[-1]
    assert "Taken back" in do("undo", op_id=op.op_id)
    assert memory.get(record.id, user_id=user).text == "User owns 1 <kayak>."


def test_erasing_asks_for_the_name_and_leaves_a_receipt(person: TestClient, memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="gone")
    page = person.get(link("/sure", do="erase", u="gone")).text
    form = {"seal": seal_of(page), "u": "gone"}
    assert person.post("/do/erase", data={**form, "typed": "gon"}).status_code == 400
    assert "gone" in memory.users()
    done = person.post("/do/erase", data={**form, "typed": "gone"})
    assert "Erased" in person.get(done.headers["location"]).text
    assert "gone" not in memory.users()


def test_a_program_with_the_token_needs_no_seal_and_gets_json(anybody: TestClient, memory: Memory) -> None:
    anybody.cookies.clear()
    headers = {"authorization": f"Bearer {TOKEN}", "accept": "application/json"}
    found = anybody.get("/said", params={"u": USER, "q": "Paris", "format": "json"}, headers=headers).json()
    assert found["why"]["verdict"].startswith("Nobody said it here")
    op = memory.history(user_id=USER)[-1]
    done = anybody.post("/do/undo", data={"u": USER, "op_id": op.op_id}, headers=headers)
    assert done.json()["done"].startswith("Taken back")
    problem = anybody.get("/user", params={"u": "nobody", "format": "json"}, headers=headers)
    assert (problem.status_code, problem.json()["next"] != "") == (404, True)


def test_an_export_is_one_users_and_whole(person: TestClient, memory: Memory, tmp_path: Path) -> None:
    got = person.get(link("/export", u=USER))
    (tmp_path / "got.jsonl").write_bytes(got.content)
    with Memory(tmp_path / "other") as other:
        assert other.import_(tmp_path / "got.jsonl") > 0
        assert other.users() == [USER]


def test_promoting_needs_gates_and_the_version_that_was_looked_at(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from tests.bench._serve_ui import publish_two

    store = tmp_path / "store"
    with Memory(store) as memory:
        memory.add("I live in Oslo.", user_id="ana")
        first, second = publish_two(store, tmp_path / "work")
        app = ui_app(ShownStore(memory, store), BrowserSession(TOKEN), Door.at("127.0.0.1", 8789))
        with TestClient(app, base_url=BASE, headers={"accept": "text/html"}) as person:
            person.post("/enter", data={"token": TOKEN})
            sure = person.get(link("/sure", do="promote", digest=first)).text
            form = {"seal": seal_of(sure), "alias": "production", "digest": first, "version": "0"}
            assert "version 1" in person.post("/do/promote", data=form).text
            assert person.post("/do/promote", data={**form, "digest": second}).status_code == 409
            form |= {"digest": second, "version": "1"}
            assert "version 2" in person.post("/do/promote", data=form).text
            assert "Roll back" in person.get("/learning").text
            back = person.post("/do/rollback", data={"seal": form["seal"], "alias": "production", "version": "2"})
            assert "Rolled back" in back.text
        registry = Registry(store / "adapters")
        assert registry.alias("production").route("manager").stable == first
        registry.close()
