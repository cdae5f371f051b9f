"""LoCoMo as a retrieval task: each turn is a memory as it was said, the evidence of a question is what to find.

The data is not ours to ship (CC BY-NC 4.0): `MEMKIT_LOCOMO` names the user's copy, and nothing fitted on it is kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memkit.embedders import Embedder
from memkit.models import MemoryRecord
from memkit.retrieval import BankIndex, Query, RankerWeights, embed_text, features, rank
from memkit_train.evaluate.loaders.locomo import load
from memkit_train.ranker.fit import RankExample

CUTOFFS = (10, 30, 60)
TRAINING = ("conv-26", "conv-30")
TEST = ("conv-43", "conv-47")
Recall = dict[int, float]
"""Cut-off → mean share of the evidence found, in per cent."""


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    category: int
    evidence: tuple[int, ...]
    """Rows of the gold turns."""


@dataclass(frozen=True, slots=True)
class Talk:
    name: str
    records: tuple[MemoryRecord, ...]
    questions: tuple[Question, ...]

    @property
    def texts(self) -> list[str]:
        return [embed_text(record) for record in self.records]


@dataclass(frozen=True, slots=True)
class Embedded:
    talk: Talk
    rows: NDArray[np.float32]
    questions: NDArray[np.float32]
    index: BankIndex

    @classmethod
    def of(cls, talk: Talk, embedder: Embedder) -> Embedded:
        rows = embedder.embed(talk.texts)
        asked = embedder.embed([question.text for question in talk.questions])
        return cls(talk, rows, asked, BankIndex.build(talk.records, rows))

    def query(self, number: int, k: int = CUTOFFS[-1]) -> Query:
        return Query(self.talk.questions[number].text, self.questions[number], k=k)

    def found(self, weights: RankerWeights) -> list[list[int]]:
        """Rows found for each question, best first."""
        return [
            [one.record.seq - 1 for one in rank(self.index, self.query(n), weights)]
            for n in range(len(self.talk.questions))
        ]

    def examples(self) -> list[RankExample]:
        out: list[RankExample] = []
        for number, question in enumerate(self.talk.questions):
            relevant = np.zeros(len(self.talk.records), dtype=bool)
            relevant[list(question.evidence)] = True
            out.append(RankExample(self.talk.name, features(self.index, self.query(number)), relevant))
        return out


def talks() -> list[Talk]:
    """Every conversation of the file, questions of categories 1 to 4 that have evidence. [] where it is not named."""
    path = os.environ.get("MEMKIT_LOCOMO")
    if not path:
        return []
    out: list[Talk] = []
    for conversation in load(Path(path)).conversations:
        place = {turn.ref: row for row, turn in enumerate(conversation.turns)}
        records = tuple(
            MemoryRecord(
                id=turn.ref,
                text=turn.text,
                kind="episode",
                at=turn.at,
                speaker=turn.speaker,
                session_id=turn.session_id,
                seq=row + 1,
            )
            for row, turn in enumerate(conversation.turns)
        )
        questions = tuple(
            Question(asked.text, asked.number, tuple(place[ref] for ref in asked.evidence))
            for asked in conversation.questions
            if asked.number is not None and asked.number < 5 and asked.evidence
        )
        out.append(Talk(conversation.conversation_id, records, questions))
    return out


def recall(talk: Talk, found: Sequence[Sequence[int]]) -> list[list[float]]:
    """For each question, the share of its evidence among the first 10, 30 and 60."""
    return [
        [len(set(rows[:k]) & set(question.evidence)) / len(question.evidence) for k in CUTOFFS]
        for question, rows in zip(talk.questions, found, strict=True)
    ]


def mean(shares: Sequence[Sequence[float]]) -> Recall:
    columns = np.asarray(shares).mean(axis=0) * 100
    return {k: float(columns[position]) for position, k in enumerate(CUTOFFS)}
