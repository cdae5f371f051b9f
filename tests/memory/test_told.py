"""What a person sees of a store without asking for more: records in a line, decisions with their fields, rates."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NotRequired, get_origin, get_type_hints

import pytest
from typer.testing import CliRunner

from memkit import Memory
from memkit.cli.app import app
from memkit.results import ToldDecision


class Calendar:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


def test_public_objects_are_told_in_a_line(tmp_path: Path) -> None:
    with Memory(tmp_path / "store") as memory:
        added = memory.add("I live in Oslo.", user_id="ana")
        hits = memory.search("where does she live?", user_id="ana")
        (record,) = memory.list(user_id="ana")
        for one in (*added.ops, hits[0], record, memory, memory.views, memory.adapters, memory.user("ana")):
            assert len(repr(one)) < 200
            assert "object at 0x" not in repr(one)
        assert "User lives in Oslo." in repr(record) + repr(hits[0])
        longer = memory.add("word " * 1_000, user_id="ana", infer=False)
        assert len(repr(longer.ops[0])) < 250


def test_every_field_of_a_decision_is_declared(tmp_path: Path) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        return '{"operations": [{"op": "ADD", "id": null, "text": "Ana lives in Oslo.", "turn": 1}]}'

    declared = get_type_hints(ToldDecision, include_extras=True)
    always = {name for name, hint in declared.items() if get_origin(hint) is not NotRequired}
    for name, model in (("rules", None), ("model", reply)):
        with Memory(tmp_path / name, model=model) as memory:
            added = memory.add("I live in Oslo.", user_id="ana")
            for told in memory.decisions(user_id="ana", trace_id=added.trace_id):
                assert set(told) <= set(declared)
                assert set(told) >= always


def test_stats_tell_rates_of_the_last_week_and_who_decides(tmp_path: Path) -> None:
    clock = Calendar()
    with Memory(tmp_path / "store", clock=clock) as memory:
        assert memory.stats()["per_day"]["said"] == 0
        for _ in range(4):
            memory.add("I live in Oslo.", user_id="ana")
        assert memory.stats()["per_day"]["said"] == 4
        clock.at += timedelta(days=3)
        assert memory.stats()["per_day"]["said"] == 1
        clock.at += timedelta(days=6)
        memory.add("I live in Bergen.", user_id="ana")
        assert memory.stats()["per_day"]["said"] == pytest.approx(1 / 7, abs=0.01)
        assert memory.stats()["model"] == "the rules"


def test_every_command_takes_the_store_in_one_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    with Memory(store) as memory:
        memory.add("I live in Oslo.", user_id="ana")
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    for words in (["doctor", "--store", str(store)], ["doctor", "-s", str(store)], ["doctor", str(store)]):
        assert "healthy" in run.invoke(app, words).output
    assert "per_day" in run.invoke(app, ["stats", "-s", str(store)]).output
    monkeypatch.setenv("MEMKIT_STORE", str(store))
    assert "healthy" in run.invoke(app, ["doctor"]).output


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [["proxy", "--upstream", "http://127.0.0.1:9/v1"], ["serve", "--http"], ["serve", "--rest"]],
    ids=["proxy", "mcp", "rest"],
)
def test_a_server_says_where_it_listens_and_who_decides(tmp_path: Path, words: list[str]) -> None:
    pytest.importorskip("starlette", reason="needs the extra rest")
    pytest.importorskip("mcp", reason="needs the extra mcp")
    command = [sys.executable, "-m", "memkit", *words, "--port", "0", "--store", str(tmp_path / "store")]
    if words[0] == "serve":
        command += ["--user", "ana"]
    environment = os.environ | {"MEMKIT_TOKEN": "a-token-of-this-test"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        said = [server.stdout.readline(), server.stdout.readline()]
        server.terminate()
        _, failed = server.communicate(timeout=60)
    assert "listens at http://127.0.0.1:" in said[0], failed[-4000:]
    assert said[1] == "memories are decided by the rules\n"
