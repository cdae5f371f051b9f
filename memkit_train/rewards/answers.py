"""Is the bank good for answering? A frozen answerer says so: it reads what the runtime would serve, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memkit.engine.answer import Answered
from memkit.engine.bank import LiveBank
from memkit.engine.call import Routing
from memkit.engine.served_with import ServedWith
from memkit.retrieval import RankerWeights
from memkit.seams.backbone import Backbone
from memkit.seams.embedder import Embedder
from memkit_train.metrics import scores as dialects
from memkit_train.metrics.right import rate
from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.replay.env import Trail
from memkit_train.rewards.base import Probed, Rollout
from memkit_train.rewards.cached import CachedBackbone
from memkit_train.rewards.judge import Ask, Prompting, judge

Metric = Literal["em", "f1", "right", "judge"]


@dataclass(frozen=True, slots=True)
class Answers:
    """The frozen answerer: every question of every rollout in one batch, each distinct prompt asked once."""

    backbone: Backbone
    embedder: Embedder
    served: ServedWith = field(default_factory=ServedWith)
    weights: RankerWeights | None = None
    adapter: str | None = None
    """Where answering itself is judged: the name of the adapter that answers."""

    def __post_init__(self) -> None:
        if not isinstance(self.backbone, CachedBackbone):
            object.__setattr__(self, "backbone", CachedBackbone(self.backbone))

    def ask(self, asked: Sequence[tuple[Probed, LiveBank]]) -> list[Answered]:
        tasks = [AnswerTask(one.question, bank, one.now, one.key or one.question) for one, bank in asked]
        return answer_all(
            tasks, self.backbone, self.embedder, self.served, weights=self.weights, routing=Routing(self.adapter)
        )

    def of(self, rollouts: Sequence[Rollout]) -> list[list[Answered]]:
        asked = [(probe, bank_for(probe, one.asked)) for one in rollouts for probe in one.probes]
        found = iter(self.ask(asked))
        return [[next(found) for _ in one.probes] for one in rollouts]


def bank_for(probe: Probed, trail: Trail) -> LiveBank:
    """The bank when the question was asked."""
    if probe.after is None:
        return trail.end.live
    decided = probe.after - trail.start.at
    if decided <= 0:
        return trail.start.live
    return trail.steps[decided - 1].after if decided <= len(trail.steps) else trail.end.live


def exact(answer: str, expected: str) -> float:
    """Abstaining is right exactly where nothing is expected."""
    if dialects.abstains(expected) or dialects.abstains(answer):
        return float(dialects.abstains(expected) and dialects.abstains(answer))
    return dialects.em_squad(answer, expected)


def overlap(answer: str, expected: str) -> float:
    if dialects.abstains(expected) or dialects.abstains(answer):
        return exact(answer, expected)
    return dialects.f1_squad(answer, expected)


@dataclass(frozen=True, slots=True)
class AnswerReward:
    """Mean over the probes, weighted as sure as they are. `judge` needs an endpoint (evaluate.judge) and is cached by
    question and answer like everything else."""

    answers: Answers
    metric: Metric = "f1"
    judged_by: Ask | None = None
    prompting: Prompting = "strict"
    _verdicts: dict[tuple[str, str, str], float | None] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return f"answer_{self.metric}"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        scored: list[float | None] = []
        for one, row in zip(rollouts, self.answers.of(rollouts), strict=True):
            values = [self._score(answer.text, probe) for answer, probe in zip(row, one.probes, strict=True)]
            scored.append(
                weighted_mean([(value, probe.weight) for value, probe in zip(values, one.probes, strict=True)])
            )
        return scored

    def _score(self, answer: str, probe: Probed) -> float | None:
        if self.metric == "judge" and self.judged_by is not None and not dialects.abstains(probe.expected):
            return self._judged(self.judged_by, answer, probe)
        if self.metric == "right":
            return rate(answer, probe.expected, worded="confirmed" in probe.tags)
        measure: Callable[[str, str], float] = overlap if self.metric == "f1" else exact
        return measure(answer, probe.expected)

    def _judged(self, ask: Ask, answer: str, probe: Probed) -> float | None:
        key = (probe.question, probe.expected, answer)
        if key not in self._verdicts:
            right = judge(ask, probe.question, probe.expected, answer, self.prompting).right
            self._verdicts[key] = None if right is None else float(right)
        return self._verdicts[key]


def weighted_mean(found: Sequence[tuple[float | None, float]]) -> float | None:
    """Weighted mean of what there is."""
    known = [(value, weight) for value, weight in found if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None
