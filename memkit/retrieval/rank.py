"""Ranking: weights times signals, best first. The one scorer of search, of the manager's candidates and of replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from memkit.models import MemoryRecord, micros
from memkit.retrieval.index import BankIndex, Floats
from memkit.retrieval.query import ParsedQuery, Query, read_query
from memkit.retrieval.signals import SIGNALS, signal_columns, zeros
from memkit.retrieval.weights import DEFAULT, RankerWeights


@dataclass(frozen=True, slots=True)
class Scored:
    """A memory with its score and the signals behind it."""

    record: MemoryRecord
    score: float
    signals: dict[str, float]
    asked: ParsedQuery | None = field(default=None, compare=False, repr=False)
    """The question as read, so that `why` can name the words that matched."""
    cosine: float = field(default=0.0, compare=False)
    """Of the question and the memory, not spread over the bank as the signal `meaning` is."""
    placed_by: Mapping[str, float] = field(default_factory=dict[str, float], compare=False, repr=False)
    """Signals of the row in whose place it stands, if it was moved there: the score is theirs, too."""

    def in_place_of(self, other: Scored) -> Scored:
        return replace(self, score=other.score, placed_by=other.placed_by or other.signals)


_SILENT = dict.fromkeys(SIGNALS, 0.0)


def rank(index: BankIndex, query: Query, weights: RankerWeights = DEFAULT) -> list[Scored]:
    """The `k` best rows that the query's masks admit. Ties: the earlier sequence number first."""
    if not len(index) or query.k < 1:
        return []
    asked = read_query(query, in_any_language=weights.signals != "signals/1")
    columns = signal_columns(index, query, asked, weights.signals)
    score = score_columns(columns, weights.values, len(index))
    admitted = _mask(index, query).nonzero()[0]
    if weights.behind and min(query.k, len(admitted)) > weights.first:
        behind = score_columns(columns, weights.behind, len(index))
        chosen = _in_two_parts(score, behind, admitted, weights.first, query.k)
    else:
        chosen = admitted[_best(score[admitted], query.k)]
    signals = _signals(columns, chosen, len(index))
    return [
        Scored(record, value, own, asked, cosine)
        for record, value, own, cosine in zip(
            index.rows.pick(chosen.tolist()),
            score[chosen].tolist(),
            signals,
            _cosines(index, query, chosen),
            strict=True,
        )
    ]


def _in_two_parts(score: Floats, behind: Floats, admitted: NDArray[np.int64], places: int, k: int) -> NDArray[np.int64]:
    """The first rows by `score`, those behind them by the other; `score` goes on falling with these."""
    best = _best(score[admitted], places)
    first, left = admitted[best], np.delete(admitted, best)
    rest = left[_best(behind[left], k - places)]
    score[rest] = score[first[-1]] + behind[rest] - behind[rest[0]]
    return np.concatenate([first, rest])


def _cosines(index: BankIndex, query: Query, chosen: NDArray[np.int64]) -> list[float]:
    if query.vector is None or not index.rows.width:
        return [0.0] * len(chosen)
    return index.rows.cosines(query.vector, chosen).tolist()


def _signals(columns: dict[str, Floats], chosen: NDArray[np.int64], rows: int) -> list[dict[str, float]]:
    """What each of the chosen rows has, signal by signal. Most columns hold nothing."""
    out, nothing = [_SILENT.copy() for _ in range(len(chosen))], zeros(rows)
    for name in SIGNALS:
        if (column := columns[name]) is not nothing:
            for own, value in zip(out, column[chosen].tolist(), strict=True):
                own[name] = value
    return out


def score_columns(columns: dict[str, Floats], weights: Sequence[tuple[str, float]], rows: int) -> Floats:
    """Summed column by column, in the order of the weights: a matrix product would round by row position."""
    score, nothing = np.zeros(rows), zeros(rows)
    for name, weight in weights:
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
        wanted = [index.kinds[kind] for kind in query.kinds]
        mask &= wanted[0] if len(wanted) == 1 else np.logical_or.reduce(wanted)
    if query.session_id is not None:
        mask &= index.rows.in_session(query.session_id)
    if query.condition is not None:
        condition = query.condition
        left = np.flatnonzero(mask).tolist()
        mask[left] = [condition.matches(record) for record in index.rows.pick(left)]
    return mask
