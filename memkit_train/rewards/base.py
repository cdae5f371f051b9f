"""Rewards compose: a mix is a weighted sum of named parts, and every part is logged by itself.

A reward sees what a deployed system could see: turns, decisions, the bank, questions that users asked and what they
said about the answers. It never sees an oracle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean, pstdev
from typing import Protocol

from memkit.models import Kind
from memkit_train.replay.env import Trail


@dataclass(frozen=True, slots=True)
class Probed:
    """A question that can be asked of the bank, with what a right answer says."""

    question: str
    expected: str
    """"unknown": the right answer is that nobody said so."""
    now: datetime
    source_turns: tuple[str, ...] = ()
    """Turns that the answer rests on; empty: not known."""
    after: int | None = None
    """Asked once this many scenes of the script are decided; None: at the end."""
    tags: frozenset[str] = frozenset()
    """update: something known was changed. abstain: the right answer is that it is unknown."""
    key: str = ""
    weight: float = 1.0
    kinds: tuple[Kind, ...] | None = None
    """What the app reads of the bank. None: all."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """Scenes as a policy decided them, and what can be asked of the result."""

    trail: Trail
    probes: tuple[Probed, ...] = ()
    group: str = ""
    """Rollouts of one group started from one state."""
    onward: Trail | None = None
    """`trail`, played on to where its questions are asked. What the decisions themselves cost is counted on `trail`."""

    @property
    def asked(self) -> Trail:
        """Whose banks the questions are put to."""
        return self.trail if self.onward is None else self.onward


class Reward(Protocol):
    @property
    def name(self) -> str: ...

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        """One number per rollout, or None where this reward has nothing to say. All at once, so that whatever
        generates can batch."""
        ...


@dataclass(frozen=True, slots=True)
class ScoredRollout:
    total: float
    parts: Mapping[str, float]
    """By name, unweighted; a part that had nothing to say is absent."""


@dataclass(frozen=True, slots=True)
class Mix:
    """reward + weight · reward + …: a part that has nothing to say adds nothing."""

    rewards: tuple[tuple[Reward, float], ...]

    def __call__(self, rollouts: Sequence[Rollout]) -> list[ScoredRollout]:
        columns = [(reward.name, weight, reward(rollouts)) for reward, weight in self.rewards]
        out: list[ScoredRollout] = []
        for row in range(len(rollouts)):
            parts = {name: value for name, _, values in columns if (value := values[row]) is not None}
            total = sum(weight * value for _, weight, values in columns if (value := values[row]) is not None)
            out.append(ScoredRollout(total, parts))
        return out


def metrics(scored: Sequence[ScoredRollout], groups: Sequence[str] = ()) -> dict[str, float]:
    """Under the names that TRL logs."""
    if not scored:
        return {}
    totals = [one.total for one in scored]
    out = {"reward": fmean(totals), "reward_std": pstdev(totals)}
    for name in sorted({name for one in scored for name in one.parts}):
        values = [one.parts[name] for one in scored if name in one.parts]
        out[f"rewards/{name}/mean"], out[f"rewards/{name}/std"] = fmean(values), pstdev(values)
    by_group: dict[str, list[float]] = {}
    for group, total in zip(groups, totals, strict=bool(groups)):
        by_group.setdefault(group, []).append(total)
    if by_group:
        out["frac_reward_zero_std"] = fmean(float(max(found) - min(found) < 1e-9) for found in by_group.values())
    return out
