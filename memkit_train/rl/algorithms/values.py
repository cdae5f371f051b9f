"""What rollouts hand to an algorithm. A memory episode is a sequence of independent prompts: the bank is rendered anew
before every decision, so a step carries its whole context and nothing is a continuation of the step before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memkit_train.rows import Row


@dataclass(frozen=True, slots=True)
class ScoredStep:
    """One decision: one prompt, one sampled completion."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    logprobs: tuple[float, ...] | None = None
    """Raw log-probs (T = 1, no mask) under the policy that acted; None where it is the one that is trained."""
    role: str = "manager"
    session: int = 0
    reward: float = 0.0
    """What this step earned by itself (validity, size); added to what the episode earned at its end."""
    refused: bool = False
    """It could not be read or broke a rule. What came of its scene is the work of another reply, to another prompt."""


@dataclass(frozen=True, slots=True)
class ScoredEpisode:
    steps: tuple[ScoredStep, ...]
    reward: float
    """Of the bank at the end."""
    group: str = ""
    """Episodes of one group played the same conversation from the same bank."""
    session_rewards: Mapping[int, float] = field(default_factory=dict[int, float])
    """Session → reward of the bank at the *end* on questions about that session."""


@dataclass(frozen=True, slots=True)
class StateGroup:
    """Alternatives from one state: the same prompt, each completion applied to the same bank and scored."""

    key: str
    steps: tuple[ScoredStep, ...]
    rewards: tuple[float, ...]


def share_earned(reward: float, steps: Sequence[ScoredStep]) -> float:
    """A reward without the share of the refused replies, which earned none of it; what a scene cost stays as it is."""
    refused = sum(step.refused for step in steps)
    return reward * (1 - refused / len(steps)) if refused and reward > 0 else reward


def rows_of(steps: Iterable[ScoredStep], advantage: float, *, group: str) -> list[Row]:
    """One row a step; none for refused replies where the others did well."""
    return [row_of(step, advantage, group=group) for step in steps if not step.refused or advantage < 0]


def row_of(step: ScoredStep, advantage: float, *, group: str, weight: float = 1.0, ret: float | None = None) -> Row:
    return Row(step.prompt_ids, step.completion_ids, step.logprobs, advantage, weight, group, step.role, ret)
