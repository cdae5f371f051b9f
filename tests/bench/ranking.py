"""The weights of `memkit.retrieval.weights` beside weights fitted to the talks: what those find that the hand-set ones
do not, on talks of an author that was left out of the fit, and on LoCoMo, which shaped nothing. RESULTS.md tells why
the fitted ones are not shipped.

Set MEMKIT_TALKS, and MEMKIT_LOCOMO for its rows. The bank holds words as they were said; the signals are those that the
hand-set weights use. MiniLM, which knows English and little of the others: where an embedder knows all that is said,
meaning counts for more, and where it knows nothing, for less.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from memkit.embedders import make_embedder
from memkit.models import MemoryRecord
from memkit.retrieval import DEFAULT, SIGNALS, BankIndex, Query, RankerWeights, embed_text, features
from memkit_train.ranker.fit import RankExample, as_vector, fit_pulled, loss_of, recall_at
from tests.bench._real_talks import Talk, is_relevant, records_of, talks
from tests.bench._table import Row

PULL, PULLS = 3.0, (1.0, 3.0, 10.0, 30.0)
"""How strongly the fit is pulled towards the weights before it: of these, what explains left-out authors best."""
_USED = np.array([name in dict(DEFAULT.values) for name in SIGNALS], dtype=np.float64)


def run(*, full: bool = False) -> list[Row]:
    found = talks()
    of = {name: list(_of_talks(name, found)) for name in ("hash", "minilm")}
    taught = [one for _, one in of["minilm"]]
    rows = [_told(taught), *_pulls(taught)]
    left_out = _by_author(taught)
    for name, asked in of.items():
        for english in (True, False):
            what = f"{name}, {'English' if english else 'other languages'}, an author left out"
            rows += _found(what, [one for talk, one in asked if talk.english == english], left_out)
    if os.environ.get("MEMKIT_LOCOMO"):
        for name in of:
            rows += _on_locomo(name, _fitted(taught))
    return rows


def _told(asked: Sequence[RankExample]) -> Row:
    fitted = dict(_fitted(asked).values)
    told = ", ".join(f"{name} {fitted.get(name, 0.0):.2f} ({value:g})" for name, value in DEFAULT.values)
    return Row("weights fitted to all talks (and shipped)", float(len(fitted)), "", "", True, told)


def _fitted(asked: Sequence[RankExample], pull: float = PULL) -> RankerWeights:
    """As large in sum as the ones before: a score goes on to mean what it meant."""
    fit = fit_pulled(asked, pull, prior=DEFAULT, name="fitted")
    size = float(np.abs(as_vector(DEFAULT)).sum())
    return RankerWeights.of("fitted", {name: value * size for name, value in fit.values})


def _pulls(asked: Sequence[RankExample]) -> Iterator[Row]:
    losses = dict[float, float]()
    for pull in PULLS:
        losses[pull] = float(np.mean([loss for loss in _losses(asked, pull)]))
    before = float(np.mean([loss for loss in _losses(asked, None)]))
    best = min(losses, key=lambda one: losses[one])
    told = ", ".join(f"{pull:g}: {loss:.4f}" for pull, loss in losses.items())
    yield Row(
        "pull that explains left-out authors best", best, "", f"{PULL:g}", best == PULL, f"{told}; before {before:.4f}"
    )


def _losses(asked: Sequence[RankExample], pull: float | None) -> Iterator[float]:
    for author in _authors(asked):
        rest = [one for one in asked if one.user != author and one.teaches]
        own = [one for one in asked if one.user == author and one.teaches]
        weights = DEFAULT if pull is None else _fitted(rest, pull)
        yield from [loss_of(weights, own, rest)] * len(own)


def _by_author(asked: Sequence[RankExample]) -> dict[str, RankerWeights]:
    return {author: _fitted([one for one in asked if one.user != author]) for author in _authors(asked)}


def _authors(asked: Sequence[RankExample]) -> list[str]:
    return sorted({one.user for one in asked})


def _found(name: str, asked: Sequence[RankExample], fitted: dict[str, RankerWeights]) -> Iterator[Row]:
    for k in (1, 3, 10):
        now = _share([_first(fitted[one.user], one) < k for one in asked])
        before = _share([_first(DEFAULT, one) < k for one in asked])
        bar = f">= {before:.2f} - 1" if k < 10 else f">= {before:.2f}, the weights before"
        yield Row(
            f"{name}: evidence@{k}", now, "%", bar, now >= before - (k < 10), f"before {before:.1f}, n={len(asked)}"
        )


def _first(weights: RankerWeights, one: RankExample) -> int:
    """How many rows come before the first right one."""
    order = np.argsort(-(one.signals @ as_vector(weights)), kind="stable")
    return int(np.argmax(one.relevant[order])) if one.relevant.any() else len(order)


def _share(values: Sequence[bool]) -> float:
    return 100 * sum(values) / max(len(values), 1)


def _of_talks(name: str, found: Sequence[Talk]) -> Iterator[tuple[Talk, RankExample]]:
    embedder = make_embedder(name)
    for talk in found:
        records = records_of(talk)
        index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
        words = {turn["id"]: turn["content"] for turn in talk.turns}
        asked = [question for question in talk.questions if question["answer"] is not None]
        for question, vector in zip(asked, embedder.embed([one["question"] for one in asked]), strict=True):
            right = [is_relevant(record.text, question, words) for record in index.records]
            signals = features(index, Query(question["question"], vector)) * _USED
            yield talk, RankExample(talk.name[:2], signals, np.array(right))


def _on_locomo(name: str, fitted: RankerWeights) -> Iterator[Row]:
    """Which shaped nothing: recall of the evidence among the first ten."""
    embedder, before, now = make_embedder(name), list[float](), list[float]()
    for talk in json.loads(Path(os.environ["MEMKIT_LOCOMO"]).read_text("utf-8")):
        records = list(_said(talk["conversation"]))
        index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
        ids = [record.id for record in index.records]
        asked = [one for one in talk["qa"] if one.get("category") != 5 and set(one.get("evidence", ())) & set(ids)]
        for question, vector in zip(asked, embedder.embed([one["question"] for one in asked]), strict=True):
            right = np.array([one in question["evidence"] for one in ids])
            example = RankExample("", features(index, Query(question["question"], vector)), right)
            before.append(100 * recall_at(DEFAULT, example))
            now.append(100 * recall_at(fitted, example))
    gain = np.array(now) - np.array(before)
    low = float(gain.mean() - 1.96 * gain.std() / len(gain) ** 0.5)
    note = f"before {np.mean(before):.1f}; at least {low:+.1f}, n={len(now)}"
    yield Row(f"LoCoMo, words alone, {name}: evidence recall@10", float(np.mean(now)), "%", "> before", low > 0, note)


def _said(talk: dict[str, object]) -> Iterator[MemoryRecord]:
    sessions = sorted(
        (key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key.split("_")[1])
    )
    seq = 0
    for session in sessions:
        at = datetime.strptime(str(talk[session + "_date_time"]), "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in talk[session]:  # pyright: ignore[reportGeneralTypeIssues]
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
