"""Moving a store to PostgreSQL and back: the same store, and never two that take turns."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.errors import InvalidInput, MemkitError, NotAStore, StoreMoved, StoreUnreachable
from memkit.journal import Journal, moving
from memkit.runtime.moving import move
from memkit.seams.clock import RandomIds, SystemClock
from tests.postgres import own_url

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"{own_url(tmp_path)}&lance={tmp_path / 'lance'}"


def _fill(path: Path) -> None:
    with Memory(path) as memory:
        said = memory.add("I adopted a dog named Buddy.", user_id="ana", idempotency_key="one")
        memory.add("I moved to Oslo.", user_id="ana", agent_id="travel", metadata={"ref": "D1:3", "nul": "a\0b"})
        memory.undo(user_id="ana", turn_id=said.turns[0].turn_id)
        hits = memory.search("dog", user_id="ana")
        memory.feedback(hits.trace_id, user_id="ana", label="down")
        memory.add("I like tea.", user_id="bob")
        memory.flush()  # seals what was decided
        memory.add("My bike is red.", user_id="ana")
        memory.erase(user_id="bob")


def _open(store: str | Path) -> Journal:
    return Journal.open(store, clock=SystemClock(), ids=RandomIds(), read_only=True)


def _all(store: str | Path) -> list[Any]:
    """Every record, with what was sealed, and what an export leaves out."""
    with Memory(store, config={"workers": 0}) if not _is_left(store) else closing(_open(store)) as opened:
        journal = opened._runtime.journal if isinstance(opened, Memory) else opened
        return [
            list(journal.dump()),
            journal.erasures(),
            journal.subject("bob"),
            journal.store_id,
            journal.meta_get("embedder"),
        ]


def _is_left(store: str | Path) -> bool:
    with closing(_open(store)) as journal:
        return moving.read_mark(journal._engine, moving.MOVED_TO) is not None


def test_up_and_back_everything_is_the_same(url: str, tmp_path: Path) -> None:
    _fill(tmp_path / "s")
    before = _all(tmp_path / "s")
    move(tmp_path / "s", url)
    assert _all(url) == before
    with Memory(url) as memory:
        assert memory.doctor() == []
        assert memory.add("I adopted a dog named Buddy.", user_id="ana", idempotency_key="one").status == "applied"
        assert _all(url) == before, "a key that was used names the same call"
        newest = max(op.seq for op in memory.history(user_id="ana"))
        (op, *_) = memory.add("I play chess.", user_id="ana").ops
        assert op.seq > newest
        assert "chess" in memory.search("chess", user_id="ana", k=1)[0].text
    after = _all(url)
    move(url, tmp_path / "back")
    assert _all(tmp_path / "back") == after
    with Memory(tmp_path / "back") as memory:
        assert memory.doctor() == []
        assert memory.add("I drink coffee.", user_id="ana").ops[0].seq > op.seq


def test_what_is_said_meanwhile_comes_along_and_the_old_store_takes_no_more(url: str, tmp_path: Path) -> None:
    _fill(tmp_path / "s")
    said: list[str] = []
    refused: list[MemkitError] = []

    def talk(memory: Memory) -> None:
        for number in itertools.count():
            text = f"My ticket number is {number}."
            try:
                memory.add(text, user_id="eve", infer=False)
            except MemkitError as error:
                refused.append(error)
                return
            said.append(text)
            time.sleep(0.003)  # as fast as a crowd, not as fast as it goes: the copy must catch up within its rounds

    with Memory(tmp_path / "s") as memory:
        talking = threading.Thread(target=talk, args=(memory,))
        talking.start()
        move(tmp_path / "s", url)
        talking.join()
    assert [type(error) for error in refused] == [StoreMoved]
    assert "postgresql://" in str(refused[0])
    with pytest.raises(StoreMoved):
        Memory(tmp_path / "s")
    with Memory(url) as there:
        assert [record.text for record in there.list(user_id="eve", limit=10_000)] == said
    assert move(tmp_path / "s", url).rows == 0, "done is done"


_KILLED = """
import os, signal, sys
from memkit.journal import moving
from memkit.runtime.moving import move

where, count = sys.argv[3], [0]
missing, follow, finish = moving._missing, moving.follow, moving.finish
def die(): os.kill(os.getpid(), signal.SIGKILL)
def counted(*args):
    count[0] += 1
    if where == "once writes are refused" and count[0] == 2: die()
    return follow(*args)
def finished(*args):
    finish(*args)
    if where == "once it is there": die()
if where == "in the middle":
    moving._missing = lambda target, table, *more: die() if table == "ops" else missing(target, table, *more)
moving.follow, moving.finish = counted, finished
move(sys.argv[1], sys.argv[2])
"""


@pytest.mark.parametrize("where", ["in the middle", "once writes are refused", "once it is there"])
def test_killed_anywhere_one_store_serves_and_the_same_command_goes_on(url: str, tmp_path: Path, where: str) -> None:
    _fill(tmp_path / "s")
    before = _all(tmp_path / "s")
    died = subprocess.run([sys.executable, "-c", _KILLED, tmp_path / "s", url, where], cwd=ROOT, check=False)
    assert died.returncode == -9
    serving = list[str | Path]()
    for store in (tmp_path / "s", url):
        try:
            Memory(store, config={"workers": 0}).close()
            serving.append(store)
        except StoreMoved:
            pass
    assert serving == {"in the middle": [tmp_path / "s"], "once it is there": [url]}.get(where, [])
    move(tmp_path / "s", url)
    assert _all(url) == before


def test_a_move_that_fails_opens_the_old_store_again(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(tmp_path / "s")

    def fail(*_: object) -> None:
        raise StoreUnreachable("the database went away")

    with monkeypatch.context() as patch:
        patch.setattr(moving, "finish", fail)
        with pytest.raises(StoreUnreachable):
            move(tmp_path / "s", url)
    with Memory(tmp_path / "s") as memory:
        memory.erase(user_id="ana")
    before = _all(tmp_path / "s")
    move(tmp_path / "s", url)
    assert _all(url) == before, "what was erased in between is not there, nor are its words"


def test_a_store_in_use_is_never_moved_over(url: str, tmp_path: Path) -> None:
    _fill(tmp_path / "s")
    Memory(url).close()
    with pytest.raises(InvalidInput, match="another store"):
        move(tmp_path / "s", url)
    with pytest.raises(InvalidInput, match="another store"):
        move(url, tmp_path / "s")
    with pytest.raises(NotAStore):
        move(tmp_path / "none", f"{url}_2")
    Memory(tmp_path / "s").close()
