"""`MemkitMiddleware`: recall in `wrap_model_call`, learn in `after_agent`, each with its async twin.

What is recalled goes into the system message of the one request. The state never holds it, so no checkpoint keeps it
and nothing that reads the state (learning, above all) takes it for something that was said."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from memkit import AsyncMemory, Memory
from memkit_plug.talk import Message, Recalled, Talk, text_of

_REMEMBERED = 1_024
"""Questions whose recall is kept until their run ends, so that every model call of a run sees the same block."""

Who = str | Callable[[Any], str]
"""A user id, or how to tell it from the run's `Runtime` (`lambda runtime: runtime.context.user_id`)."""


class MemkitMiddleware(AgentMiddleware[Any, Any]):
    """Serves one user, or many where `user_id` is a function of the runtime. The thread is the session."""

    def __init__(
        self,
        memory: Memory | AsyncMemory,
        *,
        user_id: Who,
        agent_id: str | None = None,
        max_tokens: int = 800,
        learn: bool = True,
    ) -> None:
        super().__init__()
        self._memory, self._user_id, self._agent_id = memory, user_id, agent_id
        self._max_tokens, self._learn = max_tokens, learn
        if isinstance(user_id, str):
            Talk(memory, user_id, agent_id)  # a wrong id is told now, not in the middle of a chat
        self._recalled: OrderedDict[tuple[str, str | None, str], Recalled] = OrderedDict()
        self._lock = threading.Lock()

    def trace_id(self, message_id: str, *, user_id: str, thread_id: str | None = None) -> str:
        """The trace of what was recalled for a human message, for `memory.feedback`; "" where there is none."""
        with self._lock:
            return self._recalled.get((user_id, thread_id, message_id), Recalled()).trace_id

    # -- before the model -----------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        talk, asked = self._talk(request.runtime), _last_said(request.messages)
        recalled = self._known(talk, asked)
        if recalled is None:
            recalled = self._keep(talk, asked, talk.recall(text_of(asked[-1].content) if asked else ""))
        return handler(_with_block(request, recalled.block))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        talk, asked = self._talk(request.runtime), _last_said(request.messages)
        recalled = self._known(talk, asked)
        if recalled is None:
            recalled = self._keep(talk, asked, await talk.arecall(text_of(asked[-1].content) if asked else ""))
        return await handler(_with_block(request, recalled.block))

    # -- after the run -----------------------------------------------------------------------------------------------

    def after_agent(self, state: Any, runtime: Any) -> None:
        talk, said = self._talk(runtime), _last_said(state["messages"])
        if self._learn and said:
            talk.learn(_messages(said), **self._learning(talk, said, state["messages"]))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        talk, said = self._talk(runtime), _last_said(state["messages"])
        if self._learn and said:
            await talk.alearn(_messages(said), **self._learning(talk, said, state["messages"]))

    def _learning(self, talk: Talk, said: Sequence[HumanMessage], messages: Sequence[AnyMessage]) -> dict[str, Any]:
        recalled = self._known(talk, said) or Recalled()
        reply = messages[-1]
        return {
            "key": f"langchain:{talk.session_id or ''}:{said[-1].id}"[:512] if said[-1].id else None,
            "reply": text_of(reply.content) if isinstance(reply, AIMessage) else "",
            "trace_id": recalled.trace_id,
        }

    def _talk(self, runtime: Any) -> Talk:
        user_id = self._user_id if isinstance(self._user_id, str) else self._user_id(runtime)
        info = getattr(runtime, "execution_info", None)
        thread_id = getattr(info, "thread_id", None)
        return Talk(self._memory, user_id, self._agent_id, thread_id or None, self._max_tokens)

    def _known(self, talk: Talk, asked: Sequence[HumanMessage]) -> Recalled | None:
        with self._lock:
            return self._recalled.get(_place(talk, asked)) if asked and asked[-1].id else None

    def _keep(self, talk: Talk, asked: Sequence[HumanMessage], recalled: Recalled) -> Recalled:
        if asked and asked[-1].id:
            with self._lock:
                self._recalled[_place(talk, asked)] = recalled
                if len(self._recalled) > _REMEMBERED:
                    self._recalled.popitem(last=False)
        return recalled


def _place(talk: Talk, asked: Sequence[HumanMessage]) -> tuple[str, str | None, str]:
    return talk.user_id, talk.session_id, asked[-1].id or ""


def _last_said(messages: Sequence[AnyMessage]) -> list[HumanMessage]:
    """What the user said last: the newest human messages that follow each other."""
    said: list[HumanMessage] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            said.append(message)
        elif said:
            break
    return said[::-1]


def _messages(said: Sequence[HumanMessage]) -> list[Message]:
    texts = [(message, text_of(message.content)) for message in said]
    return [
        {"role": "user", "content": text, **({"name": message.name} if message.name else {})}
        for message, text in texts
        if text.strip()
    ]


def _with_block(request: ModelRequest[Any], block: str) -> ModelRequest[Any]:
    if not block:
        return request
    own = request.system_message
    if own is None:
        return request.override(system_message=SystemMessage(content=block))
    if isinstance(own.content, str):
        content: Any = f"{own.content}\n\n{block}" if own.content else block
    else:
        content = [*own.content, {"type": "text", "text": block}]
    return request.override(system_message=own.model_copy(update={"content": content}))
