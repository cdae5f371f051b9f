"""Reinforcement learning of the manager: estimators, GRPO on the closed world, where a step's time goes, resume.

Beside it: `rl-algorithms` (ppo, co-learning), `rl-curriculum`, `rl-answers`, and `rl-long` (LoGo and trajectory GRPO).
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from memkit_train.lab import tiny
from memkit_train.lab.tiny.measure import Measured
from memkit_train.lab.worlds import Knobs
from memkit_train.rl.algorithms import grpo, logo
from tests.bench import _rl_lab as lab
from tests.bench._results import record
from tests.bench._table import Row
from tests.train import test_algorithms as planted

KINDS = (("extend", "second pet"), ("new", "coexistence"), ("restate", "paraphrase"), ("retract", "retraction"))
ROOT = Path(__file__).parents[2]


def run(full: bool = False) -> list[Row]:
    rows = lab.guarded([_estimators, _credit, _grpo, _resume], full)
    if full:
        record("python -m tests.bench rl --full", rows)
    return rows


def _estimators(full: bool) -> list[Row]:
    """The hand-computed cases are tests; here they are counted."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/train/test_algorithms.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    passed = sum(int(n) for n in re.findall(r"(\d+) passed", done.stdout))
    return [Row("estimators: hand-computed cases", passed, "cases", "all pass", done.returncode == 0 and passed > 0)]


def _credit(full: bool) -> list[Row]:
    """Planted credit per session: how well do advantages correlate with it, at equal generations?"""
    rows: list[Row] = []
    for seed in lab.SEEDS:
        trajectory, pool = _planted(random.Random(seed), 200 if full else 60)
        ours, theirs = planted.correlation(pool), planted.correlation(trajectory)
        rows.append(
            Row(
                f"planted credit, seed {seed}: LoGo",
                ours,
                "correlation",
                "> trajectory GRPO",
                ours > theirs,
                f"trajectory GRPO {theirs:.3f}",
            )
        )
    return rows


def _planted(rng: random.Random, conversations: int):  # type: ignore[no-untyped-def]
    plain, whole, local = [], [], []
    sessions, episodes, rerolls = planted.SESSIONS, planted.GLOBAL, planted.REROLLS
    for number in range(conversations):
        again = sessions // 2
        generations = episodes * sessions + again * rerolls
        talk = [[planted.quality(rng) for _ in range(sessions)] for _ in range(generations // sessions)]
        plain += [planted.played(rng, qualities, f"c{number}") for qualities in talk]
        whole += [planted.played(rng, qualities, f"c{number}") for qualities in talk[:episodes]]
        for session in rng.sample(range(sessions), again):
            tries = [planted.quality(rng) for _ in range(rerolls)]
            made = tuple(
                logo.Reroll((planted.step(written, session=session),), value + rng.gauss(0, 0.15))
                for value, written in tries
            )
            local.append(logo.LocalGroup(f"c{number}", session, "bank", made))
    return grpo.episode_rows(plain)[0], logo.rows(whole, local)[0]


def _grpo(full: bool) -> list[Row]:
    held = lab.World.of(80 if full else 40, lab.HELD, split="heldout")
    biased, skilled = tiny.checkpoint("biased"), tiny.checkpoint("skilled")
    start, ceiling = lab.measured(biased, None, held), lab.measured(skilled, None, held)
    done = [lab.run(lab.settings(), seed) for seed in (range(10) if full else lab.SEEDS)]
    ends = [lab.measured(biased, one.adapter, held) for one, _, _ in done]
    seconds = [cpu for _, cpu, _ in done]
    falls = [max(look[1] for look in one.stages[0]["looks"]) - one.stages[0]["looks"][-1][1] for one, _, _ in done]
    rows = [
        _closed("GRPO + LoRA: share of the gap closed", start, ends, ceiling, "≥ 0.7"),
        _closed(
            "… the tiny model answers for itself",
            lab.measured(biased, None, held, answers="base"),
            [lab.measured(biased, one.adapter, held, answers="base") for one, _, _ in done],
            lab.measured(skilled, None, held, answers="base"),
            "",
        ),
        Row(
            "… CPU time of a run, validation included",
            max(seconds),
            "s",
            "≤ 120",
            max(seconds) <= 120,
            lab.listed(seconds),
        ),
        Row("… end of the schedule below its peak", max(falls), "", "≤ 0.02", max(falls) <= 0.02, lab.listed(falls)),
    ]
    for kind, name in KINDS:
        values = [lab.mean(end.operations[kind]) for end in ends]
        note = f"{kind}: start {lab.mean(start.operations[kind]):.3f}, skilled {lab.mean(ceiling.operations[kind]):.3f}"
        rows.append(Row(f"… {name}", fmean(values), "of operations", "reported", True, f"{note}; {lab.listed(values)}"))
    return [*rows, *_open(done[0][0].adapter), *_shares(done)]


def _closed(name: str, start: Measured, ends: Sequence[Measured], ceiling: Measured, bar: str) -> Row:
    """Answers to held-out people's questions, between the biased start and the skilled ceiling."""
    tables = [end.answers["all"] for end in ends]
    share = lab.closed(start.answers["all"], tables, ceiling.answers["all"])
    low, high = lab.mean(start.answers["all"]), lab.mean(ceiling.answers["all"])
    note = (
        f"{lab.interval(share)}, answers {low:.3f} → {lab.listed([lab.mean(one) for one in tables])}, skilled "
        f"{high:.3f}; {len(ends)} seeds, {share.clusters} people"
    )
    return Row(name, share.value, "", bar or "reported", not bar or share.value >= 0.7, note)


def _open(adapter: Path) -> list[Row]:
    held = lab.World.of(6, lab.HELD, Knobs(level="open"), split="heldout")
    biased = tiny.checkpoint("biased")
    found = [lab.mean(lab.measured(biased, one, held).answers["all"]) for one in (None, adapter)]
    return [
        Row(
            "… open level (names it never read)",
            found[1],
            "of answers",
            "reported",
            True,
            f"start {found[0]:.3f}; the model knows a closed vocabulary",
        )
    ]


def _shares(done) -> list[Row]:  # type: ignore[no-untyped-def]
    """Of the steps between two refreshes, and of all."""
    steps = [one for _, _, metrics in done for one in metrics if "time/environment" in one]
    triple = [fmean(one[f"time/{name}"] for one in steps) for name in ("generation", "optimiser", "environment")]
    usual = median(one["time/environment"] for one in steps)
    shown = " : ".join(f"{share:.0%}" for share in triple)
    return [
        Row(
            "environment share of a step",
            usual,
            "median",
            "≤ 0.05",
            usual <= 0.05,
            f"generation : optimiser : environment = {shown} over all steps",
        )
    ]


def _resume(full: bool) -> list[Row]:
    """Killed at a random step, resumed from the last checkpoint: the same adapter, byte for byte?"""
    same = 0
    tries = 3 if full else 1
    for seed in range(tries):
        step = random.Random(f"kill/{seed}").randint(4, 7)
        with tempfile.TemporaryDirectory() as name:
            whole = _in_process(Path(name) / "whole", seed, -1)
            died = _in_process(Path(name) / "cut", seed, step)
            again = _in_process(Path(name) / "cut", seed, -1)
            same += died.returncode == -signal.SIGKILL and bool(whole.stdout.strip()) and whole.stdout == again.stdout
    return [Row("killed at a random step and resumed: same digest", same / tries, "of tries", "1", same == tries)]


def _in_process(folder: Path, seed: int, step: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.bench._rl_kill",
            str(folder),
            str(seed),
            str(step),
            lab.HEARS,
            str(tiny.checkpoint("biased")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
