"""The commands over a store in PostgreSQL: its URL stands wherever a folder may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memkit import Memory
from memkit.cli.app import app
from memkit.cli.show import exit_code
from memkit.errors import InvalidConfig, InvalidInput, MemkitError, NotAStore
from memkit_train.log import StoreSource
from tests.postgres import own_url


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{own_url(tmp_path)}&lance={tmp_path / 'lance'}"


def _run(*words: str) -> Any:
    done = CliRunner().invoke(app, [*words])
    if isinstance(done.exception, MemkitError):
        raise done.exception
    return done


def test_every_command_takes_the_url_of_a_database(url: str, tmp_path: Path) -> None:
    def say(*words: str, code: int = 0) -> str:
        done = _run(*words, "--store", url)
        assert done.exit_code == code, done.output
        return done.stdout

    said = json.loads(say("add", "I adopted a dog named Buddy.", "--user", "ana", "--json"))
    say("add", "I like tea.", "--user", "bob")
    (hit,) = json.loads(say("search", "dog", "--user", "ana", "-k", "1", "--json"))["hits"]
    assert "Buddy" in hit["memory"]["text"]
    assert "Buddy" in say("list", "--user", "ana")
    assert "Buddy" in say("log", "--user", "ana")
    assert "It is remembered." in say("why", "Buddy", "--user", "ana")
    assert say("users").count("\n") == 3
    assert json.loads(say("stats", "--json"))["users"] == 2
    assert "ADD" in say("history", "--user", "ana")
    say("undo", "--user", "ana", "--turn", said["trace_id"])
    say("parked")
    say("held", "--user", "ana")
    say("retry", code=4)
    say("adapters", "list")
    say("erase", "--user", "bob", "--yes")
    say("export", str(tmp_path / "all.jsonl"))
    assert _run("import", str(tmp_path / "all.jsonl"), "--store", url).exit_code == 4
    assert _run("doctor", url).exit_code == 0
    assert json.loads(_run("move", url, str(tmp_path / "back"), "--json").stdout)["rows"] > 0
    assert "ana" in _run("users", "--store", str(tmp_path / "back")).stdout
    with StoreSource(url) as source:
        assert source.users() == ["ana"]
    assert (tmp_path / "lance" / "projection.json").is_file()


def test_what_a_database_does_by_itself_is_said(url: str, tmp_path: Path) -> None:
    Memory(url).close()
    with pytest.raises(InvalidConfig, match="pg_dump"):
        _run("backup", str(tmp_path / "copy"), "--store", url)
    with pytest.raises(InvalidInput, match="postgresql"):
        _run("restore", str(tmp_path / "copy"), url)
    with pytest.raises(InvalidInput, match="backup"):
        _run("recover", url, str(tmp_path / "new"))


def test_a_mistyped_url_begins_no_store(url: str) -> None:
    for words in (("list", "--user", "ana", "--store"), ("doctor",), ("adapters", "list", "--store")):
        with pytest.raises(NotAStore) as told:
            _run(*words, url)
        assert exit_code(told.value) == 2
