"""The values that pass between logs, algorithms and trainers. Plain frozen dataclasses, no torch.

    logs ──► TokenRow, TextRow ──► learn/sft.py
    logs, labelled scenes ──► ChoiceRow ──► chooser/fit.py
    rollouts ──► ScoredEpisode (rl/algorithms/values.py) ──► algorithms ──► Row ──► RowTrainer

Token ids are kept as they were sampled and never made again from text: `completion_ids` ends with the end token
whenever the model wrote one. Prompt tokens are context only; the loss is on completion tokens, always.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memkit.backbones.small.encoder import Task, TextPair
from memkit.roles.base import ChatMessage
from memkit_train.errors import BadRow

R = TypeVar("R", bound="TokenRow | TextRow | ChoiceRow")
GOOD = 0.5
"""Reward from which on a decision is imitated."""


@dataclass(frozen=True, slots=True)
class Row:
    """One completion for `RowTrainer`: what was said, by how sure a policy, and how good it was."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    behaviour_logprobs: tuple[float, ...] | None
    """Raw log-probs (T = 1, no mask) under the policy that acted. None: the current policy, so that the ratio is 1."""
    advantage: float | tuple[float, ...]
    """One number, or one per completion token."""
    weight: float = 1.0
    group: str = ""
    """What it was compared with."""
    role: str = "manager"
    ret: float | None = None
    """Return that the value head should predict for the prompt."""

    def __post_init__(self) -> None:
        _check_ids(self.prompt_ids, self.completion_ids)
        _check_length("behaviour_logprobs", self.behaviour_logprobs, self.completion_ids)
        advantages = self.advantage if isinstance(self.advantage, tuple) else (self.advantage,)
        if isinstance(self.advantage, tuple):
            _check_length("advantage", self.advantage, self.completion_ids)
        _check_finite(
            "a number of the row", (*advantages, *(self.behaviour_logprobs or ()), self.weight, self.ret or 0.0)
        )

    @property
    def tokens(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One logged decision as the policy saw and wrote it, for imitation."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    weight: float = 1.0
    role: str = "manager"
    reward: float | None = None
    """How good it was, in [0, 1]. None: not known."""
    age_days: float = 0.0
    """How long ago it was logged."""
    vocabulary: str = ""
    """Digest of the tokenizer that the ids belong to; "" where it was not recorded."""
    user: str = ""
    """Opaque subject id; what is erased or held out goes by it."""
    ref: str = ""
    """Id of the decision or trace in the journal."""

    def __post_init__(self) -> None:
        _check_ids(self.prompt_ids, self.completion_ids)
        _check_finite("weight", (self.weight, self.reward or 0.0, self.age_days))
        if self.weight < 0 or self.age_days < 0:
            raise BadRow(
                "weight and age_days must not be negative", fix="give a `reward` for what was bad", ref=self.ref
            )


@dataclass(frozen=True, slots=True)
class TextRow:
    """A logged decision without ids in the target vocabulary: a hosted model wrote it. The target model's own template
    makes a TokenRow of it (learn/texts.py)."""

    messages: tuple[ChatMessage, ...]
    completion: str
    weight: float = 1.0
    role: str = "manager"
    reward: float | None = None
    age_days: float = 0.0
    user: str = ""
    ref: str = ""


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """What the small manager learns from: a pair of texts, what else is known of them, and the right choice."""

    task: Task
    first: str
    second: str
    features: Sequence[float]
    label: int
    """Which option is right."""
    weight: float = 1.0
    language: str = "en"
    source: str = ""
    """Where it comes from: what is held out is held out by it."""
    taken: int = -1
    """Of a logged choice: the option that was taken."""
    reward: float | None = None
    """… what became of it, in [0, 1]. None: nobody said."""
    age_days: float = 0.0
    user: str = ""
    """Opaque subject id; what is erased or held out goes by it."""
    ref: str = ""
    """Id of the decision in the journal."""
    target: Sequence[float] = ()
    """Share of each option, where it is known better than by one label."""

    @classmethod
    def of(cls, pair: TextPair, label: int, **more: Any) -> ChoiceRow:
        return cls(pair.task, pair.first, pair.second, pair.features, label, **more)

    @property
    def role(self) -> str:
        return "extractor" if self.task == "clause" else "manager"

    @property
    def pair(self) -> TextPair:
        return TextPair(self.task, self.first, self.second, self.features)


AnyRow = TokenRow | TextRow | ChoiceRow


def list_written(rows: Iterable[AnyRow]) -> list[TokenRow | TextRow]:
    """Those of a model that writes. A run has rows of one kind alone: its base says of which."""
    return [row for row in rows if not isinstance(row, ChoiceRow)]


def list_chosen(rows: Iterable[AnyRow]) -> list[ChoiceRow]:
    """Those of a manager that chooses."""
    return [row for row in rows if isinstance(row, ChoiceRow)]


def good(rows: Iterable[R]) -> list[R]:
    """Those that a label says turned out well."""
    return [row for row in rows if row.reward is not None and row.reward >= GOOD]


def fingerprint(rows: Iterable[object]) -> str:
    """sha256 over rows in their order: tells whether a checkpoint belongs to this data."""
    total = hashlib.sha256()
    for row in rows:
        total.update(repr(row).encode("utf-8", "surrogatepass"))
    return total.hexdigest()


def _check_ids(prompt_ids: Sequence[int], completion_ids: Sequence[int]) -> None:
    if not prompt_ids or not completion_ids:
        raise BadRow(
            "a row needs prompt and completion tokens",
            why=f"it has {len(prompt_ids)} and {len(completion_ids)}",
            fix="leave decisions out whose reply was empty",
        )


def _check_length(name: str, values: Sequence[float] | None, completion_ids: Sequence[int]) -> None:
    if values is not None and len(values) != len(completion_ids):
        raise BadRow(
            f"{name} has {len(values)} entries for {len(completion_ids)} completion tokens",
            fix="log one value per sampled token, end token included",
        )


def _check_finite(name: str, values: Sequence[float]) -> None:
    if not all(map(math.isfinite, values)):
        raise BadRow(f"{name} is not finite", why=f"{[v for v in values if not math.isfinite(v)][:3]}")
