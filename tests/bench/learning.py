"""What others do with the same generations, one at a time, beside GRPO as it is: steps to a target, and the end.

A step samples 8 replies in each of 8 states, half of what `rl` gives it, so that there is something to win. Seeds of
people are those of recipes (1000 and up), never of `rl`'s held-out ones. What wins is built in; what does not is told
in RESULTS and stays here alone.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any
from unittest.mock import patch

from memkit.backbones.hf import ScoreRequest
from memkit.engine.answer import Answered
from memkit_train.lab.worlds import Episode
from memkit_train.replay.env import Env
from memkit_train.rewards import Answers, GrowthReward, Mix, ValidityReward
from memkit_train.rewards.answers import overlap, weighted_mean
from memkit_train.rewards.base import Rollout
from memkit_train.rl.acting import Acting
from memkit_train.rl.algorithms import grpo
from memkit_train.rl.algorithms.advantages import NO_SPREAD, GroupStats
from memkit_train.rl.algorithms.values import ScoredEpisode, rows_of, share_earned
from memkit_train.rl.scoring import Scoring, scoring
from memkit_train.rl.settings import RewardSettings
from memkit_train.rows import Row as Learned
from tests.bench import _rl_lab as lab
from tests.bench._results import record
from tests.bench._table import Row

SEEDS = range(5)
STEPS, EVERY = 30, 5
TARGET = 0.9
"""Share of the way from the start to the best end of GRPO as it is."""
RIGHT = 0.9
"""A reply that earns so much: everything right, nothing added."""
TRAIN, CHOOSE, USERS = 1500, 1600, 12
_MADE = grpo.episode_rows


def run(full: bool = False) -> list[Row]:
    rows = lab.guarded([_by_exact, _by_base], full)
    if full:
        record("python -m tests.bench learning --full", rows)
    return rows


# ---- methods ---------------------------------------------------------------------------------------------------------


@dataclass
class Earlier:
    """Rows that are learned from again: of the groups that all succeeded, the best of before, all of before, or what
    was right at the start."""

    how: str
    kept: deque[tuple[float, Learned]] = field(default_factory=deque)
    batch: int = 0
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def __call__(self, episodes: Iterable[ScoredEpisode], **more: Any) -> tuple[list[Learned], GroupStats]:
        told = list(episodes)
        rows, stats = _MADE(told, **more)
        more_rows = getattr(self, f"_{self.how}")(told, rows)
        self.batch += 1
        return [*rows, *more_rows], stats

    def _all_right(self, told: Sequence[ScoredEpisode], rows: Sequence[Learned]) -> list[Learned]:
        """EchoRL: a group without spread is thrown away, though all of it may be right."""
        groups = defaultdict[str, list[tuple[ScoredEpisode, float]]](list)
        for one in told:
            groups[one.group].append((one, _total(one)))
        even = [
            members[0][0]
            for members in groups.values()
            if _spread(members) < NO_SPREAD and min(total for _, total in members) >= RIGHT
        ]
        return [row for one in even for row in rows_of(one.steps, 0.25, group=one.group)]

    def _best(self, told: Sequence[ScoredEpisode], rows: Sequence[Learned]) -> list[Learned]:
        """SPEAR: what once went well is imitated later, by how much better it was than what is usual now; more of it
        early, less as the policy gets better than its past."""
        usual = statistics.median(_total(one) for one in told)
        ramp = math.sin(math.pi * min(1.0, self.batch / STEPS))
        chosen = self.rng.sample(list(self.kept), min(32, len(self.kept)))
        again = [
            replace(row, advantage=min(2.0, (total - usual) / 0.1), weight=0.5 * ramp)
            for total, row in chosen
            if total - usual > NO_SPREAD and ramp > 0
        ]
        self._keep([(_total(one), row) for one in told for row in rows_of(one.steps, 1.0, group=one.group)], 512)
        return again

    def _all(self, told: Sequence[ScoredEpisode], rows: Sequence[Learned]) -> list[Learned]:
        """Rollout replay: the rows of the two batches before, held back by the clip of their ratios."""
        again = [replace(row, weight=0.5 * row.weight) for _, row in self.kept]
        self._keep([(0.0, row) for row in rows], 2 * 64)
        return again

    def _start(self, told: Sequence[ScoredEpisode], rows: Sequence[Learned]) -> list[Learned]:
        """RECAP: what the policy could do when it began is mixed in, so that it is not forgotten."""
        if self.batch < 3:
            sure = [row for one in told if _total(one) >= RIGHT for row in rows_of(one.steps, 0.25, group=one.group)]
            self._keep([(0.0, replace(row, behaviour_logprobs=None)) for row in sure], 256)
            return []
        return [row for _, row in self.rng.sample(list(self.kept), min(16, len(self.kept)))]

    def _keep(self, found: Sequence[tuple[float, Learned]], most: int) -> None:
        good = [(total, row) for total, row in found if self.how != "best" or total >= RIGHT]
        self.kept.extend(good)
        while len(self.kept) > most:
            self.kept.popleft()


def _total(one: ScoredEpisode) -> float:
    return share_earned(one.reward, one.steps)


def _spread(members: Sequence[tuple[ScoredEpisode, float]]) -> float:
    totals = [total for _, total in members]
    return max(totals) - min(totals)


class LikelyAnswer:
    """Half of what the answer earns, and half how likely the frozen answerer finds the right one (the mean over its
    tokens), behind the memories that it chose itself."""

    name = "answer_logp"

    def __init__(self, answers: Answers, engine: Any) -> None:
        self._answers, self._engine = answers, engine

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        found = self._answers.of(rollouts)
        asked = [
            (answer, probe)
            for one, row in zip(rollouts, found, strict=True)
            for answer, probe in zip(row, one.probes, strict=True)
        ]
        likely = iter(self._likely([(answer, probe.expected) for answer, probe in asked]))
        return [
            weighted_mean(
                [
                    (0.5 * overlap(answer.text, probe.expected) + 0.5 * next(likely), probe.weight)
                    for answer, probe in zip(row, one.probes, strict=True)
                ]
            )
            for one, row in zip(rollouts, found, strict=True)
        ]

    def _likely(self, asked: Sequence[tuple[Answered, str]]) -> list[float]:
        prompter, requests, skipped = self._engine._prompter, list[ScoreRequest](), list[int]()
        for answer, expected in asked:
            said = "" if answer.reply is None else answer.reply.text
            use = said.partition("\n")[0] if said.startswith("USE ") else "USE NONE"
            before, whole = (
                prompter.tokenizer(f"{use}\nANSWER {right}", add_special_tokens=False)["input_ids"]
                for right in ("", expected)
            )
            requests.append(ScoreRequest(prompter.ids(answer.prompt.messages), tuple(whole)))
            skipped.append(min(len(before), len(whole) - 1))
        return [math.exp(fmean(one[at:])) for one, at in zip(self._engine.score(requests), skipped, strict=True)]


def score_likely(settings: RewardSettings, env: Env, acting: Acting, episodes: Sequence[Episode] = ()) -> Scoring:
    made = scoring(settings, env, acting, episodes)
    parts = ((LikelyAnswer(made.answers, acting.inner), 1.0), (GrowthReward(), settings.growth))
    return replace(made, decisions=Mix((*parts, (ValidityReward(), settings.validity))))


# ---- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Curve:
    """Of one run: how held-out people are answered, by step."""

    looks: Sequence[tuple[int, float]]

    @property
    def end(self) -> float:
        """The mean of the last two looks."""
        return fmean(score for _, score in self.looks[-2:])

    def steps_to(self, score: float) -> float:
        """Between two looks in proportion; never: as if one look later."""
        before = self.looks[0]
        for step, found in self.looks:
            if found >= score:
                share = 1.0 if found == before[1] else (score - before[1]) / (found - before[1])
                return before[0] + (step - before[0]) * max(0.0, min(1.0, share))
            before = (step, found)
        return self.looks[-1][0] + EVERY


def _run(seed: int, answerer: str, steps: int) -> Curve:
    chosen = lab.settings(
        reward={"answerer": answerer, "growth": 0.15},
        states=8,
        stages=[{"steps": steps}],
        stop={"every": EVERY, "users": USERS, "patience": 99},
    )
    choose = lab.World.of(USERS, CHOOSE, split="heldout")
    done, _, _ = lab.run(chosen, seed, train=lab.World.of(60, TRAIN + seed), choose=choose)
    return Curve([(int(step), float(score)) for step, score in done.stages[0]["looks"]])


def _by_exact(full: bool) -> list[Row]:
    methods = {
        "GRPO as it is": None,
        "groups in which all succeed (EchoRL)": Earlier("all_right"),
        "the best of before (SPEAR)": Earlier("best"),
        "rollouts of the two batches before": Earlier("all"),
        "what was right at the start (RECAP)": Earlier("start"),
    }
    found: dict[str, list[Curve]] = {}
    for name, method in methods.items():
        for seed in SEEDS if full else range(1):
            with ExitStack() as stack:
                if method is not None:
                    again = Earlier(method.how)
                    stack.enter_context(patch.object(grpo, "episode_rows", again))
                found.setdefault(name, []).append(_run(seed, "exact", STEPS if full else EVERY))
    return _compare(found, "GRPO as it is")


def _by_base(full: bool) -> list[Row]:
    found: dict[str, list[Curve]] = {}
    for name, how in (("the model itself answers", scoring), ("… and how likely the right answer is", score_likely)):
        for seed in SEEDS if full else range(1):
            with patch("memkit_train.rl.engines.own.scoring", how):
                found.setdefault(name, []).append(_run(seed, "base", STEPS if full else EVERY))
    return _compare(found, "the model itself answers")


def _compare(found: dict[str, list[Curve]], usual: str) -> list[Row]:
    start = fmean(curve.looks[0][1] for curve in found[usual])
    target = start + TARGET * (max(curve.end for curve in found[usual]) - start)
    rows: list[Row] = []
    for name, curves in found.items():
        pairs = list(zip(curves, found[usual], strict=True))
        steps, ends = [one.steps_to(target) for one in curves], [one.end for one in curves]
        notes = {
            "steps": _differ([one.steps_to(target) - other.steps_to(target) for one, other in pairs]),
            "end": _differ([one.end - other.end for one, other in pairs]),
        }
        told = "" if name == usual else f"difference {notes['steps']}"
        rows.append(Row(f"{name}: steps to {target:.3f}", fmean(steps), "steps", "", True, told or lab.listed(steps)))
        told = "" if name == usual else f"difference {notes['end']}"
        rows.append(Row("… answers at the end", fmean(ends), "", "", True, told or lab.listed(ends)))
    return rows


def _differ(values: Sequence[float]) -> str:
    """Mean and 95 % interval over paired seeds (Student's t)."""
    if len(values) < 2:
        return f"{fmean(values):+.3f}"
    half = {5: 2.776, 3: 4.303}.get(len(values), 2.0) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{fmean(values):+.3f} [{fmean(values) - half:+.3f}, {fmean(values) + half:+.3f}]"
