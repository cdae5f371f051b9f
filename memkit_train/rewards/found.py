"""Is the bank good for answering, where nobody writes answers? What a read serves says so: the sooner it has what the
right answer says, the better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from memkit.engine.bank import LiveBank
from memkit.engine.serve import serve
from memkit.engine.served_with import ServedWith
from memkit.errors import MemkitError
from memkit.retrieval import Query, Scored
from memkit.seams.embedder import Embedder, embed_queries
from memkit.text.words import terms
from memkit_train.metrics import scores as dialects
from memkit_train.rewards.base import Probed

MOST = 5
"""Memories that are looked at: what an app shows its model."""


@dataclass(frozen=True, slots=True)
class FoundText:
    """A memory a line, best first."""

    text: str
    served: tuple[Scored, ...]
    error: MemkitError | None = None


@dataclass(frozen=True, slots=True)
class Lookups:
    embedder: Embedder
    served: ServedWith = field(default_factory=ServedWith)

    def ask(self, asked: Sequence[tuple[Probed, LiveBank]]) -> list[FoundText]:
        vectors = embed_queries(self.embedder, [one.question for one, _ in asked]) if asked else []
        out: list[FoundText] = []
        for (one, bank), vector in zip(asked, vectors, strict=True):
            query = Query(text=one.question, vector=vector, k=MOST, now=one.now, kinds=one.kinds)
            scored = serve(bank.index, query, self.served.weights) if len(bank) else []
            lines = (" ".join(each.record.text.split()) for each in scored)
            out.append(FoundText("\n".join(lines), tuple(scored)))
        return out


def found_early(text: str, expected: str) -> float:
    """Share of the expected words in a memory over its rank, for the best of them. Where nothing is expected: whether
    nothing is there."""
    if dialects.abstains(expected):
        return float(not text.strip())
    wanted = set(terms(expected))
    if not wanted:
        return float(expected.casefold().strip() in text.casefold())
    ranked = enumerate(text.split("\n"), start=1)
    return max((len(wanted & set(terms(line))) / len(wanted) / rank for rank, line in ranked), default=0.0)
