"""What the frozen answerer makes of a bank, and the small costs beside it: one `Mix` for decisions, one for episodes.

A reward sees what a deployed system sees: the bank that the decisions made, questions that users asked, and an answerer
that reads what retrieval serves it. `exact` is such an answerer without a model: it understands every sentence of a
generated world, but is shown no more than any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from memkit.backbones import make_backbone
from memkit.errors import InvalidConfig
from memkit.seams.backbone import Backbone
from memkit_train.lab.worlds import Episode, OracleBackbone, Truth
from memkit_train.replay.env import Env, Policy, Trail
from memkit_train.rewards import AnswerReward, Answers, BudgetReward, GrowthReward, Mix, ValidityReward
from memkit_train.rewards.base import Probed, Reward, Rollout, ScoredRollout
from memkit_train.rl.acting import Acting, TimedBackbone
from memkit_train.rl.settings import RewardSettings


@dataclass(frozen=True, slots=True)
class Scoring:
    answers: Answers
    decisions: Mix
    sessions: Mix
    """Of a bank on questions about one session; also of a whole episode."""
    played: bool

    @classmethod
    def by(cls, answers: Answers, settings: RewardSettings) -> Scoring:
        """By what this answerer makes of a bank."""
        right = AnswerReward(answers, settings.metric)
        budget = BudgetReward(settings.alpha)
        decisions = _mix((right, 1.0), (GrowthReward(), settings.growth), (ValidityReward(), settings.validity))
        return cls(answers, decisions, _mix((right, 1.0), (budget, settings.budget)), settings.horizon == "played")

    def score(self, env: Env, policy: Policy, asked: Sequence[tuple[Trail, Sequence[Probed]]]) -> list[ScoredRollout]:
        """One scene each, with what may be asked right after. Played on, questions are asked where they were asked;
        growth and validity are still those of the one scene: what comes after is the same policy's, decided greedily,
        and would bury them."""
        rollouts = [Rollout(trail, tuple(probes)) for trail, probes in asked]
        if self.played:
            greedy = replace(policy, temperature=0.0)
            onward = env.run_each([(trail.end, greedy, _ahead(trail, probes)) for trail, probes in asked])
            rollouts = [
                replace(one, onward=replace(one.trail, steps=(*one.trail.steps, *more.steps), end=more.end))
                for one, more in zip(rollouts, onward, strict=True)
            ]
        return self.decisions(rollouts)


def others(named: str, episodes: Sequence[Episode]) -> Backbone | None:
    """Who answers in the roles that the adapter does not; None: the base."""
    if named == "base":
        return None
    return _of_world(episodes, "others") if named == "world" else make_backbone(named)


def scoring(settings: RewardSettings, env: Env, acting: Acting, episodes: Sequence[Episode] = ()) -> Scoring:
    """`episodes`: the generated world behind the conversations, for `exact`."""
    return Scoring.by(Answers(_answerer(settings.answerer, acting, episodes), env.embedder, env.served), settings)


def _mix(*parts: tuple[Reward, float]) -> Mix:
    return Mix(tuple((reward, weight) for reward, weight in parts if weight))


def _answerer(named: str, acting: Acting, episodes: Sequence[Episode]) -> Backbone:
    if named == "base":
        return acting
    if named != "exact":
        return TimedBackbone(make_backbone(named), acting.clock)
    return TimedBackbone(_of_world(episodes, "reward.answerer"), acting.clock)


def _of_world(episodes: Sequence[Episode], key: str) -> Backbone:
    if not episodes:
        raise InvalidConfig(
            f"online.{key} names a model that only understands a generated world",
            why="these conversations come from a log",
            fix=f"set online.{key} to base",
        )
    return OracleBackbone(Truth(episodes))


def _ahead(trail: Trail, probes: Sequence[Probed]) -> int:
    return max((probe.after or 0 for probe in probes), default=0) - trail.end.at
