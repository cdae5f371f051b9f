"""PPO with a learned value baseline (Memory-R1's other half), over the independent steps of an episode.

    values = [trainer.predict_values([step.prompt_ids for step in episode.steps]) for episode in episodes]
    rows, stats = ppo.rows(episodes, values)
    RowTrainer(model, FixedSteps([rows]), ppo.OBJECTIVE, args, value_head=True).train()

Generalised advantage estimation with gamma = 1: an episode ends by itself, and what a memory is worth does not fade
with the number of turns until somebody asks. The unit of time is a step (one decision), not a token: the value head
reads the last prompt token, so V(s) is the expected return of the state before anything is written, and every token of
a completion shares its step's advantage. Advantages are normalised over the batch, with a floor under the deviation.

Follows the paper: clipped surrogate, critic, scalar answer reward. Departs: the critic is a linear head on the policy's
own last hidden state instead of a second network, and the paper's one-step bandit is the special case of an episode
with one step (advantage = reward - V).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from memkit_train.learn.objective import Objective
from memkit_train.rl.algorithms.values import ScoredEpisode, ScoredStep, row_of, share_earned
from memkit_train.rows import Row

OBJECTIVE = Objective(ratio="token", average="token", clip_low=0.2, clip_high=0.2, value=0.5)


@dataclass(frozen=True, slots=True)
class PpoStats:
    reward: float
    advantage_mean: float
    advantage_std: float
    explained_variance: float
    """1 - Var(return - value) / Var(return): 0 is a useless critic, 1 a perfect one."""

    @property
    def metrics(self) -> dict[str, float]:
        return {"reward": self.reward, "value/explained_variance": self.explained_variance}


def gae(rewards: Sequence[float], values: Sequence[float], *, decay: float = 0.95) -> tuple[list[float], list[float]]:
    """(advantages, returns) of one episode; `decay` is GAE's lambda. The value after the last step is 0."""
    found, running = [0.0] * len(rewards), 0.0
    for at in range(len(rewards) - 1, -1, -1):
        after = values[at + 1] if at + 1 < len(values) else 0.0
        running = rewards[at] + after - values[at] + decay * running
        found[at] = running
    return found, [advantage + value for advantage, value in zip(found, values, strict=True)]


def rows(
    episodes: Sequence[ScoredEpisode],
    values: Sequence[Sequence[float]],
    *,
    decay: float = 0.95,
    std_floor: float = 0.1,
) -> tuple[list[Row], PpoStats]:
    """`values`: V of every step of every episode, from the weights that acted."""
    steps, advantages, returns, predicted = [], [], [], []
    for number, (episode, before) in enumerate(zip(episodes, values, strict=True)):
        rewards = [step.reward for step in episode.steps]
        rewards[-1] += share_earned(episode.reward, episode.steps)
        found, targets = gae(rewards, before, decay=decay)
        steps += [(step, episode.group or str(number)) for step in episode.steps]
        advantages += found
        returns += targets
        predicted += before
    mean, spread = statistics.fmean(advantages), statistics.pstdev(advantages)
    scale = max(spread, std_floor)
    made = [
        row_of(step, _held(step, (advantage - mean) / scale), group=group, ret=target)
        for (step, group), advantage, target in zip(steps, advantages, returns, strict=True)
    ]
    total = statistics.pvariance(returns)
    residual = statistics.pvariance([target - value for target, value in zip(returns, predicted, strict=True)])
    explained = 1.0 - residual / total if total > 0 else 0.0
    return made, PpoStats(statistics.fmean(episode.reward for episode in episodes), mean, spread, explained)


def _held(step: ScoredStep, advantage: float) -> float:
    """A refused reply is never praised for what its re-ask earned; its row stays, for the value head."""
    return min(advantage, 0.0) if step.refused else advantage
