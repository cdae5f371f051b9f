"""What a read serves of a bank: the best rows, nothing twice.

A fact is the index of the words that it was drawn from, and the present state of what they say. Where both would be
served: a fact that says all that the words say stands for them; one that was rewritten since comes before them; and
one that says nothing beyond words that fit the question better is left out beside them. Of two rows that say nearly the
same, the newer comes first: people seldom say that they change their minds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memkit.memo import remember
from memkit.models import MemoryRecord
from memkit.retrieval import BankIndex, Query, RankerWeights, Scored, rank
from memkit.retrieval.weights import DEFAULT
from memkit.text.words import terms

_MORE = 20
"""Rows looked at beyond those that are served: what is said twice makes room for others."""
_CARRIED = 0.8
"""Share of the words of the one that the other must have to say the same."""
_ALIKE, _OF_QUESTION, _LOOKED_AT = 0.5, 2, 24
"""Two of the best rows are about the same thing where the shorter has this share of its words in common with the other,
so many words of the question (or all it has) among them."""


def serve(index: BankIndex, query: Query, weights: RankerWeights = DEFAULT) -> list[Scored]:
    """The best rows for a question, best first."""
    scored = rank(index, replace(query, k=2 * query.k + _MORE), weights)
    return newest_first(_once(scored), _content(query.text))[: query.k]


def newest_first(scored: Sequence[Scored], asked: frozenset[str]) -> list[Scored]:
    """Of rows that say nearly the same about what is asked, the newest in the place of the best."""
    out: list[Scored] = []
    for one in scored[:_LOOKED_AT]:
        place = next((at for at, other in enumerate(out) if _replaces(one.record, other.record, asked)), len(out))
        out.insert(place, replace(one, score=out[place].score) if place < len(out) else one)
    return [*out, *scored[_LOOKED_AT:]]


def _replaces(new: MemoryRecord, old: MemoryRecord, asked: frozenset[str]) -> bool:
    if _time(new) <= _time(old) or (new.origin, new.speaker) != (old.origin, old.speaker):
        return False
    one, other = _content(new.text), _content(old.text)
    wanted = asked & other
    if len(wanted) < min(_OF_QUESTION, len(asked)) or not wanted or not wanted <= one or one <= other or other <= one:
        return False  # one that says all that the other says does not contradict it
    return len(one & other) >= _ALIKE * min(len(one), len(other))


def _time(record: MemoryRecord) -> tuple[float, int]:
    return (record.at.timestamp() if record.at is not None else 0.0, record.seq)


def _once(scored: Sequence[Scored]) -> list[Scored]:
    facts: dict[str, list[Scored]] = {}
    for one in scored:
        if one.record.kind == "fact":
            for turn in one.record.source_turns:
                facts.setdefault(turn, []).append(one)
    if not facts:
        return list(scored)
    served: dict[str, Scored] = {}
    told: set[str] = set()
    for one in scored:
        if one.record.kind != "turn":
            if one.record.id not in told:
                served.setdefault(one.record.id, one)
            continue
        drawn = [fact for turn in one.record.source_turns for fact in facts.get(turn, ())]
        whole = [fact for fact in drawn if _carries(fact.record.text, one.record.text)]
        for fact in drawn:
            if fact in whole or _supersedes(fact.record, one.record):
                served.setdefault(fact.record.id, replace(fact, score=max(fact.score, one.score)))
        if not whole:
            served.setdefault(one.record.id, one)
            told |= {fact.record.id for fact in drawn if _carries(one.record.text, fact.record.text)}
    return list(served.values())


def _supersedes(fact: MemoryRecord, words: MemoryRecord) -> bool:
    """Whether a fact has been rewritten since these words, and still is about what they say."""
    later = fact.revision > 1 and fact.source_turns[-1] not in words.source_turns
    return later and not _content(fact.text).isdisjoint(_content(words.text))


def _carries(whole: str, part: str) -> bool:
    said = _content(part)
    return len(said & _content(whole)) >= _CARRIED * len(said)


@remember(8_192)
def _content(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _WRITTEN


_WRITTEN = frozenset(terms("user users user's im ive"))
"""What managers write where people say "I", and what people type for it."""
