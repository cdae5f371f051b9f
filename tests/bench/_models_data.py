"""Rows of `models` about data and learning: what a hosted model's log teaches, whether labels say what was meant, what
replies earn, and the way out to other trainers and back."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from memkit_train.metrics import scores
from memkit_train.metrics.right import rate
from memkit_train.rl.algorithms import grpo
from memkit_train.rl.algorithms.values import ScoredEpisode, ScoredStep
from tests.bench._table import Row
from tests.train import test_adopt
from tests.train.test_right import judged


def refused_replies(full: bool) -> list[Row]:
    """A reply that was refused, and mended by a re-ask, among clean ones that changed nothing."""
    refused, clean = (ScoredStep((9,), (ids,), None, refused=ids == 1) for ids in (1, 2))
    praised: list[float] = []
    blamed: list[float] = []
    for others in range(1, 8):
        for earned in (0.0, 0.1, 0.4):
            group = [ScoredEpisode((refused,), 1.0, "state")]
            rows, _ = grpo.episode_rows([*group, *[ScoredEpisode((clean,), earned, "state")] * others])
            praised += [_number(row.advantage) for row in rows if row.completion_ids == (1,)]
            blamed += [_number(row.advantage) for row in rows if row.completion_ids == (2,)]
    most, least = max(praised), min(blamed)
    note = f"{len(praised)} groups of 2 to 8 in which the re-ask earned 1"
    return [
        Row("advantage of a refused reply, at most", most, "", "≤ 0", most <= 0, note),
        Row("… of a clean NOOP in its group, at least", least, "", "≥ 0", least >= 0, f"{len(blamed)} of them"),
    ]


def label_rule(full: bool) -> list[Row]:
    """Answers as models word them, with verdicts given by hand: the rule of labels, and F1, which was it before."""
    ours = theirs = 0
    found = judged()
    for right, expected, answer in found:
        ours += (rate(answer, expected) >= 0.5) == right
        abstained = float(scores.abstains(answer)) if scores.abstains(expected) else None
        f1 = scores.f1_squad(answer, expected) if abstained is None else abstained
        theirs += (f1 >= 0.5) == right
    share, other = ours / len(found), theirs / len(found)
    return [
        Row(
            "labels: agreement with verdicts given by hand", share, "", "≥ 0.97", share >= 0.97, f"{len(found)} answers"
        ),
        Row("… of the F1 of the words", other, "", "reported", True, "what labels were made of before"),
    ]


def out_and_back(full: bool) -> list[Row]:
    """A log is exported, a script of TRL's trains on it, and its adapter is adopted and promoted. The figures of the
    exam are given: four steps on a random model earn none."""
    failed = ""
    with tempfile.TemporaryDirectory() as room, pytest.MonkeyPatch.context() as patched:
        try:
            test_adopt.go_out_and_come_back(test_adopt.hosted(Path(room)), Path(room), patched)
        except Exception as error:
            failed = f"{type(error).__name__}: {str(error)[:200]}"
    return [Row("export, stock TRL script, adopt, promote", float(bool(failed)), "", "exit 0", not failed, failed)]


def doctor(full: bool) -> list[Row]:
    """Each step on the device that is named; on a GPU it is the same command without `--device cpu`."""
    command = [sys.executable, "-m", "memkit_train", "doctor", "--gpu", "--device", "cpu"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    done = ran.returncode == 0
    told = "" if done else (ran.stderr or ran.stdout)[-200:]
    return [Row("memkit-train doctor --gpu --device cpu", float(ran.returncode), "", "exit 0", done, told)]


def _number(advantage: float | tuple[float, ...]) -> float:
    assert not isinstance(advantage, tuple)
    return advantage
