"""Watching an adapter in service: outcomes of turns go in, a breach comes out when they are clearly worse than allowed.

Each adapter has a sliding window of its turns. A metric breaches when even the favourable end of its confidence
interval is beyond the limit; limits grow with what the other adapters show at the same time, so that a bad day of the
server is not blamed on one adapter.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev


@dataclass(frozen=True, slots=True)
class Outcome:
    """One turn or one answer, as decided by one adapter (None: the base model)."""

    adapter: str | None
    alias: str = "production"
    valid: bool = True
    """Its reply could be read as the role's grammar, and broke no rule."""
    error: bool = False
    """It gave no reply, or another adapter than the one that was asked for produced it."""
    deletions: int | None = 0
    """None where nothing could be deleted: an answer."""
    tokens: int | None = None
    """Read and written. None where they compare with nothing: not counted by the model's server, or an answer beside
    turns."""


@dataclass(frozen=True, slots=True)
class GuardPolicy:
    """Limits per adapter over its last `window` turns, judged from `min_turns` on."""

    window: int = 200
    min_turns: int = 30
    max_invalid: float = 0.10
    max_errors: float = 0.10
    max_deletions: float = 0.5
    """Mean deletions per turn."""
    max_tokens: float = 3.0
    """Median of a turn's tokens over that of the other adapters. Counted, not timed: how busy a server is at the moment
    is no adapter's doing."""
    z: float = 3.3
    """Width of the confidence interval: about one false alarm in two thousand looks."""


@dataclass(frozen=True, slots=True)
class Breach:
    alias: str
    adapter: str
    metric: str
    value: float
    limit: float
    turns: int

    def describe(self) -> str:
        return f"{self.metric} {self.value:.3g} over {self.turns} turns (limit {self.limit:.3g})"


class Guard:
    """Thread-safe. A window starts anew with `forget`."""

    def __init__(self, policy: GuardPolicy | None = None) -> None:
        self.policy = policy or GuardPolicy()
        self._windows: dict[tuple[str, str | None], deque[Outcome]] = {}
        self._lock = threading.Lock()

    def observe(self, outcome: Outcome) -> Breach | None:
        with self._lock:
            key = (outcome.alias, outcome.adapter)
            window = self._windows.setdefault(key, deque(maxlen=self.policy.window))
            window.append(outcome)
            if outcome.adapter is None or len(window) < self.policy.min_turns:
                return None
            others = [
                one
                for (alias, adapter), turns in self._windows.items()
                if alias == outcome.alias and adapter != outcome.adapter
                for one in turns
            ]
            return self._judge(outcome.alias, outcome.adapter, list(window), others)

    def forget(self, alias: str, adapter: str | None) -> None:
        with self._lock:
            self._windows.pop((alias, adapter), None)

    def metrics(self) -> dict[tuple[str, str | None], dict[str, float]]:
        """(alias, adapter) → what the windows show."""
        with self._lock:
            windows = {key: list(window) for key, window in self._windows.items()}
        return {
            key: {
                "turns": len(turns),
                "invalid": fmean(not one.valid for one in turns),
                "errors": fmean(one.error for one in turns),
                "deletions": fmean(_deletions(turns) or [0.0]),
                "tokens": _typical_tokens(turns),
            }
            for key, turns in windows.items()
        }

    def _judge(self, alias: str, adapter: str, turns: Sequence[Outcome], others: Sequence[Outcome]) -> Breach | None:
        policy, count = self.policy, len(turns)
        compare = others if len(others) >= policy.min_turns else []
        for metric, limit, mine, theirs in (
            ("invalid", policy.max_invalid, [not one.valid for one in turns], [not one.valid for one in compare]),
            ("errors", policy.max_errors, [one.error for one in turns], [one.error for one in compare]),
        ):
            limit = limit + (fmean(theirs) if theirs else 0.0)
            if _rate_at_least(sum(mine), count, policy.z) > limit:
                return Breach(alias, adapter, metric, fmean(mine), limit, count)
        limit = policy.max_deletions + fmean(_deletions(compare) or [0.0])
        deletions = _deletions(turns)
        if len(deletions) >= policy.min_turns:
            least = fmean(deletions) - policy.z * pstdev(deletions) / math.sqrt(len(deletions))
            if least > limit:
                return Breach(alias, adapter, "deletions", fmean(deletions), limit, len(deletions))
        if compare:
            limit = policy.max_tokens * _typical_tokens(compare)
            mine = _typical_tokens(turns)
            if limit > 0 and mine > limit:
                return Breach(alias, adapter, "tokens", mine, limit, count)
        return None


def _deletions(turns: Sequence[Outcome]) -> list[float]:
    return [float(one.deletions) for one in turns if one.deletions is not None]


def _typical_tokens(turns: Sequence[Outcome]) -> float:
    known = [one.tokens for one in turns if one.tokens is not None]
    return median(known) if known else 0.0


def _rate_at_least(hits: int, count: int, z: float) -> float:
    """Lower end of the Wilson interval of a rate."""
    rate, square = hits / count, z * z / count
    middle = rate + square / 2
    width = z * math.sqrt(rate * (1 - rate) / count + square / (4 * count))
    return (middle - width) / (1 + square)
