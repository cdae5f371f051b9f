"""`MemkitMiddleware`: recall in `wrap_model_call`, learn in `after_agent`, each with its async twin.

What the user said is taken when a run begins, before another middleware shortens the history, and kept in a private
field of the run's state: so it is there when an interrupted run goes on, in whichever process.

What is recalled goes into the system message of the one request. The state never holds it, so no checkpoint keeps it
and nothing that reads the state (learning, above all) takes it for something that was said."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from memkit.models import digest
from memkit_plug.bound import AnyMemory, bind_in_run, refuse_unbound
from memkit_plug.talk import HostTalk, Message, Recalled, session_of, text_of

_REMEMBERED = 1_024
"""Questions whose recall is kept until their run ends, so that every model call of a run sees the same block.
Where rights say what may be read, each call asks anew: a right may end meanwhile."""

Who = str | Callable[[Any], str]
"""A user id, or how to tell it from the run's `Runtime` (`lambda runtime: runtime.context.user_id`)."""


class Said(TypedDict):
    """What a run is about: the user's newest words, without pictures, and the id of the message that ends them."""

    id: str | None
    messages: list[Message]


class MemkitState(AgentState[Any]):
    memkit_said: NotRequired[Annotated[Said | None, PrivateStateAttr]]


class MemkitMiddleware(AgentMiddleware[Any, Any]):
    """Serves one user, or many where `user_id` is a function of the runtime. Or somebody, with the spaces that they may
    read: then `memory` is what `principal` made, or a function of the runtime that makes it. The thread is the
    session."""

    state_schema = MemkitState

    def __init__(
        self,
        memory: AnyMemory | Callable[[Any], AnyMemory],
        *,
        user_id: Who | None = None,
        agent_id: str | None = None,
        max_tokens: int = 800,
        learn: bool = True,
    ) -> None:
        super().__init__()
        refuse_unbound(memory, user_id, agent_id)  # told now, not in the middle of a chat
        self._memory, self._user_id, self._agent_id = memory, user_id, agent_id
        self._max_tokens, self._learn = max_tokens, learn
        self._recalled: OrderedDict[tuple[str, str | None, str], Recalled] = OrderedDict()
        self._lock = threading.Lock()

    def trace_id(self, message_id: str, *, user_id: str, thread_id: str | None = None) -> str:
        """The trace of what was recalled for a human message, for `memory.feedback`; "" where there is none."""
        with self._lock:
            return self._recalled.get((user_id, session_of(thread_id), message_id), Recalled()).trace_id

    # -- before the run ----------------------------------------------------------------------------------------------

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Async runs call it too: it waits for nothing."""
        return {"memkit_said": _said(state["messages"])}

    # -- before the model -----------------------------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        talk, said = self._talk(request.runtime), request.state.get("memkit_said")
        recalled = None if talk.bound.has_rights else self._known(talk, said)
        if recalled is None:
            recalled = self._keep(talk, said, talk.recall(_question(said)))
        return handler(_with_block(request, recalled.block))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        talk, said = self._talk(request.runtime), request.state.get("memkit_said")
        recalled = None if talk.bound.has_rights else self._known(talk, said)
        if recalled is None:
            recalled = self._keep(talk, said, await talk.arecall(_question(said)))
        return await handler(_with_block(request, recalled.block))

    # -- after the run -----------------------------------------------------------------------------------------------

    def after_agent(self, state: Any, runtime: Any) -> None:
        talk, said = self._talk(runtime), state.get("memkit_said")
        if self._learn and said:
            talk.learn(said["messages"], **self._learning(talk, said, state["messages"]))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        talk, said = self._talk(runtime), state.get("memkit_said")
        if self._learn and said:
            await talk.alearn(said["messages"], **self._learning(talk, said, state["messages"]))

    def _learning(self, talk: HostTalk, said: Said, messages: Sequence[AnyMessage]) -> dict[str, Any]:
        recalled = self._known(talk, said) or Recalled()
        reply = messages[-1]
        return {
            "key": f"langchain:{digest([talk.session_id, said['id']])}" if said["id"] else None,
            "reply": text_of(reply.content) if isinstance(reply, AIMessage) else "",
            "trace_id": recalled.trace_id,
        }

    def _talk(self, runtime: Any) -> HostTalk:
        bound = bind_in_run(self._memory, self._user_id, self._agent_id, runtime)
        info = getattr(runtime, "execution_info", None)
        thread_id = getattr(info, "thread_id", None)
        return HostTalk(bound, session_of(thread_id), self._max_tokens)

    def _known(self, talk: HostTalk, said: Said | None) -> Recalled | None:
        with self._lock:
            return self._recalled.get(_place(talk, said["id"])) if said and said["id"] else None

    def _keep(self, talk: HostTalk, said: Said | None, recalled: Recalled) -> Recalled:
        if said and said["id"]:
            with self._lock:
                self._recalled[_place(talk, said["id"])] = recalled
                if len(self._recalled) > _REMEMBERED:
                    self._recalled.popitem(last=False)
        return recalled


def _place(talk: HostTalk, message_id: str) -> tuple[str, str | None, str]:
    return talk.bound.user_id, talk.session_id, message_id


def _said(messages: Sequence[AnyMessage]) -> Said | None:
    """The newest human messages that follow each other. Those that LangChain wrote itself (a summary of the history, a
    notification) say so in `lc_source`: they are nobody's words."""
    said: list[HumanMessage] = []
    for message in reversed(messages):
        if not isinstance(message, HumanMessage):
            if said:
                break
        elif "lc_source" not in message.additional_kwargs:
            said.insert(0, message)
    if not said:
        return None
    texts = [(message, text_of(message.content)) for message in said]
    return {
        "id": said[-1].id,
        "messages": [
            {"role": "user", "content": text, **({"name": message.name} if message.name else {})}
            for message, text in texts
            if text.strip()
        ],
    }


def _question(said: Said | None) -> str:
    return said["messages"][-1]["content"] if said and said["messages"] else ""


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
