"""The values that pass between logs, algorithms and trainers. Plain frozen dataclasses, no torch.

    logs ──► TokenRow, LabelledRow, PreferencePair ──► methods (sft, kto, dpo, offline)
    rollouts ──► ScoredEpisode (algorithms/values.py) ──► algorithms ──► Row ──► RowTrainer

Token ids are kept as they were sampled and never made again from text: `completion_ids` ends with the end token
whenever the model wrote one. Prompt tokens are context only; the loss is on completion tokens, always.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memkit.roles.base import ChatMessage
from memkit_train.errors import BadRow


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
    """One logged decision as the policy saw and wrote it. For imitation (`sft`) and off-policy learning (`offline`)."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    weight: float = 1.0
    role: str = "manager"
    reward: float | None = None
    """How good it was, in [0, 1]. None: not known; `offline` needs it, `sft` takes what it is given."""
    logprobs: tuple[float, ...] | None = None
    """Raw log-probs (T = 1, no mask) under the policy that acted."""
    state_key: str = ""
    """Equal keys: the same fact before the same shown memories (see algorithms/gigpo.py). "" is compared with none."""
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
        _check_length("logprobs", self.logprobs, self.completion_ids)
        _check_finite("weight", (self.weight, self.reward or 0.0, self.age_days, *(self.logprobs or ())))
        if self.weight < 0 or self.age_days < 0:
            raise BadRow(
                "weight and age_days must not be negative", fix="give a `reward` for what was bad", ref=self.ref
            )


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A completion that was good or bad by itself. For `kto`."""

    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    label: bool
    weight: float = 1.0
    role: str = "manager"
    vocabulary: str = ""
    user: str = ""
    ref: str = ""

    def __post_init__(self) -> None:
        _check_ids(self.prompt_ids, self.completion_ids)
        _check_finite("weight", (self.weight,))


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two completions of one prompt, the better one first. For `dpo`."""

    prompt_ids: tuple[int, ...]
    chosen_ids: tuple[int, ...]
    rejected_ids: tuple[int, ...]
    weight: float = 1.0
    role: str = "manager"
    margin: float = 0.0
    """By how much the chosen one scored better; 0 where only the order is known."""
    vocabulary: str = ""
    user: str = ""
    ref: str = ""

    def __post_init__(self) -> None:
        _check_ids(self.prompt_ids, self.chosen_ids)
        _check_ids(self.prompt_ids, self.rejected_ids)
        _check_finite("weight", (self.weight, self.margin))
        if self.chosen_ids == self.rejected_ids:
            raise BadRow("chosen and rejected are the same completion", fix="leave such pairs out", ref=self.ref)


@dataclass(frozen=True, slots=True)
class TextRow:
    """A logged decision without ids in the target vocabulary: a hosted model wrote it. The target model's own template
    makes a TokenRow of it (methods/texts.py), which never has log-probs."""

    messages: tuple[ChatMessage, ...]
    completion: str
    weight: float = 1.0
    role: str = "manager"
    reward: float | None = None
    state_key: str = ""
    age_days: float = 0.0
    user: str = ""
    ref: str = ""


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
