"""`memkit users`, `memkit why` and `memkit log --grep/--asked`: looking at a store from the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memkit import Memory
from memkit.cli.app import app


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Memory(tmp_path / "store") as memory:
        memory.add("I am allergic to peanuts.", user_id="ana")
        memory.add("lol ok whatever", user_id="ana")
        memory.add("I own a tent.", user_id="bob")
        hits = memory.search("may Ana eat peanuts?", user_id="ana")
        memory.feedback(hits.trace_id, user_id="ana", label="down")
    return tmp_path / "store"


def say(store: Path, *words: str, code: int = 0) -> str:
    told = CliRunner().invoke(app, [*words, "--store", str(store)])
    assert told.exit_code == code, told.output
    return told.stdout


def test_why_says_in_words_and_in_json_what_became_of_it(store: Path) -> None:
    assert "small talk" in say(store, "why", "lol whatever", "--user", "ana")
    assert "It is remembered." in say(store, "why", "peanuts", "--user", "ana")
    found = json.loads(say(store, "why", "Paris", "--user", "ana", "--json"))
    assert (found["turns"], found["searched"]) == ([], 2)


def test_users_are_listed_and_narrowed(store: Path) -> None:
    lines = say(store, "users").splitlines()
    assert [line.split("\t")[:3] for line in lines[1:]] == [["ana", "1", "2"], ["bob", "1", "1"]]
    assert [one["user_id"] for one in json.loads(say(store, "users", "--grep", "BO", "--json"))] == ["bob"]
    say(store, "users", "--grep", "nobody", code=4)


def test_the_log_is_narrowed_and_shows_questions_with_their_thumbs(store: Path) -> None:
    assert "peanuts" in say(store, "log", "--user", "ana", "--grep", "peanut")
    say(store, "log", "--user", "ana", "--grep", "Paris", code=4)
    (one,) = json.loads(say(store, "log", "--user", "ana", "--asked", "--json"))
    assert (one["question"], one["feedback"][0]["good"]) == ("may Ana eat peanuts?", False)
    assert "down" in say(store, "log", "--user", "ana", "--asked")


def test_whom_memories_name_and_what_is_told_of_them(store: Path) -> None:
    with Memory(store) as memory:
        memory.add("my cat Filemon sleeps all day", user_id="bob")
        memory.add("filemon ate a rubber band", user_id="bob")
    lines = say(store, "entities", "--user", "bob").splitlines()
    assert [line.split("\t") for line in lines[1:]] == [["Filemon", "animal", "cat", "3"]]
    assert "rubber band" in say(store, "about", "my cat", "--user", "bob")
    assert json.loads(say(store, "about", "Filemon", "--user", "ana", "--json", code=4)) == {"memories": []}
    say(store, "entities", "--user", "ana", code=4)
