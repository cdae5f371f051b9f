"""Where evidence gets lost, without a model: recall, rank, and the M-Fail split by source turns, with a content check.

Every evidence turn of a question is in exactly one of four states: *not in memory* (no live memory names it as a
source), *not retrieved* (a memory does, but it is not among the served ones), *unused* (served, not cited) or *used*.
So `recall + not_in_memory + not_retrieved == 1` holds exactly, question by question.

Tags can lie: a memory that collects source turns without keeping what they said would score full recall. So each tag is
checked against the texts, and `recall_content` counts only evidence whose memory shares words with the turn.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from memkit.models import MemoryRecord
from memkit_train.metrics.porter import stem

_WORD = re.compile(r"[^\W_]+")
_STOP = frozenset(
    [
        "a",
        "an",
        "the",
        "and",
        "or",
        "but",
        "if",
        "so",
        "of",
        "to",
        "in",
        "on",
        "at",
        "by",
        "for",
        "with",
        "from",
        "as",
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "am",
        "do",
        "does",
        "did",
        "have",
        "has",
        "had",
        "i",
        "you",
        "he",
        "she",
        "it",
        "we",
        "they",
        "me",
        "him",
        "her",
        "us",
        "them",
        "my",
        "your",
        "his",
        "its",
        "our",
        "their",
        "this",
        "that",
        "these",
        "those",
        "not",
        "no",
        "yes",
        "just",
        "now",
        "then",
        "there",
        "here",
        "what",
        "who",
        "when",
        "where",
        "which",
        "how",
        "why",
        "all",
        "also",
        "too",
        "very",
        "really",
        "can",
        "could",
        "will",
        "would",
        "should",
        "may",
        "might",
        "about",
        "up",
        "out",
        "over",
        "more",
        "most",
        "some",
        "any",
        "than",
        "s",
        "t",
        "m",
        "re",
        "ve",
        "ll",
        "d",
    ]
)
_SUPPORT = 0.2
"""Least share of the memory's or of the turn's words that the two must have in common."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What became of a question's evidence. Shares of its evidence turns."""

    recall: float
    not_in_memory: float
    not_retrieved: float
    unused: float
    """Of all evidence: served but not cited. Part of `recall`."""
    recall_content: float
    kept_content: float
    """In memory, by content."""
    reciprocal_rank: float


def content_words(text: str, without: Collection[str] = ()) -> frozenset[str]:
    """Stems of the words that carry content; `without` takes out names, which every turn of a speaker shares."""
    names = {name.casefold() for name in without}
    words = (word.casefold() for word in _WORD.findall(text))
    return frozenset(stem(word) for word in words if word not in _STOP and word not in names)


def supports(memory: str, turn: str, names: Collection[str] = ()) -> bool:
    """Whether the memory holds something of what the turn says: common content words beyond the speakers' names."""
    said, kept = content_words(turn, names), content_words(memory, names)
    common = len(said & kept)
    return common > 0 and common >= _SUPPORT * min(len(said), len(kept))


def trace_evidence(
    evidence: Sequence[str],
    live: Sequence[MemoryRecord],
    served: Sequence[MemoryRecord],
    texts: Mapping[str, str],
    *,
    cited: Collection[str] | None = None,
    names: Collection[str] = (),
) -> Evidence | None:
    """The split for one question; None where it has no evidence. `texts`: turn ref → what was said. `cited`: ids of the
    memories that the answer names; None: nobody cites."""
    if not evidence:
        return None
    by_turn: dict[str, list[MemoryRecord]] = {}
    for record in live:
        for ref in record.source_turns:
            by_turn.setdefault(ref, []).append(record)
    position = {record.id: rank for rank, record in enumerate(served, start=1)}
    lost = missed = unused = content = kept = 0
    best = 0
    for ref in evidence:
        holders = by_turn.get(ref, [])
        if not holders:
            lost += 1
            continue
        faithful = {record.id for record in holders if supports(record.text, texts.get(ref, ""), names)}
        kept += bool(faithful)
        ranks = [position[record.id] for record in holders if record.id in position]
        if not ranks:
            missed += 1
            continue
        best = min(ranks) if not best else min(best, min(ranks))
        content += any(record.id in position for record in holders if record.id in faithful)
        if cited is not None and not any(record.id in cited for record in holders):
            unused += 1
    n = len(evidence)
    return Evidence(
        recall=(n - lost - missed) / n,
        not_in_memory=lost / n,
        not_retrieved=missed / n,
        unused=unused / n,
        recall_content=content / n,
        kept_content=kept / n,
        reciprocal_rank=1 / best if best else 0.0,
    )


def recall_at(evidence: Sequence[str], ranked: Sequence[MemoryRecord], k: int) -> float:
    """Share of the evidence turns that the first `k` memories name as sources."""
    named = {ref for record in ranked[:k] for ref in record.source_turns}
    return sum(ref in named for ref in evidence) / len(evidence)


def first_words(ranked: Sequence[MemoryRecord], words: int) -> str:
    """What the ranked memories say within a budget of words. The last one is cut, not dropped: a first memory longer
    than the budget would leave nothing at all, and long ones would get a smaller budget than short ones."""
    out: list[str] = []
    for record in ranked:
        out += record.text.split()[: words - len(out)]
        if len(out) >= words:
            break
    return " ".join(out)
