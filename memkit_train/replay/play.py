"""Asking: replies to many requests in batches, and answers from banks by the runtime's own retrieval and roles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memkit.engine.bank import LiveBank
from memkit.engine.decide import Routing, Settings
from memkit.errors import (
    BadReply,
    MemkitError,
    ModelError,
    ModelRefused,
    ReplyTooLarge,
)
from memkit.retrieval import Query, RankerWeights, Scored, rank
from memkit.roles import AnswerDraft, Answerer, Prompt, Shown, reask_messages
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Sampling, generate_each
from memkit.seams.embedder import Embedder

PATIENCE_S = 3600.0
"""Nobody waits for a replayed reply: a queue before the model is no reason to give it up."""
_CLOSED = (401, 403, 404)
"""Refusals of whoever asks, not of what is asked."""


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What stays the same over a run. The defaults are the runtime's."""

    settings: Settings = field(default_factory=Settings)
    sampling: Callable[[str, str], Sampling] = lambda decision_id, role: Sampling()
    weights: RankerWeights | None = None
    routing: Routing = field(default_factory=Routing)


def generate(backbone: Backbone, requests: Sequence[GenRequest]) -> list[GenReply | ModelError]:
    """One reply per request, as many at a time as the backbone takes. What a model cannot do (a prompt that is too long
    for it) stands in its place, as it would have parked the turn. A model that is away raises: what it did not say is
    nobody's decision, and must not be scored as one."""
    out: list[GenReply | ModelError] = []
    size = max(1, backbone.max_parallel)
    patient = [replace(request, deadline_s=PATIENCE_S) for request in requests]
    for start in range(0, len(requests), size):
        out += generate_each(backbone, patient[start : start + size])
    for reply in out:
        if isinstance(reply, ModelError) and _away(reply):
            raise reply
    return out


def _away(error: ModelError) -> bool:
    if isinstance(error, ModelRefused):
        return error.details.get("status") in _CLOSED or error.details.get("reason") == "address"
    return not isinstance(error, BadReply | ReplyTooLarge)


@dataclass(frozen=True, slots=True)
class AnswerTask:
    question: str
    bank: LiveBank
    now: datetime
    key: str
    k: int = 8


@dataclass(frozen=True, slots=True)
class Answered:
    task: AnswerTask
    prompt: Prompt
    served: tuple[Scored, ...]
    draft: AnswerDraft | None
    reply: GenReply | None
    error: MemkitError | None = None

    @property
    def text(self) -> str:
        return self.draft.text if self.draft else ""


def answer_batch(
    tasks: Sequence[AnswerTask],
    backbone: Backbone,
    embedder: Embedder,
    options: ReplaySettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Answered]:
    """Answers from the memories that the runtime's retrieval serves, all questions together, re-asks included."""
    options = options or ReplaySettings()
    role = Answerer(options.settings.instructions, options.settings.style("answerer"))
    vectors = embedder.embed([task.question for task in tasks]) if tasks else []
    prepared: list[tuple[AnswerTask, tuple[Scored, ...], Prompt]] = []
    for task, vector in zip(tasks, vectors, strict=True):
        query = Query(text=task.question, vector=vector, k=task.k, now=task.now)
        scored = rank(task.bank.index, query, *([options.weights] if options.weights else [])) if len(task.bank) else []
        shown = [Shown(n, one.record, one.score, one.signals) for n, one in enumerate(scored, start=1)]
        prepared.append((task, tuple(scored), role.render(task.question, shown, task.now)))
    out: dict[int, Answered] = {}
    requests = {
        index: GenRequest(prompt, task.key, options.routing.adapter, options.sampling(task.key, "answerer"))
        for index, (task, _, prompt) in enumerate(prepared)
    }
    for attempt in range(1 + options.settings.reasks):
        failed: dict[int, GenRequest] = {}
        for (index, request), reply in zip(requests.items(), generate(backbone, list(requests.values())), strict=True):
            task, scored, prompt = prepared[index]
            if isinstance(reply, ModelError):
                out[index] = Answered(task, prompt, scored, None, None, reply)
                continue
            try:
                out[index] = Answered(task, prompt, scored, role.parse(reply.text, prompt).value, reply)
            except BadReply as error:
                out[index] = Answered(task, prompt, scored, None, reply, error)
                messages = request.prompt.messages + reask_messages(reply.text, error)
                again = replace(request.prompt, messages=messages)
                failed[index] = replace(request, prompt=again, key=f"{task.key}#{attempt + 1}")
        if progress is not None:
            progress(len(out) - len(failed), len(tasks))
        requests = failed
        if not requests:
            break
    return [out[index] for index in range(len(prepared))]
