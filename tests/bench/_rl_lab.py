"""What the reinforcement-learning rows share: the models, the held-out people, a run, and how its adapter is measured.

The start is the shipped `biased` checkpoint, the skill ceiling is `skilled`: the same model before it learned bad
habits. Reinforcement learning weighs what a policy can do; it does not teach it what it cannot.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from memkit.backbones import make_backbone
from memkit.embedders import make_embedder
from memkit.seams.backbone import Backbone, GenRequest, Replies
from memkit_train.files.run_folder import RunFolder
from memkit_train.lab import tiny
from memkit_train.lab.tiny.measure import Measured, measure
from memkit_train.lab.worlds import Episode, Knobs, OracleBackbone, Truth, generate
from memkit_train.learn import lora
from memkit_train.metrics.stats import Estimate
from memkit_train.rl.acting import Acting, Stopwatch
from memkit_train.rl.learner import learner
from memkit_train.rl.run import Polished, polish
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk, of_world
from tests.bench._table import Row
from tests.bench._users import SERVED

SEEDS = (0, 1, 2)
TRAIN, CHOOSE, HELD = 500, 600, 8000
"""Seeds of the people to learn from, to choose checkpoints by, and to measure on. Recipes are tried out on other seeds
(1000 and up), never on `HELD`."""
HEARS = f"hf:{tiny.checkpoint('skilled')}"
"""Who extracts, at the start, while learning and at the ceiling: as usual the app's own model, and the adapter manages.
The skilled checkpoint stands for it."""
ANSWERS = "exact"
"""Who answers when a policy is measured: exact, the world's reader, which shows what a bank is worth; base, the model
itself, whose own errors hide part of it."""
KNOBS = Knobs(probes=8)


@dataclass(frozen=True, slots=True)
class World:
    episodes: list[Episode]
    talks: list[Talk]

    @classmethod
    def of(cls, count: int, seed: int, knobs: Knobs = KNOBS, split: Any = "train") -> World:
        episodes = generate(count, seed=seed, knobs=knobs, split=split)
        return cls(episodes, of_world(episodes))


def run(
    settings: OnlineSettings,
    seed: int,
    *,
    base: Path | None = None,
    train: World | None = None,
    choose: World | None = None,
    parent: Path | None = None,
) -> tuple[Polished, float, list[Mapping[str, Any]]]:
    """(result, CPU seconds, metrics of every step). The adapter stays in a folder of its own."""
    train = train or World.of(60, TRAIN + seed)
    choose = choose or World.of(settings.stop.users, CHOOSE, split="heldout")
    folder = Path(tempfile.mkdtemp(prefix="rl-"))
    started = time.process_time()
    done = polish(
        base or tiny.checkpoint("biased"),
        train.talks,
        choose.talks,
        folder,
        settings=settings,
        parent=parent,
        episodes=[*train.episodes, *choose.episodes],
        served=SERVED,
        seed=seed,
    )
    return done, time.process_time() - started, RunFolder(folder).metrics()


def settings(**chosen: Any) -> OnlineSettings:
    """The recipe of the rows: the world's reader is the frozen answerer while learning, which is exact and cheap."""
    usual: dict[str, Any] = {
        "others": HEARS,
        "reward": {"answerer": "exact", "growth": 0.15},
        "talks": 8,
        "refresh": 10,
        "stages": [{"steps": 75}],
        "stop": {"every": 25, "users": 10},
    }
    return OnlineSettings.model_validate({**usual, **chosen})


class Routed:
    """A backbone for `measure`: the adapter answers in its roles, a frozen model in the others."""

    style, max_parallel, identity = "compact", 1 << 20, "routed"

    def __init__(self, acting: Acting, adapter: str | None, roles: Sequence[str]) -> None:
        self._acting, self._adapter, self._roles = acting, adapter, roles

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return self._acting.generate(
            [replace(one, adapter=self._adapter if one.prompt.role in self._roles else None) for one in requests]
        )

    def close(self) -> None:
        """Nothing of its own."""


def measured(
    base: Path, adapter: Path | None, held: World, roles: Sequence[str] = ("manager",), answers: str | None = None
) -> Measured:
    """Greedy, on people whom nothing was learned from or chosen by."""
    with learner(base, adapter, lora.LoraSpec()) as one:
        oracle = OracleBackbone(Truth(held.episodes))
        own = make_backbone(HEARS)
        try:
            routed = Routed(Acting(one.engine, (), Stopwatch(), own), one.name, roles)  # a new adapter changes nothing
            answerer: Backbone = oracle if (answers or ANSWERS) == "exact" else routed
            return measure(held.episodes, routed, make_embedder("hash"), answerer=answerer)
        finally:
            own.close()


Scores = Mapping[str, Sequence[float]]
"""User → values."""


def closed(start: Scores, ends: Sequence[Scores], ceiling: Scores, draws: int = 2000) -> Estimate:
    """Share of the gap between start and ceiling, mean over seeds; people are redrawn, the same for all."""
    people = list(start)

    def table(scores: Scores) -> np.ndarray:
        return np.array([[sum(scores[one]), len(scores[one])] for one in people], dtype=float)

    tables = [table(start), table(ceiling), *map(table, ends)]

    def share(chosen: np.ndarray) -> float:
        low, high, *found = (one[chosen][:, 0].sum() / one[chosen][:, 1].sum() for one in tables)
        return float(fmean(found) - low) / max(high - low, 1e-9)

    rng = np.random.default_rng(0)
    every = [share(rng.integers(0, len(people), len(people))) for _ in range(draws)]
    low, high = np.quantile(every, [0.025, 0.975])
    return Estimate(share(np.arange(len(people))), float(low), float(high), len(ends), len(people))


def gained(start: Scores, ends: Sequence[Scores], draws: int = 2000) -> Estimate:
    """Mean difference over seeds, people redrawn; seeds are averaged within a person."""
    paired = {
        one: fmean(fmean(end[one]) for end in ends) - fmean(start[one])
        for one in start
        if start[one] and all(end.get(one) for end in ends)
    }
    values = np.array(list(paired.values()))
    rng = np.random.default_rng(0)
    every = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(draws)]
    low, high = np.quantile(every, [0.025, 0.975])
    return Estimate(float(values.mean()), float(low), float(high), len(ends), len(values))


def mean(scores: Scores) -> float:
    return fmean(value for row in scores.values() for value in row)


def improves(name: str, chosen: Any, knobs: Knobs, roles: Sequence[str], full: bool) -> list[Row]:
    held = World.of(60 if full else 24, HELD, knobs, split="heldout")
    biased = tiny.checkpoint("biased")
    choose = World.of(chosen.stop.users, CHOOSE, knobs, split="heldout")
    done = [run(chosen, seed, train=World.of(40, TRAIN + seed, knobs), choose=choose) for seed in SEEDS]
    start = measured(biased, None, held, roles)
    ends = [measured(biased, one.adapter, held, roles) for one, _, _ in done]
    gain = gained(start.answers["all"], [end.answers["all"] for end in ends])
    stages = " | ".join(", ".join(stage["status"] for stage in one.stages) for one, _, _ in done)
    note = (
        f"{interval(gain)}, {mean(start.answers['all']):.3f} → "
        f"{listed([mean(end.answers['all']) for end in ends])}; stages: {stages}; "
        f"CPU s {listed([cpu for _, cpu, _ in done])}"
    )
    return [Row(f"{name}: gain in answers", gain.value, "", "interval > 0", gain.low > 0, note)]


def interval(found: Estimate) -> str:
    return f"[{found.low:.3f}, {found.high:.3f}]"


def listed(values: Sequence[float]) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def guarded(parts: Sequence[Callable[[bool], list[Row]]], full: bool) -> list[Row]:
    """A part that cannot run counts as missed."""
    rows: list[Row] = []
    for part in parts:
        try:
            rows += part(full)
        except Exception as error:
            name = part.__name__.strip("_").replace("_", " ")
            rows.append(Row(name, None, "", "runs", False, f"{type(error).__name__}: {error}"[:200]))
    return rows
