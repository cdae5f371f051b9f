"""A power cut, a kill and a failing call at any moment: what was acknowledged is there, what others said is whole, and
what was erased is gone. Needs Linux and a C compiler."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults import _power
from tests.faults._disk import shim
from tests.faults._tally import SEED, Tally

pytestmark = pytest.mark.skipif(shim() is None, reason="needs Linux and a C compiler (cc)")


@pytest.mark.parametrize(
    ("family", "count"),
    [
        (_power.cut_power, 16),
        (_power.kill_at_calls, 2),
        pytest.param(_power.kill_at_calls, 80, marks=pytest.mark.slow),
    ],
)
def test_a_fault_at_any_moment_loses_nothing(family: Callable[[int, int], Tally], count: int) -> None:
    """On a disk that keeps the order of its writes. `python -m tests.bench trust` tries more of each, failing calls and
    disks that keep none: docs/promises.md tells what they find."""
    found = family(count, SEED)
    assert found.tried
    assert [one for one in found.broken if "strict state" not in one] == [], found.note
