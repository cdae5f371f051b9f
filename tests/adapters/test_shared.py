"""Adapters of a fleet: what one machine publishes or promotes is there for all, by the database of their store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memkit import Memory
from memkit.adapters import Registry, promote
from memkit.adapters.shared import SharedAdapters
from memkit.errors import AdapterError, NotFound, StaleAlias, StoreMoved
from memkit.journal.postgres.opening import database_tables
from memkit.runtime.moving import move
from tests.adapters._make import FakeHost, adapter, ranker
from tests.adapters._sets import serving
from tests.postgres import own_url

Machine = Callable[[str], Registry]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return own_url(tmp_path)


@pytest.fixture
def machine(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.setattr("memkit.adapters.shared._FRESH_S", 0.0)
    monkeypatch.setattr("memkit.adapters.shared._PART", 100)
    with ExitStack() as opened:

        def open_one(name: str) -> Registry:
            shared = SharedAdapters(database_tables(url, create=True), owned=True)
            registry = Registry(tmp_path / name, shared=shared)
            opened.callback(registry.close)
            return registry

        yield open_one


def test_what_one_machine_publishes_every_other_has(machine: Machine, tmp_path: Path) -> None:
    one, two = machine("one"), machine("two")
    digest = one.publish(adapter(tmp_path / "a", data={"store_id": "s", "seq_last": 1, "subjects": ["sub1"]}))
    assert two.publish(tmp_path / "a") == digest
    assert two.find(digest[:8]) == digest
    shutil.rmtree(tmp_path / "two" / digest)
    (known,) = two.list_known()
    assert (known.digest, known.gated, known.damaged) == (digest, True, "")
    assert not known.path.exists(), "a list fetches no files"
    files = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert {path.name: path.read_bytes() for path in two.path(digest).iterdir()} == files
    assert two.taint("sub1") == [digest]
    assert one.taints(digest) == ["sub1"]
    with pytest.raises(NotFound):
        two.path("f" * 64)


def test_an_alias_moves_once_whoever_moves_it(machine: Machine, tmp_path: Path) -> None:
    one, two = machine("one"), machine("two")
    first, second = (one.publish(adapter(tmp_path / name, seed=seed)) for seed, name in ((1, "a"), (2, "b")))
    before = two.changes()
    assert promote(one, "production", first).state.version == 1
    assert two.changes() != before
    assert promote(two, "production", second, expected=1).state.version == 2
    with pytest.raises(StaleAlias):
        promote(one, "production", first, expected=1)
    assert two.rollback("production").route("manager").stable == first
    assert [state.version for state in one.history("production")] == [3, 2, 1]
    with pytest.raises(AdapterError):
        one.rollback("production", to=9)


def test_garbage_goes_from_every_machine(machine: Machine, tmp_path: Path) -> None:
    one, two = machine("one"), machine("two")
    kept, gone = (one.publish(adapter(tmp_path / name, seed=seed)) for seed, name in ((1, "a"), (2, "b")))
    two.path(gone)
    promote(two, "production", kept)
    assert one.gc().removed == ()  # published a short while ago
    assert one.gc(min_age_s=0).removed == (gone,)
    assert two.digests() == [kept]
    assert two.gc(min_age_s=0).removed == ()
    assert not (tmp_path / "two" / gone).exists()


def test_a_process_serves_what_another_machine_promoted(url: str, machine: Machine, tmp_path: Path) -> None:
    host, registry = FakeHost(), machine("trainer")
    digest = registry.publish(adapter(tmp_path / "a"))
    shared = SharedAdapters(database_tables(url, create=False), owned=True)
    with serving(tmp_path / "server", host, shared=shared, poll_s=3600) as server:
        assert server.serving().version == 0
        promote(registry, "production", digest)
        assert server._watcher is not None
        server._watcher.sync()  # as its thread does several times a second
        with server.resolve("manager", "ana") as lease:
            assert lease.name == digest
        assert (tmp_path / "server" / digest).is_dir()


def test_a_ranker_of_one_machine_ranks_on_another(url: str, machine: Machine, tmp_path: Path) -> None:
    with Memory(url, lance=tmp_path / "m1") as one, Memory(url, lance=tmp_path / "m2") as two:
        for text in ("Ana has a dog.", "Ana has a cat.", "Bob has a boat."):
            one.add(text, user_id="ana", infer=False)
        own = {"embedder": one._runtime.embedder.identity, "store_schema": 1}
        built_in = [hit.score for hit in two.search("dog", user_id="ana")]
        digest = one.adapters.publish(ranker(tmp_path / "r", words=5.0, retrieval=own))
        one.adapters.promote("production", digest)
        learned = [hit.score for hit in two.search("dog", user_id="ana")]
        assert learned == [hit.score for hit in one.search("dog", user_id="ana")] != built_in


def test_adapters_move_with_their_store_and_back(url: str, tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        digest = memory.adapters.publish(ranker(tmp_path / "r"))
        memory.adapters.promote("production", digest, note="better")
        history = memory.adapters.history()
    there = f"{url}&lance={tmp_path / 'lance'}"
    move(tmp_path / "s", there)
    with Memory(there) as memory:
        assert memory.adapters.history() == history
        move(there, tmp_path / "back")
        with pytest.raises(StoreMoved):
            memory.adapters.rollback("production")
    with Memory(tmp_path / "back") as memory:
        assert [one.digest for one in memory.adapters.list()] == [digest]
        assert memory.adapters.history() == history
