"""Damage is harmless or told, and never silent; replies and ids that are meant to break something do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults._histories import histories
from tests.faults._inputs import damaged_stores, hostile_ids, malformed_replies
from tests.faults._tally import SEED, Tally


@pytest.mark.parametrize("rounds", [12, pytest.param(500, marks=pytest.mark.slow)])
def test_damage_is_harmless_or_told_and_never_silent(rounds: int) -> None:
    found = damaged_stores(rounds, SEED)
    assert not found.broken, found.note


@pytest.mark.parametrize(
    ("family", "count"),
    [
        (malformed_replies, 168),
        (hostile_ids, 30),
        (histories, 100),
        pytest.param(hostile_ids, 600, marks=pytest.mark.slow),
        pytest.param(histories, 3_000, marks=pytest.mark.slow),
    ],
)
def test_what_is_handed_in_breaks_nothing(family: Callable[[int, int], Tally], count: int) -> None:
    found = family(count, SEED)
    assert not found.broken, found.note
