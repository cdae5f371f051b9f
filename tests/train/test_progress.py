"""What a run says of how far it is, away from a terminal."""

from __future__ import annotations

import pytest

from memkit_train.cli import progress as module


def test_a_stage_that_comes_again_is_timed_from_its_own_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    tick = module._lines()
    for start in (0.0, 1000.0):
        for done in (0, 1, 2, 10, 20):
            now = start + 6.0 * done
            tick("panel", done, 20, {})
    said = [line for line in capsys.readouterr().err.splitlines() if line]
    assert said == ["panel 0/20", "panel 2/20, about 108 s left", "panel 10/20, about 60 s left", "panel 20/20"] * 2


def test_of_a_stage_that_has_only_begun_no_end_is_guessed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    tick = module._lines()
    for done in (1, 2, 3):
        tick("train", done, 3, {})
        now += 20.0
    said = [line for line in capsys.readouterr().err.splitlines() if line]
    assert said == ["train 1/3", "train 2/3, about 20 s left", "train 3/3"]
