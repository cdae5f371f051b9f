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

from memkit.errors import IdempotencyConflict, InvalidInput, InvalidScope, StoreClosed
from memkit.inputs import optional_id, scope_id
from memkit.models import digest
from memkit_plug.bound import AnyMemory, Bound, bind

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

    bound: Bound
    session_id: str | None = None
    max_tokens: int = 800

    @classmethod
    def of(
        cls,
        memory: AnyMemory,
        user_id: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        max_tokens: int = 800,
    ) -> HostTalk:
        optional_id(session_id, "session_id")
        return cls(bind(memory, user_id, agent_id), session_id, max_tokens)

    def recall(self, query: str) -> Recalled:
        words = query.strip()[-QUERY_CHARS:]
        if not words:
            return Recalled()
        try:
            block = self.bound.reads.context(fitting(words, self._most()), max_tokens=self.max_tokens)
        except Exception as error:
            _failed("searched", error)
            return Recalled()
        return Recalled(str(block) if block.hits else "", block.trace_id)

    def learn(self, said: Sequence[Message], *, key: str | None = None, reply: str = "", trace_id: str = "") -> None:
        """`key` makes saying the same again (a retry, a resumed run) count once."""
        if said:
            try:
                self._keep(list(said), key)
            except Exception as error:
                _failed("learned", error)
        if reply.strip() and trace_id:
            try:
                self.bound.writes.observe(trace_id, reply)
            except Exception as error:
                _failed("told what was answered", error)

    async def arecall(self, query: str) -> Recalled:
        return await asyncio.to_thread(self.recall, query)

    async def alearn(
        self, said: Sequence[Message], *, key: str | None = None, reply: str = "", trace_id: str = ""
    ) -> None:
        await asyncio.to_thread(self.learn, said, key=key, reply=reply, trace_id=trace_id)

    def _keep(self, said: list[Message], key: str | None) -> None:
        """All in one call; where one of them cannot be kept as it is, one by one, so that no other is lost with it."""
        try:
            self._add(said, key)
        except InvalidInput:
            most = self._most()
            for number, message in enumerate(said):
                text = fitting(message["content"], most)
                if text != message["content"]:
                    log.warning("a message is too long or broken: only what can be kept of it was learned")
                try:
                    self._add([{**message, "content": text}], key and digest([key, number]))
                except InvalidInput as error:
                    log.warning("a message was left out of memory (%s)", type(error).__name__)

    def _add(self, said: list[Message], key: str | None) -> None:
        given: dict[str, Any] = {"session_id": self.session_id, "wait": False}
        try:
            self.bound.writes.add(said, **given, idempotency_key=key)
        except IdempotencyConflict:
            self.bound.writes.add(said, **given)  # the host gave other words the same id: both are kept

    def _most(self) -> int:
        return self.bound.bank().max_text_bytes


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
