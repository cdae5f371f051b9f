"""What the small manager learns from: a pair of texts, what else is known of them, and the right choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    task: str
    first: str
    second: str
    features: Sequence[float]
    label: int
    weight: float = 1.0
    language: str = "en"
    source: str = ""
    """Where it comes from: what is held out is held out by it."""
