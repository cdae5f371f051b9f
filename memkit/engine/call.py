"""One call of one role: ask and read the reply; quote the error of one that cannot be used, and ask again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from memkit.engine.drive import Steps
from memkit.engine.origins import Held
from memkit.errors import BadReply, Conflict, MemkitError, ModelError, NotFound, OpRejected
from memkit.models import OpDraft
from memkit.roles import Parsed, Prompt, Shown, reask_messages
from memkit.seams.backbone import GenReply, GenRequest, Sampling

T = TypeVar("T")
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, slots=True)
class Routing:
    """Which adapter answers, and how it came to be chosen (logged with the decision)."""

    adapter: str | None = None
    alias: str = "production"
    alias_version: int = 0
    propensity: float = 1.0


@dataclass(slots=True)
class ModelCall:
    """One role's decision: the prompt, every attempt, what became of it."""

    decision_id: str
    role: str
    prompt: Prompt
    request: GenRequest
    state_seq: int
    routing: Routing
    candidates: tuple[Shown, ...] = ()
    attempts: list[Attempt] = field(default_factory=list["Attempt"])
    drafts: tuple[OpDraft, ...] = ()
    held: tuple[Held, ...] = ()
    repairs: tuple[str, ...] = ()
    error: MemkitError | None = None
    edition: int | None = None
    """The rules by which it was decided; None: it decides nothing, it answers."""

    @classmethod
    def of(
        cls,
        prompt: Prompt,
        decision_id: str,
        *,
        state_seq: int,
        routing: Routing,
        sampling: Sampling,
        candidates: tuple[Shown, ...] = (),
        edition: int | None = None,
    ) -> ModelCall:
        request = GenRequest(prompt, decision_id, routing.adapter, sampling)
        return cls(decision_id, prompt.role, prompt, request, state_seq, routing, candidates, edition=edition)

    @property
    def reply(self) -> GenReply | None:
        """The last reply, the one that counted."""
        return next((attempt.reply for attempt in reversed(self.attempts) if attempt.reply is not None), None)


@dataclass(frozen=True, slots=True)
class Attempt:
    prompt: Prompt
    reply: GenReply | None
    error: MemkitError | None


class Parse(Protocol[Value]):
    """How a role reads a reply. `cut`: it ended at its length limit."""

    def __call__(self, reply: str, prompt: Prompt, *, cut: bool = False) -> Parsed[Value]: ...


def ask_until_readable(
    call: ModelCall, parse: Parse[T], reasks: int, check: Callable[[T], None] = lambda value: None
) -> Steps[T]:
    """What the reply says, once it can be read and breaks no rule that `check` raises for. At most `1 + reasks` calls,
    transport attempts included; a failure of the transport is not asked again: the backbone has already retried. What
    ends the call without a value is kept in `call.error` and raised."""
    request, used = call.request, 0
    budget = 1 + reasks
    while True:
        (reply,) = yield [replace(request, max_calls=budget - used)]
        if isinstance(reply, ModelError):
            call.attempts.append(Attempt(request.prompt, None, reply))
            call.error = reply
            raise reply
        used += max(1, reply.usage.calls)
        try:
            parsed = parse(reply.text, request.prompt, cut=reply.finish == "length")
            check(parsed.value)
        except (BadReply, OpRejected, Conflict, NotFound) as error:
            call.attempts.append(Attempt(request.prompt, reply, error))
            if used >= budget:
                call.error = error
                raise
            prompt = replace(request.prompt, messages=request.prompt.messages + reask_messages(reply.text, error))
            request = replace(request, prompt=prompt, key=f"{call.decision_id}#{used}")
            continue
        call.attempts.append(Attempt(request.prompt, reply, None))
        call.repairs = tuple(parsed.repairs)
        return parsed.value
