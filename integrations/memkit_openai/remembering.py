"""Before and after one model call: find what is known, then learn. A memory that fails never stops a chat."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from memkit import AsyncMemory, Memory
from memkit.errors import IdempotencyConflict
from memkit_openai.dialects import Asked

log = logging.getLogger("memkit")


@dataclass(frozen=True, slots=True)
class Recalled:
    """The block to inject ("" where nothing is known) and the trace of this search."""

    block: str = ""
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class Talk:
    """Whose chat this is."""

    user_id: str
    agent_id: str | None = None
    session_id: str | None = None
    max_tokens: int = 800

    def recall(self, memory: Memory, asked: Asked) -> Recalled:
        try:
            block = memory.context(
                asked.query, user_id=self.user_id, agent_id=self.agent_id, max_tokens=self.max_tokens
            )
        except Exception as error:
            return _unanswered(error)
        return Recalled(str(block), block.trace_id)

    def learn(self, memory: Memory, asked: Asked, recalled: Recalled, reply: str, key: str | None = None) -> None:
        """Only the user's words are learned. The reply is told to `observe`, which judges what it used: learning from
        replies would turn what was recalled, or made up, into memories."""
        try:
            if asked.new:
                _add(memory, self, asked, key)
            if reply.strip() and recalled.trace_id:
                memory.observe(recalled.trace_id, reply, user_id=self.user_id)
        except Exception as error:
            _failed("learned", error)

    async def recall_async(self, memory: Memory | AsyncMemory, asked: Asked) -> Recalled:
        if isinstance(memory, Memory):
            return await asyncio.to_thread(self.recall, memory, asked)
        try:
            block = await memory.context(
                asked.query, user_id=self.user_id, agent_id=self.agent_id, max_tokens=self.max_tokens
            )
        except Exception as error:
            return _unanswered(error)
        return Recalled(str(block), block.trace_id)

    async def learn_async(
        self, memory: Memory | AsyncMemory, asked: Asked, recalled: Recalled, reply: str, key: str | None = None
    ) -> None:
        if isinstance(memory, Memory):
            await asyncio.to_thread(self.learn, memory, asked, recalled, reply, key)
            return
        try:
            if asked.new:
                await memory.add(list(asked.new), **_adding(self, key))
            if reply.strip() and recalled.trace_id:
                await memory.observe(recalled.trace_id, reply, user_id=self.user_id)
        except Exception as error:
            _failed("learned", error)


def _adding(talk: Talk, key: str | None) -> dict[str, Any]:
    return {
        "user_id": talk.user_id, "agent_id": talk.agent_id, "session_id": talk.session_id, "idempotency_key": key,
        "wait": False,
    }  # fmt: skip


def _add(memory: Memory, talk: Talk, asked: Asked, key: str | None) -> None:
    try:
        memory.add(list(asked.new), **_adding(talk, key))
    except IdempotencyConflict:
        # the caller's own key with other words: both are kept
        memory.add(list(asked.new), **_adding(talk, None))


def _unanswered(error: Exception) -> Recalled:
    _failed("searched", error)
    return Recalled()


def _failed(what: str, error: Exception) -> None:
    log.warning("a chat went on without memory: it could not be %s (%s)", what, type(error).__name__)
