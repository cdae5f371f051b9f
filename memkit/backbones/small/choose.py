"""From scores to a choice, and what is logged of it. Sampled where the router explores, else the best; noise is a
function of (seed, key, place), so that a decision made again chooses again the same."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memkit.backbones.small.shape import OPTIONS
from memkit.models import JSON
from memkit.seams.backbone import Sampling


@dataclass(frozen=True, slots=True)
class TakenOption:
    task: str
    place: tuple[int, ...]
    """clause: turn, start, end. relation: number of the fact, handle of the memory."""
    option: str
    shares: tuple[float, ...]
    """Probability of each option."""
    logprob: float
    """Of the option that was taken, at temperature 1."""
    sampled: float
    """… as it was drawn; 0 where the best was taken."""

    def to_json(self) -> JSON:
        return {
            "task": self.task,
            "place": list(self.place),
            "option": self.option,
            "logprob": round(self.logprob, 6),
            "sampled": round(self.sampled, 6),
        }


def choose(
    task: str,
    place: tuple[int, ...],
    scores: NDArray[np.float32],
    sampling: Sampling,
    key: str,
    sure: float,
) -> TakenOption:
    """The likeliest option; the first one, which changes nothing, where none is as likely as `sure`."""
    logs = log_softmax(scores)
    at, sampled = int(logs.argmax()), 0.0
    if sampling.temperature > 0:
        warm = log_softmax(logs / sampling.temperature)
        at = _draw(warm, f"{sampling.seed}\x00{key}\x00{task}\x00{place}")
        sampled = float(warm[at])
    elif logs[at] < math.log(sure):
        at = 0
    shares = tuple(math.exp(one) for one in logs)
    return TakenOption(task, place, OPTIONS[task][at], shares, float(logs[at]), sampled)


def _draw(logs: NDArray[np.float64], key: str) -> int:
    left = int.from_bytes(hashlib.sha256(key.encode("utf-8", errors="surrogatepass")).digest()[:7], "big") / 2**56
    for at, one in enumerate(logs):
        left -= math.exp(one)
        if left < 0:
            return at
    return len(logs) - 1


def log_softmax(scores: NDArray[np.floating]) -> NDArray[np.float64]:
    scores = scores.astype(np.float64)
    moved = scores - scores.max()
    return moved - np.log(np.exp(moved).sum())
