"""What a model reads: the fixed words of all roles, and how turns and memories are laid out. One file per version;
versions live side by side, because an adapter is served with the words that it was trained on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wording:
    number: int
    extractor: str
    manager: str
    fused: str
    answerer: str
    weekdays: bool = False
    """The dates of memories say their weekday."""
    whole_turns: int = 0
    """So many of the latest EARLIER turns are shown (nearly) whole: a question, and what it was asked about."""
    kept_turns: int = 0
    """So many of the latest EARLIER turns have their place before memories fill the prompt."""
