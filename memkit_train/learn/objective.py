"""What `RowTrainer` minimises, as one value. Algorithms export theirs beside the function that makes their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Objective:
    """Per token: -min(ratio * A, clip(ratio) * A) + kl * k3(parent) - entropy * H, averaged over an optimiser step."""

    surrogate: Literal["clip", "truncated", "likelihood"] = "clip"
    """clip: PPO's pessimistic bound. truncated: importance weight capped at 1 + clip_high, gradient through log p only
    (CISPO), so that a token beyond the cap still teaches, but no more than the cap. likelihood: -A * log p, whoever
    said it; with advantage 1 that is imitation."""
    ratio: Literal["token", "sequence"] = "token"
    """sequence: one length-normalised ratio per completion, exp(mean log-ratio)."""
    average: Literal["token", "row"] = "token"
    """token: every token of the step counts the same. row: every completion counts the same."""
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = 3.0
    """With a negative advantage the ratio is capped here, above 1 + clip_high: one very unlikely logged completion must
    not own the step."""
    kl: float = 0.0
    """Weight of the k3 estimate of KL(policy || parent)."""
    kl_unbiased: bool = True
    """Multiply the estimate by the ratio, so that its gradient is that of the KL itself (TRL's default). Unbounded, so
    only for rows of the current policy; False is plain k3."""
    entropy: float = 0.0
    """Weight of the entropy bonus."""
    value: float = 0.5
    """Weight of the squared error of the value head, where rows have returns."""
