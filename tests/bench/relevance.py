"""The constants of `memkit.retrieval.relevance`, fitted anew to the talks, and how well they tell; and what a block
keeps where it ends at a share of the best row's score.

Set MEMKIT_TALKS. Every talk is asked its own questions and those of the other talks; a served row is relevant where it
holds the gold or the words of the evidence. `telling apart` leaves one author out of each fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.embedders import make_embedder
from memkit.engine.serve import serve
from memkit.retrieval import BankIndex, Query, Scored, embed_text, estimate_tokens, parse_context, render_context
from memkit.retrieval.relevance import CALIBRATIONS
from tests.bench._real_talks import (
    TOKENS,
    K,
    Served,
    Talk,
    Tally,
    auc,
    is_relevant,
    precision,
    records_of,
    talks,
)
from tests.bench._real_talks import share as of_all
from tests.bench._table import Row

SERVED, RIDGE, STEPS = 20, 1.0, 60
SHARES = (0.0, 0.4, 0.6, 0.8)
OFF = 0.06
"""How far a shipped constant may be from the one that is fitted here: it is rounded."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    author: str
    english: bool
    kind: str
    """answered, empty (nothing that was said answers it) or other (of another talk)."""
    signals: Floats
    """(served rows, 3)"""
    relevant: Floats


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    for name in ("hash", "minilm", "multilingual"):
        asked = list(_ask_all(name))
        rows += _compare(name, asked, [0, 1, 2])
        if name == "hash":
            rows += _compare("", asked, [1, 2])
        rows += _tell_apart(name, asked)
        rows += _emptied(name, asked) if CALIBRATIONS[name].nothing_bears else ()
    return [*rows, *_ended_at()]


def _compare(name: str, asked: list[Asked], columns: list[int]) -> list[Row]:
    fitted = np.zeros(4)
    fitted[[*columns, 3]] = _fit(asked, columns)
    shipped = astuple(CALIBRATIONS[name])[:4]
    rows: list[Row] = []
    for what, ours, new in zip(("cosine", "alone", "exchange", "bias"), shipped, fitted.tolist(), strict=True):
        label = f"{name or 'other embedders'}: {what}"
        rows.append(Row(label, ours, "", f"{new:.2f} ± {OFF}", abs(ours - new) <= OFF, "fitted now"))
    return rows


def _tell_apart(name: str, asked: list[Asked]) -> list[Row]:
    best: dict[tuple[bool, str], list[float]] = {}
    for author in sorted({one.author for one in asked}):
        weights = _fit([one for one in asked if one.author != author], [0, 1, 2])
        for one in asked:
            if one.author == author:
                value = float((one.signals @ weights[:3]).max()) + float(weights[3])
                best.setdefault((one.english, one.kind), []).append(1 / (1 + math.exp(-value)))
    rows: list[Row] = []
    for english in (True, False):
        for kind, what in (("other", "never spoken of"), ("empty", "spoken of, not answered")):
            value = auc(best[english, "answered"], best[english, kind])
            label = f"{name}, {'English' if english else 'other languages'}: telling apart what was {what} (AUC)"
            rows.append(Row(label, value, "", "", True, f"n={len(best[english, kind])}"))
    return rows


def _emptied(name: str, asked: list[Asked]) -> Iterator[Row]:
    """Questions to which nothing bears, as contexts are served."""
    shipped = CALIBRATIONS[name]
    for english in (True, False):
        for kind, what in (("other", "what was never spoken of"), ("answered", "what was said")):
            best = [
                float((one.signals @ (shipped.cosine, shipped.alone, shipped.exchange)).max()) + shipped.bias
                for one in asked
                if (one.english, one.kind) == (english, kind)
            ]
            none = 100 * float(np.mean([1 / (1 + math.exp(-value)) < shipped.nothing_bears for value in best]))
            language = "English" if english else "other languages"
            yield Row(
                f"{name}, {language}: questions about {what} that get nothing", none, "%", "", True, f"n={len(best)}"
            )


def _ended_at() -> Iterator[Row]:
    """What a cut lifts and costs, with MiniLM: in precision, and in blocks of the size that `real` asks for."""
    found = {(english, share): Tally() for english in (True, False) for share in SHARES}
    for talk, _, asked in _asked("minilm"):
        for question, is_own, served in asked:
            for share in SHARES if is_own else ():
                kept = replace(CALIBRATIONS["minilm"], nothing_bears=0.0, of_best=share).bearing(served)
                block = render_context([one.record for one in kept], TOKENS, nonce="abcdef").text
                said = "\n".join(item.text for item in parse_context(block)) if block else ""
                texts, of_best = [one.record.text for one in kept], [one.score / served[0].score for one in kept]
                shown = Served(texts[:K], said, served[0].score, estimate_tokens(block), 0.0, of_best[:K])
                found[talk.english, share].count(talk, question, shown)
    for (english, share), tally in found.items():
        name = f"minilm, {'English' if english else 'other languages'}: a block that ends at {share:g} of the best"
        tokens = sum(tally.tokens_for_nothing) / len(tally.tokens_for_nothing)
        idle = 100 * tally.idle_words / tally.words
        yield Row(f"{name}: gold", of_all(tally.gold), "%", "", True, f"n={len(tally.gold)}")
        yield Row(f"{name}: tokens for a question that nothing answers", tokens, "", "", True)
        yield Row(f"{name}: words of idle turns", idle, "%", "", True)
        if not share:
            right, least = precision(tally.hits)
            first = of_all([hits[0][1] for hits in tally.hits])
            label = name.partition(":")[0]
            yield Row(
                f"{label}: precision at a recall of .85, by shares of the best", right, "", "", True, f"{least:.2f}"
            )
            yield Row(f"{label}: questions whose first hit is right", first, "%", "", True, f"n={len(tally.hits)}")


def _ask_all(name: str) -> Iterator[Asked]:
    for talk, words, asked in _asked(name):
        for question, is_own, served in asked:
            kind = "other" if not is_own else "empty" if question["answer"] is None else "answered"
            relevant = [kind == "answered" and is_relevant(one.record.text, question, words) for one in served]
            signals = [[one.cosine, one.signals["coverage"], one.signals["coverage_1"]] for one in served]
            yield Asked(talk.name[:2], talk.english, kind, np.array(signals), np.array(relevant, dtype=np.float64))


def _asked(name: str) -> Iterator[tuple[Talk, dict[str, str], list[tuple[dict[str, Any], bool, list[Scored]]]]]:
    """Each talk, its words, and its questions and those of others with what is served for them."""
    embedder = make_embedder(name)
    for talk in talks():
        records = records_of(talk.turns)
        index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
        words = {turn["id"]: turn["content"] for turn in talk.turns}
        asked = [(question, True) for question in talk.questions] + [(question, False) for question in talk.others]
        vectors = embedder.embed([question["question"] for question, _ in asked])
        yield (
            talk,
            words,
            [
                (question, is_own, serve(index, Query(question["question"], vector, k=SERVED)))
                for (question, is_own), vector in zip(asked, vectors, strict=True)
            ],
        )


def _fit(asked: list[Asked], columns: list[int]) -> Floats:
    """Ridge logistic regression by Newton's steps; the bias comes last."""
    rows = np.concatenate([one.signals for one in asked])[:, columns]
    right = np.concatenate([one.relevant for one in asked])
    table = np.column_stack((rows, np.ones(len(rows))))
    weights, ridge = np.zeros(table.shape[1]), np.diag([RIDGE] * len(columns) + [0.0])
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-table @ weights))
        bend = table.T @ (table * (likely * (1 - likely))[:, None]) + ridge
        weights = weights + np.linalg.solve(bend, table.T @ (right - likely) - ridge @ weights)
    return weights
