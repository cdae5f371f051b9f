"""A bank that keeps everything answers well and helps nobody. Memory-R2's linear excess: free up to a share of what was
said, then as much penalty as there is too much. (A penalty on size itself is zero for banks that outgrow the dialogue,
and one of a few per cent is all that separates tied rollouts: normalised, it teaches to store nothing.)"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memkit_train.rewards.base import Rollout


@dataclass(frozen=True, slots=True)
class BudgetReward:
    alpha: float = 0.7
    """Words that the bank may keep per word said so far, for nothing."""
    name: str = "budget"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        return [self._score(one) for one in rollouts]

    def _score(self, rollout: Rollout) -> float:
        end = rollout.trail.end
        said = words(turn.text for scene in end.script.scenes[: end.at] for turn in scene.turns)
        kept = words(record.text for record in end.live.state)
        return -max(0.0, (kept - self.alpha * said) / said) if said else 0.0


def words(texts: Iterable[str]) -> int:
    return sum(len(text.split()) for text in texts)
