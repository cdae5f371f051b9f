"""The shipped weights of `memkit.retrieval.weights`, beside what they came from: set by hand; fitted to the talks; to
these and as many questions of RealMem; the first places by the one fit, those behind by the other.

Set MEMKIT_TALKS, MEMKIT_LOCOMO and MEMKIT_REAL. A bank holds words as they were said, and a fit has the signals that
the weights set by hand use. No figure of what is found is of what its fit saw: talks are found by weights that never
saw their author, one persona of RealMem was left out, and LoCoMo shaped nothing; what is shipped has seen all talks.
Fitted with MiniLM alone, which knows English and little of the others: where an embedder knows all that is said,
meaning counts for more, and where it knows nothing, for less.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.embedders import make_embedder
from memkit.models import MemoryRecord
from memkit.retrieval import DEFAULT, SIGNALS, TO_MANAGERS, BankIndex, Query, RankerWeights, embed_text, features
from memkit.retrieval.weights import FIRST
from memkit_train.ranker import fit
from memkit_train.ranker.fit import RankExample, as_vector, order_rows
from tests.bench._real_sets import read_rows
from tests.bench._real_talks import Talk, is_relevant, records_of, talks
from tests.bench._table import Row

EMBEDDERS = ("hash", "minilm")
TALKS = ("talks, English", "talks, other languages")
PLACES, SESSIONS = (3, 5, 7, 10), (0.2, 0.3, 0.4, 0.6)
SHIPPED = f"shipped: behind the first {FIRST} conversations count for more"
"""How many places come first, and what the rest of a fitting conversation counts behind them: the pair with which the
talks of left-out authors lose nothing and four personas of RealMem find most."""
PULL, PULLS = 3.0, (1.0, 3.0, 10.0, 30.0)
"""How strongly a fit is pulled towards the weights set by hand: of these, about what explains left-out authors best."""
_USED = np.array([name in dict(TO_MANAGERS.values) for name in SIGNALS], dtype=np.float64)
BY_HAND = as_vector(TO_MANAGERS.values)
_OFF = 0.01
"""A shipped weight is the fitted one, as far as its digits go."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: whose, in which part, and which turn each row is of."""

    part: str
    author: str
    example: RankExample
    turns: tuple[str, ...]
    evidence: int
    """Turns that hold it; some may not be there yet."""


def run(*, full: bool = False) -> list[Row]:
    found, rows = talks(), list[Row]()
    asked = {name: list(_of_talks(name, found)) for name in EMBEDDERS}
    taught = [one for one in asked["minilm"] if one.example.teaches]
    rows.append(_pulls(taught))
    people: list[Asked] = []
    if os.environ.get("MEMKIT_REAL"):
        people = list(_of_realmem("minilm"))
        left_out = people[0].author
        asked["minilm"] += [one for one in people if one.author == left_out]
        asked["hash"] += list(_of_realmem("hash", most=1))
        people = [one for one in people if one.author != left_out and one.example.teaches]
    if os.environ.get("MEMKIT_LOCOMO"):
        for name in EMBEDDERS:
            asked[name] += list(_of_locomo(name))
    authors = sorted({one.author for one in taught})
    turns = {author: _fitted([one for one in taught if one.author != author]) for author in [*authors, ""]}
    rows.append(_shipped(turns[""]))
    rows += _choice(asked["minilm"], people, turns) if people else []
    for name, rankings in _rankings(taught, people, turns).items():
        for embedder in EMBEDDERS:
            rows += _found(f"{name}, {embedder}", asked[embedder], rankings)
    return rows


def _rankings(
    taught: Sequence[Asked], people: Sequence[Asked], turns: Mapping[str, Floats]
) -> Mapping[str, Mapping[str, RankerWeights]]:
    """Name → the weights for each author of a talk, fitted without him; "" for everything else."""
    rng = np.random.default_rng(0)
    chosen = [people[at] for at in rng.permutation(len(people))[: len(taught)]]
    by: dict[str, dict[str, RankerWeights]] = {}
    for author, own in turns.items():
        by.setdefault("set by hand", {})[author] = TO_MANAGERS
        by.setdefault("fitted to talks", {})[author] = _weights(own)
        if chosen:
            both = _fitted([*(one for one in taught if one.author != author), *chosen])
            by.setdefault("fitted to talks and RealMem", {})[author] = _weights(both)
            by.setdefault(f"the first {FIRST} by the one fit, the rest by the other", {})[author] = _weights(own, both)
        by.setdefault(SHIPPED, {})[author] = _weights(own, _with_session(own, dict(DEFAULT.behind)["session"]))
    return by


def _weights(first: Floats, behind: Floats | None = None, places: int = FIRST) -> RankerWeights:
    halves = [dict(zip(SIGNALS, half.tolist(), strict=True)) for half in (first, behind) if half is not None]
    return RankerWeights.of("", halves[0], behind=halves[-1], first=places)


def _with_session(fitted: Floats, weight: float) -> Floats:
    behind = fitted.copy()
    behind[SIGNALS.index("session")] = weight
    return behind


def _fitted(taught: Sequence[Asked], pull: float = PULL) -> Floats:
    """As large in sum as the weights set by hand, as the shipped ones are."""
    return _scale(_fit(taught, pull))


def _fit(taught: Sequence[Asked], pull: float) -> Floats:
    return fit._fit(fit._Lists([one.example for one in taught]), BY_HAND, pull)


def _scale(vector: Floats) -> Floats:
    return vector * float(np.abs(BY_HAND).sum() / np.abs(vector).sum())


def _pulls(taught: Sequence[Asked]) -> Row:
    losses = {pull: float(np.mean(list(_losses(taught, pull)))) for pull in PULLS}
    before = float(np.mean(list(_losses(taught, None))))
    above = losses[PULL] - min(losses.values())
    told = ", ".join(f"{pull:g}: {loss:.4f}" for pull, loss in losses.items())
    note = f"loss by pull {told}; set by hand {before:.4f}"
    return Row("loss on left-out authors, above that of the best pull", above, "", "<= 0.002", above <= 0.002, note)


def _shipped(fitted: Floats) -> Row:
    """As far from what is fitted now as the furthest of the weights."""
    off = float(np.abs(as_vector(DEFAULT.values) - fitted).max())
    note = ", ".join(f"{signal} {value:.3f}" for signal, value in zip(SIGNALS, fitted.tolist(), strict=True) if value)
    return Row("shipped weights: the furthest from what is fitted", off, "", f"<= {_OFF:g}", off <= _OFF, note)


def _choice(asked: Sequence[Asked], people: Sequence[Asked], turns: Mapping[str, Floats]) -> Iterator[Row]:
    """Of the evidence, what is among the first ten rows with each pair: on talks of left-out authors, and RealMem."""
    parts = {part: [one for one in asked if one.part == part] for part in TALKS} | {"RealMem": people}
    pairs = [(FIRST, None), *((first, weight) for first in PLACES for weight in SESSIONS)]
    found = {
        pair: [100 * float(np.mean([_at_ten(one, turns, *pair) for one in of])) for of in parts.values()]
        for pair in pairs
    }
    (*alone, _), shipped = found[pairs[0]], (FIRST, dict(DEFAULT.behind)["session"])
    unharmed = [
        shares for shares in found.values() if all(now >= then for now, then in zip(shares, alone, strict=False))
    ]
    best = max(shares[-1] for shares in unharmed)
    for (first, weight), shares in found.items():
        name = (
            "the same weights for all places" if weight is None else f"{first} places first, session {weight:g} behind"
        )
        told = ", ".join(f"{part} {value:.1f}" for part, value in zip(parts, shares, strict=True))
        is_shipped = (first, weight) == shipped
        bar = f">= {best:.4g}, talks as without" if is_shipped else ""
        ok = not is_shipped or (shares in unharmed and shares[-1] >= best)
        yield Row(f"RealMem, four personas: {name}", shares[-1], "%", bar, ok, told)


def _at_ten(one: Asked, turns: Mapping[str, Floats], first: int, weight: float | None) -> float:
    own = turns.get(one.author, turns[""])
    weights = _weights(own, None if weight is None else _with_session(own, weight), first)
    return _recall(one, order_rows(weights, one.example.signals), 10)


def _losses(taught: Sequence[Asked], pull: float | None) -> Iterator[Floats]:
    """Of every question by weights that never saw its author; those of hand as sharp as explains the others best."""
    for author in sorted({one.author for one in taught}):
        rest = [one for one in taught if one.author != author]
        lists = fit._Lists([one.example for one in taught if one.author == author])
        if pull is None:
            vector = BY_HAND * fit._temperature(fit._Lists([one.example for one in rest]), BY_HAND)
        else:
            vector = _fit(rest, pull)
        yield from lists.losses(vector)


def _found(name: str, asked: Sequence[Asked], rankings: Mapping[str, RankerWeights]) -> Iterator[Row]:
    for part in dict.fromkeys(one.part for one in asked):
        recalls = list[list[float]]()
        depths = (1, 10, 30) if part.startswith("RealMem") else (1, 5, 10)
        for one in asked:
            if one.part == part:
                order = order_rows(rankings.get(one.author, rankings[""]), one.example.signals)
                recalls.append([_recall(one, order, k) for k in depths])
        means = [f"{100 * value:.1f}" for value in np.mean(recalls, axis=0).tolist()]
        told = ", ".join(f"@{k} {value}" for k, value in zip(depths, means, strict=True))
        yield Row(f"{part}: {name}", float(means[1]), "%", "", True, f"{told}; n={len(recalls)}")


def _recall(one: Asked, order: NDArray[np.int64], k: int) -> float:
    """Of the turns with evidence, those among the first `k` turns; in a talk, whether any is."""
    right = {one.turns[at] for at in np.flatnonzero(one.example.relevant).tolist()}
    best = list(dict.fromkeys(one.turns[at] for at in order.tolist()))[:k]
    return len(right.intersection(best)) / one.evidence if one.evidence else float(not right.isdisjoint(best))


# ---- the sets --------------------------------------------------------------------------------------------------------


def _of_talks(name: str, found: Sequence[Talk]) -> Iterator[Asked]:
    embedder = make_embedder(name)
    for talk in found:
        records = records_of(talk.turns)
        index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
        words = {turn["id"]: turn["content"] for turn in talk.turns}
        part = TALKS[not talk.english]
        ids = tuple(record.id for record in index.records)
        asked = [question for question in talk.questions if question["answer"] is not None]
        for question, vector in zip(asked, embedder.embed([one["question"] for one in asked]), strict=True):
            right = np.array([is_relevant(record.text, question, words) for record in index.records])
            yield Asked(part, talk.name[:2], _example(talk.name, index, question, vector, right), ids, 0)


def _of_realmem(name: str, most: int | None = None) -> Iterator[Asked]:
    """Each question over what was said up to the session that it comes after."""
    embedder, rows = make_embedder(name), read_rows("realmem_dev.jsonl")
    for person in list(dict.fromkeys(row["conversation"] for row in rows))[:most]:
        own = [row for row in rows if row["conversation"] == person]
        turns = [row for row in own if "content" in row]
        records = records_of(turns)
        vectors = np.array(embedder.embed([embed_text(record) for record in records]))
        sessions = list(dict.fromkeys(turn["session"] for turn in turns))
        asked = [row for row in own if "question" in row]
        known = dict(zip((row["id"] for row in asked), embedder.embed([row["question"] for row in asked]), strict=True))
        for question in asked:
            upto = set(sessions[: sessions.index(question["after"]) + 1])
            at = [place for place, record in enumerate(records) if record.session_id in upto]
            index = BankIndex.build([records[place] for place in at], vectors[at])
            ids = tuple(record.source_turns[0] for record in index.records)
            right = np.array([one in question["evidence"] for one in ids])
            if right.any():
                example = _example(person, index, question, known[question["id"]], right)
                yield Asked("RealMem, a persona left out", person, example, ids, len(question["evidence"]))


def _of_locomo(name: str) -> Iterator[Asked]:
    embedder = make_embedder(name)
    for talk in json.loads(Path(os.environ["MEMKIT_LOCOMO"]).read_text("utf-8")):
        records = list(_said(talk["conversation"]))
        index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
        ids = tuple(record.id for record in index.records)
        asked = [one for one in talk["qa"] if one.get("category") != 5 and set(one.get("evidence", ())) & set(ids)]
        for question, vector in zip(asked, embedder.embed([one["question"] for one in asked]), strict=True):
            right = np.array([one in question["evidence"] for one in ids])
            example = _example("", index, question, vector, right)
            yield Asked("LoCoMo", "", example, ids, len(set(question["evidence"]) & set(ids)))


def _said(talk: Mapping[str, Any]) -> Iterator[MemoryRecord]:
    sessions = sorted(
        (key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key.split("_")[1])
    )
    seq = 0
    for session in sessions:
        at = datetime.strptime(str(talk[session + "_date_time"]), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in talk[session]:
            seq += 1
            yield MemoryRecord(
                id=turn["dia_id"],
                text=turn["text"],
                kind="turn",
                origin="user",
                speaker=turn["speaker"],
                session_id=session,
                source_turns=(turn["dia_id"],),
                at=at,
                seq=seq,
            )


def _example(user: str, index: BankIndex, question: Mapping[str, Any], vector: Any, right: Any) -> RankExample:
    return RankExample(user, features(index, Query(question["question"], vector)) * _USED, right)
