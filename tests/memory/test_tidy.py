"""Consolidation at rest: what becomes one, what is settled, what is let go, and what stays whatever a model says."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memkit import AsyncMemory, Memory
from memkit.cli.app import app
from memkit.errors import NotAllowed, NotFound, UndoConflict
from memkit.models import MemoryRecord
from memkit.ops import BankState
from memkit.results import TidyResult
from memkit.runtime import tidying

DAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
LIVES, MOVED = "User lives in Ghent.", "User lives in Bruges."
Reply = Callable[[Sequence[Mapping[str, str]]], str]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "s") as opened:
        yield opened


def take_over(memory: Memory, *texts: str, user_id: str = "ana", **more: Any) -> None:
    """Facts as another system kept them, a day apart: nobody looked for what says the same."""
    for number, text in enumerate(texts):
        memory.import_([{"text": text, "user_id": user_id, "at": DAY + timedelta(days=number), **more}])


def live(memory: Memory, user_id: str = "ana") -> list[MemoryRecord]:
    return memory.bank(user_id=user_id).live(("fact", "episode", "lesson", "turn"))


def texts(memory: Memory, user_id: str = "ana") -> list[str]:
    return sorted(one.text for one in live(memory, user_id))


def content(memory: Memory, user_id: str = "ana") -> object:
    return BankState({one.id: one for one in live(memory, user_id)}).content()


def says(*operations: Mapping[str, Any]) -> Reply:
    return lambda messages: json.dumps({"operations": list(operations)})


# ---- facts -----------------------------------------------------------------------------------------------------------


def test_what_says_the_same_becomes_one_and_a_changed_value_replaces_the_old(memory: Memory) -> None:
    take_over(memory, LIVES, "User has a dog.", "User has a dog named Rex.", MOVED)
    done = memory.tidy(user_id="ana")
    assert texts(memory) == ["User has a dog named Rex.", "User lives in Bruges (before: Ghent)."]
    assert (done.live_before, done.live_after, done.asked, done.left) == (4, 2, 2, 0)
    assert [op.cause.partition(":")[0] for op in done.ops] == ["tidy"] * len(done.ops)
    kept = next(one for one in live(memory) if "Rex" in one.text)
    assert len(kept.source_turns) == 2
    decided = [one for one in memory.decisions(user_id="ana") if one["role"] == "manager"]
    assert [one["reply"].split()[0] for one in decided] == ["UPDATE", "UPDATE"]
    assert decided[0]["candidates"]
    assert memory.doctor() == []


def test_nothing_is_asked_twice_and_a_budget_goes_on_where_it_ended(memory: Memory) -> None:
    take_over(memory, LIVES, MOVED, "User has a red bike.", "User has a red bike and a blue car.")
    first = memory.tidy(user_id="ana", budget=1)
    assert first.asked == 1
    assert first.left > 0
    second = memory.tidy(user_id="ana")
    assert second.asked == 1
    assert len(live(memory)) == 2
    take_over(memory, "User has a red hat.")  # near to the bike, and another thing
    assert [memory.tidy(user_id="ana").asked for _ in range(2)] == [1, 0]


def test_one_undo_takes_the_whole_pass_back(memory: Memory) -> None:
    take_over(memory, LIVES, MOVED, "User has a dog.", "User has a dog named Rex.")
    for number in range(3):
        memory.add("The spare key is under the blue pot.", user_id="ana", at=DAY + timedelta(days=number))
    before = content(memory)
    done = memory.tidy(user_id="ana")
    assert content(memory) != before
    with pytest.raises(NotFound, match="no pass"):
        memory.undo(user_id="ben", turn_id=done.trace_id)
    assert memory.undo(user_id="ana", turn_id=done.trace_id)
    assert content(memory) == before
    with pytest.raises(UndoConflict, match="undone already"):
        memory.undo(user_id="ana", turn_id=done.trace_id)
    assert memory.tidy(user_id="ana").ops, "what was taken back may be decided again"
    assert memory.doctor() == []


def test_of_two_passes_at_once_each_is_taken_back_alone(memory: Memory) -> None:
    """Each machine of a fleet may have a background pass of its own."""
    take_over(memory, LIVES, MOVED, "User has a dog.", "User has a dog named Rex.")
    take_over(memory, "User has a red bike.", "User has a red bike and a blue car.")
    others = list[TidyResult]()

    def meanwhile() -> bool:
        if len(others) < 1 and len(live(memory)) < 6:  # one decision of the first pass is made
            others.append(memory.tidy(user_id="ana", budget=1))
        return False

    done = tidying.tidy(memory._runtime, "ana", None, None, meanwhile)
    (other,) = others
    assert done.ops[0].seq < other.ops[0].seq < done.ops[-1].seq
    after = {op.memory_id for op in other.ops}
    taken_back = memory.undo(user_id="ana", turn_id=done.trace_id)
    assert {op.memory_id for op in taken_back} == {op.memory_id for op in done.ops}
    assert after.isdisjoint(op.memory_id for op in taken_back)
    assert len(memory.undo(user_id="ana", turn_id=other.trace_id)) == len(other.ops)
    assert len(live(memory)) == 6


def test_who_tells_it_how_long_it_lasts_and_its_metadata_keep_facts_apart(memory: Memory) -> None:
    take_over(memory, LIVES, speaker="Ana")
    take_over(memory, LIVES.replace("Ghent.", "Ghent, Belgium."), speaker="Ben")
    take_over(memory, MOVED, metadata={"app": "calendar"})
    memory.add("I live in Ghent now.", user_id="ana")  # said by the user, not by another system
    before = content(memory)
    assert memory.tidy(user_id="ana").ops == ()
    assert content(memory) == before


def test_what_stands_is_neither_rewritten_nor_ended(tmp_path: Path) -> None:
    for name, reply in (
        ("update", {"op": "UPDATE", "id": 1, "text": "User lives in Bruges, not in Ghent."}),
        ("delete", {"op": "DELETE", "id": 1, "text": None}),
    ):
        with Memory(tmp_path / name, model=says(reply)) as memory:
            take_over(memory, LIVES, MOVED)
            pinned = next(one for one in live(memory) if one.text == LIVES)
            memory.pin(pinned.id, user_id="ana")
            done = memory.tidy(user_id="ana")
            assert (done.asked, done.ops) == (1, ())
            assert texts(memory) == sorted([LIVES, MOVED])


def test_a_reply_may_not_lose_what_a_fact_says(tmp_path: Path) -> None:
    asked: list[str] = []

    def shortens(messages: Sequence[Mapping[str, str]]) -> str:
        asked.append(messages[-1]["content"])
        return json.dumps({"operations": [{"op": "UPDATE", "id": 1, "text": "User has pets."}]})

    with Memory(tmp_path / "s", model=shortens, config={"reasks": 1}) as memory:
        take_over(memory, "User has a dog named Rex.", "User has a dog named Rex and a cat named Mia.")
        done = memory.tidy(user_id="ana")
        assert len(asked) == 2
        assert "leaves out" in asked[-1]
        assert done.ops == ()
        assert len(live(memory)) == 2
        (decided,) = memory.decisions(user_id="ana")
        assert decided["apply"]["error"]["type"] == "OpRejected"
    with Memory(tmp_path / "noop", model=says({"op": "NOOP", "id": 1, "text": None})) as memory:
        take_over(memory, "User has a dog named Rex.", "User has a dog named Max.")
        assert memory.tidy(user_id="ana").ops == ()


def test_a_model_that_is_away_ends_the_pass_and_loses_nothing(tmp_path: Path) -> None:
    def fails(messages: object) -> str:
        raise RuntimeError("down")

    with Memory(tmp_path / "s", model=fails) as memory:
        take_over(memory, LIVES, MOVED)
        memory.bank(user_id="ana")
        done = memory.tidy(user_id="ana")
        assert done.ops == ()
        assert done.reason
        assert len(live(memory)) == 2
    with Memory(tmp_path / "s") as memory:
        assert memory.tidy(user_id="ana").ops


def test_what_is_over_is_not_found_in_words_any_more(memory: Memory) -> None:
    memory.add("I have a red car.", user_id="ana", at=DAY)
    memory.add("I sold my red car.", user_id="ana", at=DAY + timedelta(days=3))
    (op,) = [op for op in memory.history(user_id="ana") if op.action == "delete"]
    memory.undo(user_id="ana", op_id=op.op_id)  # as if the manager had not been shown it
    take_over(memory, "User sold the red car.")
    memory.tidy(user_id="ana")
    assert "User has a red car." in texts(memory), "another system may not end what the user said"


# ---- words -----------------------------------------------------------------------------------------------------------


def test_of_words_that_are_said_again_the_later_ones_stay(memory: Memory) -> None:
    said = [
        "The spare key is under the blue pot",
        "btw the spare key is under the blue pot.",
        "Hm. The spare key is under the blue pot, ok?",
    ]
    said += ["Morning! The spare key is under the blue pot."]
    for number, one in enumerate(said):
        memory.add(one, user_id="ana", session_id=f"s{number}", at=DAY + timedelta(days=number))
    memory.tidy(user_id="ana")
    assert texts(memory) == sorted(said[2:]), "a question says nothing"
    (hit,) = [one for one in memory.search("where is the spare key?", user_id="ana") if one.text == said[3]]
    assert hit.memory.at == DAY + timedelta(days=3)
    assert len(hit.memory.source_turns) == 3
    assert len(memory.history(user_id="ana", memory_id=hit.memory.source_turns[1])) == 2


def test_what_else_was_said_beside_it_stays_with_its_day(memory: Memory) -> None:
    key = "The spare key is under the blue pot."
    for number, one in enumerate([f"{key} My uncle has a boat.", key, "Bye for now.", f"{key} Bye for now."]):
        memory.add(one, user_id="ana", at=DAY + timedelta(days=number), session_id=f"s{number}")
    before = content(memory)
    done = memory.tidy(user_id="ana")
    words = [one for one in live(memory) if one.kind == "turn"]
    assert [(one.text, one.at) for one in words if one.session_id == "s0"] == [("My uncle has a boat.", DAY)]
    few = "Bye for now."  # so few words may mean another thing there
    assert sorted(one.text for one in words if one.session_id != "s0") == [few, f"{key} {few}"]
    memory.undo(user_id="ana", turn_id=done.trace_id)
    assert content(memory) == before


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("I like my flat in Ghent", "I do not think that I like my flat in Ghent"),
        ("I like my flat in Ghent", "Not any more: I like my flat in Ghent"),
        ("My knee hurts since yesterday", "My knee hurts since yesterday"),
        ("I like my flat in Ghent", "If I like my flat in Ghent I stay"),
        ("July 5", "We fly to Rome on, July 5"),
        ("I like my flat in Ghent, and the garden", "I like my flat in Ghent"),
    ],
)
def test_words_that_may_say_something_else_stay(memory: Memory, first: str, then: str) -> None:
    memory.add(first, user_id="ana", at=DAY, infer=True)
    memory.add(then, user_id="ana", at=DAY + timedelta(days=9))
    said = [one.text for one in live(memory) if one.kind == "turn"]
    memory.tidy(user_id="ana")
    assert [one.text for one in live(memory) if one.kind == "turn"] == said


def test_words_of_today_and_of_others_stay(memory: Memory) -> None:
    text = "The spare key is under the blue pot"
    for _ in range(2):
        memory.add(text, user_id="ana")
    memory.add({"role": "user", "name": "Ben", "content": text}, user_id="ana", at=DAY)
    memory.add({"role": "user", "name": "Cem", "content": text}, user_id="ana", at=DAY + timedelta(days=2))
    assert memory.tidy(user_id="ana").ops == ()


def test_what_is_forgotten_or_erased_is_found_in_the_words_that_stayed(tmp_path: Path) -> None:
    for ends in ("erase", "erase_first", "forget"):
        with Memory(tmp_path / ends) as memory:
            first = memory.add("The code of my safe is 4417.", user_id="ana", at=DAY)
            again = memory.add("The code of my safe is 4417.", user_id="ana", at=DAY + timedelta(days=5))
            memory.tidy(user_id="ana")
            if ends == "erase":
                memory.erase(user_id="ana", turn_id=again.trace_id)
                memory.erase(user_id="ana", turn_id=first.trace_id)
            elif ends == "erase_first":
                memory.erase(user_id="ana", turn_id=first.trace_id)
                assert "4417" in memory.context("code of my safe", user_id="ana"), "it was said another time, too"
                continue
            else:
                memory.add("Forget the code of my safe.", user_id="ana")
            assert "4417" not in memory.context("code of my safe", user_id="ana")
            assert memory.doctor() == []


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_runs_that_were_kept_without_a_model_become_lessons(tmp_path: Path) -> None:
    steps = [{"role": "assistant", "content": "send(format=amber)"}, {"role": "tool", "content": "accepted"}]
    with Memory(tmp_path / "s") as memory:
        memory.learn(steps, task="Send the report", outcome=True, user_id="ana")
        assert memory.tidy(user_id="ana").asked == 0
        kept = texts(memory)
    lesson = {"op": "ADD", "id": None, "text": "To send a report, use format=amber.", "turn": 2}
    with Memory(tmp_path / "s", model=says(lesson)) as memory:
        done = memory.tidy(user_id="ana")
        assert texts(memory) == ["To send a report, use format=amber."]
        assert live(memory)[0].metadata["lesson"]["outcome"] == "success"
        assert memory.tidy(user_id="ana").asked == 0
        memory.undo(user_id="ana", turn_id=done.trace_id)
        assert texts(memory) == kept


# ---- who calls it ----------------------------------------------------------------------------------------------------


def test_a_space_is_tidied_by_whoever_may_write_and_copies_are_left_alone(memory: Memory) -> None:
    team = memory.principal("ana").create_space("team")
    take_over(memory, LIVES, MOVED)
    for record in live(memory):
        team.promote(record.id)
    assert team.tidy().ops == ()
    team.grant("read", to="ben")
    with pytest.raises(NotAllowed):
        memory.principal("ben").space("team").tidy()


def test_in_the_background_within_a_budget(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", config={"tidy_every_s": 0.02, "tidy_budget": 1}) as memory:
        take_over(memory, LIVES, MOVED, "User has a red bike.", "User has a red bike and a blue car.")
        deadline = time.monotonic() + 60
        while len(live(memory)) > 2 and time.monotonic() < deadline:
            memory.flush()
        assert len(live(memory)) == 2


def test_the_twin_and_the_command_do_the_same(tmp_path: Path) -> None:
    async def run() -> int:
        async with AsyncMemory(tmp_path / "twin") as memory:
            await memory.import_([{"text": one, "user_id": "ana"} for one in (LIVES, MOVED)])
            return len((await memory.user("ana").tidy()).ops)

    assert asyncio.run(run()) == 2
    with Memory(tmp_path / "s") as memory:
        take_over(memory, LIVES, MOVED)
        take_over(memory, LIVES, MOVED, user_id="ben")
    command = CliRunner().invoke(app, ["tidy", "--store", str(tmp_path / "s"), "--budget", "1", "--json"])
    told = json.loads(command.stdout)
    assert command.exit_code == 0
    assert {name: one["asked"] for name, one in told.items()} == {"ana": 1}
    again = ["tidy", "--store", str(tmp_path / "s"), "--user", "ana"]
    assert CliRunner().invoke(app, again).exit_code == 4
