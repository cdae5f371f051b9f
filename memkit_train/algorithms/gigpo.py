"""Step groups of equal states (GiGPO): of several episodes of one conversation, decisions that faced the same fact
before the same memories are comparable, wherever in it they were made. No extra generation: groups are found
afterwards.

    rows, stats = gigpo.rows(episodes)                  # episode advantage + step advantage
    RowTrainer(model, FixedSteps([rows]), gigpo.OBJECTIVE, args).train()

A state is (fact, shown memories), nothing else: that is all a manager sees. `state_key` digests it; equal prompts would
do the same, but a key survives a new prompt version. The offline method uses the same keys on logs, over conversations
too: there a reward is the decision's own.

Follows the paper: A = A_episode + weight * A_step; step groups lie within one group of episodes (there a task, here a
conversation), because what a step earns is the end of its episode: compared over conversations, a state that all of
them begin with would be praised in easy ones and blamed in hard ones. Departs: step returns are sums of later rewards
with gamma = 1 (the paper discounts); a floor under the deviation, the median for small groups, and states met once add
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from memkit.models import digest
from memkit_train.algorithms.advantages import Baseline, GroupStats, grouped
from memkit_train.algorithms.values import ScoredEpisode, ScoredStep, row_of
from memkit_train.objective import Objective
from memkit_train.rows import Row

OBJECTIVE = Objective(ratio="token", average="token", clip_low=0.2, clip_high=0.28)


def state_key(fact: str, shown: Sequence[str]) -> str:
    """`shown`: texts (or ids with revisions) of the memories in the order of their handles."""
    return digest({"fact": fact, "shown": list(shown)})


def rows(
    episodes: Sequence[ScoredEpisode], *, weight: float = 1.0, baseline: Baseline = "auto", std_floor: float = 0.1
) -> tuple[list[Row], GroupStats]:
    """`stats` counts step groups only among states that were met at least twice."""
    by_episode: dict[str, list[tuple[int, float]]] = {}
    by_state: dict[str, list[tuple[tuple[int, int], float]]] = {}
    for number, episode in enumerate(episodes):
        later = returns(episode)
        by_episode.setdefault(episode.group, []).append((number, later[0]))
        for at, step in enumerate(episode.steps):
            if step.state_key:
                by_state.setdefault(_state(episode, step), []).append(((number, at), later[at]))
    met_again = {key: members for key, members in by_state.items() if len(members) > 1}
    whole, episode_stats = grouped(by_episode, baseline=baseline, std_floor=std_floor)
    single, step_stats = grouped(met_again, baseline=baseline, std_floor=std_floor)
    of_episode = {number: advantage for _, number, advantage in whole}
    of_step = {place: advantage for _, place, advantage in single}
    found: list[Row] = []
    for number, episode in enumerate(episodes):
        for at, step in enumerate(episode.steps):
            advantage = of_episode.get(number, 0.0) + weight * of_step.get((number, at), 0.0)
            if advantage:
                found.append(row_of(step, advantage, group=_state(episode, step)))
    return found, episode_stats + step_stats


def _state(episode: ScoredEpisode, step: ScoredStep) -> str:
    return f"{episode.group}@{step.state_key}" if step.state_key else episode.group


def returns(episode: ScoredEpisode) -> list[float]:
    """Reward from each step on."""
    total, found = episode.reward, []
    for step in reversed(episode.steps):
        total += step.reward
        found.append(total)
    return found[::-1]
