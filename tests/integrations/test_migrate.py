"""Moving in from mem0, LangGraph and JSON lines: what comes over, what is reported, and that coming again is safe."""

from __future__ import annotations

import contextlib
import json
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.errors import InvalidInput
from memkit_migrate import Foreign, Unreadable, from_jsonl, from_langgraph, from_mem0, migrate, run
from memkit_migrate.pickled import NotPlain, read
from tests.integrations._env import ENV


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as opened:
        yield opened


PAYLOAD = {
    "data": "Name is Ana",
    "hash": "x",
    "user_id": "ana",
    "run_id": "s1",
    "created_at": "2025-01-02T03:04:05-08:00",
    "updated_at": None,
    "topic": "name",
    "deep": {"k": [1, 2.5, True, None]},
}


class Point:
    """Pickled like the points of Qdrant's client: an object whose state is a dict."""

    def __init__(self, id: str, payload: Any) -> None:
        self.id, self.vector, self.payload = id, [0.25] * 4, payload


def qdrant_store(folder: Path, points: list[bytes], name: str = "mem0") -> Path:
    place = folder / "collection" / name
    place.mkdir(parents=True)
    with sqlite3.connect(place / "storage.sqlite") as database:
        database.execute("CREATE TABLE points (id TEXT PRIMARY KEY, point BLOB)")
        database.executemany("INSERT INTO points VALUES (?, ?)", [(str(n), raw) for n, raw in enumerate(points)])
    database.close()
    return folder


def test_mem0s_local_store_comes_over_with_users_times_and_metadata(memory: Memory, tmp_path: Path) -> None:
    points = [
        pickle.dumps(Point("1", PAYLOAD)),
        pickle.dumps(Point("2", {"data": "Likes tea"})),
        pickle.dumps(Point("3", {"user_id": "ana"})),
        b"\x80\x04garbage",
    ]
    store = qdrant_store(tmp_path / "q", points)
    qdrant_store(store, [pickle.dumps(Point("9", {"data": "entity", "user_id": "ana"}))], "mem0_entities")
    report = migrate(memory, from_mem0(store))
    assert (report.read, report.added, report.problems) == (4, 1, 3)
    (record,) = memory.list(user_id="ana")
    assert record.text == "Name is Ana"
    assert record.kind == "fact"
    assert record.origin == "import"
    assert record.session_id == "s1"
    assert record.at == datetime.fromisoformat("2025-01-02T03:04:05-08:00")
    assert record.metadata == {"topic": "name", "deep": {"k": [1, 2.5, True, None]}}
    assert memory.search("what is her name?", user_id="ana")[0].text == "Name is Ana"
    told = str(report)
    assert "names no user" in told
    assert "Likes tea" not in told, "a report says where, not what"


def test_coming_again_moves_nothing_and_does_not_bring_back_what_was_deleted(memory: Memory, tmp_path: Path) -> None:
    store = qdrant_store(tmp_path / "q", [pickle.dumps(Point("1", PAYLOAD)), pickle.dumps(Point("2", PAYLOAD))])
    first = migrate(memory, from_mem0(store))
    assert (first.added, first.known) == (1, 1), "the same words of one user are one fact"
    memory.delete(memory.list(user_id="ana")[0].id, user_id="ana")
    second = migrate(memory, from_mem0(store))
    assert (second.added, second.known) == (0, 2)
    assert memory.list(user_id="ana") == []


def test_what_changed_over_there_is_counted_and_stops_nothing(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    lines = [
        '{"id": 1, "user_id": "ana", "text": "Ana has a dog."}',
        '{"id": 2, "user_id": "ana", "text": "Ana skis."}',
    ]
    path.write_text(lines[0])
    assert migrate(memory, from_jsonl(path)).added == 1
    path.write_text("\n".join([lines[0].replace("dog", "cat"), lines[1]]))
    for added, known in ((1, 0), (0, 1)):
        report = migrate(memory, from_jsonl(path))
        assert (report.added, report.known, report.changed, report.problems) == (added, known, 1, 0)
        assert "line 1: it changed since it was moved" in str(report)
        assert report.code == 1 - added
    assert {record.text for record in memory.list(user_id="ana")} == {"Ana has a dog.", "Ana skis."}


def test_a_record_without_an_id_is_known_by_its_words_however_long(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    long = "Ana likes tea. " * 50
    path.write_text("\n".join(json.dumps({"text": text, "user_id": "ana"}) for text in (long, long + "x", "Ana skis.")))
    assert migrate(memory, from_jsonl(path)).added == 3
    assert migrate(memory, from_jsonl(path)).known == 3
    (*_, short) = from_jsonl(path)
    assert short.key == "jsonl:Ana skis.", "as earlier versions wrote it"  # type: ignore[union-attr]
    exported = tmp_path / "export.json"
    exported.write_text(
        json.dumps([{"memory": long, "user_id": "ben"}, {"id": "i" * 600, "memory": "B", "user_id": "b"}])
    )
    assert migrate(memory, from_mem0(exported)).added == 2


def test_a_dry_run_refuses_what_the_real_run_refuses(memory: Memory) -> None:
    bad: list[dict[str, Any]] = [
        {"user_id": "x" * 600},
        {"text": "half \ud83d"},
        {"text": "x" * 300_000},
        {"agent_id": "a\x00"},
        {"session_id": "s" * 600},
        {"speaker": "s" * 600},
        {"metadata": {"n": float("nan")}},
        {"key": "k" * 600},
        {"at": datetime(2025, 1, 1)},
        {"metadata": {"n": "x" * 20_000}},
    ]
    found = [Foreign(**({"text": "x", "user_id": "ana", "key": str(n)} | one)) for n, one in enumerate(bad)]
    dry = migrate(None, found, dry_run=True)
    assert (dry.added, dry.problems) == (0, len(bad))
    assert dry.listed == migrate(memory, found).listed


def test_metadata_nested_to_the_last_level_that_json_reads_stops_nothing(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    for depth in range(900, 1_000):
        nested = '{"a":' * depth + "1" + "}" * depth
        path.write_text(f'[{{"memory": "Level {depth}.", "user_id": "ana", "metadata": {nested}}}]')
        with contextlib.suppress(InvalidInput):
            report = migrate(memory, from_mem0(path))
            assert report.added + report.problems == 1


def test_a_source_with_nothing_to_move_begins_no_store(tmp_path: Path) -> None:
    (tmp_path / "memories.jsonl").write_text("no json\n")
    for name, code in (("memories.jsonl", 1), ("missing", None)):
        options: Any = {"user_id": None, "user_label": -1, "dry_run": False}
        with contextlib.nullcontext() if code else pytest.raises(InvalidInput, match="cannot read"):
            assert run("jsonl", str(tmp_path / name), str(tmp_path / "m"), **options).code == code
    assert not (tmp_path / "m").exists()


def test_a_real_qdrant_store_is_read(memory: Memory, tmp_path: Path) -> None:
    qdrant = pytest.importorskip("qdrant_client", reason="needs qdrant-client, to write a store")
    client = qdrant.QdrantClient(path=str(tmp_path / "q"))
    sizes = qdrant.models.VectorParams(size=4, distance=qdrant.models.Distance.COSINE)
    client.create_collection("mem0", vectors_config=sizes)
    point = qdrant.models.PointStruct(id="5c56c793-69f3-4fbf-87e6-c4bf54c28c26", vector=[0.1] * 4, payload=PAYLOAD)
    client.upsert("mem0", [point])
    client.close()
    (found,) = from_mem0(tmp_path / "q")
    assert found.key == "mem0:5c56c793-69f3-4fbf-87e6-c4bf54c28c26"  # type: ignore[union-attr]
    assert migrate(memory, from_mem0(tmp_path / "q")).added == 1


class Hostile:
    def __reduce__(self) -> Any:
        return Path.touch, (Path(__file__).with_name("was_run"),)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickle_is_read_as_data_and_never_run(protocol: int) -> None:
    plain = {"a": [1, -7, 2**70, 1.5, None, True, "ü"], "b": {"c": ()}, "d": ["x"] * 3}
    if protocol >= 2:
        assert read(pickle.dumps(plain, protocol)) == plain | {"b": {"c": []}}
        assert read(pickle.dumps(Point("1", plain), protocol))["payload"] == plain | {"b": {"c": []}}
    hostile = pickle.dumps({"payload": Hostile()}, protocol)
    with contextlib.suppress(NotPlain):
        assert not isinstance(read(hostile)["payload"], str)
    assert not Path(__file__).with_name("was_run").exists()
    for cut in range(0, len(hostile), 3):
        with pytest.raises(NotPlain):
            read(hostile[:cut])


@pytest.mark.parametrize("shape", ["results", "memories", None])
def test_exports_of_mem0(memory: Memory, tmp_path: Path, shape: str | None) -> None:
    items = [
        {
            "id": "1",
            "memory": "Name is Ana",
            "user_id": "ana",
            "metadata": {"topic": "name"},
            "score": 0.5,
            "created_at": "2025-01-02T03:04:05",
        },
        {"id": "2", "memory": "Likes tea"},
        7,
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({shape: items} if shape else items))
    report = migrate(memory, from_mem0(path, user_id="ben"))
    assert (report.added, report.problems, dict(report.users)) == (2, 1, {"ana": 1, "ben": 1})
    (record,) = memory.list(user_id="ana")
    assert record.metadata == {"topic": "name"}
    assert record.at is not None
    assert record.at.isoformat() == "2025-01-02T03:04:05+00:00"


def test_langgraph_files_and_stores(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    rows = [
        ("memories.ana", "k1", json.dumps({"kind": "Memory", "content": {"content": "Ana likes tea."}})),
        (
            "memories.ana",
            "k2",
            json.dumps({"text": "Ana has a dog.", "importance": 3, "tags": ["pet"], "of": {"a": None}}),
        ),
        ("memories.ana", "k3", json.dumps({"content": {"content": "Ana skis.", "seen": [1]}, "note": "Ana skis."})),
        ("memories.ben", "k1", json.dumps({"score": 7})),
        ("memories.ben", "k2", "{"),
    ]
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE store (prefix TEXT, key TEXT, value TEXT, created_at TEXT, updated_at TEXT)")
        database.executemany("INSERT INTO store VALUES (?, ?, ?, '2025-01-01', '2025-01-02 03:04:05')", rows)
    database.close()
    report = migrate(memory, from_langgraph(path))
    assert (report.added, report.problems) == (3, 2)
    dog = next(record for record in memory.list(user_id="ana") if "dog" in record.text)
    where = {"namespace": ["memories", "ana"]}
    assert dog.metadata == where | {"key": "k2", "importance": 3, "tags": ["pet"], "of": {"a": None}}
    skis = next(record for record in memory.list(user_id="ana") if "skis" in record.text)
    assert skis.metadata == where | {"key": "k3", "content": {"seen": [1]}, "note": "Ana skis."}
    assert migrate(memory, from_langgraph(path, user_label=5)).problems == 5
    with pytest.raises(InvalidInput, match="LangGraph"):
        list(from_langgraph(object()))
    memory_store = pytest.importorskip("langgraph.store.memory", reason="needs langgraph").InMemoryStore()
    memory_store.put(("memories", "carl"), "k", {"text": "Carl has a cat."})
    memory_store.put(("memories", "carl", "deep"), "k", {"text": "Carl skis."})
    moved = migrate(memory, from_langgraph(memory_store, user_label=1))
    assert dict(moved.users) == {"carl": 2}


def test_json_lines_with_a_dry_run_and_a_report(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    path.write_text(
        '{"text": "Ana likes tea.", "user_id": "ana", "at": "2025-05-01T10:00:00+02:00", "id": 7}\n'
        '\n"Ben skis."\n{"text": ""}\nno json\n{"text": "x", "user_id": ["odd"]}\n'
    )
    found = list(from_jsonl(path, user_id="ben"))
    assert len(found) == 5
    report = migrate(None, from_jsonl(path, user_id="ben"), dry_run=True)
    assert (report.read, report.added, report.problems) == (5, 2, 3)
    program = [sys.executable, "-c", "from memkit.cli import main; main()", "import", str(path), "--from", "jsonl"]
    options = ["--user", "ben", "--store", str(tmp_path / "m"), "--json"]
    dry = subprocess.run([*program, *options, "--dry-run"], capture_output=True, text=True, check=True, env=ENV)
    assert json.loads(dry.stdout)["added"] == 2
    assert not (tmp_path / "m").exists()
    moved = subprocess.run([*program, *options], capture_output=True, text=True, check=True, env=ENV)
    assert json.loads(moved.stdout)["users"] == {"ana": 1, "ben": 1}
    again = subprocess.run(
        [sys.executable, "-m", "memkit_migrate", str(path), "--from", "jsonl", *options],
        capture_output=True,
        text=True,
        env=ENV,
    )
    assert json.loads(again.stdout)["known"] == 2
    assert again.returncode == 1, "there were lines that could not be moved"


def test_what_cannot_be_read_says_what_to_pass(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("hello")
    (tmp_path / "deep").write_text("[" * 100_000)
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / "storage.sqlite").write_bytes(b"garbage" * 1_000)
    for read_it, place in (
        (from_mem0, "empty"),
        (from_mem0, "text"),
        (from_mem0, "missing"),
        (from_jsonl, "missing"),
        (from_langgraph, "missing"),
        (from_langgraph, "text"),
        (from_mem0, "deep"),
        (from_mem0, "garbage"),
    ):
        with pytest.raises(InvalidInput, match=place):
            list(read_it(tmp_path / place))


def test_a_line_or_point_that_cannot_be_read_is_named_and_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memories.jsonl"
    deep = '{"text":' * 900 + '"x"' + "}" * 900
    path.write_bytes(b'"caf\xe9"\n' + deep.encode() + b'\n"caf\xc3\xa9"\n')
    *bad, good = from_jsonl(path, user_id="ana")
    assert bad == [Unreadable("line 1", "it is not UTF-8"), Unreadable("line 2", "it has no text")]
    assert good.text == "café"  # type: ignore[union-attr]
    odd: list[Any] = ["text", 7, None, pickle.dumps({"id": 1, "payload": None}), b"\x80\x04K\x01K\x01a."]
    found = list(from_mem0(qdrant_store(tmp_path / "q", odd)))
    assert [type(one) for one in found] == [Unreadable] * len(odd)


def test_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path: Path) -> None:
    text = json.dumps({"memory": "Ana skis.", "user_id": "ana"})
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8-sig")
    (tmp_path / "a.json").write_text(f"[{text}]", encoding="utf-8-sig")
    for found in (*from_jsonl(tmp_path / "a.jsonl"), *from_mem0(tmp_path / "a.json")):
        assert isinstance(found, Foreign), found


def test_a_line_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    short = '{"text": "Ana skis.", "user_id": "ana"}'
    fits = short + " " * (1_000_000 - len(short))
    path.write_text("\n".join(["x" * 2_500_000, short, "", "y" * 1_000_001, fits]))
    found = list(from_jsonl(path))
    assert [one.where for one in found] == ["line 1", "line 2", "line 4", "line 5"]
    assert [type(one) for one in found] == [Unreadable, Foreign, Unreadable, Foreign]
    assert "longer than 1,000,000 characters" in str(found[0])


def test_imported_memories_are_checked_like_all_others(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="frobs"):
        memory.import_([{"text": "x", "user_id": "ana", "frobs": 1}])
    for bad in ({"text": "x"}, {"text": "", "user_id": "ana"}, {"text": "x", "user_id": "ana", "kind": "odd"}):
        with pytest.raises(InvalidInput):
            memory.import_([bad])
    assert memory.import_([{"text": "Said so.", "user_id": "ana", "kind": "episode", "speaker": "Ana"}]) == 1
    (record,) = memory.list(user_id="ana")
    assert (record.kind, record.origin, record.speaker) == ("episode", "import", "Ana")
    memory.undo(user_id="ana", op_id=memory.history(user_id="ana")[-1].op_id)
    assert memory.list(user_id="ana") == []
