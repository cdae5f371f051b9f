"""Learning rates by size: a rate that a model of a million parameters needs ruins one of a billion.

From 50 million parameters on these are the rates that others report for LoRA on language models (about ten times those
of a full fine-tune), with a short warm-up; below, those that the tiny model of the generated world learns well at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["imitation", "reinforcement"]


@dataclass(frozen=True, slots=True)
class LearningRate:
    lr: float
    warmup: float
    """Share of the steps over which the rate rises."""


_TABLE: dict[Kind, tuple[tuple[float, LearningRate], ...]] = {
    "imitation": (
        (5e7, LearningRate(1e-3, 0.0)),
        (3e9, LearningRate(2e-4, 0.03)),
        (float("inf"), LearningRate(1e-4, 0.03)),
    ),
    "reinforcement": (
        (5e7, LearningRate(1e-3, 0.0)),
        (3e9, LearningRate(2e-5, 0.03)),
        (float("inf"), LearningRate(1e-5, 0.03)),
    ),
}
"""Up to so many parameters → the rate."""
FAR = 4.0
"""A rate this many times the usual one is worth a warning."""


def rate_for(parameters: int, kind: Kind) -> LearningRate:
    return next(rate for most, rate in _TABLE[kind] if parameters < most)
