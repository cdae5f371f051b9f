"""`MemkitCapability`: recall before each model request, learn after the run.

What a run needs is kept by the instance that `for_run` makes for it, so one capability serves concurrent runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, TextContent, UserContent, UserPromptPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from memkit_plug.bound import AnyMemory, bind_in_run, refuse_unbound
from memkit_plug.talk import HostTalk, Recalled, session_of, text_of


@dataclass
class MemkitCapability(AbstractCapability[Any]):
    memory: AnyMemory | Callable[[RunContext[Any]], AnyMemory]
    """A memory with a user_id; or what its `principal` made, or a function of the run that makes it."""
    user_id: str | Callable[[RunContext[Any]], str] | None = field(default=None, kw_only=True)
    """A user, or how to tell it from the run (`lambda ctx: ctx.deps.user_id`)."""
    agent_id: str | None = field(default=None, kw_only=True)
    max_tokens: int = field(default=800, kw_only=True)
    learn: bool = field(default=True, kw_only=True)
    _talk: HostTalk | None = field(default=None, kw_only=True, repr=False)
    _recalled: Recalled | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        refuse_unbound(self.memory, self.user_id, self.agent_id)

    async def for_run(self, ctx: RunContext[Any]) -> MemkitCapability:
        bound = bind_in_run(self.memory, self.user_id, self.agent_id, ctx)
        talk = HostTalk(bound, session_of(getattr(ctx, "conversation_id", None)), self.max_tokens)
        return replace(self, _talk=talk, _recalled=None)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """The block stands before the user's words, in a copy of the message that holds them."""
        assert self._talk is not None
        if self._recalled is None or self._talk.bound.has_rights:  # which may end during the run
            self._recalled = await self._talk.arecall(_words(ctx.prompt))
        if not self._recalled.block:
            return request_context
        return replace(request_context, messages=_with_block(request_context.messages, self._recalled.block))

    async def after_run(self, ctx: RunContext[Any], *, result: Any) -> Any:
        text = _words(ctx.prompt)
        if self.learn and self._talk is not None and text.strip():
            recalled = self._recalled or Recalled()
            await self._talk.alearn(
                [{"role": "user", "content": text}],
                key=f"pydantic-ai:{ctx.run_id}" if ctx.run_id else None,
                reply=result.output if isinstance(result.output, str) else "",
                trace_id=recalled.trace_id,
            )
        return result


def _words(prompt: str | Sequence[UserContent] | None) -> str:
    """A `TextContent` has its words in `content`."""
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    return text_of([part.content if isinstance(part, TextContent) else part for part in prompt])


def _with_block(messages: list[ModelMessage], block: str) -> list[ModelMessage]:
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if not isinstance(message, ModelRequest):
            continue
        for place, part in enumerate(message.parts):
            if isinstance(part, UserPromptPart):
                parts = [*message.parts[:place], UserPromptPart(content=block), *message.parts[place:]]
                return [*messages[:number], replace(message, parts=parts), *messages[number + 1 :]]
    return messages
