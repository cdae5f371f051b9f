"""Four weeks at one app. Each week other people talk to whatever serves; then `retrain` reads the log
that has grown, goes on from what serves, and what passes the gate is promoted.

The tiny checkpoint with bad habits manages, and is what is trained; the skilled one stands for the app's own model,
which listens and answers. What serves after each week is asked the final questions of people whom nobody learned from.
`--full` takes three seeds, eighteen minutes of CPU each, and writes RESULTS.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from memkit.adapters.promotion import promote
from memkit.backbones.hf import HFBackbone
from memkit_train.lab import tiny
from memkit_train.lab.demo.chatbot import AT_ONCE, Chatbot, Visit
from memkit_train.lab.worlds import Episode, Knobs, Manners, generate
from memkit_train.metrics.stats import difference_by_cluster, mean_by_cluster
from memkit_train.replay.env import beside
from memkit_train.retrain import run as command
from memkit_train.retrain import stages
from memkit_train.retrain.config import TrainConfig
from tests.bench._offline_learning import ROLES, World, others, scores, tried
from tests.bench._results import record
from tests.bench._table import Row
from tests.bench._users import OPTIONS

WEEKS, PEOPLE, HELD = 4, 100, 40
EXPLORE = 0.5
"""Share of decisions that are sampled: greedy ones hold no news."""
SEEDS = (71, 72, 73)

Scores = Mapping[str, Sequence[float]]
"""User → 1.0 for every question that the bank allowed to be answered."""


@dataclass
class Weeks:
    """What served after each week, the start first, and what became of each retrain."""

    scores: list[Scores] = field(default_factory=list[Scores])
    said: list[str] = field(default_factory=list[str])


def run(full: bool = False) -> list[Row]:
    torch.set_num_threads(1)
    rows: list[Row] = []
    for seed in SEEDS if full else SEEDS[:1]:
        with tempfile.TemporaryDirectory() as room:
            found = spend_weeks(World(seed, Path(room), PEOPLE, HELD))
        means = " → ".join(f"{mean_by_cluster(one).value:.3f}" for one in found.scores)
        steps = [difference_by_cluster(b, a) for a, b in zip(found.scores, found.scores[1:], strict=False)]
        worse = sum(step.high < 0 for step in steps)
        end = difference_by_cluster(found.scores[-1], found.scores[0])
        told = f"{means}; {'; '.join(found.said)}"
        rows += [
            Row(f"weekly, seed {seed}: weeks after which less is answered", float(worse), "", "0", not worse, told),
            Row("… last week against the start, points", 100 * end.value, "", "interval > 0", end.low > 0, f"{end}"),
        ]
    if full:
        record("python -m tests.bench models-weekly --full", rows)
    return rows


def spend_weeks(world: World, *, weeks: int = WEEKS) -> Weeks:
    found = Weeks([_score(world, None)])
    for week in range(weeks):
        _talk(world, week)
        digest, said = _retrain(configure(world))
        found.said.append(said)
        adapter = None if digest is None else world.folder / "store" / "adapters" / digest
        found.scores.append(found.scores[-1] if adapter is None else _score(world, adapter))
    return found


def configure(world: World) -> TrainConfig:
    return world.config(
        world.folder / "store",
        **{
            "data.heldout_share": 0.4,
            "model.parent": "production",
            "model.answerer": f"hf:{tiny.checkpoint('skilled')}",
            "gate.canaries": 16,
        },
    )


def _talk(world: World, week: int) -> None:
    """With what was promoted, or the base."""
    episodes: Sequence[Episode] = generate(world.users, seed=100 * world.seed + week, knobs=Knobs(), split="train")
    visits = [Visit(one, f"{week}/{one.user_id}", Manners(), seed=world.seed) for one in episodes]
    with (
        others() as own,
        HFBackbone(tiny.checkpoint("biased"), threads=1, max_batch=AT_ONCE) as model,
        Chatbot(world.folder / "store", beside(model, own, ROLES), explore=EXPLORE, config=OPTIONS) as chatbot,
    ):
        chatbot.serve(visits)


def _retrain(config: TrainConfig) -> tuple[str | None, str]:
    """What was published is promoted. Forced: everybody's months begin on days of their own, so a week's labels may be
    older than those of the week before."""
    done = command.retrain(config, force=True)
    if done.digest is None:
        return None, f"{done.status} ({done.why[:200]})"
    registry = stages.open_registry(config)
    try:
        promote(registry, "production", done.digest)
    finally:
        registry.close()
    return done.digest, done.status


def _score(world: World, adapter: Path | None) -> Scores:
    return scores(world, tried(world, {"served": adapter}, skilled=False))["served"]
