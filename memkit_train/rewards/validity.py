"""Can the replies be used as they come? Counted without the mask that would force them into the format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from memkit.engine.call import ModelCall
from memkit.errors import BadReply, OpRejected
from memkit_train.rewards.base import Rollout


@dataclass(frozen=True, slots=True)
class ValidityReward:
    """Share of model calls whose first reply was readable and broke no rule."""

    name: str = "validity"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        return [fmean(float(lawful(call)) for call in one.trail.calls) if one.trail.calls else None for one in rollouts]


def readable(call: ModelCall) -> bool:
    """The first reply is in the format. A backbone that decodes under a mask says what it would have written without
    (`validity_sample=1.0`); elsewhere the parser says it."""
    if not call.attempts:
        return False
    first = call.attempts[0]
    if first.reply is None or isinstance(first.error, BadReply):
        return False
    return bool(first.reply.extra.get("unconstrained_valid", True))


def lawful(call: ModelCall) -> bool:
    return readable(call) and not isinstance(call.attempts[0].error, OpRejected)
