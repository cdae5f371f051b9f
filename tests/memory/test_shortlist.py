"""What a manager is shown: what the new words may change, what the words before them are about, nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.engine.big_bank import BigBank
from memkit.roles.prompting import CALL_CHARS

OPS = '{{"operations": [{}]}}'


class Manager:
    """Writes down what it is told, corrects what it is shown, and keeps every list of memories that it saw."""

    def __init__(self) -> None:
        self.lists: list[list[str]] = []

    def __call__(self, messages: list[dict[str, str]]) -> str:
        memories, said = messages[-1]["content"].split("NEW turns:")
        self.lists.append(re.findall(r'^\d+ \[.*?\] (?:[^"]*)"(.*)"$', memories.split("EARLIER turns:")[0], re.M))
        if "meant Bergen" in said:
            wrong = [n for n, text in enumerate(self.lists[-1], start=1) if text == "Ana moves to Oslo in May."]
            update = '{{"op": "UPDATE", "id": {}, "text": "Ana moves to Bergen in May.", "turn": 1}}'
            return OPS.format(", ".join(update.format(n) for n in wrong))
        if "moving to Oslo" in said:
            return OPS.format(
                '{"op": "ADD", "id": null, "text": "Ana moves to Oslo in May.", "turn": 1}, '
                '{"op": "ADD", "id": null, "text": "Kari is the sister of Ana.", "turn": 1}'
            )
        return OPS.format("")


def bank(path: Path, manager: Any, others: int, **config: Any) -> Memory:
    """Ana's, with facts that are nearer to the words of the correction than what it corrects."""
    memory = Memory(path, model=manager, mode="fused", config=config)
    memory.import_([{"text": f"No, guest {n} meant room {n}.", "user_id": "ana"} for n in range(others)])
    memory.import_([{"text": "Coach: Ana moves to Oslo in May.", "user_id": "ana", "agent_id": "coach"}])
    return memory


def correct(memory: Memory) -> list[str]:
    memory.add("I'm moving to Oslo in May, with my sister Kari.", user_id="ana", session_id="s")
    memory.add("no, I meant Bergen", user_id="ana", session_id="s")
    return [text for text in facts(memory) if text.startswith(("Ana", "Kari"))]


def facts(memory: Memory) -> dict[str, str]:
    """Text → id."""
    return {record.text: record.id for record in memory.list(user_id="ana", limit=200)}


@pytest.mark.parametrize("preselect_from", [5_000, 50])
def test_what_the_earlier_turns_say_can_be_corrected(tmp_path: Path, preselect_from: int) -> None:
    manager = Manager()
    with bank(tmp_path / "s", manager, 150, preselect_from=preselect_from) as memory:
        memory.flush()
        assert isinstance(memory._runtime.reader.scope("ana", ""), BigBank) == (preselect_from == 50)
        assert sorted(correct(memory)) == ["Ana moves to Bergen in May.", "Kari is the sister of Ana."]
    (shown,) = manager.lists[1:]
    half = len(shown) // 2
    assert sum("guest" in text for text in shown[:half]) == half, "half of the list is for the new words"
    assert not [text for text in shown if text.startswith("Coach")], "another bank's"


def test_a_small_bank_is_shown_whole(tmp_path: Path) -> None:
    manager = Manager()
    with bank(tmp_path / "s", manager, 40) as memory:
        correct(memory)
    assert [len(shown) for shown in manager.lists] == [40, 42]


def test_of_a_larger_bank_as_much_is_shown_as_the_prompt_holds_and_the_earlier_turns_stay(tmp_path: Path) -> None:
    prompts: list[str] = []

    def model(messages: list[dict[str, str]]) -> str:
        prompts.append("\n".join(message["content"] for message in messages))
        return OPS.format("")

    with bank(tmp_path / "s", model, 150) as memory:
        correct(memory)
    for prompt in prompts:
        assert CALL_CHARS - 200 < len(prompt) <= CALL_CHARS
    assert "with my sister Kari" in prompts[1].split("EARLIER turns:")[1]


def test_a_model_that_is_asked_in_lines_is_shown_as_many_as_it_was_trained_on(tmp_path: Path) -> None:
    lists: list[int] = []

    def model(messages: list[dict[str, str]]) -> str:
        lists.append(messages[-1]["content"].count("guest"))
        return "NOOP"

    memory = Memory(tmp_path / "s", model=model, mode="fused", style="compact")
    with memory:
        memory.import_([{"text": f"No, guest {n} meant room {n}.", "user_id": "ana"} for n in range(40)])
        memory.add("no, I meant Bergen", user_id="ana", session_id="s")
    assert lists == [20]


def test_what_the_earlier_turns_are_about_is_shown_although_nothing_was_drawn_from_them(tmp_path: Path) -> None:
    manager = Manager()
    with bank(tmp_path / "s", manager, 150) as memory:
        memory.import_([{"text": "The piano tuner comes on Fridays.", "user_id": "ana"}])
        for said in ("When does the piano tuner come?", "no, I meant Bergen"):
            memory.add(said, user_id="ana", session_id="s")
        memory.add("no, I meant Bergen", user_id="ana", session_id="another")
    assert ["The piano tuner comes on Fridays." in shown for shown in manager.lists] == [True, True, False]


def test_what_ended_since_is_not_shown(tmp_path: Path) -> None:
    manager = Manager()
    with bank(tmp_path / "s", manager, 150) as memory:
        memory.add("I'm moving to Oslo in May, with my sister Kari.", user_id="ana", session_id="s")
        memory.delete(facts(memory)["Ana moves to Oslo in May."], user_id="ana")
        memory.add("no, I meant Bergen", user_id="ana", session_id="s")
    assert "Kari is the sister of Ana." in manager.lists[-1]
    assert not [text for text in manager.lists[-1] if "Oslo" in text]


@pytest.mark.parametrize("preselect_from", [5_000, 50])
def test_what_always_matters_is_shown_however_long_the_new_turn_is(tmp_path: Path, preselect_from: int) -> None:
    manager = Manager()
    with bank(tmp_path / "s", manager, 150, preselect_from=preselect_from) as memory:
        memory.import_([{"text": "Ana is allergic to peanuts.", "user_id": "ana"}])
        memory.pin(facts(memory)["Ana is allergic to peanuts."], user_id="ana")
        memory.flush()
        for said in ("no, I meant room 7", "no, I meant the room of guest 7. " * 400):
            memory.add(said, user_id="ana", session_id="another")
    assert [shown[0] for shown in manager.lists] == ["Ana is allergic to peanuts."] * len(manager.lists)
    assert len(manager.lists[-1]) < len(manager.lists[0]), "the long turn leaves less room"
