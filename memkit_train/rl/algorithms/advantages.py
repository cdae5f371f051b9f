"""How much better than its peers: the one place where rewards of a group become advantages.

    mean     (r - mean) / max(std, floor)      GRPO; std is the sample deviation, as in TRL
    median   (r - median) / max(std, floor)    MC-GRPO: one outlier of a small group cannot turn the others' signs
    centred  r - mean                          Dr. GRPO: no division, so small differences stay small

"auto" is the median up to four members and the mean above. Departures from the papers:
- The deviation has a floor. Without it, a group that differs by a thousandth gets the advantages of one that differs by
  everything, and a small cost term alone can teach a policy to stop writing.
- Groups without spread are dropped and counted, not averaged in as zeros.
- A member that sits on the median of an odd group (the pivot of MC-GRPO) has advantage 0 and is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Baseline = Literal["auto", "mean", "median", "centred"]
SMALL_GROUP = 4
NO_SPREAD = 1e-9
"""Rewards closer than this are equal: rounding must not become an advantage."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What happened to the groups. `metrics` uses TRL's names."""

    groups: int = 0
    dropped: int = 0
    """Groups without spread or with a single member."""
    members: int = 0
    used: int = 0
    """Members that became rows."""
    reward: float = 0.0
    reward_std: float = 0.0
    """Mean of the groups' own deviations."""

    @property
    def metrics(self) -> dict[str, float]:
        return {
            "reward": self.reward,
            "reward_std": self.reward_std,
            "frac_reward_zero_std": self.dropped / self.groups if self.groups else 0.0,
            "num_groups": float(self.groups),
        }

    def __add__(self, other: GroupStats) -> GroupStats:
        members, groups = self.members + other.members, self.groups + other.groups
        return GroupStats(
            groups,
            self.dropped + other.dropped,
            members,
            self.used + other.used,
            (self.reward * self.members + other.reward * other.members) / members if members else 0.0,
            (self.reward_std * self.groups + other.reward_std * other.groups) / groups if groups else 0.0,
        )


def advantages(rewards: Sequence[float], *, baseline: Baseline = "auto", std_floor: float = 0.1) -> list[float] | None:
    """One advantage per member of a group, or None when the group teaches nothing."""
    if len(rewards) < 2 or max(rewards) - min(rewards) < NO_SPREAD:
        return None
    if baseline == "auto":
        baseline = "median" if len(rewards) <= SMALL_GROUP else "mean"
    centre = statistics.median(rewards) if baseline == "median" else statistics.fmean(rewards)
    scale = 1.0 if baseline == "centred" else max(statistics.stdev(rewards), std_floor)
    return [(reward - centre) / scale for reward in rewards]


def group_advantages(
    groups: Mapping[str, Sequence[tuple[T, float]]], *, baseline: Baseline = "auto", std_floor: float = 0.1
) -> tuple[list[tuple[str, T, float]], GroupStats]:
    """Members with their rewards, by group → (group, member, advantage) of the members that teach something."""
    found: list[tuple[str, T, float]] = []
    dropped, spread, every = 0, 0.0, [reward for members in groups.values() for _, reward in members]
    for name, members in groups.items():
        rewards = [reward for _, reward in members]
        spread += statistics.stdev(rewards) if len(rewards) > 1 else 0.0
        values = advantages(rewards, baseline=baseline, std_floor=std_floor)
        if values is None:
            dropped += 1
            continue
        found += [
            (name, member, value) for (member, _), value in zip(members, values, strict=True) if abs(value) > NO_SPREAD
        ]
    stats = GroupStats(
        len(groups),
        dropped,
        len(every),
        len(found),
        statistics.fmean(every) if every else 0.0,
        spread / len(groups) if groups else 0.0,
    )
    return found, stats
