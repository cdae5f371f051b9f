"""Step groups compare episodes of one conversation, by hand."""

from __future__ import annotations

import math

import pytest

from memkit_train.algorithms import gigpo
from memkit_train.algorithms.values import ScoredEpisode, ScoredStep


def episode(completion: int, reward: float, group: str) -> ScoredEpisode:
    return ScoredEpisode((ScoredStep((1,), (completion,), state_key="first"),), reward, group)


def test_a_state_is_not_better_in_an_easy_conversation() -> None:
    """Everybody begins by saying the same to an empty bank: that some talks are easy says nothing of what was done."""
    easy, hard = [episode(n, 1.0, "easy") for n in range(2)], [episode(n + 2, 0.0, "hard") for n in range(2)]
    rows, stats = gigpo.rows([*easy, *hard])
    assert rows == []
    assert (stats.groups, stats.dropped) == (4, 4), "two of episodes, two of the state; none with a spread"


def test_within_a_conversation_equal_states_are_compared() -> None:
    """Easy: 1 and 0, median .5, deviation sqrt(.5), the same for the episode and for its step. Hard: all alike."""
    given = [episode(0, 1.0, "easy"), episode(1, 0.0, "easy"), episode(2, 0.0, "hard"), episode(3, 0.0, "hard")]
    rows, _ = gigpo.rows(given)
    one = 0.5 / math.sqrt(0.5)
    assert {row.completion_ids[0]: row.advantage for row in rows} == pytest.approx({0: 2 * one, 1: -2 * one})
    assert len({row.group for row in rows}) == 1
