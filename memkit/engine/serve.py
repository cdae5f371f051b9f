"""What a read serves of a bank: the best rows, nothing twice.

A fact is the index of the words it was drawn from. Where both would be served and the fact says all that the words say,
the fact stands for them, at the better place of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memkit.memo import remembered
from memkit.retrieval import BankIndex, Query, RankerWeights, Scored, rank
from memkit.retrieval.weights import DEFAULT
from memkit.text.words import terms

_MORE = 2
"""Rows looked at for each that is served: what is said twice makes room for others."""
_CARRIED = 0.8
"""Share of the words of a turn that a fact must have to stand for it."""


def serve(index: BankIndex, query: Query, weights: RankerWeights = DEFAULT) -> list[Scored]:
    """The best rows for a question, best first."""
    scored = rank(index, replace(query, k=query.k * _MORE), weights)
    return _once(scored)[: query.k]


def _once(scored: Sequence[Scored]) -> list[Scored]:
    facts: dict[str, list[Scored]] = {}
    for one in scored:
        if one.record.kind == "fact":
            for turn in one.record.source_turns:
                facts.setdefault(turn, []).append(one)
    if not facts:
        return list(scored)
    best: dict[str, Scored] = {}
    for one in scored:  # best first: a fact takes the place of the first row that it stands for
        stands = one
        if one.record.kind == "turn":
            drawn = [fact for turn in one.record.source_turns for fact in facts.get(turn, ())]
            stands = next((fact for fact in drawn if _carries(fact.record.text, one.record.text)), one)
        if stands.record.id not in best:
            best[stands.record.id] = replace(stands, score=max(stands.score, one.score))
    return list(best.values())


def _carries(fact: str, words: str) -> bool:
    said = _content(words)
    return len(said & _content(fact)) >= _CARRIED * len(said)


@remembered(8_192)
def _content(text: str) -> frozenset[str]:
    return frozenset(terms(text))
