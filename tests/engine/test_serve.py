"""Which of the rows that a question finds are served, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit import Memory


def first(path: Path, said: list[str], question: str) -> str:
    with Memory(path / "s") as memory:
        for text in said:
            memory.add(text, user_id="ana", infer=False)
        return memory.search(question, user_id="ana", k=3)[0].text


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        (
            "The capital of Fantasia is Lirum.",
            "The capital of Fantasia is Port Ode.",
            "What is the capital of Fantasia?",
        ),
        ("My dentist is Dr Wu in Leeds.", "my dentist is dr patel now, in leeds too", "who is my dentist?"),
    ],
)
def test_of_two_statements_about_one_thing_the_newer_comes_first(
    older: str, newer: str, question: str, tmp_path: Path
) -> None:
    between = "Nothing else happened today."
    assert first(tmp_path / "one", [older, between, newer], question) == newer
    assert first(tmp_path / "other", [newer, between, older], question) == older


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Kim plays the sport of rugby.", "Lou plays the sport of tennis.", "Which sport does Kim play?"),
        ("My sister lives in Bonn.", "I told Max that my sister lives in Bonn.", "Where does my sister live?"),
    ],
    ids=["of somebody else", "said again"],
)
def test_what_does_not_contradict_comes_as_it_fits(older: str, newer: str, question: str, tmp_path: Path) -> None:
    assert first(tmp_path, [older, newer], question) == older


def test_what_a_turn_says_beside_a_fact_that_stands_for_it_is_served(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("my husband tom hates coriander. he's from Galway", user_id="ana")
        found = memory.search("husband tom hates coriander, from Galway", user_id="ana")
        assert "Galway" in str([hit.text for hit in found])
