"""Answers that were served words as they were said, read as answers that were served the facts drawn from those words.

What a fact carries is to the credit of whoever wrote the fact, in whichever form it was served. What a good answer
cites although no fact ever carried it is a label of its own: the extractor missed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from memkit.models import MemoryRecord
from memkit.text.words import terms
from memkit_train.log.records import AnswerEvent, Served

Revisions = Mapping[tuple[str, int], MemoryRecord]


def as_facts(event: AnswerEvent, known: Iterable[MemoryRecord], revisions: Revisions) -> AnswerEvent:
    """`known`: the memories of the bank when it was asked."""
    facts = [record for record in known if record.kind == "fact"]
    served = [one for one in event.served if not _words(revisions, (one.memory_id, one.revision))]
    cited = [key for key in event.cited if not _words(revisions, key)]
    for one in event.served:
        for fact in _drawn(_words(revisions, (one.memory_id, one.revision)), facts):
            served.append(Served(fact.id, fact.revision, one.rank, one.score, one.signals))
    for key in event.cited:
        words = _words(revisions, key)
        cited += [(fact.id, fact.revision) for fact in _drawn(words, facts) if _carries(fact, words, event)]
    return replace(event, served=_once(served), cited=tuple(dict.fromkeys(cited)))


def words_served(event: AnswerEvent, revisions: Revisions) -> set[str]:
    """The turns of which the answer was served the words."""
    rows = (_words(revisions, (one.memory_id, one.revision)) for one in event.served)
    return {turn for words in rows if words is not None for turn in words.source_turns}


def without_fact(event: AnswerEvent, known: Iterable[MemoryRecord], revisions: Revisions) -> list[str]:
    """The turns whose words an answer cites although none of the facts in `known` has what it took from them."""
    facts = [record for record in known if record.kind == "fact"]
    out: list[str] = []
    for key in event.cited:
        words = _words(revisions, key)
        if words is not None and not any(_carries(fact, words, event) for fact in _drawn(words, facts)):
            out += words.source_turns
    return list(dict.fromkeys(out))


def _words(revisions: Revisions, key: tuple[str, int]) -> MemoryRecord | None:
    record = revisions.get(key)
    return record if record is not None and record.kind == "turn" else None


def _drawn(words: MemoryRecord | None, facts: Iterable[MemoryRecord]) -> list[MemoryRecord]:
    if words is None:
        return []
    return [fact for fact in facts if not set(words.source_turns).isdisjoint(fact.source_turns)]


def _carries(fact: MemoryRecord, words: MemoryRecord | None, event: AnswerEvent) -> bool:
    """Whether the fact has what the answer took from the words."""
    assert words is not None
    return set(terms(event.answer)).intersection(terms(words.text)) <= set(terms(fact.text))


def _once(served: Sequence[Served]) -> tuple[Served, ...]:
    found: dict[str, Served] = {}
    for one in sorted(served, key=lambda one: one.rank):
        found.setdefault(one.memory_id, one)
    return tuple(found.values())
