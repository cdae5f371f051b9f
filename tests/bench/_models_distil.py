"""Rows of `models`: a scripted hosted model, asked in one call in JSON, teaches the biased tiny checkpoint to manage,
fact by fact and in lines; then thumbs take it past its teacher's bad habit.

Teacher and students manage the talk of held-out users from an empty bank; the world's reader is asked every final
question of each bank.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from memkit.backbones.function import CallableBackbone
from memkit.backbones.hf import HFBackbone
from memkit.embedders import make_embedder
from memkit.engine.served_with import ServedWith
from memkit_train.lab import tiny
from memkit_train.lab.worlds import Episode, Knobs, Manners, OracleBackbone, Truth, generate, matches
from memkit_train.replay import Env, Policy, script_of
from memkit_train.replay.rewrite import Rewriter
from memkit_train.retrain.collect import collect, open_source
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.reinforce import polish_adapter
from memkit_train.retrain.stages import train
from memkit_train.rewards import Answers
from memkit_train.rewards.trial import HeldOut, trials
from tests.bench._offline_learning import probes
from tests.bench._table import Row
from tests.train.decided import EMBEDDER, decided_alike, logged
from tests.train.hosted import HostedTeacher
from tests.train.policies import turns_of
from tests.train.stores import lived

HABIT = {"retract": 0.0, "shorten": 0.0}
"""It never hears that something is over."""
SEEDS = (0, 1, 2)
USERS, HELD, STEPS = 50, 24, 30
RECIPE: Mapping[str, Any] = {"method.epochs": 4, "method.lr": 2e-3, "method.half_life_days": 36_500}


def json_log(full: bool) -> list[Row]:
    """Random decisions, in any language; each must read as the operations that were logged, and lead to their bank."""
    rows: list[Row] = []
    wanted = 10_000 if full else 1_000
    for mode, style in (("split", "compact"), ("fused", "compact"), ("split", "json"), ("fused", "json")):
        asked = ("fused", "json") if (mode, style) != ("fused", "json") else ("split", "json")
        rng, env = random.Random(f"{mode}/{style}"), Env(EMBEDDER, ServedWith(mode=mode))
        scenes = alike = decisions = 0
        left_out = Counter[str]()
        while decisions < wanted:
            episode = logged(rng, mode=asked[0], style=asked[1], scenes=12)
            calls, missing = Rewriter(env, style).rewrite(episode)
            found = list(decided_alike(episode, env, calls, style))
            scenes, alike, left_out = scenes + len(found), alike + sum(found), left_out + missing
            decisions += len(episode.decisions)
        usable = 1 - left_out.total() / decisions
        note = f"{decisions} decisions of {' '.join(asked)}; left out: {dict(left_out) or 'none'}"
        rows.append(Row(f"random decisions usable as {mode} {style}", usable, "", "1", usable == 1, note))
        rows.append(Row("… scenes that lead to the same bank", alike / scenes, "", "1", alike == scenes, f"{scenes}"))
    return rows


@dataclass(frozen=True, slots=True)
class Taught:
    """One seed: share of the final questions that each one's banks answer."""

    teacher: float
    start: float
    distilled: float
    polished: float
    rows: int
    left_out: int


def distilled(full: bool) -> list[Row]:
    found = [_one_seed(seed) for seed in (SEEDS if full else SEEDS[:1])]
    share = fmean(one.distilled / one.teacher for one in found)
    past = fmean(one.polished - one.teacher for one in found)
    listed = " | ".join(
        f"teacher {one.teacher:.3f}, start {one.start:.3f}, distilled {one.distilled:.3f}, then thumbs "
        f"{one.polished:.3f}"
        for one in found
    )
    rows, left = sum(one.rows for one in found), sum(one.left_out for one in found)
    return [
        Row("decisions of a scripted teacher's JSON log left out", float(left), "", "0", left == 0, f"{rows} rows"),
        Row("distilled student ÷ its teacher, held-out users", share, "", "≥ 0.95", share >= 0.95, listed),
        Row("… then thumbs: points above the teacher", 100 * past, "", "> 0", past > 0, f"{len(found)} seeds"),
    ]


def _one_seed(seed: int) -> Taught:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        episodes = generate(USERS, seed=90 + seed, knobs=Knobs(), split="train")
        teacher: Any = HostedTeacher(episodes, HABIT)
        log = lived(folder / "log", episodes, teacher, manners=Manners(rated=0.5))
        config = _config(log, folder, seed)
        with open_source(config) as source:
            found = collect(source, config, make_embedder("hash"), now=datetime.now(UTC))
            everybody = {source.subject(user) for user in source.users()}
        adapter = train(config, folder / "distilled", found.rows, found.replay, None).path
        polished = polish_adapter(
            _config(log, folder, seed, polish=True), adapter, folder / "polished", everybody
        ).adapter
        held = generate(HELD, seed=9_000 + seed, knobs=Knobs(), split="heldout")
        students = _students(held, {"start": None, "distilled": adapter, "polished": polished})
        return Taught(_teachers(held), **students, rows=len(found.rows), left_out=found.left_out.total())


def _config(log: Path, folder: Path, seed: int, *, polish: bool = False) -> TrainConfig:
    own = f"hf:{tiny.checkpoint('skilled')}"
    sets: dict[str, Any] = {
        "data.store": log,
        "data.heldout_share": 0.0,
        "data.roles": "[manager]",
        "model.base": tiny.checkpoint("biased"),
        "model.parent": "base",
        "model.device": "cpu",
        "method.name": "distil",
        "method.seed": seed,
        "method.save_steps": 0,
        "gate.canaries": 0,
        "output": folder / "runs",
        **RECIPE,
    }
    if polish:
        sets |= {
            "method.polish": True,
            "data.validation_share": 0.15,
            "online.reward.answerer": own,
            "online.stages": f"[{{steps: {STEPS}}}]",
        }
    return load(None, [f"{name}={value}" for name, value in sets.items()])


def _students(held: Sequence[Episode], adapters: Mapping[str, Path | None]) -> dict[str, float]:
    with HFBackbone(tiny.checkpoint("biased"), threads=1, max_batch=64) as backbone:
        for name, folder in adapters.items():
            if folder is not None:
                backbone.load_adapter(name, folder, merged=True)
        policies = [
            Policy(backbone, name if folder is not None else None, roles=("manager",), name=name)
            for name, folder in adapters.items()
        ]
        return {policy.name: _score(held, policy, "split") for policy in policies}


def _teachers(held: Sequence[Episode]) -> float:
    teacher: Any = HostedTeacher(held, HABIT)
    return _score(held, Policy(CallableBackbone(teacher), name="teacher"), "fused")


def _score(held: Sequence[Episode], policy: Policy, mode: str) -> float:
    users = [HeldOut(one.user_id, script_of(one.user_id, turns_of(one)), probes(one)) for one in held]
    answers = Answers(OracleBackbone(Truth(held)), EMBEDDER)
    (trial,) = trials(Env(EMBEDDER, ServedWith(mode=mode)), [policy], users, answers, metric="answer_em")
    asked = [question for one in held for question in one.questions if question.as_of is None]
    return fmean(float(matches(question, case.answer)) for question, case in zip(asked, trial.cases, strict=True))
