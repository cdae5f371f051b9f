"""One memory, several machines: a store in PostgreSQL, and a folder of its own for each machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.adapters.shadow import SHADOW, ShadowLog, ShadowPair
from memkit.errors import InvalidConfig, NotAStore, StoreUnreachable
from memkit.journal.postgres.engine import PostgresTx
from memkit.results import Hits
from tests.journal.making import intake
from tests.postgres import own_url

Machine = Callable[[str], Memory]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return own_url(tmp_path)


@pytest.fixture
def machine(url: str, tmp_path: Path) -> Iterator[Machine]:
    with ExitStack() as opened:
        yield lambda name: opened.enter_context(Memory(url, lance=tmp_path / name))


def _texts(hits: Hits) -> list[str]:
    return [hit.text for hit in hits]


def _rows(memory: Memory) -> set[str]:
    return memory._runtime.projection.users()


def test_what_one_machine_writes_the_other_finds_at_once(machine: Machine) -> None:
    one, two = machine("one"), machine("two")
    one.add("I adopted a dog named Buddy.", user_id="ana")
    assert [hit.text for hit in two.search("dog", user_id="ana", k=1)] == ["User adopted a dog named Buddy."]
    two.add("I moved to Lisbon.", user_id="ana", agent_id="travel")
    found = one.search("Where does Ana live?", user_id="ana", k=10)
    assert {"User moved to Lisbon.", "User adopted a dog named Buddy."} <= {hit.text for hit in found}
    assert [record.text for record in one.list(user_id="ana")] == [record.text for record in two.list(user_id="ana")]


def test_a_turn_is_durable_after_five_ways_to_the_database(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One to begin, the bank, the turn, a number for what is kept, and the commit."""
    memory, ways = machine("a"), list[str]()
    memory.add("I live in Oslo.", user_id="ana", wait=False)
    send, thread = PostgresTx.send, threading.get_ident()

    def counted(tx: PostgresTx, sql: str, params: Sequence[Any] | None = None) -> Any:
        if threading.get_ident() == thread:
            ways.append(sql)
        return send(tx, sql, params)

    monkeypatch.setattr(PostgresTx, "send", counted)
    memory.add("I moved to Bergen.", user_id="ana", wait=False)
    assert len(ways) == 4, ways


def test_what_is_erased_goes_from_every_machine(machine: Machine) -> None:
    one, two = machine("one"), machine("two")
    said = one.add("I adopted a dog named Buddy.", user_id="ana")
    one.add("I play chess.", user_id="ana")
    one.add("I like tea.", user_id="bob")
    two.flush()
    assert _rows(two) == {"ana", "bob"}
    one.erase(user_id="bob")
    assert two.search("tea", user_id="bob") == []
    two.flush()
    assert _rows(two) == {"ana"}
    one.erase(user_id="ana", turn_id=said.turns[0].turn_id)
    assert [hit.text for hit in two.search("dog", user_id="ana")] == [
        hit.text for hit in one.search("dog", user_id="ana")
    ]
    two.flush()
    assert two.doctor() == []
    assert b"Buddy" not in b"".join(path.read_bytes() for path in two._runtime.path.rglob("*") if path.is_file())


def test_machines_decide_turns_of_one_user_in_their_order(machine: Machine) -> None:
    memories = [machine(name) for name in ("one", "two", "three")]
    said = [f"My lucky number is {number}." for number in range(12)]

    def talk(memory: Memory, texts: list[str]) -> None:
        for text in texts:
            memory.add(text, user_id="ana", wait=False)

    threads = [threading.Thread(target=talk, args=(one, said[at::3])) for at, one in enumerate(memories)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for memory in memories:
        memory.flush()
    journal = memories[0]._runtime.journal
    states = list(journal.iter_intakes(user_id="ana"))
    assert {state.status for state in states} == {"applied"}
    firsts = [state.seq_first for state in states if state.seq_first is not None]
    assert firsts == sorted(firsts)
    assert sorted(turn.text for state in states for turn in state.intake.turns) == sorted(said)
    assert memories[1].doctor() == []


def test_a_wrong_address_is_told_at_once_and_shows_no_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreUnreachable) as told:
        Memory("postgresql://me:geheim@127.0.0.1:1/db", lance=tmp_path / "x")
    assert "127.0.0.1:1/db" in str(told.value)
    assert "geheim" not in str(told.value)
    with pytest.raises(InvalidConfig):
        Memory("postgresql://127.0.0.1/db?schema=a;b", lance=tmp_path / "x")
    with pytest.raises(InvalidConfig):
        Memory(tmp_path / "folder", lance=tmp_path / "x")


def test_a_folder_that_is_anothers_is_refused_untouched(url: str, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(NotAStore):
        Memory(url, lance=tmp_path / "mine")
    assert [entry.name for entry in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    Memory(url, lance=tmp_path / "lance").close()
    with pytest.raises(NotAStore):
        Memory(f"{url}_2", lance=tmp_path / "lance")


def test_what_shadows_decided_for_the_erased_goes_from_every_machine(machine: Machine, tmp_path: Path) -> None:
    one, two = machine("one"), machine("two")
    for user in ("ana", "bob"):
        one.add("I like tea.", user_id=user)
    two.flush()
    (tmp_path / "two" / "adapters").mkdir()
    compared = ShadowLog(tmp_path / "two" / "adapters" / SHADOW)
    for user in ("ana", "bob"):
        compared.write(ShadowPair("2026-01-01", user, "production", "manager", "d1", None, "f" * 64, ("ADD tea",), ()))
    one.erase(user_id="bob")
    two.flush()
    assert [pair.user_id for pair in compared.read()] == ["ana"]


def test_a_server_that_took_over_is_noticed(url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Memory(url, lance=tmp_path / "one") as memory:
        memory.add("I adopted a dog named Buddy.", user_id="ana")
        memory.flush()
    note, derived = tmp_path / "one" / "projection.json", tmp_path / "one" / "lance" / "derived"
    derived.touch()
    Memory(url, lance=tmp_path / "one").close()
    assert derived.exists()
    assert caplog.text == ""
    note.write_text(json.dumps(json.loads(note.read_text()) | {"timeline": "00000000"}))
    with Memory(url, lance=tmp_path / "one") as memory:
        assert "taken over" in caplog.text
        assert not derived.exists()
        memory.flush()
        assert _rows(memory) == {"ana"}


def test_a_claim_that_was_lost_is_known_to_be(machine: Machine) -> None:
    one, two = (machine(name)._runtime.journal for name in ("one", "two"))
    claim = one.accept(intake("said"), claim=True).claim
    assert claim is not None
    assert one.owns(claim)
    one._locks.retire(claim.worker_id)
    assert two.claim_next() is not None
    assert not one.owns(claim)
