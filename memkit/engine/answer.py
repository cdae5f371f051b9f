"""One answer: render, generate, read; re-ask once or twice when the reply cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from memkit.engine.decide import Attempt, ModelCall, Routing, Settings, was_cut
from memkit.errors import BadReply, ModelError
from memkit.retrieval import Scored
from memkit.roles import AnswerDraft, Answerer, Shown, reask_messages
from memkit.seams.backbone import Backbone, GenRequest, Sampling


def answer_steps(
    question: str,
    candidates: Sequence[Scored],
    backbone: Backbone,
    settings: Settings,
    *,
    decision_id: str,
    state_seq: int,
    now: datetime,
    routing: Routing,
    sampling: Sampling,
) -> tuple[AnswerDraft | None, ModelCall]:
    """The answer, or None with the reason in `call.error`: the decision is logged either way."""
    role = Answerer(settings.instructions, settings.style("answerer"))
    shown = tuple(Shown(n, one.record, one.score, one.signals) for n, one in enumerate(candidates, start=1))
    prompt = role.render(question, shown, now)
    request = GenRequest(prompt, decision_id, routing.adapter, sampling, settings.deadline_s)
    call = ModelCall(decision_id, "answerer", prompt, request, state_seq, routing, tuple(prompt.view.shown))
    budget = 1 + settings.reasks
    used = 0
    while True:
        try:
            (reply,) = backbone.generate([replace(request, max_calls=budget - used)])
        except ModelError as error:
            call.attempts.append(Attempt(request.prompt, None, error))
            call.error = error
            return None, call
        used += max(1, reply.usage.calls)
        try:
            parsed = role.parse(reply.text, request.prompt, cut=was_cut(reply))
        except BadReply as error:
            call.attempts.append(Attempt(request.prompt, reply, error))
            if used >= budget:
                call.error = error
                return None, call
            prompt = replace(request.prompt, messages=request.prompt.messages + reask_messages(reply.text, error))
            request = replace(request, prompt=prompt, key=f"{decision_id}#{used}")
            continue
        call.attempts.append(Attempt(request.prompt, reply, None))
        call.repairs = tuple(parsed.repairs)
        return parsed.value, call
