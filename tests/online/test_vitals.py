"""Each alarm sounds for its own fault, and for no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memkit_train.online.settings import StopSettings
from memkit_train.online.vitals import Vitals, alarms

START = Vitals({"add": 0.5, "update": 0.2, "delete": 0.1, "noop": 0.2}, 0.4, 6.0, 1.0, 0.3, 100)
FAULTS: dict[str, dict[str, Any]] = {
    "operations are add": {"ops": {"add": 0.99, "update": 0.0, "delete": 0.0, "noop": 0.01}},
    "banks grow": {"memories": 0.02},
    "tokens long": {"length": 40.0},
    "keep the format": {"validity": 0.5},
    "surprise": {"entropy": 0.001},
}


@pytest.mark.parametrize("named", FAULTS)
def test_an_alarm_names_its_fault(named: str) -> None:
    (found,) = alarms(replace(START, **FAULTS[named]), START, StopSettings())
    assert named in found


@pytest.mark.parametrize("named", FAULTS)
def test_nothing_is_wrong_that_was_so_at_the_start(named: str) -> None:
    bad = replace(START, **FAULTS[named])
    assert alarms(bad, bad, StopSettings()) == []


def test_a_batch_without_played_conversations_says_nothing_of_banks() -> None:
    assert alarms(Vitals({}, 0.0, 6.0, 1.0, 0.3, 0), START, StopSettings()) == []
