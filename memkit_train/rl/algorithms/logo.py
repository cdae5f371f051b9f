"""LoGo-GRPO (Memory-R2): global credit per session, local comparison from one and the same bank.

After the first write the rollouts of a group live in different memories, so an end reward cannot say which session
earned it. Two branches answer that:

    global   n episodes of a conversation; session t of episode i earns the reward of the *terminal* bank on questions
             about session t; its advantage is taken among the n episodes, and goes to every step of that session
    local    an anchor episode's bank as it was *before* session t; m rerolls of that session alone, scored at once on
             the same questions; their advantage is taken among the m

Both kinds of rows go into one pool, without a mixing weight.

    rows, stats = logo.rows(episodes, local_groups)
    RowTrainer(model, FixedSteps([rows]), logo.OBJECTIVE, args).train()

Follows the paper: groups, rewards, merged pool, one length-normalised ratio per step, clip 0.2, dual clip 3, k3 KL
0.001, entropy 0.001, mean over steps. Departs, each for a fault found in the published code or in practice:
- Rerolls must be samples. Copies of one greedy decode differ by noise only, which the division blows up: a group of
  identical rerolls is dropped, and a pool in which no group has two different ones is refused.
- Local rewards ask about session t alone, not about all sessions so far.
- The deviation has a floor, and groups without spread are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memkit_train.errors import NoSignal
from memkit_train.learn.objective import Objective
from memkit_train.rl.algorithms.advantages import Baseline, GroupStats, group_advantages
from memkit_train.rl.algorithms.values import ScoredEpisode, ScoredStep, rows_of, share_earned
from memkit_train.rows import Row

OBJECTIVE = Objective(
    ratio="sequence",
    average="row",
    clip_low=0.2,
    clip_high=0.2,
    dual_clip=3.0,
    kl=0.001,
    kl_unbiased=False,
    entropy=0.001,
)
STD_FLOOR = 0.3
"""A session has few questions, so rewards are coarse and ties are frequent: a higher floor than for whole episodes."""


@dataclass(frozen=True, slots=True)
class Reroll:
    """One session played again from the anchor's bank."""

    steps: tuple[ScoredStep, ...]
    reward: float
    """Of the bank right after the session, on questions about the session."""


@dataclass(frozen=True, slots=True)
class LocalGroup:
    conversation: str
    session: int
    anchor: str
    """Digest of the pre-session bank that every reroll started from."""
    rerolls: tuple[Reroll, ...]

    @property
    def distinct(self) -> int:
        return len({tuple(step.completion_ids for step in reroll.steps) for reroll in self.rerolls})


@dataclass(frozen=True, slots=True)
class LogoStats:
    whole: GroupStats
    local: GroupStats
    identical: int
    """Local groups whose rerolls were all the same completions."""

    @property
    def metrics(self) -> dict[str, float]:
        return {
            **(self.whole + self.local).metrics,
            **{f"global/{name}": value for name, value in self.whole.metrics.items()},
            **{f"local/{name}": value for name, value in self.local.metrics.items()},
            "local/identical_groups": float(self.identical),
        }


def rows(
    episodes: Iterable[ScoredEpisode],
    local: Sequence[LocalGroup] = (),
    *,
    baseline: Baseline = "auto",
    std_floor: float = STD_FLOOR,
) -> tuple[list[Row], LogoStats]:
    sampled = [group for group in local if group.distinct > 1]
    if len(local) > 1 and not sampled:
        raise NoSignal(
            f"all {len(local)} local groups hold copies of one reroll",
            why="rerolls must differ; these look like greedy decoding, or noise keyed without the reroll's number",
            fix="sample rerolls at temperature 1 and give each its own GenRequest.key",
        )
    of_session: dict[str, list[tuple[tuple[ScoredStep, ...], float]]] = {}
    for episode in episodes:
        for session, reward in episode.session_rewards.items():
            steps = tuple(step for step in episode.steps if step.session == session)
            of_session.setdefault(f"{episode.group}/{session}", []).append((steps, share_earned(reward, steps)))
    rerolled = {
        f"{group.conversation}/{group.session}@{group.anchor}#{number}": [
            (r.steps, share_earned(r.reward, r.steps)) for r in group.rerolls
        ]
        for number, group in enumerate(sampled)
    }
    whole, whole_stats = group_advantages(of_session, baseline=baseline, std_floor=std_floor)
    again, local_stats = group_advantages(rerolled, baseline=baseline, std_floor=std_floor)
    pool = [row for key, steps, advantage in whole + again for row in rows_of(steps, advantage, group=key)]
    return pool, LogoStats(whole_stats, local_stats, len(local) - len(sampled))
