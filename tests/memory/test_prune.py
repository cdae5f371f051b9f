"""Pruning the log: the oldest decisions, traces and labels go; what was said and what is remembered stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memkit import Memory
from memkit.cli.app import app
from memkit.errors import InvalidInput, NotFound, StoreUnreachable
from memkit.models import DecisionRecord
from memkit.store import Trajectories


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()


def model(messages: list[dict[str, str]]) -> str:
    text = messages[-1]["content"].rsplit('"', 2)[-2]
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": text, "turn": 1}]})


class Log:
    """Ten days with a turn and a rated search each; the first six are sealed."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.memory = Memory(path, model=model, mode="fused", clock=self.clock, config={"workers": 0})
        self.asked: list[str] = []
        for number in range(10):
            self.memory.add(f"I keep {number} bees.", user_id="ana")
            self.asked.append(self.memory.search("bees", user_id="ana").trace_id)
            self.memory.feedback(self.asked[-1], user_id="ana", reward=1.0)
            if number == 5:
                self.memory._runtime.sealer.seal(force=True)
            self.clock.time += timedelta(days=1)

    def days_of_decisions(self) -> list[int]:
        return [int(one["created_at"][8:10]) for one in self.memory.decisions(user_id="ana", last=100)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    found = Log(tmp_path / "s")
    yield found
    found.memory.close()


def test_what_is_older_goes_and_everything_else_works_as_before(log: Log) -> None:
    memory = log.memory
    history = memory.history(user_id="ana")
    receipt = memory.prune(days=6)
    assert (receipt.counts["decisions"], receipt.counts["traces"], receipt.counts["feedback"]) == (5, 5, 5)
    assert receipt.log_bytes_after < receipt.log_bytes_before
    assert memory.stats()["pruned"]["counts"] == receipt.counts
    assert log.days_of_decisions() == [6, 7, 8, 9, 10]
    assert memory._runtime.trajectories.last_seq() == 6
    assert memory.doctor() == []
    assert memory.history(user_id="ana") == history
    assert len(memory.search("bees", user_id="ana", k=50, as_of=history[2].seq)) == 3
    memory.undo(user_id="ana", op_id=history[0].op_id)
    assert len(memory.list(user_id="ana")) == 9
    with pytest.raises(NotFound, match="pruned"):
        memory.feedback(log.asked[0], user_id="ana", reward=0.0)
    memory.feedback(log.asked[9], user_id="ana", reward=0.0)
    assert memory.erase(user_id="ana").counts["decisions"] == 5
    assert memory.doctor() == []


def test_the_newest_stays_and_nothing_is_numbered_twice(log: Log) -> None:
    log.memory.prune(megabytes=0)
    assert log.days_of_decisions() == [10]
    log.memory.add("I keep ants.", user_id="ana")
    log.memory._runtime.sealer.seal(force=True)
    assert log.days_of_decisions() == [10, 11]
    assert log.memory._runtime.trajectories.last_seq() == 11
    assert log.memory.doctor() == []


def test_by_size_the_oldest_goes_and_what_is_small_enough_stays(log: Log) -> None:
    assert log.memory.prune(megabytes=100).before is None
    assert log.memory.prune(days=1_000).counts["decisions"] == 0
    assert len(log.days_of_decisions()) == 10
    with pytest.raises(InvalidInput, match="days=90"):
        log.memory.prune()


def test_what_undecided_turns_were_asked_stays(log: Log) -> None:
    journal = log.memory._runtime.journal
    waiting = log.memory.add("I keep wasps.", user_id="bob", wait=False)
    state = journal.intake(waiting.trace_id)
    assert state is not None
    assert state.status == "pending"
    journal.record(DecisionRecord("d_begun", waiting.trace_id, state.intake.bank, "manager", 0, {}, log.clock.now()))
    log.clock.time += timedelta(days=30)
    log.memory.prune(days=0)
    assert journal.decision_ids(waiting.trace_id) == ["d_begun"]


def test_interrupted_it_is_finished_by_the_next_who_opens(
    log: Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: Trajectories, below: int) -> None:
        raise StoreUnreachable(f"the disk failed at {below}", fix="")

    with monkeypatch.context() as patched:
        patched.setattr(Trajectories, "prune", fail)
        with pytest.raises(StoreUnreachable):
            log.memory.prune(days=6)
    assert [log.memory.doctor(), log.days_of_decisions()] == [[], [6, 7, 8, 9, 10]]
    log.memory.close()
    with Memory(tmp_path / "s") as again:
        assert again._runtime.trajectories._table.read(lambda handle: handle and handle.count_rows()) == 1
        assert again.stats()["pruned"]["done"]


def test_the_command(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("I keep bees.", user_id="ana")
        memory.add("I keep ants.", user_id="ana")
    run = CliRunner().invoke
    done = run(app, ["prune", "--store", str(tmp_path / "s"), "--days", "0", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["counts"]["decisions"] > 0
    assert run(app, ["prune", "--store", str(tmp_path / "s"), "--days", "10"]).exit_code == 4
