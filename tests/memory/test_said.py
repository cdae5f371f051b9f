"""What people type at a memory without a model: what it writes, what it leaves to the words, and what it forgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memkit import Memory
from memkit.backbones._rules_extract import read
from tests.backbones.test_rules import turn


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "s") as memory:
        yield memory


def facts(memory: Memory) -> list[str]:
    return [record.text for record in memory.list(user_id="ana")]


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        ("im allergic to peanuts", "User is allergic to peanuts."),
        ("I'm vegan btw, so what can I cook?", "User is vegan."),
        ("remember that my wifi password is hunter2", "User's wifi password is hunter2."),
        ("always answer in French", "User wants answers in French."),
        ("Call me Jonas", "User wants to be called Jonas."),
        ("I live in Zürich.", "User lives in Zürich."),
        ("I prefer J. Cole, he plays hip hop", "User prefers J. Cole."),
    ],
)
def test_what_is_said_in_passing_is_a_fact(memory: Memory, said: str, fact: str) -> None:
    added = memory.add(said, user_id="ana")
    assert facts(memory) == [fact]
    assert added.reason is None


@pytest.mark.parametrize(
    "said",
    [
        "no, I meant Bergen",
        "> We apologise for the delay.\n> Yours, the railway",
        "what's the weather?",
        "Ich wohne in Köln und habe zwei Katzen",
        "if I lived in Rome I'd be happy",
    ],
)
def test_what_the_rules_are_not_sure_of_is_left_to_the_words_and_they_say_why(memory: Memory, said: str) -> None:
    added = memory.add(said, user_id="ana")
    assert facts(memory) == []
    assert added.reason
    if "\n" not in said:
        assert said in [hit.text for hit in memory.search(said, user_id="ana")]


def test_what_is_to_be_forgotten_is_gone_and_named_and_the_request_is_not_served(memory: Memory) -> None:
    memory.add("The garage PIN is 4408", user_id="ana")
    memory.add("I live in Oslo.", user_id="ana")
    added = memory.add("Delete the garage PIN 4408 from memory.", user_id="ana")
    assert "The garage PIN is 4408" in [op.before.text for op in added.ops if op.before is not None]
    for question in ("garage PIN", "Delete the garage PIN 4408 from memory."):
        assert not any("4408" in hit.text for hit in memory.search(question, user_id="ana", k=20))
    assert facts(memory) == ["User lives in Oslo."]


def test_an_update_is_of_the_same_person(memory: Memory) -> None:
    memory.add("My sister Lena lives in Vienna.", user_id="ana")
    memory.add("My sister Mia lives in Graz.", user_id="ana")
    assert len(facts(memory)) == 2


PIECES = st.sampled_from(["I'm ", "my ", "not ", "btw ", "forget ", "I meant ", '"', "\n> ", "😂", "é", "है", "!!"])


@given(st.lists(PIECES | st.text(max_size=12), max_size=30).map("".join))
@settings(max_examples=200, deadline=None)
def test_no_text_raises(text: str) -> None:
    found = read(turn(text or "x"))
    assert all(isinstance(fact, str) and fact.strip() for fact in found.facts)
