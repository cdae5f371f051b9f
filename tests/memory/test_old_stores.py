"""What 0.1.0 wrote is opened, found, undone, erased and imported as it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.adapters.verify import inspect
from memkit.models import Bank
from memkit.ops import BankState

DATA = Path(__file__).parents[1] / "data" / "0.1.0"
EXPECTED: dict[str, Any] = json.loads((DATA / "expected.json").read_text())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    with tarfile.open(DATA / "made.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def old(made: Path) -> Iterator[Memory]:
    with Memory(made / "store", config={"workers": 0}) as memory:
        yield memory


def banks(memory: Memory) -> dict[str, str]:
    """Bank → hash of what was decided in it."""
    found: dict[str, str] = {}
    for name in EXPECTED["banks"]:
        bank = Bank(*name.split("/"))
        records = (r for _, r in memory._runtime.journal.live(bank=bank) if r.kind != "turn")
        found[name] = BankState({record.id: record for record in records}).hash()
    return found


def test_it_holds_what_it_held(old: Memory) -> None:
    assert old.users() == EXPECTED["users"]
    assert banks(old) == EXPECTED["banks"]
    for user, rows in EXPECTED["list"].items():
        listed = [[r.id, r.text, r.kind, r.revision, list(r.source_turns), r.at] for r in old.list(user_id=user)]
        assert [[*row[:5], row[5].isoformat()] for row in listed] == rows
    history = [[op.seq, op.op_id, op.action, op.memory_id, op.text] for op in old.history(user_id="ana")]
    assert history == EXPECTED["history"]
    assert [[p.reason, p.turns[0].text] for p in old.parked()] == EXPECTED["parked"]
    assert [one.digest for one in old.adapters.list()] == [EXPECTED["adapter"]]
    assert old.doctor() == []


def test_it_finds_what_it_found(old: Memory) -> None:
    for question, hits in EXPECTED["search"]:
        assert [[h.memory.id, h.text, h.memory.revision] for h in old.search(question, user_id="ana", k=3)] == hits
    talk = old.search("who went to the pottery class?", user_id="talk", k=3)
    assert [[hit.memory.id, hit.text] for hit in talk] == EXPECTED["talk"]


def test_a_turn_that_it_never_decided_is_decided_now(old: Memory) -> None:
    old.flush()
    assert old.search("what is Ana allergic to?", user_id="ana")[0].text == "User is allergic to peanuts."


def test_what_it_holds_is_confirmed(old: Memory) -> None:
    """Its LanceDB table has no column for that, until something is written."""
    record = old.list(user_id="ana")[0]
    assert record.at is not None
    later = record.at + timedelta(days=400)
    (said,) = [turn.text for turn in old.bank(user_id="ana").turns() if turn.turn_id == record.source_turns[0]]
    old.add(said, user_id="ana", at=later)
    old.flush()
    (again,) = [one for one in old.list(user_id="ana") if one.id == record.id]
    assert (again.at, again.confirmed_at) == (record.at, later)
    assert old.doctor() == []


def test_its_deletion_is_undone_and_its_users_are_erased(old: Memory) -> None:
    deletion = next(op for op in old.history(user_id="ana") if op.action == "delete")
    old.undo(user_id="ana", op_id=deletion.op_id)
    assert any("555 0199" in record.text for record in old.list(user_id="ana"))
    assert old.erase(user_id="ben").counts
    assert old.users() == ["ana", "talk"]


KILLED = {
    "before the journal's step is committed": "sqlite.MIGRATIONS = defaultdict(die)",
    "before the marker": "disk.write_marker = die",
    "before the marker is in its place": "os.replace = die",
    "before LanceDB has the new columns": "LanceTable.add_columns = die",
    "after LanceDB has them": "LanceTable.add_columns = lambda *a, then=LanceTable.add_columns: die(then(*a))",
}
PROGRAM = """
import os, signal, sys
from collections import defaultdict
from lancedb.table import LanceTable
from memkit import Memory
from memkit.journal import disk, sqlite

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

exec(sys.argv[2])
with Memory(sys.argv[1], config={"workers": 0}) as memory:
    memory.add("I paint birds.", user_id="eva", infer=False)
    memory._runtime.projector.project()
print("not killed")
"""


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(step, marks=() if place in (0, len(KILLED) - 1) else pytest.mark.slow)
        for place, step in enumerate(KILLED)
    ],
)
def test_killed_at_any_step_it_is_whole_and_taken_over_the_next_time(made: Path, step: str) -> None:
    program = [sys.executable, "-c", PROGRAM, str(made / "store"), KILLED[step]]
    killed = subprocess.run(program, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    with Memory(made / "store", config={"workers": 0}) as memory:
        assert banks(memory) == EXPECTED["banks"]
        for question, hits in EXPECTED["search"]:
            found = memory.search(question, user_id="ana", k=3)
            assert [[h.memory.id, h.text, h.memory.revision] for h in found] == hits
        memory.add("I paint birds.", user_id="eva", infer=False)
        memory._runtime.projector.project()
        assert [hit.text for hit in memory.search("birds", user_id="eva")] == ["I paint birds."]
        assert memory.doctor() == []


def test_its_export_and_its_adapter_are_taken_in(made: Path) -> None:
    with Memory(made / "new", config={"workers": 0}) as memory:
        memory.import_(made / "export.jsonl")
        assert banks(memory) == EXPECTED["banks"]
        digest = memory.adapters.publish(made / "adapter")
        assert digest in [one.digest for one in memory.adapters.list()]
    inspect(made / "adapter", expected=digest)


def test_what_was_said_earlier_becomes_searchable_on_request(old: Memory) -> None:
    """But for what ended since: as if its words had been kept from the start."""
    assert not [hit for user in old.users() for hit in old.search("anything", user_id=user, kinds=["turn"])]
    deleted = old.list(user_id="ana")[0]
    old.delete(deleted.id, user_id="ana")
    (told,) = old.doctor(keep_turns=True)
    assert told.code == "turns_kept"
    ended = {
        turn
        for op in old.history(user_id="ana")
        if op.action == "delete" and op.before
        for turn in op.before.source_turns
    }
    kept = {
        hit.memory.id.partition(".")[0] for hit in old.search("what did I say?", user_id="ana", kinds=["turn"], k=100)
    }
    assert kept
    assert kept.isdisjoint(ended)
    before = old.history(user_id="ana")[-1].seq
    (again,) = old.doctor(keep_turns=True)
    assert again.what.startswith("0 turns")
    assert old.history(user_id="ana")[-1].seq == before
