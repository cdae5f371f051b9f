"""Whether an answer says what was expected: 299 answers as models word them, with verdicts given by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit_train.metrics.right import rate, says

JUDGED = Path(__file__).parents[1] / "data" / "answers" / "right.tsv"


def judged() -> list[tuple[bool, str, str]]:
    """(right, expected, answer)."""
    lines = (line.split("\t") for line in JUDGED.read_text(encoding="utf-8").splitlines())
    return [(verdict == "1", expected, answer) for verdict, expected, answer in lines]


def test_the_rule_agrees_with_whoever_read_the_answers() -> None:
    found = [(rate(answer, expected) >= 0.5) == right for right, expected, answer in judged()]
    assert sum(found) >= 0.97 * len(found)


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        ("You live in Bergen - you told me that you had moved there.", "Bergen", True),
        ("You don't live in Bergen any more.", "Bergen", False),
        ("Your dogs are Buddy, Scout and Rex.", "Buddy and Scout", False),
        ("It was on May 7, 2023.", "2023-05-07", True),
        ("It was moved from Lisbon to Madrid.", "Lisbon", False),
        ("", "Bergen", False),
    ],
)
def test_what_is_said(answer: str, expected: str, right: bool) -> None:
    assert (rate(answer, expected) >= 0.5) is right


def test_what_was_once_worded_at_length_is_said_in_a_word() -> None:
    assert rate("Bergen", "You live in Bergen, near the harbour.", worded=True) == 1.0
    assert rate("Bergen", "You live in Bergen, near the harbour.") < 0.5


def test_any_text_is_read() -> None:
    for text in ("", " ", "\x00", "((((", "٣" * 50, "1" * 400, "and and, and", "\ud800"):
        for other in ("", "7 May", "and", text):
            assert 0.0 <= rate(text, other) <= 1.0
            says(text, other)
