"""The signals that a memory is scored by: one column per signal, one row per memory of the bank.

Runtime ranking, `Hit.why`, logged trajectories and the learned ranker all read these very columns. Every signal lies
between about 0 and 1, is computed from the bank's own rows only, and by elementwise double arithmetic in a fixed
order: equal banks give equal bits.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache
from typing import cast

import numpy as np

from memkit.errors import EmbedderError
from memkit.retrieval.index import BankIndex, Floats, Ints
from memkit.retrieval.lexicon import term_key
from memkit.retrieval.postings import Found
from memkit.retrieval.query import ParsedQuery, Query, read_query
from memkit.text.times import expand

SIGNALS_VERSION = "signals/2"
VERSIONS = ("signals/1", SIGNALS_VERSION)
"""In 1, what a question wants was read in English only, and whose words a row has counted only where somebody asked
about himself."""
SIGNALS: tuple[str, ...] = (
    "words",  # BM25, relative to the best row of the bank
    "meaning",  # cosine, spread between the worst and the best row of the bank
    "coverage",  # share of the question's words that the row has, rare words counting more
    "coverage_1",  # the same for the row together with the turns next to it: an exchange shares its words out
    "coverage_2",  # … with two turns to either side
    "phrases",  # share of the question's pairs of neighbouring words
    "before_1",  # words and meaning of the turn before, in the same conversation
    "after_1",
    "before_2",
    "after_2",
    "replies",  # the turn before asks a question that matches: this one may be its answer
    "session",  # the best match elsewhere in the same conversation
    "session_mean",
    "speaker",  # said by somebody whom the question names
    "other_speaker",  # said by somebody else, though the question names a speaker
    "names",  # speaks of a named person without being said by them
    "asker",  # said by the user, or drawn from what was said; of signals/1, where a question is in the first person
    "in_time",  # dated inside a time that the question names
    "near_time",  # dated shortly after (people report what has happened) or just before it
    "tells_time",  # a "when" question, and the row has a time expression
    "tells_number",  # a "how many" question, and the row has a number
    "length",
    "question",  # the row is itself a question: it asks rather than tells
    "fact",
    "recent",
    "latest",  # recency, where the question asks for the present state
    "trust",
)
"""Names of the columns, in order."""

_OF_TALK = ("before_1", "after_1", "before_2", "after_2", "replies", "session", "session_mean")
LEAST_SPREAD = 0.25
_AT_ONCE = 64
"""Words of a question whose neighbourhoods are laid out together."""
"""Cosines of a bank are spread over 0 to 1 as if they differed by at least this much: where all rows are about as close
to the question, the little that tells them apart is noise."""


def features(index: BankIndex, query: Query) -> Floats:
    """(rows, signals): the columns named by `SIGNALS`, for every row of the index, masks not applied."""
    columns = signal_columns(index, query, read_query(query))
    return np.stack([columns[name] for name in SIGNALS], axis=1)


def signal_columns(
    index: BankIndex, query: Query, asked: ParsedQuery, version: str = SIGNALS_VERSION
) -> dict[str, Floats]:
    """Columns that hold nothing but zeros are `zeros(rows)` itself."""
    rows = len(index)
    said = index.rows.speakers_among(asked.words)
    words, coverages, phrases, named = _lexical(index, asked, said)
    meaning = _meaning(index, query)
    traits = index.rows.traits
    recent, nothing = recency(rows), zeros(rows)
    columns: dict[str, Floats] = {
        "words": words,
        "meaning": meaning,
        "coverage": coverages[0],
        "coverage_1": coverages[1],
        "coverage_2": coverages[2],
        "phrases": phrases,
        "tells_time": traits["tells_time"] if asked.wants_time else nothing,
        "tells_number": traits["tells_number"] if asked.wants_number else nothing,
        "length": traits["length"],
        "question": traits["question"],
        "fact": traits["fact"],
        "recent": recent,
        "latest": recent if asked.wants_latest else nothing,
        "trust": traits["trust"],
        "asker": np.maximum(traits["from_user"], traits["fact"]),
    }
    if version == "signals/1":
        columns["asker"] = traits["from_user"] if asked.about_asker else nothing
    _add_talk(columns, index, words, meaning)
    _add_people(columns, index, said, named)
    columns["in_time"], columns["near_time"] = _times(index, asked)
    return columns


@lru_cache(maxsize=64)
def zeros(rows: int) -> Floats:
    """The column of a signal that says nothing about any row; always the same object for the last few sizes, so that
    it can be recognised. Read-only."""
    column = np.zeros(rows)
    column.flags.writeable = False
    return column


@lru_cache(maxsize=64)
def recency(rows: int) -> Floats:
    """From nearly 0 for the oldest row to 1 for the newest. Read-only."""
    column = (np.arange(rows) + 1.0) / max(rows, 1)
    column.flags.writeable = False
    return column


def _lexical(
    index: BankIndex, asked: ParsedQuery, speakers: Collection[str]
) -> tuple[Floats, tuple[Floats, Floats, Floats], Floats, dict[str, Floats]]:
    """What the words of the question find: BM25 over its maximum in the bank; the idf-weighted share of them that each
    row has, alone, with its neighbours, and with theirs; the same of the pairs; and for every speaker that is named,
    1 for the rows that speak of the name."""
    rows, terms = len(index), len(asked.terms)
    if not terms or not rows:
        nothing = zeros(rows)
        return nothing, (nothing, nothing, nothing), nothing, dict.fromkeys(speakers, nothing)
    found = index.rows.find(np.concatenate((asked.terms, asked.pairs)))
    idfs = [_idf(rows, size) for size in found.sizes(terms + len(asked.pairs))]
    of_word = np.array(idfs[:terms] + [0.0] * len(asked.pairs))[found.which]
    score = _summed(found.rows, of_word * (found.counts / (found.counts + index.saturation[found.rows])), rows)
    best = float(np.maximum.reduce(score))
    shares = np.array([*_shares(idfs[:terms]), *_shares(idfs[terms:])])
    share = shares[found.which]
    is_pair = found.which >= terms
    alone, phrases = _summed(found.rows + rows * is_pair, share, 2 * rows).reshape(2, rows)
    one, two = _around(index, found, shares[:terms]) if index.has_talk else (alone, alone)
    named: dict[str, Floats] = {}
    for name in speakers:
        named[name] = np.zeros(rows)
        named[name][found.rows[found.which == _first_term(name, asked)]] = 1.0
    return score / best if best > 0 else score, (alone, one, two), phrases, named


def _summed(rows: Ints, values: Floats, size: int) -> Floats:
    """For each row the sum of its values, in the order in which they come, which is that of the words."""
    return cast("Floats", np.bincount(rows, values, size))


def _shares(idfs: list[float]) -> list[float]:
    total = 0.0
    for idf in idfs:
        total += idf  # one after the other, which `sum` does no longer since Python 3.12
    return [idf / total for idf in idfs]


def _around(index: BankIndex, found: Found, shares: Floats) -> tuple[Floats, Floats]:
    """The share of the words that a row has together with the turns next to it, and with two to either side."""
    rows = len(index)
    out = np.zeros((2, rows))
    for start in range(0, len(shares), _AT_ONCE):
        terms = min(_AT_ONCE, len(shares) - start)
        here = ((found.which >= start) & (found.which < start + terms)).nonzero()[0]
        which, at = found.which[here] - start, found.rows[here]
        holds = np.zeros((terms, rows + 1), dtype=bool)  # the last one is where those without a neighbour look
        holds[which, at] = True
        for distance, (before, after) in enumerate(zip(index.talk.before, index.talk.after, strict=True)):
            holds[which, before[at]] = holds[which, after[at]] = True
            term, row = holds[:, :-1].nonzero()  # term by term: the order in which shares are summed
            out[distance] += _summed(row, shares[term + start], rows)
    return out[0], out[1]


@lru_cache(maxsize=16_384)
def _idf(rows: int, found: int) -> float:
    return math.log(1.0 + (rows - found + 0.5) / (found + 0.5))


def _meaning(index: BankIndex, query: Query) -> Floats:
    if query.vector is None or not len(index) or not index.rows.width:
        return np.zeros(len(index))
    if query.vector.size != index.rows.width:
        raise EmbedderError(
            f"a question of {query.vector.size} numbers cannot be compared with memories of {index.rows.width}",
            why="they were embedded by different models",
            fix="embed both with the store's embedder",
        )
    cosines = index.rows.cosines(query.vector)
    low, high = float(np.minimum.reduce(cosines)), float(np.maximum.reduce(cosines))
    return (cosines - low) / max(high - low, LEAST_SPREAD)


def _add_talk(columns: dict[str, Floats], index: BankIndex, words: Floats, meaning: Floats) -> None:
    if not index.has_talk:
        columns.update(dict.fromkeys(_OF_TALK, zeros(len(index))))
        return
    talk = index.talk
    mix = 0.5 * words + 0.5 * meaning
    padded = np.append(mix, 0.0)
    for distance in (1, 2):
        columns[f"before_{distance}"] = padded[talk.before[distance - 1]]
        columns[f"after_{distance}"] = padded[talk.after[distance - 1]]
    columns["replies"] = columns["before_1"] * np.append(index.rows.traits["question"], 0.0)[talk.before[0]]
    columns["session"], columns["session_mean"] = np.zeros(len(index)), np.zeros(len(index))
    grouped = mix[talk.order]
    best = np.maximum.reduceat(grouped, talk.starts)[talk.numbers]
    total, sizes = np.add.reduceat(grouped, talk.starts), np.diff(np.append(talk.starts, len(grouped)))
    columns["session"][talk.order] = best
    columns["session_mean"][talk.order] = (total / sizes)[talk.numbers]


def _add_people(
    columns: dict[str, Floats], index: BankIndex, by_name: dict[str, Floats], named: dict[str, Floats]
) -> None:
    if not by_name:
        columns["speaker"] = columns["other_speaker"] = columns["names"] = zeros(len(index))
        return
    said, spoken_of = zeros(len(index)), zeros(len(index))
    for name, rows in by_name.items():
        said, spoken_of = np.maximum(said, rows), np.maximum(spoken_of, named[name])
    others = 1.0 - said
    columns["speaker"], columns["other_speaker"] = said, others * index.rows.traits["has_speaker"]
    columns["names"] = spoken_of * others


def _first_term(speaker: str, asked: ParsedQuery) -> int:
    """Which of the question's terms is the name's first word, by which others speak of its bearer; -1 for none."""
    terms, key = asked.terms.tolist(), term_key(speaker.split()[0])
    return terms.index(key) if key in terms else -1


def _times(index: BankIndex, asked: ParsedQuery) -> tuple[Floats, Floats]:
    """1 for rows dated inside a time that was asked for; and nearness: 1 inside, halved a week after the end of the
    closest or two days before its beginning."""
    if not asked.times:
        return zeros(len(index)), zeros(len(index))
    days = index.rows.days
    dated = days[days > 0]
    if not len(dated):
        return zeros(len(index)), zeros(len(index))
    spans = expand(asked.times, int(dated.min()), int(dated.max()))
    if not spans:
        return zeros(len(index)), zeros(len(index))
    firsts, lasts = (np.sort([getattr(span, end) for span in spans]) for end in ("first", "last"))
    begun, over = firsts.searchsorted(days, "right"), lasts.searchsorted(days, "left")
    told = days > 0
    inside = ((begun > over) & told).astype(np.float64)
    after = (days - lasts[np.maximum(over - 1, 0)]) / 7.0
    before = (firsts[np.minimum(begun, len(firsts) - 1)] - days) / 2.0
    far = np.minimum(np.where(over > 0, after, np.inf), np.where(begun < len(firsts), before, np.inf))
    return inside, np.where(told, 1.0 / (1.0 + np.where(inside > 0, 0.0, far)), 0.0)
