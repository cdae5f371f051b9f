"""What a read serves of a bank: the best rows, nothing twice.

A fact is the index of the words that it was drawn from, and the present state of what they say. Where both would be
served, the fact comes first, at the better place of the two; words that it says whole are not served beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memkit.memo import remembered
from memkit.models import MemoryRecord
from memkit.retrieval import BankIndex, Query, RankerWeights, Scored, rank
from memkit.retrieval.weights import DEFAULT
from memkit.text.words import terms

_MORE = 20
"""Rows looked at beyond those that are served: what is said twice makes room for others."""
_NEAR = 0.5
"""Share of the score of words that a fact drawn from them must have to be served before them: it may be of something
else that the same words said."""
_CARRIED = 0.8
"""Share of the words of a turn that a fact must have to stand for it."""


def serve(index: BankIndex, query: Query, weights: RankerWeights = DEFAULT) -> list[Scored]:
    """The best rows for a question, best first."""
    scored = rank(index, replace(query, k=2 * query.k + _MORE), weights)
    return _once(scored)[: query.k]


def _once(scored: Sequence[Scored]) -> list[Scored]:
    facts: dict[str, list[Scored]] = {}
    for one in scored:
        if one.record.kind == "fact":
            for turn in one.record.source_turns:
                facts.setdefault(turn, []).append(one)
    if not facts:
        return list(scored)
    served: dict[str, Scored] = {}
    for one in scored:
        drawn = [] if one.record.kind != "turn" else [
            fact for turn in one.record.source_turns for fact in facts.get(turn, ())
        ]  # fmt: skip
        for fact in drawn:
            first = fact.score >= _NEAR * one.score or _supersedes(fact.record, one.record)
            if first and fact.record.id not in served:
                served[fact.record.id] = replace(fact, score=max(fact.score, one.score))
        if not any(_carries(fact.record.text, one.record.text) for fact in drawn):
            served.setdefault(one.record.id, one)
    return list(served.values())


def _supersedes(fact: MemoryRecord, words: MemoryRecord) -> bool:
    """Whether a fact has been rewritten since these words, and still is about what they say."""
    later = fact.revision > 1 and fact.source_turns[-1] not in words.source_turns
    return later and not _content(fact.text).isdisjoint(_content(words.text))


def _carries(fact: str, words: str) -> bool:
    said = _content(words)
    return len(said & _content(fact)) >= _CARRIED * len(said)


@remembered(8_192)
def _content(text: str) -> frozenset[str]:
    return frozenset(terms(text))
