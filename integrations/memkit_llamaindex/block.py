"""`MemkitMemoryBlock`: recall for the newest user message, learning when messages leave the short-term memory."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock
from pydantic import Field, field_validator

from memkit import AsyncMemory, Memory
from memkit.inputs import scope_id
from memkit_plug.talk import HostTalk, session_of


class MemkitMemoryBlock(BaseMemoryBlock[str]):
    """Never longer than `max_tokens`, so its priority is 0: the host need not cut it."""

    name: str = Field(default="memkit", description="The name of the block.")
    memory: Any = Field(description="A Memory or an AsyncMemory.", exclude=True)
    user_id: str = Field(description="Whose memories these are.")
    agent_id: str | None = None
    max_tokens: int = 800

    @field_validator("memory")
    @classmethod
    def _is_memory(cls, value: Any) -> Any:
        if not isinstance(value, Memory | AsyncMemory):
            raise ValueError("memory must be a memkit Memory or AsyncMemory")
        return value

    @field_validator("user_id")
    @classmethod
    def _is_scope(cls, value: str) -> str:
        return scope_id(value, "user_id")

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
        return HostTalk(self.memory, self.user_id, self.agent_id, session_of(session_id), self.max_tokens)
