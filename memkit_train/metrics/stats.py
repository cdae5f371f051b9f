"""Intervals that respect what is random: whole conversations are drawn again, not questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    low: float
    high: float
    n: int
    """Questions (or whatever was averaged)."""
    clusters: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] n={self.n}"


def mean_by_cluster(
    values: Mapping[str, Sequence[float]], *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Estimate:
    """Mean over all values, with a percentile interval from redrawing clusters (conversations). With one cluster there
    is nothing to redraw, and the interval is the whole range: honest, not small."""
    kept = {name: list(rows) for name, rows in values.items() if len(rows)}
    total = sum(len(rows) for rows in kept.values())
    if not total:
        return Estimate(float("nan"), float("nan"), float("nan"), 0, 0)
    sums = np.array([sum(rows) for rows in kept.values()], dtype=float)
    counts = np.array([len(rows) for rows in kept.values()], dtype=float)
    value = float(sums.sum() / counts.sum())
    if len(kept) == 1:
        rows = next(iter(kept.values()))
        return Estimate(value, float(min(rows)), float(max(rows)), total, 1)
    chosen = np.random.default_rng(seed).integers(0, len(kept), size=(draws, len(kept)))
    means = sums[chosen].sum(axis=1) / counts[chosen].sum(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Estimate(value, float(low), float(high), total, len(kept))


def difference_by_cluster(
    ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]], *, draws: int = 1000, seed: int = 0
) -> Estimate:
    """Paired: the same conversations are redrawn for both sides. Every question must be in both."""
    shared = {name: [a - b for a, b in zip(ours[name], theirs[name], strict=True)] for name in ours}
    return mean_by_cluster(shared, draws=draws, seed=seed)
