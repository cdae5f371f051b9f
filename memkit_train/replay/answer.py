"""Questions put to banks in memory: the prompts, re-asks and readings of `Memory.answer`, many questions in step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from memkit.engine.answer import Answered, answer
from memkit.engine.bank import LiveBank
from memkit.engine.call import Routing
from memkit.engine.drive import Steps, drive_in_step
from memkit.engine.serve import serve
from memkit.engine.served_with import ServedWith
from memkit.retrieval import Query, RankerWeights
from memkit.seams.backbone import Backbone, Sampling
from memkit.seams.embedder import Embedder, embed_queries
from memkit_train.replay.generate import generate


@dataclass(frozen=True, slots=True)
class AnswerTask:
    question: str
    bank: LiveBank
    now: datetime
    key: str
    """What the noise of a sampled answer hangs on."""


def answer_all(
    tasks: Sequence[AnswerTask],
    backbone: Backbone,
    embedder: Embedder,
    served: ServedWith,
    *,
    weights: RankerWeights | None = None,
    routing: Routing | None = None,
    sampling: Callable[[str], Sampling] = lambda key: Sampling(),
) -> list[Answered]:
    """The answer to each question. `sampling`: by the key of the task."""
    served, routing = served.to(backbone), routing or Routing()
    vectors = embed_queries(embedder, [task.question for task in tasks]) if tasks else []
    walks: list[tuple[Backbone, Steps[Answered]]] = []
    for task, vector in zip(tasks, vectors, strict=True):
        query = Query(text=task.question, vector=vector, k=served.answer_candidates, now=task.now)
        scored = serve(task.bank.index, query, weights or served.weights) if len(task.bank) else []
        steps = answer(
            task.question,
            scored,
            served,
            decision_id=task.key,
            state_seq=task.bank.seq,
            now=task.now,
            routing=routing,
            sampling=sampling(task.key),
        )
        walks.append((backbone, steps))
    return drive_in_step(walks, generate)
