"""Exact scoring without a model: a reader that sees what the runtime's own retrieval serves within a word budget, and
answers with the newest statement on what was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memkit.engine.bank import LiveBank
from memkit.models import MemoryRecord
from memkit.retrieval import Query, RankerWeights, rank
from memkit.seams.embedder import Embedder, embed_queries
from memkit_train.lab.worlds import language, policies
from memkit_train.lab.worlds.model import Question
from memkit_train.lab.worlds.policies import Truth


@dataclass(frozen=True, slots=True)
class WorldReading:
    text: str
    served: tuple[MemoryRecord, ...]
    used: tuple[MemoryRecord, ...]


class WorldReader:
    """Understands every sentence of the world, also as a raw turn, and nothing else. `words` is what it may read per
    question in all; a question with a hop is looked up twice, half of the words each."""

    def __init__(
        self,
        truth: Truth,
        embedder: Embedder,
        *,
        words: int = 40,
        kinds: Sequence[str] = ("fact", "episode"),
        weights: RankerWeights | None = None,
    ) -> None:
        self.truth, self.embedder, self.words, self.kinds, self.weights = truth, embedder, words, tuple(kinds), weights

    def ask(self, question: Question, bank: LiveBank) -> WorldReading:
        asked = language.understand(question.text)
        now = question.as_of or question.asked_at
        if asked is None or asked.kind != "hop":
            return self._answer(question.text, self._serve(question.text, bank, now, self.words))
        first = self._serve(f"Who has {asked.value}?", bank, now, self.words // 2)
        owner = self._answer(f"Who has {asked.value}?", first).text
        follow_up = language.state(owner, asked.attribute, ()) if owner != language.UNKNOWN else question.text
        more = self._serve(follow_up, bank, now, self.words // 2)
        return self._answer(question.text, list({record.id: record for record in (*first, *more)}.values()))

    def _serve(self, text: str, bank: LiveBank, now: datetime, words: int) -> list[MemoryRecord]:
        """The best memories in their order, as many as fit."""
        if not len(bank):
            return []
        (vector,) = embed_queries(self.embedder, [text])
        query = Query(text=text, vector=vector, k=len(bank), kinds=self.kinds, now=now)  # type: ignore[arg-type]
        scored = rank(bank.index, query, self.weights) if self.weights else rank(bank.index, query)
        out: list[MemoryRecord] = []
        for one in scored:
            words -= len(one.record.text.split())
            if words < 0:
                break
            out.append(one.record)
        return out

    def _answer(self, question: str, served: Sequence[MemoryRecord]) -> WorldReading:
        dated = sorted(served, key=lambda record: (record.at is not None, record.at, record.seq))
        lines = [(n, self.truth.meanings(record.speaker, record.text)) for n, record in enumerate(dated)]
        text, used = policies.answer(question, lines)
        return WorldReading(text, tuple(served), tuple(dated[n] for n in used))
