"""Single decisions from many states: Memory-R1's manager, by GRPO or by PPO.

    memkit-train grpo config.yaml                                        groups of alternatives from one state
    memkit-train ppo config.yaml                                         one decision from each of many states

A state is a bank and a turn that the policy of the moment has led to (pool.py). A decision is applied to that bank, the
frozen answerer answers questions that turn on it from the changed bank, and its score is the reward.

grpo compares G decisions from one and the same state. ppo takes one decision from each of G times as many states and
compares it with what a value head expected of the state; an episode is that one step, as in the paper.

Follows the paper: frozen answerer, answer score as reward, GRPO or PPO. Departs: states come from the policy instead of
an LLM-built bank of the preceding turns; F1 instead of exact match (binary rewards leave most groups without spread); a
small cost per added memory and a part for valid replies; also states where nothing hangs on the decision, because the
paper's "turns with questions" never punish junk or damage; log-probs are of the unmasked model, although a grammar
forbids what cannot be parsed (the mask is silent for a policy that keeps the format; `validity` is watched).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memkit_train.errors import NoRows
from memkit_train.replay.env import Env, Policy, Trail
from memkit_train.replay.forks import forks
from memkit_train.rewards.base import ScoredRollout, metrics
from memkit_train.rl.algorithms import grpo, ppo
from memkit_train.rl.algorithms.values import ScoredEpisode
from memkit_train.rl.pool import Place, Pool
from memkit_train.rl.rollouts import Batch, replies_of, steps_of
from memkit_train.rl.scoring import Scoring
from memkit_train.rl.settings import OnlineSettings

Values = Callable[[Sequence[tuple[int, ...]]], list[float]]


@dataclass(slots=True)
class Decisions:
    env: Env
    pool: Pool
    scoring: Scoring
    settings: OnlineSettings
    seed: int
    values: Values | None = None
    """ppo: what the value head expects of prompts."""

    def sample(self, batch: int, policy: Policy, trained: frozenset[str]) -> Batch:
        if self.pool.due(batch):
            self.pool.play(batch, policy)
        alone = self.settings.algorithm == "ppo"
        each = 1 if alone else self.settings.group
        chosen = self.pool.draw(batch, self.settings.states * (self.settings.group if alone else 1))
        if not chosen:
            raise NoRows(
                f"{len(self.pool.played)} conversations were played, and no decision in them can be asked about",
                why="no question holds right after a scene in which these roles decide",
                fix="use conversations with more questions, or check online.roles",
            )
        policies = [replace(policy, seed=seed_of(self.seed, batch, number)) for number in range(each)]
        trails = forks(self.env, [place.state for place in chosen], policies, trained)
        scores = self.score(batch, policy, chosen, trails)
        episodes = [
            ScoredEpisode(steps_of(trail, trained), score.total, place.key)
            for place, members, scored in zip(chosen, trails, scores, strict=True)
            for trail, score in zip(members, scored, strict=True)
        ]
        episodes = [one for one in episodes if one.steps]
        if alone:
            assert self.values is not None
            rows, stats = ppo.rows(episodes, self._expected(episodes), std_floor=self.settings.std_floor)
        else:
            rows, stats = grpo.episode_rows(episodes, std_floor=self.settings.std_floor)
        flat = [score for scored in scores for score in scored]
        played = [trail for _, trail in self.pool.played] if self.pool.due(batch) else []
        replies = replies_of([trail for members in trails for trail in members], trained)
        counted = metrics(flat) | stats.metrics | {"num_generations": float(len(replies))}
        return Batch(rows, counted, played, replies)

    def score(
        self, batch: int, policy: Policy, chosen: Sequence[Place], trails: Sequence[Sequence[Trail]]
    ) -> list[list[ScoredRollout]]:
        """Equal decisions are scored once."""
        rng = random.Random(f"{self.seed}/questions/{batch}")
        asked = [
            place.ask(self.settings.questions, rng, rewritten=_rewritten(members), played=self.scoring.played)
            for place, members in zip(chosen, trails, strict=True)
        ]
        different = {
            id(trail): (trail, probes) for members, probes in zip(trails, asked, strict=True) for trail in members
        }
        scored = dict(zip(different, self.scoring.score(self.env, policy, list(different.values())), strict=True))
        return [[scored[id(trail)] for trail in members] for members in trails]

    def _expected(self, episodes: Sequence[ScoredEpisode]) -> list[list[float]]:
        assert self.values is not None
        prompts = list(dict.fromkeys(step.prompt_ids for one in episodes for step in one.steps))
        value = dict(zip(prompts, self.values(prompts), strict=True))
        return [[value[step.prompt_ids] for step in one.steps] for one in episodes]


def _rewritten(members: Sequence[Trail]) -> frozenset[str]:
    """The turns behind the memories that any of these decisions changes or removes."""
    ops = [op for trail in members for op in trail.ops if op.before is not None and op.before != op.after]
    return frozenset(turn for op in ops if op.before is not None for turn in op.before.source_turns)


def seed_of(seed: int, batch: int, member: int) -> int:
    """Noise depends on these three alone, so a resumed run samples what the uninterrupted one would have."""
    return (seed * 1_000_003 + batch) * 1009 + member
