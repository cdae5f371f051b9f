"""A ranker that learns from use: weights for the runtime's own signals, from what answers cited and labels said.

The retrospective idea of RMM, without its online reinforcement: a citation says which of the served memories carried
the answer, so each served question is one choice among its candidates, and a linear listwise model (softmax over the
candidates) is fitted to all of them. The prior is the ranker in use: the fit starts at its direction and is pulled
towards it, so little evidence changes little. How strong the pull is, is decided by cross-validation over users; where
no fit explains left-out citations clearly better than the prior does, there is nothing to learn and the prior stays.

No torch, no GPU; a thousand questions take seconds of one core. `gate_ranker` decides on users the fit never saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.retrieval import DEFAULT, SIGNALS, RankerWeights
from memkit.retrieval.signals import SIGNALS_VERSION

Floats = NDArray[np.float64]

PULLS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Strengths of the pull towards the prior that cross-validation chooses from."""
MIN_EXAMPLES = 20
FOLDS = 5
CUTOFF = 10
CLEAR = 2.5
"""Standard errors by which a fit must beat the prior on left-out citations."""


@dataclass(frozen=True, slots=True, eq=False)
class RankExample:
    """One question of one user: the signals of the candidates, and which of them were cited or labelled right."""

    user: str
    signals: Floats
    """(candidates, len(SIGNALS)), as `memkit.retrieval.features` or a logged trace gives them."""
    relevant: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.signals.ndim != 2 or self.signals.shape != (len(self.relevant), len(SIGNALS)):
            raise ValueError(
                f"signals of shape {self.signals.shape} do not fit {len(self.relevant)} candidates × {len(SIGNALS)} "
                f"signals of {SIGNALS_VERSION}"
            )

    @property
    def teaches(self) -> bool:
        """Something was chosen, and something was not."""
        return bool(self.relevant.any()) and not bool(self.relevant.all())


@dataclass(frozen=True, slots=True)
class RankerFit:
    weights: RankerWeights
    report: dict[str, Any] = field(default_factory=dict[str, Any])
    """Examples, users, chosen pull, cross-validated recall beside the prior's."""


@dataclass(frozen=True, slots=True)
class GateResult:
    passed: bool
    reason: str
    report: dict[str, Any] = field(default_factory=dict[str, Any])


def recall_at(weights: RankerWeights, example: RankExample, k: int = CUTOFF) -> float:
    """Share of the relevant candidates among the best `k`; ties go to the earlier candidate."""
    order = order_rows(weights, example.signals)[:k]
    return float(example.relevant[order].sum() / max(int(example.relevant.sum()), 1))


def order_rows(weights: RankerWeights, signals: Floats) -> NDArray[np.int64]:
    """As the runtime ranks them: the first places by the one half of the weights, those behind by the other."""
    best = np.argsort(-(signals @ as_vector(weights.values)), kind="stable")
    if not weights.behind:
        return best
    rest = np.argsort(-(signals @ as_vector(weights.behind)), kind="stable")
    first = best[: weights.first]
    return np.concatenate([first, rest[~np.isin(rest, first)]])


def as_vector(values: Sequence[tuple[str, float]]) -> Floats:
    known = dict(values)
    return np.array([known.get(name, 0.0) for name in SIGNALS])


def fit_ranker(
    examples: Sequence[RankExample], seed: int = 0, *, prior: RankerWeights = DEFAULT, name: str = "learned"
) -> RankerFit:
    """Weights for `examples`, and how they did in cross-validation (whole users left out; questions, where users are
    few). The prior's own weights, with `report["learned"]` False, where the citations hold nothing to learn."""
    teaching = [example for example in examples if example.teaches]
    if len(teaching) < MIN_EXAMPLES:
        raise ValueError(
            f"{len(teaching)} of {len(examples)} questions have both cited and uncited candidates; a fit needs "
            f"{MIN_EXAMPLES}. Collect more answers with citations, or labels, first."
        )
    folds, start = _folds(teaching, seed), as_vector(prior.values)
    losses = {pull: np.zeros(len(teaching)) for pull in PULLS}
    kept, before = np.zeros(len(teaching)), np.zeros(len(teaching))
    sides: list[tuple[_Lists, NDArray[np.int64]]] = []
    for held in range(int(folds.max()) + 1):
        out = np.flatnonzero(folds == held)
        train = _Lists([teaching[i] for i in np.flatnonzero(folds != held)])
        test = _Lists([teaching[i] for i in out])
        sides.append((train, out))
        before[out] = test.losses(_temperature(train, start) * start)
        for pull in PULLS:
            losses[pull][out] = test.losses(_fit(train, start, pull))
    pull = min(PULLS, key=lambda p: float(losses[p].sum()))
    for train, out in sides:
        both = _weights(name, _fit(train, start, pull), _fit_behind(train, prior, pull), prior.first)
        kept[out] = [recall_at(both, teaching[i]) for i in out]
    gain = before - losses[pull]
    learned = bool(gain.mean() > CLEAR * gain.std() / len(gain) ** 0.5)
    report = {
        "questions": len(teaching),
        "passed_over": len(examples) - len(teaching),
        "users": len({e.user for e in teaching}),
        "folds": int(folds.max()) + 1,
        "pull": pull,
        "learned": learned,
        f"cv_recall@{CUTOFF}": float(kept.mean()),
        f"prior_recall@{CUTOFF}": float(np.mean([recall_at(prior, e) for e in teaching])),
        "cv_loss": {str(p): float(losses[p].mean()) for p in PULLS},
        "prior_loss": float(before.mean()),
        "seed": seed,
        "prior": prior.digest,
    }
    if not learned:
        return RankerFit(prior, report)
    note = f"fitted on {len(teaching)} questions, seed {seed}"
    lists = _Lists(teaching)
    return RankerFit(
        _weights(name, _fit(lists, start, pull), _fit_behind(lists, prior, pull), prior.first, note), report
    )


def gate_ranker(
    candidate: RankerWeights,
    incumbent: RankerWeights,
    heldout: Sequence[RankExample],
    seed: int = 0,
    *,
    samples: int = 2_000,
    confidence: float = 0.95,
    min_questions: int = 30,
) -> GateResult:
    """Pass only a candidate whose recall is better on users that it was not fitted on: the lower bound of the paired
    difference, resampling users and then their questions, must be above zero."""
    judged = [example for example in heldout if example.teaches]
    if len(judged) < min_questions:
        return GateResult(
            False, f"{len(judged)} held-out questions; {min_questions} are needed", {"questions": len(judged)}
        )
    users: dict[str, list[float]] = {}
    for example in judged:
        gain = recall_at(candidate, example) - recall_at(incumbent, example)
        users.setdefault(example.user, []).append(gain)
    gains = [np.array(values) for values in users.values()]
    means = _bootstrap(gains, seed, samples)
    low, high = (float(x) for x in np.quantile(means, [1 - confidence, confidence]))
    mean = float(np.concatenate(gains).mean())
    report = {
        "questions": len(judged),
        "users": len(users),
        "gain": mean,
        "low": low,
        "high": high,
        f"candidate_recall@{CUTOFF}": float(np.mean([recall_at(candidate, e) for e in judged])),
        f"incumbent_recall@{CUTOFF}": float(np.mean([recall_at(incumbent, e) for e in judged])),
        "candidate": candidate.digest,
        "incumbent": incumbent.digest,
        "confidence": confidence,
        "seed": seed,
    }
    if low > 0:
        return GateResult(True, f"recall@{CUTOFF} rises by {100 * mean:.1f} points (at least {100 * low:.1f})", report)
    return GateResult(False, f"recall@{CUTOFF} changes by {100 * mean:.1f} points, which may be chance", report)


def _bootstrap(gains: Sequence[Floats], seed: int, samples: int) -> Floats:
    rng = np.random.default_rng(seed)
    out = np.empty(samples)
    for sample in range(samples):
        drawn = [gains[i] for i in rng.integers(0, len(gains), len(gains))] if len(gains) > 1 else list(gains)
        picked = [values[rng.integers(0, len(values), len(values))] for values in drawn]
        out[sample] = np.concatenate(picked).mean()
    return out


def _folds(examples: Sequence[RankExample], seed: int) -> NDArray[np.int64]:
    """Fold of each example. Users stay whole, unless there are too few of them to fill the folds."""
    rng = np.random.default_rng(seed)
    users = sorted({example.user for example in examples})
    if len(users) >= FOLDS:
        fold_of = dict(zip(users, rng.permutation(len(users)) % FOLDS, strict=True))
        return np.array([fold_of[example.user] for example in examples])
    return rng.permutation(len(examples)) % FOLDS


def _weights(name: str, vector: Floats, behind: Floats | None, first: int, note: str = "") -> RankerWeights:
    rest = None if behind is None else _scale(behind)
    return RankerWeights.of(name, _scale(vector), note, behind=rest, first=first)


def _scale(vector: Floats) -> dict[str, float]:
    """So that the sizes add up to 1: ranking is blind to scale, and readers are not."""
    size = float(np.abs(vector).sum()) or 1.0
    return {signal: round(float(value) / size, 6) for signal, value in zip(SIGNALS, vector, strict=True)}


class _Lists:
    """Examples as one long table: softmax over each list, for all lists at once."""

    def __init__(self, examples: Sequence[RankExample]) -> None:
        self.table = np.concatenate([example.signals for example in examples])
        sizes = np.array([len(example.relevant) for example in examples])
        self.starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self.owner = np.repeat(np.arange(len(examples)), sizes)
        chosen = np.concatenate([example.relevant for example in examples]).astype(np.float64)
        self.target = chosen / np.add.reduceat(chosen, self.starts)[self.owner]
        self.count = len(examples)

    def chances(self, vector: Floats) -> tuple[Floats, Floats]:
        """Softmax within each list, and its logarithm."""
        scores = self.table @ vector
        scores -= np.maximum.reduceat(scores, self.starts)[self.owner]
        sums = np.add.reduceat(np.exp(scores), self.starts)
        logs = scores - np.log(sums)[self.owner]
        return np.exp(logs), logs

    def losses(self, vector: Floats) -> Floats:
        """Of each list."""
        return -np.add.reduceat(self.target * self.chances(vector)[1], self.starts)

    def loss(self, vector: Floats) -> float:
        return float(self.losses(vector).mean())

    def derivatives(self, vector: Floats) -> tuple[Floats, Floats]:
        chance, _ = self.chances(vector)
        gradient = self.table.T @ (chance - self.target)
        means = np.add.reduceat(self.table * chance[:, None], self.starts)
        hessian = (self.table * chance[:, None]).T @ self.table - means.T @ means
        return gradient, hessian


def _fit(lists: _Lists, prior: Floats, pull: float) -> Floats:
    """Newton's method on the convex loss plus `pull` · |vector - temperature · prior|² / 2."""
    centre = prior * _temperature(lists, prior)
    objective = _penalised(lists, centre, pull)
    vector = centre.copy()
    value = objective(vector)
    for _ in range(50):
        gradient, hessian = lists.derivatives(vector)
        gradient = gradient + pull * (vector - centre)
        step = np.linalg.solve(hessian + pull * np.eye(len(vector)), gradient)
        length = 1.0
        while (moved := objective(vector - length * step)) > value and length > 1e-6:
            length /= 2
        if value - moved < 1e-9 * max(abs(value), 1.0):
            break
        vector, value = vector - length * step, moved
    return vector


def _fit_behind(lists: _Lists, prior: RankerWeights, pull: float) -> Floats | None:
    """What orders the rows behind the first is pulled as well, from where it is."""
    return _fit(lists, as_vector(prior.behind), pull) if prior.behind else None


def _penalised(lists: _Lists, centre: Floats, pull: float) -> Callable[[Floats], float]:
    return lambda vector: lists.loss(vector) * lists.count + 0.5 * pull * float(((vector - centre) ** 2).sum())


def _temperature(lists: _Lists, prior: Floats) -> float:
    """How sharp the prior's choices are, on a coarse grid: its direction is trusted, its scale means nothing."""
    return min((0.0, 1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0), key=lambda scale: lists.loss(scale * prior))
