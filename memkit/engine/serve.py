"""What a read serves of a bank: the best rows, nothing twice.

A fact is the index of the words that it was drawn from, and the present state of what they say. Where both would be
served: a fact that says all that the words say stands for them; one that was rewritten since comes before them; and
one that says nothing beyond words that fit the question better is left out beside them. Of two rows that say nearly the
same, the newer comes first: people seldom say that they change their minds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from memkit.memo import remember
from memkit.models import MemoryRecord
from memkit.retrieval import BankIndex, Query, RankerWeights, Scored, rank
from memkit.retrieval.weights import DEFAULT
from memkit.text.words import denies, terms

_LOOKED_THROUGH, _MORE = 4, 20
"""Rows looked at for each that is served, and beyond: what is said twice, and other windows of a turn, make room."""
_CARRIED = 0.8
"""Share of the words of the one that the other must have to say the same; of its names, numbers and negations, all."""
_ALIKE, _OF_QUESTION, _LOOKED_AT = 0.5, 2, 24
"""Two of the best rows are about the same thing where the shorter has this share of its words in common with the other,
so many words of the question (or all it has) among them."""


def serve(index: BankIndex, query: Query, weights: RankerWeights = DEFAULT) -> list[Scored]:
    """The best rows for a question, best first."""
    scored = rank(index, replace(query, k=_LOOKED_THROUGH * query.k + _MORE), weights)
    return newest_first(_once(_best_windows(scored)), _content(query.text))[: query.k]


def _best_windows(scored: Sequence[Scored]) -> list[Scored]:
    """Of the windows of a long turn, the best: the others would take the places of other turns."""
    seen: set[str] = set()
    return [one for one in scored if not (one.record.kind == "turn" and _seen(one.record.source_turns[0], seen))]


def _seen(turn_id: str, seen: set[str]) -> bool:
    found = turn_id in seen
    seen.add(turn_id)
    return found


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
        whole = [fact for fact in drawn if carries(fact.record.text, one.record.text)]
        for fact in drawn:
            if fact in whole or _supersedes(fact.record, one.record):
                served.setdefault(fact.record.id, replace(fact, score=max(fact.score, one.score)))
        if not whole:
            served.setdefault(one.record.id, one)
            told |= {fact.record.id for fact in drawn if carries(one.record.text, fact.record.text)}
    return list(served.values())


def _supersedes(fact: MemoryRecord, words: MemoryRecord) -> bool:
    """Whether a fact has been rewritten since these words, and still is about what they say."""
    later = fact.revision > 1 and fact.source_turns[-1] not in words.source_turns
    return later and not _content(fact.text).isdisjoint(_content(words.text))


def carries(whole: str, part: str) -> bool:
    """Whether a text says all that another says, so that it can stand for it."""
    said, has = _content(part), _content(whole)
    if len(said & has) < _CARRIED * len(said) or not _exact(part) <= has:
        return False
    return denies(whole) or not denies(part)


@remember(8_192)
def _content(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _WRITTEN


@remember(8_192)
def _exact(text: str) -> frozenset[str]:
    """Numbers and names: what no other word can stand for."""
    numbers = (term for term in _content(text) if any(letter.isdigit() for letter in term))
    names = terms(" ".join(word for word in _WORD.findall(text) if word[0].isupper()))
    return frozenset((*numbers, *names)) - _WRITTEN


_WORD = re.compile(r"[^\W\d_][\w'’]*")
_WRITTEN = frozenset(terms("user users user's"))
"""What managers write where people say "I"."""
