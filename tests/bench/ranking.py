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
from memkit.retrieval import DEFAULT, SIGNALS, TO_MANAGERS, BankIndex, Query, embed_text, features
from memkit.retrieval.weights import FIRST
from memkit.text.passages import windows
from memkit_train.ranker import fit
from memkit_train.ranker.fit import RankExample, as_vector
from tests.bench._real_sets import read_rows
from tests.bench._real_talks import Talk, is_relevant, records_of, talks
from tests.bench._table import Row

EMBEDDERS = ("hash", "minilm")
SHIPPED = f"shipped: behind the first {FIRST} conversations count for more"
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


@dataclass(frozen=True, slots=True)
class Ranking:
    first: Floats
    behind: Floats | None = None

    def order(self, signals: Floats) -> list[int]:
        best = np.argsort(-(signals @ self.first), kind="stable").tolist()
        if self.behind is None:
            return best
        rest = np.argsort(-(signals @ self.behind), kind="stable").tolist()
        return [*best[:FIRST], *(one for one in rest if one not in set(best[:FIRST]))]


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
    by = _rankings(taught, people, authors)
    rows.append(_shipped(by["fitted to talks"][""].first))
    for name, rankings in by.items():
        for embedder in EMBEDDERS:
            rows += _found(f"{name}, {embedder}", asked[embedder], rankings)
    return rows


def _rankings(
    taught: Sequence[Asked], people: Sequence[Asked], authors: Sequence[str]
) -> Mapping[str, Mapping[str, Ranking]]:
    """Name → the ranking for each author of a talk, fitted without him; "" for everything else."""
    rng = np.random.default_rng(0)
    chosen = [people[at] for at in rng.permutation(len(people))[: len(taught)]]
    by: dict[str, dict[str, Ranking]] = {"set by hand": dict.fromkeys([*authors, ""], Ranking(BY_HAND))}
    for author in [*authors, ""]:
        rest = [one for one in taught if one.author != author]
        turns = _fitted(rest)
        by.setdefault("fitted to talks", {})[author] = Ranking(turns)
        if chosen:
            both = _fitted([*rest, *chosen])
            by.setdefault("fitted to talks and RealMem", {})[author] = Ranking(both)
            by.setdefault(f"the first {FIRST} by the one fit, the rest by the other", {})[author] = Ranking(turns, both)
        by.setdefault(SHIPPED, {})[author] = Ranking(turns, _with_session(turns))
    return by


def _fitted(taught: Sequence[Asked], pull: float = PULL) -> Floats:
    return fit._fit(fit._Lists([one.example for one in taught]), BY_HAND, pull)


def _pulls(taught: Sequence[Asked]) -> Row:
    losses = {pull: float(np.mean(list(_losses(taught, pull)))) for pull in PULLS}
    before = float(np.mean(list(_losses(taught, None))))
    above = losses[PULL] - min(losses.values())
    told = ", ".join(f"{pull:g}: {loss:.4f}" for pull, loss in losses.items())
    note = f"loss by pull {told}; set by hand {before:.4f}"
    return Row("loss on left-out authors, above that of the best pull", above, "", "<= 0.002", above <= 0.002, note)


def _shipped(fitted: Floats) -> Row:
    """As far from what is fitted now as the furthest of the weights."""
    scaled = _scale(fitted)
    off = float(np.abs(as_vector(DEFAULT.values) - scaled).max())
    note = ", ".join(f"{signal} {value:.3f}" for signal, value in zip(SIGNALS, scaled.tolist(), strict=True) if value)
    return Row("shipped weights: the furthest from what is fitted", off, "", f"<= {_OFF:g}", off <= _OFF, note)


def _scale(vector: Floats) -> Floats:
    """To the size of the weights set by hand, as the shipped ones are."""
    return vector * float(np.abs(BY_HAND).sum() / np.abs(vector).sum())


def _with_session(fitted: Floats) -> Floats:
    behind = _scale(fitted)
    behind[SIGNALS.index("session")] = dict(DEFAULT.behind)["session"]
    return behind


def _losses(taught: Sequence[Asked], pull: float | None) -> Iterator[Floats]:
    """Of every question by weights that never saw its author; those of hand as sharp as explains the others best."""
    for author in sorted({one.author for one in taught}):
        rest = [one for one in taught if one.author != author]
        lists = fit._Lists([one.example for one in taught if one.author == author])
        if pull is None:
            vector = BY_HAND * fit._temperature(fit._Lists([one.example for one in rest]), BY_HAND)
        else:
            vector = _fitted(rest, pull)
        yield from lists.losses(vector)


def _found(name: str, asked: Sequence[Asked], rankings: Mapping[str, Ranking]) -> Iterator[Row]:
    for part in dict.fromkeys(one.part for one in asked):
        recalls = list[list[float]]()
        depths = (1, 10, 30) if part.startswith("RealMem") else (1, 5, 10)
        for one in asked:
            if one.part == part:
                order = rankings.get(one.author, rankings[""]).order(one.example.signals)
                recalls.append([_recall(one, order, k) for k in depths])
        means = [f"{100 * value:.1f}" for value in np.mean(recalls, axis=0).tolist()]
        told = ", ".join(f"@{k} {value}" for k, value in zip(depths, means, strict=True))
        yield Row(f"{part}: {name}", float(means[1]), "%", "", True, f"{told}; n={len(recalls)}")


def _recall(one: Asked, order: Sequence[int], k: int) -> float:
    """Of the turns with evidence, those among the first `k` turns; in a talk, whether any is."""
    right = {one.turns[at] for at in np.flatnonzero(one.example.relevant).tolist()}
    best = list(dict.fromkeys(one.turns[at] for at in order))[:k]
    return len(right.intersection(best)) / one.evidence if one.evidence else float(not right.isdisjoint(best))


# ---- the sets --------------------------------------------------------------------------------------------------------


def _of_talks(name: str, found: Sequence[Talk]) -> Iterator[Asked]:
    embedder = make_embedder(name)
    for talk in found:
        records = records_of(talk)
        index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
        words = {turn["id"]: turn["content"] for turn in talk.turns}
        part = f"talks, {'English' if talk.english else 'other languages'}"
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
        records = list(_windows(turns))
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


def _windows(turns: Sequence[Mapping[str, Any]]) -> Iterator[MemoryRecord]:
    for seq, turn in enumerate(turns, start=1):
        for number, window in enumerate(windows(turn["content"])):
            yield MemoryRecord(
                id=f"{turn['id']}.{number}",
                text=window,
                kind="turn",
                origin=turn["role"],
                speaker="" if turn["role"] == "user" else turn["role"],
                session_id=turn["session"],
                source_turns=(turn["id"],),
                at=datetime.fromisoformat(turn["at"]),
                seq=seq,
            )


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
