"""How likely a memory bears on a question: a number from 0 to 1 that means the same in every bank.

A score orders the memories of one bank; its size says little. Relevance is read off what can be compared between banks:
the cosine, and the share of the question's words that a memory has, alone and with the turns next to it. Whether
something was ever spoken of is told well by it; whether it was answered is not. The numbers are fitted to the talks by
`python -m tests.bench relevance`, one set for each embedder whose cosines are known; it also prints what a block keeps
and loses where it ends earlier.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memkit.retrieval.rank import Scored
from memkit.retrieval.weights import RANKINGS


@dataclass(frozen=True, slots=True)
class Calibration:
    """Weights of a logistic function, none of them below 0."""

    cosine: float
    alone: float
    """Of the share of the question's words that the memory has."""
    exchange: float
    """… that it has together with the turns next to it."""
    bias: float
    nothing_bears: float = 0.0
    """Where no memory reaches this, nothing that was ever said bears on the question. 0 for embedders that know no
    meanings: that no word is shared is no proof."""
    of_best: float = 0.0
    """What fits less than this share of the best fills a block up, and no more."""

    def relevance(self, one: Scored) -> float:
        signals = one.signals
        alone, exchange = signals.get("coverage", 0.0), signals.get("coverage_1", 0.0)
        total = self.bias + self.cosine * one.cosine + self.alone * alone + self.exchange * exchange
        return 1.0 / (1.0 + math.exp(-total))

    def bearing(self, scored: Sequence[Scored]) -> list[Scored]:
        """What of the best rows bears on the question."""
        if all(self.relevance(one) < self.nothing_bears for one in scored):
            return []
        fits = [_fit(one) for one in scored]
        best = max(fits)
        return [one for one, fit in zip(scored, fits, strict=True) if best <= 0 or fit >= self.of_best * best]


def _fit(one: Scored) -> float:
    """Of its place, by weights that were set by hand: those that are fitted to order rows count for more who speaks,
    and how."""
    signals = one.placed_by or one.signals
    return sum(weight * signals.get(name, 0.0) for name, weight in RANKINGS[2][1].values)


CALIBRATIONS = {
    "hash": Calibration(cosine=4.09, alone=3.64, exchange=2.66, bias=-4.74),
    "minilm": Calibration(cosine=5.08, alone=3.82, exchange=2.44, bias=-5.78, nothing_bears=0.022, of_best=0.42),
    "multilingual": Calibration(cosine=5.36, alone=3.80, exchange=2.56, bias=-5.15, nothing_bears=0.016, of_best=0.42),
    "": Calibration(cosine=0.0, alone=5.47, exchange=2.88, bias=-4.58),
}
"""By the name of the embedder; "" for every other one, whose cosines are not known."""


def calibration_of(identity: str) -> Calibration:
    """For an embedder by its identity (`minilm/fp32:384`)."""
    return CALIBRATIONS.get(identity.partition("/")[0], CALIBRATIONS[""])
