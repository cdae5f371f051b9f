"""The commands on stores whose embedder a command line cannot name, or that is not the built-in one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memkit import Memory
from memkit.cli.app import app
from memkit.errors import EmbedderError, EmbedderMismatch, InvalidInput, NotAStore
from tests.cli.test_cli import memkit as run
from tests.stub_server import StubServer


def vowels(texts: Sequence[str]) -> list[list[float]]:
    return [[1.0 + text.count(vowel) for vowel in "aeio"] for text in texts]


def memkit(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words], prog_name="memkit")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with Memory(tmp_path / "memory", embedder=vowels) as memory:
        for number in range(3):
            memory.add(f"The train leaves from platform {number}.", user_id="ana", infer=False)
        memory.search("platform 1", user_id="ana")
        memory.flush()
    return tmp_path / "memory"


def test_what_embeds_nothing_works_on_the_store_of_a_function(store: Path) -> None:
    (first, *_) = json.loads(memkit("history", "-u", "ana", "--json").output)
    with Memory(store, embedder=vowels) as memory:
        trace = memory.search("platform 1", user_id="ana").trace_id
    memkit("feedback", trace, "-u", "ana", "--label", "up")
    Path("more.jsonl").write_text('{"text": "Ben skis.", "user_id": "ben"}')
    for words, code in (
        (["list", "-u", "ana"], 0),
        (["log", "-u", "ana"], 4),
        (["stats"], 0),
        (["parked"], 0),
        (["export", "all"], 0),
        (["undo", "-u", "ana", "--op", first["op_id"]], 0),
        (["import", "all", "-s", "copy"], 0),
        (["import", "all"], 4),
        (["import", "more.jsonl", "--from", "jsonl"], 0),
        (["doctor"], 0),
        (["add", "Ana skis.", "-u", "ana", "--no-infer"], 0),
        (["erase", "-u", "ana", "--yes"], 0),
        (["doctor"], 0),
    ):
        assert memkit(*words).exit_code == code, words
    with Memory(store, embedder=vowels) as memory:
        assert memory.users() == ["ben"]
        assert [hit.text for hit in memory.search("who skis?", user_id="ben")] == ["Ben skis."]
        assert memory.doctor() == []


def test_what_embeds_says_so_before_anything_is_written(store: Path) -> None:
    for words in (
        ["search", "x", "-u", "ana"],
        ["add", "I ski.", "-u", "ana"],
        ["retry"],
        ["doctor", "--repair"],
        ["answer", "x", "-u", "ana"],
        ["proxy", "--upstream", "http://127.0.0.1:9/v1"],
    ):
        with pytest.raises(EmbedderMismatch, match="cannot be made from its name"):
            memkit(*words)
    with Memory(store, embedder=vowels) as memory:
        assert memory.stats()["turns"] == 3


def test_reembedding_wants_a_name_and_an_embedder_that_works(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="with which embedder"):
        memkit("doctor", "--reembed")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(EmbedderError, match="openai:nomic"):
        memkit("doctor", "--reembed", "--embedder", "openai:nomic")
    with pytest.raises(NotAStore):
        memkit("doctor", "nowhere", "--reembed", "--embedder", "hash")
    with Memory(store, embedder=vowels) as memory:
        assert memory.doctor() == []
    assert memkit("doctor", "--reembed", "--embedder", "hash").exit_code == 0
    assert "platform 2" in memkit("search", "platform 2", "-u", "ana", "-k", "1").output
    assert memkit("doctor", "--reembed").exit_code == 0


def test_commands_that_embed_take_the_stores_own_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memkit.embedders import make_embedder

    monkeypatch.chdir(tmp_path)
    with Memory(tmp_path / "memory", embedder=make_embedder("hash", dim=64)) as memory:
        memory.add("Ana has a dog.", user_id="ana", infer=False)
    assert memkit("add", "I live in Oslo.", "-u", "ana").exit_code == 0
    assert "Oslo" in memkit("search", "where does she live?", "-u", "ana", "-k", "1").output
    with pytest.raises(EmbedderMismatch, match="hash/1:64, not hash/1:384"):
        memkit("search", "x", "-u", "ana", "--embedder", "hash")


def test_an_import_begins_a_store_of_the_embedder_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"text": "Ana skis.", "user_id": "ana"}')
    with Memory("old") as memory:
        memory.add("Ana skis.", user_id="ana", infer=False)
        memory.export("all.jsonl")
    with StubServer(reply="") as api:
        monkeypatch.setenv("OPENAI_BASE_URL", api.url)
        for words in (["a.jsonl", "--from", "jsonl", "-s", "one"], ["all.jsonl", "-s", "two"]):
            assert run("import", *words, "--embedder", "openai:stub", cwd=tmp_path)[0] == 0
            found = json.loads(memkit("stats", "-s", words[-1], "--json").output)
            assert (found["embedder"], found["memories"]) == ("openai:stub:64", 1)
        assert "Ana skis." in run("search", "skis", "-u", "ana", "-s", "one", cwd=tmp_path)[1]


def test_moving_in_decides_none_of_the_apps_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Memory("app", config={"workers": 0}) as memory:
        memory.add("I live in Oslo.", user_id="ana", wait=False)
        shutil.copytree("app", "memory")  # as an app leaves it that is killed now
    lines = [json.dumps({"text": f"Ben has {number} skis.", "user_id": "ben"}) for number in range(100)]
    Path("a.jsonl").write_text("\n".join(lines))
    assert memkit("import", "a.jsonl", "--from", "jsonl").exit_code == 0
    assert json.loads(memkit("stats", "--json").output)["pending"] == 1
