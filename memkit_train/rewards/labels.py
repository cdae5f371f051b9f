"""What users said about the logged decisions, for the rollouts that decided the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memkit.models import Op
from memkit_train.rewards.base import Rollout


@dataclass(frozen=True, slots=True)
class LabelReward:
    """A label speaks for what was done. A rollout that did something else has no label: nobody saw it."""

    name: str = "label"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        return [one.label if one.label is not None and _as_logged(one) else None for one in rollouts]


def _as_logged(rollout: Rollout) -> bool:
    return all(list(map(told, step.ops)) == list(map(told, step.scene.ops)) for step in rollout.trail.steps)


def told(op: Op) -> tuple[str, str | None, str | None]:
    """What an op does, without ids of decisions: action, what it was done to, what it says."""
    return op.action, op.before.text if op.before else None, op.after.text if op.after else None
