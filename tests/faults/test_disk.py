"""A power cut, a kill and a failing call at any moment: what was acknowledged is there, what others said is whole, and
what was erased is gone. Needs Linux and a C compiler. A failing run names its seed."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.faults import _power
from tests.faults._disk import shim
from tests.faults._tally import Tally

pytestmark = pytest.mark.skipif(shim() is None, reason="needs Linux and a C compiler (cc)")


@pytest.mark.parametrize(
    ("family", "count"),
    [
        (_power.cut_power, 16),
        (_power.kill_at_calls, 2),
        (_power.fail_calls, 60),
        pytest.param(_power.cut_power, 500, marks=pytest.mark.slow),
        pytest.param(_power.kill_at_calls, 80, marks=pytest.mark.slow),
        pytest.param(_power.fail_calls, 4, marks=pytest.mark.slow),
    ],
)
def test_a_fault_at_any_moment_loses_nothing(family: Callable[[int, int], Tally], count: int) -> None:
    found = family(count, random.randrange(2**32))
    assert found.tried
    assert not found.broken, found.note
