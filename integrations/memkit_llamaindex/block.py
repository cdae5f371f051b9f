"""`MemkitMemoryBlock`: recall for the newest user message, learning when messages leave the short-term memory."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import Field, model_validator

from memkit_plug.bound import bind
from memkit_plug.talk import HostTalk, session_of


class MemkitMemoryBlock(BaseMemoryBlock[str]):
    """Never longer than `max_tokens`, so its priority is 0: the host need not cut it."""

    name: str = Field(default="memkit", description="The name of the block.")
    memory: Any = Field(description="A Memory or an AsyncMemory, or what its `principal` made.", exclude=True)
    user_id: str | None = Field(None, description="Whose memories these are; a principal says it itself.")
    agent_id: str | None = None
    max_tokens: int = 800

    @model_validator(mode="after")
    def _is_bound(self) -> MemkitMemoryBlock:
        bind(self.memory, self.user_id, self.agent_id)
        return self

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        said = [message for message in messages or [] if message.role == MessageRole.USER]
        query = (said[-1].content or "") if said else ""
        return (await self._talk(block_kwargs.get("session_id")).arecall(query)).block

    async def _aput(self, messages: list[ChatMessage]) -> None:
        by_session: dict[str | None, list[dict[str, Any]]] = {}
        for message in messages:
            text = message.content or ""
            if message.role == MessageRole.USER and text.strip():
                session_id = message.additional_kwargs.get("session_id")
                by_session.setdefault(session_id, []).append({"role": "user", "content": text})
        for session_id, said in by_session.items():
            await self._talk(session_id).alearn(said)

    def _talk(self, session_id: Any) -> HostTalk:
        return HostTalk.of(self.memory, self.user_id, self.agent_id, session_of(session_id), self.max_tokens)
