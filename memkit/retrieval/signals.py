"""The signals that a memory is scored by: one column per signal, one row per memory of the bank.

Runtime ranking, `Hit.why`, logged trajectories and the learned ranker all read these very columns. Every signal lies
between about 0 and 1, is computed from the bank's own rows only, and by elementwise double arithmetic in a fixed
order: equal banks give equal bits.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from memkit.errors import EmbedderError
from memkit.retrieval.index import BankIndex, Floats, Ints, exact_cosines
from memkit.retrieval.query import Asked, Query, read_query
from memkit.retrieval.times import expand

SIGNALS_VERSION = "signals/1"
SIGNALS: tuple[str, ...] = (
    "words",          # BM25, relative to the best row of the bank
    "meaning",        # cosine, spread between the worst and the best row of the bank
    "coverage",       # share of the question's words that the row has, rare words counting more
    "coverage_1",     # the same for the row together with the turns next to it: an exchange shares its words out
    "coverage_2",     # … with two turns to either side
    "phrases",        # share of the question's pairs of neighbouring words
    "before_1",       # words and meaning of the turn before, in the same conversation
    "after_1",
    "before_2",
    "after_2",
    "replies",        # the turn before asks a question that matches: this one may be its answer
    "session",        # the best match elsewhere in the same conversation
    "session_mean",
    "speaker",        # said by somebody whom the question names
    "other_speaker",  # said by somebody else, though the question names a speaker
    "names",          # speaks of a named person without being said by them
    "asker",          # a first-person question, and the row was said by the user
    "in_time",        # dated inside a time that the question names
    "near_time",      # dated shortly after (people report what has happened) or just before it
    "tells_time",     # a "when" question, and the row has a time expression
    "tells_number",   # a "how many" question, and the row has a number
    "length",
    "question",       # the row is itself a question: it asks rather than tells
    "fact",
    "recent",
    "latest",         # recency, where the question asks for the present state
    "trust",
)  # fmt: skip
"""Names of the columns, in order."""

LEAST_SPREAD = 0.25
"""Cosines of a bank are spread over 0 to 1 as if they differed by at least this much: where all rows are about as close
to the question, the little that tells them apart is noise."""


def features(index: BankIndex, query: Query) -> Floats:
    """(rows, signals): the columns named by `SIGNALS`, for every row of the index, masks not applied."""
    columns = signal_columns(index, query, read_query(query))
    return np.stack([columns[name] for name in SIGNALS], axis=1)


def signal_columns(index: BankIndex, query: Query, asked: Asked) -> dict[str, Floats]:
    rows = len(index)
    words, coverages = _bm25(index, asked.terms)
    meaning = _meaning(index, query)
    mix = 0.5 * words + 0.5 * meaning
    traits = index.traits
    recent = (np.arange(rows) + 1.0) / max(rows, 1)
    nothing = np.zeros(rows)
    columns: dict[str, Floats] = {
        "words": words,
        "meaning": meaning,
        "coverage": coverages[0],
        "coverage_1": coverages[1],
        "coverage_2": coverages[2],
        "phrases": _phrases(index, asked.pairs),
        "tells_time": traits["tells_time"] if asked.wants_time else nothing,
        "tells_number": traits["tells_number"] if asked.wants_number else nothing,
        "length": traits["length"],
        "question": traits["question"],
        "fact": traits["fact"],
        "recent": recent,
        "latest": recent if asked.wants_latest else nothing,
        "trust": traits["trust"],
        "asker": traits["from_user"] if asked.about_asker else nothing,
    }
    _add_talk(columns, index, mix)
    _add_people(columns, index, asked)
    columns["in_time"], columns["near_time"] = _times(index, asked)
    return columns


def _bm25(index: BankIndex, keys: NDArray[np.uint64]) -> tuple[Floats, tuple[Floats, Floats, Floats]]:
    """BM25 over its maximum in the bank, and the idf-weighted share of `keys` that each row has: alone, with its
    neighbours, and with theirs."""
    rows = len(index)
    score, alone, one, two = (np.zeros(rows) for _ in range(4))
    if not len(keys) or not rows:
        return score, (alone, one, two)
    found = index.postings.find(keys)
    idfs = [_idf(rows, len(owners)) for owners, _ in found]
    total = sum(idfs)
    saturation, (before_1, before_2), (after_1, after_2) = index.saturation, index.talk.before, index.talk.after
    holds = np.zeros(rows + 1)
    for idf, (owners, counts) in zip(idfs, found, strict=True):
        if not len(owners):
            continue
        score[owners] += idf * (counts / (counts + saturation[owners]))
        share = idf / total
        holds[owners] = share
        within_1 = np.maximum(holds[:-1], np.maximum(holds[before_1], holds[after_1]))
        alone += holds[:-1]
        one += within_1
        two += np.maximum(within_1, np.maximum(holds[before_2], holds[after_2]))
        holds[owners] = 0.0
    best = float(score.max())
    return score / best if best > 0 else score, (alone, one, two)


def _phrases(index: BankIndex, pairs: NDArray[np.uint64]) -> Floats:
    found = index.postings.find(pairs)
    idfs = [_idf(len(index), len(owners)) for owners, _ in found]
    total, share = sum(idfs), np.zeros(len(index))
    for idf, (owners, _) in zip(idfs, found, strict=True):
        share[owners] += idf / total
    return share


def _idf(rows: int, found: int) -> float:
    return math.log(1.0 + (rows - found + 0.5) / (found + 0.5))


def _meaning(index: BankIndex, query: Query) -> Floats:
    if query.vector is None or not len(index) or not index.vectors.shape[1]:
        return np.zeros(len(index))
    if query.vector.size != index.vectors.shape[1]:
        raise EmbedderError(
            f"a question of {query.vector.size} numbers cannot be compared with memories of {index.vectors.shape[1]}",
            why="they were embedded by different models", fix="embed both with the store's embedder",
        )  # fmt: skip
    cosines = exact_cosines(index.vectors, query.vector)
    low, high = float(cosines.min()), float(cosines.max())
    return (cosines - low) / max(high - low, LEAST_SPREAD)


def _add_talk(columns: dict[str, Floats], index: BankIndex, mix: Floats) -> None:
    talk = index.talk
    padded = np.append(mix, 0.0)
    for distance in (1, 2):
        columns[f"before_{distance}"] = padded[talk.before[distance - 1]]
        columns[f"after_{distance}"] = padded[talk.after[distance - 1]]
    columns["replies"] = columns["before_1"] * np.append(index.traits["question"], 0.0)[talk.before[0]]
    columns["session"], columns["session_mean"] = np.zeros(len(index)), np.zeros(len(index))
    if not len(talk.order):
        return
    grouped = mix[talk.order]
    best = np.maximum.reduceat(grouped, talk.starts)[talk.numbers]
    total, sizes = np.add.reduceat(grouped, talk.starts), np.diff(np.append(talk.starts, len(grouped)))
    columns["session"][talk.order] = best
    columns["session_mean"][talk.order] = (total / sizes)[talk.numbers]


def _add_people(columns: dict[str, Floats], index: BankIndex, asked: Asked) -> None:
    said, others, spoken_of = (np.zeros(len(index)) for _ in range(3))
    named = [name for name in index.speakers if _is_named(name, asked)]
    for name in named:
        said[index.speakers[name]] = 1.0
        for owners, _ in index.postings.find(index.name_keys[name]):
            spoken_of[owners] = 1.0
    if named:
        others = (1.0 - said) * index.has_speaker
        spoken_of *= 1.0 - said
    columns["speaker"], columns["other_speaker"], columns["names"] = said, others, spoken_of


def _is_named(speaker: str, asked: Asked) -> bool:
    """The full name, or its first word ("Ana" for Ana Silva), stands in the question."""
    return speaker.split()[0] in asked.words


def _times(index: BankIndex, asked: Asked) -> tuple[Floats, Floats]:
    inside, near = np.zeros(len(index)), np.zeros(len(index))
    dated = index.rows.days[index.rows.days > 0] if asked.times else index.rows.days[:0]
    if not len(dated):
        return inside, near
    days = index.rows.days
    for span in expand(asked.times, int(dated.min()), int(dated.max())):
        within = (days >= span.first) & (days <= span.last)
        inside[within] = 1.0
        near = np.maximum(near, _nearness(days, span.first, span.last))
    undated = days <= 0
    inside[undated], near[undated] = 0.0, 0.0
    return inside, near


def _nearness(days: Ints, first: int, last: int) -> Floats:
    """1 inside, halved a week after the end or two days before the beginning."""
    distance = np.maximum((days - last) / 7.0, (first - days) / 2.0)
    return 1.0 / (1.0 + np.maximum(distance, 0.0))
