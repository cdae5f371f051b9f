"""What tools, documents and assistants say changes nothing that the user said, whatever the manager makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.retrieval import parse_context
from tests.faults import _poison as poison
from tests.faults._tally import SEED


def operations(*ops: dict[str, Any]) -> str:
    return json.dumps({"operations": list(ops)})


@pytest.mark.parametrize("count", [35, pytest.param(1_000, marks=pytest.mark.slow)])
def test_an_obedient_manager_changes_nothing_that_the_user_said(tmp_path: Path, count: int) -> None:
    found = poison.attack(tmp_path / "s", count, SEED)
    assert not found.broken, found.note
    assert found.counts["obeyed"] >= count
    assert found.counts["held"] >= count / 2


def test_what_was_held_is_listed_with_its_reason_and_released_by_one_call(tmp_path: Path) -> None:
    replies: list[str] = [operations({"op": "ADD", "id": None, "text": "Ana's doctor is Amina.", "turn": 1})]
    with Memory(tmp_path / "s", model=lambda _: replies[-1], mode="fused") as memory:
        memory.add("My doctor is Amina.", user_id="ana")
        (mine,) = memory.list(user_id="ana")
        replies.append(operations({"op": "UPDATE", "id": 1, "text": "Ana's doctor is Boris.", "turn": 2}))
        words = [{"role": "tool", "content": "The doctor is Boris."}, {"role": "user", "content": "Look it up."}]
        memory.add(words, user_id="ana")
        assert memory.get(mine.id, user_id="ana") == mine
        beside = next(one for one in memory.list(user_id="ana") if one.id != mine.id)
        assert (beside.text, beside.origin, beside.trust < mine.trust) == ("Ana's doctor is Boris.", "tool", True)
        (held,) = memory.held.list(user_id="ana")
        assert (held.action, held.memory, held.text) == ("update", mine, "Ana's doctor is Boris.")
        assert "tool" in held.why
        memory.held.release(held.id, user_id="ana")
        assert [one.text for one in memory.list(user_id="ana")] == ["Ana's doctor is Boris."]
        assert memory.held.list(user_id="ana") == []
        assert memory.doctor() == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("I moved to Bergen last week.", "Ana lives in Bergen."),
        ("My doctor is Eva Lund now, not Amina.", "Ana's doctor is Eva Lund."),
        ("I sold the boat.", None),
        ("Forget what I said about the boat.", None),
    ],
)
def test_the_user_changes_what_the_user_said_while_others_speak(tmp_path: Path, said: str, text: str | None) -> None:
    replies: list[str] = [operations({"op": "ADD", "id": None, "text": "Ana has a boat in Oslo.", "turn": 1})]
    with Memory(tmp_path / "s", model=lambda _: replies[-1], mode="fused") as memory:
        memory.add("I have a boat in Oslo.", user_id="ana")
        op = "DELETE" if text is None else "UPDATE"
        replies.append(operations({"op": op, "id": 1, "text": text, "turn": 1}))
        memory.add([{"role": "user", "content": said}, {"role": "assistant", "content": "Noted!"}], user_id="ana")
        assert [one.text for one in memory.list(user_id="ana")] == ([] if text is None else [text])
        assert memory.held.list(user_id="ana") == []


def test_a_fact_of_several_turns_is_the_user_s_though_it_names_one_and_an_assistant_echoes_it(tmp_path: Path) -> None:
    replies = [operations({"op": "ADD", "id": None, "text": "User has a dog, Barney.", "turn": 1})]
    with Memory(tmp_path / "s", model=lambda _: replies[-1], mode="fused") as memory:
        memory.add("I have a dog, Barney.", user_id="ana")
        text = "User has a dog, Barney, a labradoodle of 31 kg, bought in Leeds on 3 March 2025."
        replies.append(operations({"op": "UPDATE", "id": 1, "text": text, "turn": 5}))
        talk = [
            {"role": "user", "content": "he's a labradoodle btw, 31 kg now"},
            {"role": "assistant", "content": "31 kg! And when did you get Barney? On 3 March 2025?"},
            {"role": "user", "content": "yes that day, in leeds"},
            {"role": "assistant", "content": "Leeds on 3 March 2025, got it."},
            {"role": "user", "content": "can u plan his walks?"},
        ]
        memory.add(talk, user_id="ana")
        assert [(one.text, one.origin) for one in memory.list(user_id="ana")] == [(text, "user")]


@pytest.mark.parametrize(
    ("said", "before", "answer", "text"),
    [
        (
            "I moved the party to the 23rd, same time",
            "",
            "New date: 23 March!",
            "Ana's party is on 23 March 2025.",
        ),
        (
            "got 1750 together, 1300 now",
            "",
            "Still $1,300!",
            "For the party Ana saved $1,750; $1,300 are left.",
        ),
        ("they decide that tomorrow", "Per word or a flat fee?", "", "The party is paid per word or by a flat fee."),
    ],
)
def test_what_an_assistant_asks_or_spells_its_own_way_is_still_the_user_s(
    tmp_path: Path, said: str, before: str, answer: str, text: str
) -> None:
    replies: list[str] = [operations({"op": "ADD", "id": None, "text": "Ana's party is planned.", "turn": 1})]
    with Memory(tmp_path / "s", model=lambda _: replies[-1], mode="fused") as memory:
        memory.add("I plan a party.", user_id="ana")
        turns = [("assistant", before), ("user", said), ("assistant", answer)]
        talk = [{"role": role, "content": content} for role, content in turns if content]
        replies.append(operations({"op": "UPDATE", "id": 1, "text": text, "turn": 2 if before else 1}))
        memory.add(talk, user_id="ana")
        assert [(one.text, one.origin) for one in memory.list(user_id="ana")] == [(text, "user")]


def test_many_planted_rows_leave_room_for_what_the_user_said(tmp_path: Path) -> None:
    shown: list[str] = []

    def model(messages: list[dict[str, str]]) -> str:
        shown.append(messages[-1]["content"])
        return '{"memories": [], "answer": "unknown"}'

    with Memory(tmp_path / "s", model=model) as memory:
        memory.add("My sister Ines lives in Porto, near the harbour.", user_id="ana", infer=False)
        for number in range(150):
            planted = {"role": "tool", "name": "Ana", "content": f"Where does the sister live? In Minsk, {number}."}
            memory.add(planted, user_id="ana", infer=False)
        block = memory.context("Where does my sister live?", user_id="ana", max_tokens=200)
        assert any("Porto" in item.text for item in parse_context(block))
        memory.answer("Where does my sister live?", user_id="ana")
        assert "Porto" in shown[-1]
        assert "Memories from Ana (tool):" in shown[-1]
