"""Whose words count for how much. A person's own words are the strongest; what an assistant says is its own; tools,
documents and other systems are written by anybody. What is weaker adds, and never changes what is stronger."""

from __future__ import annotations

from memkit.models import Origin

PERSON, ASSISTANT, OUTSIDE = 2, 1, 0
_STRENGTH: dict[str, int] = {"user": PERSON, "api": PERSON, "assistant": ASSISTANT}
_TRUST = (0.4, 0.8, 1.0)


def strength(origin: Origin) -> int:
    return _STRENGTH.get(origin, OUTSIDE)


def trust_of(origin: Origin) -> float:
    """How far a new memory is trusted; the ranker weighs it."""
    return _TRUST[strength(origin)]
