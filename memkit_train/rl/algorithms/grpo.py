"""GRPO for memory agents (Memory-R1), from one shared state or over whole episodes.

Manager: the group is G operations sampled for one fact before one bank snapshot; each is applied to that snapshot, the
frozen answerer answers from the changed bank, and its score is the reward. Answerer: the group is G answers to one
question before one set of shown memories. Both are state groups; the step's role says which.

    groups = [StateGroup(key, steps, rewards), …]            # from the replay environment
    rows, stats = grpo.state_rows(groups)
    RowTrainer(model, FixedSteps([rows]), grpo.OBJECTIVE, args).train()

Follows the paper: advantage within a group, KL to the parent available. Departs: a clipped, token-averaged surrogate
(the paper writes no clip; one is needed as soon as rows are used twice), a floor under the deviation, the median for
G <= 4, groups without spread are dropped and counted, and the reward may be any number, not exact match alone. A reply
that was refused earned nothing, whatever its re-ask did: it is never praised, and no clean reply is blamed beside it.
`episode_rows` is the plain trajectory variant: one scalar for all steps of an episode; `logo` refines it.
"""

from __future__ import annotations

from collections.abc import Iterable

from memkit_train.errors import BadRow
from memkit_train.learn.objective import Objective
from memkit_train.rl.algorithms.advantages import Baseline, GroupStats, group_advantages
from memkit_train.rl.algorithms.values import ScoredEpisode, ScoredStep, StateGroup, row_of, rows_of, share_earned
from memkit_train.rows import Row

OBJECTIVE = Objective(ratio="token", average="token", clip_low=0.2, clip_high=0.28)


def state_rows(
    groups: Iterable[StateGroup], *, baseline: Baseline = "auto", std_floor: float = 0.1
) -> tuple[list[Row], GroupStats]:
    members: dict[str, list[tuple[ScoredStep, float]]] = {}
    for group in groups:
        if len({step.prompt_ids for step in group.steps}) > 1:
            raise BadRow(
                f"the steps of state group {group.key} have different prompts",
                why="alternatives can only be compared from the same state",
                fix="render the prompt once and sample all alternatives from it",
            )
        pairs = list(zip(group.steps, (step.reward for step in group.steps), group.rewards, strict=True))
        members.setdefault(group.key, []).extend((step, own + reward) for step, own, reward in pairs)
    found, stats = group_advantages(members, baseline=baseline, std_floor=std_floor)
    return [row_of(step, advantage, group=key) for key, step, advantage in found], stats


def episode_rows(
    episodes: Iterable[ScoredEpisode], *, baseline: Baseline = "auto", std_floor: float = 0.1
) -> tuple[list[Row], GroupStats]:
    members: dict[str, list[tuple[ScoredEpisode, float]]] = {}
    for episode in episodes:
        total = share_earned(episode.reward, episode.steps) + sum(step.reward for step in episode.steps)
        members.setdefault(episode.group, []).append((episode, total))
    found, stats = group_advantages(members, baseline=baseline, std_floor=std_floor)
    return [row for key, episode, advantage in found for row in rows_of(episode.steps, advantage, group=key)], stats
