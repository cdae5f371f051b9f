"""What a decision adds has to earn its place: a small cost per memory, so that junk does not tie with restraint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memkit_train.rewards.base import Rollout


@dataclass(frozen=True, slots=True)
class GrowthReward:
    name: str = "growth"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        """What others put into the bank, or took out, between its scenes is not its doing."""
        grown = (sum(len(step.after) - len(step.before) for step in one.trail.steps) for one in rollouts)
        return [-max(0.0, float(more)) for more in grown]
