"""From a question to an answer: show the memories, ask, read. No I/O and no clock: a generator, as `decide` is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memkit.engine.call import ModelCall, Routing, ask_until_readable
from memkit.engine.drive import Steps
from memkit.engine.origins import label_shown
from memkit.engine.serve import within_quota
from memkit.engine.served_with import ServedWith
from memkit.errors import BadReply, MemkitError, ModelError
from memkit.models import MemoryRecord
from memkit.retrieval import Scored, estimate_tokens
from memkit.roles import AnswerDraft, Answerer, Prompt, Shown
from memkit.roles.answerer import MAX_CANDIDATES, SHOWN_CHARS
from memkit.seams.backbone import GenReply, Sampling

_LINE_TOKENS = 8
"""Number, date and quotes of a line."""
_WITH_REPLIES = 10
"""Places in which what an assistant replied is shown: further down it says little that people do not say themselves,
and took two fifths of the tokens."""


@dataclass(frozen=True, slots=True)
class Answered:
    """`draft` is None where the model gave no readable answer; `error` says why. The call is logged either way."""

    draft: AnswerDraft | None
    call: ModelCall

    @property
    def text(self) -> str:
        return "" if self.draft is None else self.draft.text

    @property
    def error(self) -> MemkitError | None:
        return self.call.error

    @property
    def prompt(self) -> Prompt:
        """The first one, before any re-ask."""
        return self.call.prompt

    @property
    def reply(self) -> GenReply | None:
        return self.call.reply

    @property
    def served(self) -> list[Shown]:
        """The memories that the prompt showed, best first."""
        return sorted(self.call.candidates, key=lambda one: -one.score)


def answer(
    question: str,
    candidates: Sequence[Scored],
    served: ServedWith,
    *,
    decision_id: str,
    state_seq: int,
    now: datetime,
    routing: Routing,
    sampling: Sampling,
) -> Steps[Answered]:
    """`candidates`: the best `served.answer_candidates` memories, best first; as many as `served.answer_tokens` allow
    are shown."""
    role = Answerer(served.instructions, served.style("answerer"), served.wording("answerer"))
    best = within_quota(candidates, MAX_CANDIDATES)
    if served.answer_edition > 1:
        best = [one for place, one in enumerate(best) if place < _WITH_REPLIES or not _is_reply(one.record)]
    fitting = _fitting(best, served.answer_tokens)
    shown = label_shown([Shown(n, one.record, one.score, one.signals) for n, one in enumerate(fitting, start=1)])
    prompt = role.render(question, shown, now)
    call = ModelCall.of(
        prompt,
        decision_id,
        state_seq=state_seq,
        routing=routing,
        sampling=sampling,
        candidates=tuple(prompt.view.shown),
    )
    try:
        draft = yield from ask_until_readable(call, role.parse, served.reasks)
    except (ModelError, BadReply):
        return Answered(None, call)
    return Answered(draft, call)


def _is_reply(record: MemoryRecord) -> bool:
    """What an assistant said under no name of its own."""
    return record.kind != "fact" and record.origin == "assistant" and record.speaker in ("assistant", "ai")


def _fitting(candidates: Sequence[Scored], tokens: int) -> Sequence[Scored]:
    """The best whose lines take so many tokens together; 0: all."""
    if not tokens:
        return candidates
    spent, fitting = 0, list[Scored]()
    for one in candidates:
        spent += estimate_tokens(one.record.text[:SHOWN_CHARS]) + _LINE_TOKENS
        if spent > tokens:
            break
        fitting.append(one)
    return fitting
