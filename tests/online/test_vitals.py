"""Each alarm sounds for its own fault, and for no other, and stops a run when it does so again."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from memkit_train.errors import Collapsed
from memkit_train.rl import source
from memkit_train.rl.rollouts import Batch
from memkit_train.rl.settings import OnlineSettings, StopSettings
from memkit_train.rl.source import OnlineSource
from memkit_train.rl.vitals import Vitals, alarms

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
    (found,) = filter(None, alarms(replace(START, **FAULTS[named]), START, StopSettings()).values())
    assert named in found


@pytest.mark.parametrize("named", FAULTS)
def test_nothing_is_wrong_that_was_so_at_the_start(named: str) -> None:
    bad = replace(START, **FAULTS[named])
    assert not any(alarms(bad, bad, StopSettings()).values())


def test_what_a_batch_did_not_measure_is_no_alarm_and_no_all_clear() -> None:
    assert alarms(QUIET, START, StopSettings()) == {"length": "", "validity": "", "entropy": ""}
    assert alarms(Vitals({}, 0.0, 0.0, 0.0, 0.0, 0), START, StopSettings()) == {}


QUIET = Vitals({}, 0.0, 6.0, 1.0, 0.3, 0)
"""No conversation was played."""


class Run:
    """What a source is given, batch by batch, as a run with `refresh` would give it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seen: list[Vitals]) -> None:
        given = iter(seen)
        monkeypatch.setattr(source, "vitals", lambda trails, replies: next(given))
        self.source = self.fresh()
        self.step = 0

    def fresh(self) -> OnlineSource:
        nothing: Any = SimpleNamespace(
            clock=clock,
            sampled=frozenset(),
            publish=str,
            sample=lambda *_: Batch([], {}),
            record=lambda *_: None,
            state=dict,
            restore=lambda _: None,
        )
        made = OnlineSource(nothing, nothing, nothing, OnlineSettings(), steps=99)
        made.trainer = made.judge = nothing
        return made

    def go(self, batches: int) -> None:
        for _ in range(batches):
            self.source.rows(self.step)
            self.step += 1

    def resumed(self) -> None:
        kept = json.loads(json.dumps(self.source.state()))
        self.source = self.fresh()
        self.source.restore(kept)


@contextmanager
def clock(_: str) -> Generator[None]:
    yield


@pytest.mark.parametrize("named", ["operations are add", "banks grow"])
def test_banks_that_go_wrong_stop_a_run_though_few_batches_look_at_them(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = replace(START, **FAULTS[named])
    run = Run(monkeypatch, [START, QUIET, QUIET, wrong, QUIET, QUIET, wrong])
    run.go(5)
    run.resumed()
    run.go(1)
    with pytest.raises(Collapsed, match=f"(?i){named}"):
        run.go(1)


def test_alarms_are_counted_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sounds once is chance, whatever else sounds next."""
    wrong = [replace(START, **FAULTS[named]) for named in ("tokens long", "operations are add")]
    run = Run(monkeypatch, [START, *wrong, START, *wrong])
    run.go(6)


def test_a_checkpoint_of_before_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(START, **FAULTS["tokens long"])
    run = Run(monkeypatch, [START, wrong])
    run.source.restore({**run.source.state(), "sounded": 1})
    run.go(2)
