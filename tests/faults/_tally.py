"""What a family of faults came to."""

from __future__ import annotations

from dataclasses import dataclass, field

SEED = 2026
"""Of the tests, so that a change fails by its own faults alone; `python -m tests.bench trust` takes others."""


@dataclass
class Tally:
    seed: int
    tried: int = 0
    broken: list[str] = field(default_factory=list[str])
    """Each promise that was broken, with what it takes to see it again."""
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, name: str, many: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + many

    @property
    def note(self) -> str:
        told = ", ".join(f"{many} {name}" for name, many in sorted(self.counts.items()))
        first = f"; first: {self.broken[0][:160]}" if self.broken else ""
        return f"seed {self.seed}{'; ' if told else ''}{told}{first}"
