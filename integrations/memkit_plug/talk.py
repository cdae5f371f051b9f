"""Recall before a model call, learn after it. A memory that fails never stops a chat: it is logged, and life goes on.

Only what the user says is learned. The reply goes to `observe`, which judges what it used of the memories: learning
from replies would turn what was recalled, or made up, into memories."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memkit import AsyncMemory, Memory
from memkit.errors import IdempotencyConflict, InvalidInput, InvalidScope, StoreClosed
from memkit.inputs import optional_id, scope_id
from memkit.models import digest

log = logging.getLogger("memkit")

Message = Mapping[str, Any]
"""{"role", "content"}, as chat APIs have it."""

QUERY_CHARS = 4_000
"""As much of the user's last words as is searched with: the end, where the question usually stands."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The block to put into the prompt ("" where nothing is known) and the trace that feedback names."""

    block: str = ""
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class HostTalk:
    """Whose chat this is, and how much of a prompt memories may take."""

    memory: Memory | AsyncMemory
    user_id: str
    agent_id: str | None = None
    session_id: str | None = None
    max_tokens: int = 800

    def __post_init__(self) -> None:
        plain(self.memory)
        scope_id(self.user_id, "user_id")
        optional_id(self.agent_id, "agent_id")
        optional_id(self.session_id, "session_id")

    def recall(self, query: str) -> Recalled:
        words = query.strip()[-QUERY_CHARS:]
        if not words:
            return Recalled()
        try:
            memory = plain(self.memory)
            block = memory.context(
                fitting(words, self._most(memory)),
                user_id=self.user_id,
                agent_id=self.agent_id,
                max_tokens=self.max_tokens,
            )
        except Exception as error:
            _failed("searched", error)
            return Recalled()
        return Recalled(str(block) if block.hits else "", block.trace_id)

    def learn(self, said: Sequence[Message], *, key: str | None = None, reply: str = "", trace_id: str = "") -> None:
        """`key` makes saying the same again (a retry, a resumed run) count once."""
        memory = plain(self.memory)
        if said:
            try:
                self._keep(memory, list(said), key)
            except Exception as error:
                _failed("learned", error)
        if reply.strip() and trace_id:
            try:
                memory.observe(trace_id, reply, user_id=self.user_id)
            except Exception as error:
                _failed("told what was answered", error)

    async def arecall(self, query: str) -> Recalled:
        return await asyncio.to_thread(self.recall, query)

    async def alearn(
        self, said: Sequence[Message], *, key: str | None = None, reply: str = "", trace_id: str = ""
    ) -> None:
        await asyncio.to_thread(self.learn, said, key=key, reply=reply, trace_id=trace_id)

    def _keep(self, memory: Memory, said: list[Message], key: str | None) -> None:
        """All in one call; where one of them cannot be kept as it is, one by one, so that no other is lost with it."""
        try:
            self._add(memory, said, key)
        except InvalidInput:
            most = self._most(memory)
            for number, message in enumerate(said):
                text = fitting(message["content"], most)
                if text != message["content"]:
                    log.warning("a message is too long or broken: only what can be kept of it was learned")
                try:
                    self._add(memory, [{**message, "content": text}], key and digest([key, number]))
                except InvalidInput as error:
                    log.warning("a message was left out of memory (%s)", type(error).__name__)

    def _add(self, memory: Memory, said: list[Message], key: str | None) -> None:
        scope: dict[str, Any] = {"user_id": self.user_id, "agent_id": self.agent_id, "session_id": self.session_id}
        try:
            memory.add(said, **scope, idempotency_key=key, wait=False)
        except IdempotencyConflict:
            memory.add(said, **scope, wait=False)  # the host gave other words the same id: both are kept

    def _most(self, memory: Memory) -> int:
        return memory.bank(user_id=self.user_id, agent_id=self.agent_id).max_text_bytes


def plain(memory: Memory | AsyncMemory) -> Memory:
    """The synchronous verbs; whoever awaits runs them in a thread. What is no memory is refused where a plug is made,
    and not by every chat in silence."""
    if isinstance(memory, AsyncMemory):
        return memory.sync
    if isinstance(memory, Memory):
        return memory
    raise InvalidInput(
        f"{memory!r:.60} is no memory",
        why="a plug works on a memory that the app opens and closes",
        fix='pass memkit.Memory("./memory"), or an AsyncMemory',
    )


def session_of(host_id: Any) -> str | None:
    """A session id from the host's own name of a conversation; a digest where a session cannot be called that."""
    name = "" if host_id is None else str(host_id)
    try:
        return scope_id(name, "session_id") if name else None
    except InvalidScope:
        return digest(name)


def fitting(text: str, most: int) -> str:
    """What can be kept of a text: whole characters of at most so many bytes; half of a character becomes a "?"."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def text_of(content: Any) -> str:
    """The text of a message's content: a str, or the text parts of a list; pictures and calls say nothing."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    texts = [part if isinstance(part, str) else _part_text(part) for part in content]
    return "\n".join(text for text in texts if text)


def _part_text(part: Any) -> str:
    text = part.get("text") if isinstance(part, Mapping) else getattr(part, "text", None)
    return text if isinstance(text, str) else ""


def _failed(what: str, error: Exception) -> None:
    if isinstance(error, StoreClosed):
        words = "the memory is closed: chats go on without it. Keep it open for as long as the app runs"
        warnings.warn(words, stacklevel=3)
    log.warning("a chat went on without memory: it could not be %s (%s)", what, type(error).__name__)
