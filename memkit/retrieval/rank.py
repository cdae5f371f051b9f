"""Ranking: weights times signals, best first. The one scorer of search, of the manager's candidates and of replay."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memkit.models import MemoryRecord, micros
from memkit.retrieval.index import BankIndex, Floats
from memkit.retrieval.query import Asked, Query, read_query
from memkit.retrieval.signals import SIGNALS, signal_columns, zeros
from memkit.retrieval.weights import DEFAULT, RankerWeights


@dataclass(frozen=True, slots=True)
class Scored:
    """A memory with its score and the signals behind it."""

    record: MemoryRecord
    score: float
    signals: dict[str, float]
    asked: Asked | None = field(default=None, compare=False, repr=False)
    """The question as read, so that `why` can name the words that matched."""


def rank(index: BankIndex, query: Query, weights: RankerWeights = DEFAULT) -> list[Scored]:
    """The `k` best rows that the query's masks admit. Ties: the earlier sequence number first."""
    if not len(index) or query.k < 1:
        return []
    asked = read_query(query)
    columns = signal_columns(index, query, asked)
    score = score_columns(columns, weights, len(index))
    admitted = _mask(index, query).nonzero()[0]
    chosen = admitted[_best(score[admitted], query.k)]
    nothing, none = zeros(len(index)), [0.0] * len(chosen)
    table = [none if (column := columns[name]) is nothing else column[chosen].tolist() for name in SIGNALS]
    return [
        Scored(record, value, dict(zip(SIGNALS, signals, strict=True)), asked)
        for record, value, *signals in zip(index.pick(chosen.tolist()), score[chosen].tolist(), *table, strict=True)
    ]


def score_columns(columns: dict[str, Floats], weights: RankerWeights, rows: int) -> Floats:
    """Summed column by column, in the order of the weights: a matrix product would round by row position."""
    score, nothing = np.zeros(rows), zeros(rows)
    for name, weight in weights.values:
        if (column := columns[name]) is not nothing:
            score += weight * column
    return score


def _best(score: Floats, k: int) -> NDArray[np.int64]:
    """Positions of the `k` largest, rows being in canonical order and the sort stable."""
    if len(score) > 4 * k:
        bar = np.partition(score, len(score) - k)[len(score) - k]
        few = (score >= bar).nonzero()[0]
        return few[np.argsort(-score[few], kind="stable")[:k]]
    return np.argsort(-score, kind="stable")[:k]


def _mask(index: BankIndex, query: Query) -> NDArray[np.bool_]:
    mask = np.full(len(index), True) if query.now is None else index.rows.expires > micros(query.now)
    if query.kinds is not None:
        mask &= np.logical_or.reduce([index.kinds[kind] for kind in query.kinds])
    if query.session_id is not None:
        mask &= np.array([session == query.session_id for session in index.rows.sessions], dtype=bool)
    if query.condition is not None:
        condition = query.condition
        left = np.flatnonzero(mask).tolist()
        mask[left] = [condition.matches(record) for record in index.pick(left)]
    return mask
