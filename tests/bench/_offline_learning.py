"""What `offline-training` stands on: logs of simulated users, adapters made of them by the trainer's own
stages, and how good a policy is for users whom nobody trained on.

The tiny model manages; it is what has bad habits and what is trained. Who listens and who answers is the same for all,
in the log as in the score: the skilled checkpoint, which stands for the app's own model. It reads as models do, and is
misled by a memory that should have been rewritten. (An exact reader is as happy with a new fact added beside the old
one: then ratings reward adding.) Whoever trains sees nothing but turns, decisions, answers and some ratings.

A policy is scored by the answers that its banks allow: it manages the talk of held-out users from an empty bank, and
every final question is asked. Start is the biased checkpoint, which also wrote the log; ceiling is the skilled one.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest.mock import patch

import torch

from memkit.backbones.hf import HFBackbone, checkpoint
from memkit.embedders import make_embedder
from memkit_train.credit.rows import rows as rows_of
from memkit_train.lab import tiny
from memkit_train.lab.worlds import Episode as Talk
from memkit_train.lab.worlds import Knobs, Manners, generate, matches
from memkit_train.log import StoreSource, Trajectory
from memkit_train.metrics.stats import mean_by_cluster
from memkit_train.replay import Env, Policy, script_of
from memkit_train.replay.env import beside
from memkit_train.retrain.amends import find_amends
from memkit_train.retrain.collect import Collected, collect, open_source
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.reinforce import polish_adapter
from memkit_train.retrain.stages import train
from memkit_train.rewards import Answers, Probed
from memkit_train.rewards.trial import HeldOut, Trial, trials
from memkit_train.rows import TokenRow
from tests.bench._table import Row
from tests.bench._users import SERVED, live
from tests.train.policies import turns_of

SEEDS = (61, 62, 63)
USERS, HELD = 120, 40
ROLES = ("manager",)
"""The bias is the manager's."""
NEVER = 36_500
"""Days until a decision counts half: these users' habits do not change over the years that they are simulated for."""
EXPLORE = 1.0
"""Share of the logged decisions that were sampled at temperature 1: greedy ones hold no news."""
SAMPLES = 16
"""Of each blamed decision."""
POLISH = 20
"""Steps, as in the demo."""
DIGESTS: Mapping[str, str] = {
    "skilled": "1b9cbbefe957dbc9ea19da7495301e1a880de011aad2462b87b25f3b8579b521",
    "biased": "b9120fbf9d1d92217b918d8a43c04c22fb54c631091360fb719bb227e47f2b90",
}
"""Configuration and weights that every figure belongs to."""
IMITATION: Mapping[str, Any] = {"method.epochs": 8, "method.lr": 2e-3}
"""Rejection SFT of a model this small, as in `memkit-train demo`; found on other users (seeds 1000 and 50,000)."""
_T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t for a two-sided 95 % interval of n runs."""

Scores = Mapping[str, Mapping[str, Sequence[float]]]
"""Policy → user → 1.0 for every question that its bank allowed to be answered."""


@dataclass(frozen=True, slots=True)
class World:
    """One seed: users who talk to the biased model, and others to score by."""

    seed: int
    folder: Path
    users: int = USERS
    held: int = HELD

    def log(self, rated: float = 0.3, name: str = "log") -> Path:
        episodes = generate(self.users, seed=self.seed, knobs=Knobs(), split="train")
        with others() as own:
            live(
                self.folder / name,
                episodes,
                tiny.checkpoint("biased"),
                manners=Manners(rated=rated),
                seed=self.seed,
                explore=EXPLORE,
                others=own,
            )
        return self.folder / name

    def config(self, store: Path, **changes: Any) -> TrainConfig:
        sets = {
            "data.store": store,
            "data.heldout_share": 0.0,
            "data.roles": list(ROLES),
            "model.parent": "base",
            "model.base": tiny.checkpoint("biased"),
            "model.device": "cpu",
            "method.seed": self.seed,
            "method.half_life_days": NEVER,
            "method.save_steps": 0,
            "gate.canaries": 0,
            "output": self.folder / "runs",
            **IMITATION,
            **changes,
        }
        return load(None, [f"{name}={value}" for name, value in sets.items()])

    def collected(self, config: TrainConfig, *, shuffled: bool = False) -> Collected:
        with Shuffled(config.data.path, self.seed) if shuffled else open_source(config) as source:
            return collect(source, config, make_embedder("hash"), now=datetime.now(UTC))

    def amended(self, config: TrainConfig, *, shuffled: bool = False) -> list[TokenRow]:
        """Blamed decisions taken again, as `method.amends` has them."""
        changed = config.model_copy(update={"method": config.method.model_copy(update={"amends": SAMPLES})})
        with others() as own, self._opened("memkit_train.retrain.amends", config, shuffled):
            rows, _ = find_amends(changed, None, others=own)
        return rows

    def polished(self, name: str, config: TrainConfig, adapter: Path, *, shuffled: bool = False) -> Path:
        """Reinforcement learning from replayed states of the log on top, as `method.polish` has it in the demo."""
        own = f"hf:{tiny.checkpoint('skilled')}"
        chosen = self.config(
            config.data.path,
            **{
                "method.polish": True,
                "data.validation_share": 0.15,
                "online.others": own,
                "online.reward.answerer": own,
                "online.stages": f"[{{steps: {POLISH}}}]",
            },
        )
        with open_source(chosen) as source:
            everybody = {source.subject(user) for user in source.users()}
        with self._opened("memkit_train.retrain.reinforce", chosen, shuffled):
            return polish_adapter(chosen, adapter, self.folder / name, everybody).adapter

    def _opened(self, where: str, config: TrainConfig, shuffled: bool) -> Any:
        def opened(_: TrainConfig) -> StoreSource:
            return Shuffled(config.data.path, self.seed) if shuffled else open_source(config)

        return patch(f"{where}.open_source", opened)

    def adapter(
        self, name: str, config: TrainConfig, found: Collected, *, parent: Path | None = None, **more: Any
    ) -> Path:
        return train(config, self.folder / name, found.rows, found.replay, parent, **more).path

    def held_out(self) -> list[Talk]:
        return generate(self.held, seed=7_000 + self.seed, knobs=Knobs(), split="heldout")


def others() -> HFBackbone:
    """Who listens and answers."""
    return HFBackbone(tiny.checkpoint("skilled"), threads=1, max_batch=64)


class Shuffled(StoreSource):
    """A log whose answers have each other's feedback: everything that is done with labels is done with these."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__(path)
        given = [(trace, said) for one in super().trajectories() for trace, said in one.feedback.items()]
        mixed = [said for _, said in given]
        random.Random(seed).shuffle(mixed)
        self._feedback = {trace: said for (trace, _), said in zip(given, mixed, strict=True)}

    def episodes(self, users: Sequence[str] | None = None) -> Iterator[Trajectory]:
        for one in super().trajectories(users):
            yield replace(one, feedback={trace: self._feedback[trace] for trace in one.feedback})


def permuted(found: Collected, seed: int) -> Collected:
    """The decisions that credit judged, each with another one's reward."""
    judged = [row for row in found.rows if row.reward is not None]
    rewards = [row.reward for row in judged]
    random.Random(seed).shuffle(rewards)
    return replace(found, rows=[replace(row, reward=y) for row, y in zip(judged, rewards, strict=True)])


def unfiltered(config: TrainConfig, like: Collected, seed: int) -> Collected:
    """As many logged decisions as there are good ones, taken blindly: rewards that are shuffled over the whole log, and
    so imitation of oneself."""
    with open_source(config) as source:
        every = [
            replace(row, reward=1.0)
            for row in rows_of(source.decisions(), source.subject, now=datetime.now(UTC))
            if row.role in ROLES
        ]
    good = sum(row.reward is not None and row.reward >= 0.5 for row in like.rows)
    return replace(like, rows=random.Random(seed).sample(every, min(good, len(every))), replay=[])


def tried(world: World, adapters: Mapping[str, Path | None], *, skilled: bool = True) -> dict[str, Trial]:
    """Every adapter over the biased base (None: the base alone), and the skilled checkpoint, on the same users."""
    episodes = world.held_out()
    embedder = make_embedder("hash")
    users = [HeldOut(one.user_id, script_of(one.user_id, turns_of(one)), probes(one)) for one in episodes]
    found: dict[str, Trial] = {}
    groups: list[tuple[tiny.Name, Mapping[str, Path | None]]] = [("biased", adapters)]
    for base, members in [*groups, *([("skilled", {"ceiling": None})] if skilled else [])]:
        with (
            others() as own,
            HFBackbone(
                tiny.checkpoint(base), threads=1, max_batch=64, validity_sample=1.0, max_adapters=32
            ) as backbone,
        ):
            answers = Answers(own, embedder, served=SERVED)
            for name, folder in members.items():
                if folder is not None:
                    backbone.load_adapter(name, folder, merged=True)
            cast = beside(backbone, own, ROLES)
            policies = [
                Policy(cast, name if folder is not None else None, roles=ROLES, name=name)
                for name, folder in members.items()
            ]
            for policy in policies:
                (found[policy.name],) = trials(Env(embedder, SERVED), [policy], users, answers, metric="answer_em")
    return found


def scores(world: World, found: Mapping[str, Trial]) -> dict[str, dict[str, list[float]]]:
    questions = [(one.user_id, question) for one in world.held_out() for question in _asked(one)]
    out: dict[str, dict[str, list[float]]] = {}
    for name, trial in found.items():
        for (user, question), case in zip(questions, trial.cases, strict=True):
            out.setdefault(name, {}).setdefault(user, []).append(float(matches(question, case.answer)))
    return out


def _asked(episode: Talk) -> list[Any]:
    return [question for question in episode.questions if question.as_of is None]


def probes(episode: Talk) -> tuple[Probed, ...]:
    return tuple(
        Probed(
            one.text,
            one.expected,
            one.asked_at,
            one.evidence,
            None,
            frozenset({"abstain"} if not one.answer else {"update"} if one.stale else ()),
            one.question_id,
        )
        for one in _asked(episode)
    )


# -- over seeds --------------------------------------------------------------------------------------------------------


def each_seed(job: Callable[[World], Any], seeds: Sequence[int] = SEEDS, *, workers: int = 2) -> list[Any]:
    """One world per seed, two at a time: as many as the cores that the figures are promised for."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_single) as pool:
        return list(pool.map(_in_folder, [job] * len(seeds), seeds))


def _single() -> None:
    torch.set_num_threads(1)


def _in_folder(job: Callable[[World], Any], seed: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return job(World(seed, Path(folder)))


@dataclass(frozen=True, slots=True)
class OverSeeds:
    """A figure with the interval of its mean over seeds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> OverSeeds:
        return cls(tuple(values))

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def half(self) -> float:
        count = len(self.values)
        return _T95[count] * stdev(self.values) / count**0.5 if count > 1 else float("nan")

    def __str__(self) -> str:
        each = ", ".join(f"{value:.3f}" for value in self.values)
        return f"{self.mean:.3f} ± {self.half:.3f} (95 %, by seed {each})"


def mean(table: Mapping[str, Sequence[float]]) -> float:
    return mean_by_cluster(table, draws=2).value


def checkpoints() -> list[Row]:
    """The base and its bias stage are the ones that the figures belong to."""
    rows: list[Row] = []
    for name, wanted in DIGESTS.items():
        folder = tiny.checkpoint(name)  # type: ignore[arg-type]
        found = checkpoint.weight_digest(folder) if (folder / "config.json").is_file() else "not built"
        rows.append(
            Row(f"{name} checkpoint has its digest", float(found == wanted), "", "1", found == wanted, found[:16])
        )
    return rows
