"""A log of two kinds of models: what a method can use is used, and only a log without any of it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memkit.roles.base import ChatMessage
from memkit_train.errors import MissingLogprobs, WrongVocabulary
from memkit_train.rows import LabelledRow, PreferencePair, TextRow, TokenRow
from memkit_train.shapes import shaped

GOOD = TokenRow((1, 2), (7, 0), reward=1.0, logprobs=(-0.1, -0.1), state_key="a", ref="d_1")
BAD = replace(GOOD, completion_ids=(8, 0), reward=0.0, ref="d_2")
ASKED = (ChatMessage("user", "NEW fact: x"),)
HOSTED = [
    TextRow(ASKED, "ADD", reward=1.0, state_key="b", ref="d_3"),
    TextRow(ASKED, "NOOP", reward=0.0, state_key="b", ref="d_4"),
    TextRow(ASKED, "NOOP", reward=1.0, state_key="c", ref="d_5"),
    TextRow((*ASKED, *ASKED), "ADD", reward=0.0, state_key="c", ref="d_6"),
]


def refs(found: object) -> list[str]:
    return [row.ref for row in found]  # type: ignore[attr-defined]


def test_kto_takes_the_text_of_a_hosted_model_as_well() -> None:
    found = shaped([GOOD, *HOSTED[:2], BAD, replace(HOSTED[2], reward=None)], "kto")
    assert refs(found) == ["d_1", "d_2", "d_3", "d_4"]
    assert [type(row) for row in found] == [LabelledRow, LabelledRow, TextRow, TextRow]


def test_dpo_takes_two_texts_of_one_prompt_that_fared_differently() -> None:
    found = shaped([GOOD, *HOSTED, BAD], "dpo")
    assert refs(found) == ["d_1", "d_3", "d_4"]
    assert [type(row) for row in found] == [PreferencePair, TextRow, TextRow]
    assert shaped(HOSTED[2:], "dpo") == [], "another prompt is no alternative"


def test_offline_goes_on_with_the_rows_it_can_weigh() -> None:
    unknown = replace(BAD, logprobs=None)
    assert shaped([*HOSTED, unknown], "offline", [GOOD]) == [*HOSTED, unknown, GOOD], "the method counts the others"
    assert shaped([], "offline") == []
    with pytest.raises(MissingLogprobs, match="offline cannot use this log: 1 of 1"):
        shaped([*HOSTED, unknown], "offline")
    with pytest.raises(WrongVocabulary, match=r"4 of 4 rows have no token ids.*`kto`, which take text"):
        shaped(HOSTED, "offline")
