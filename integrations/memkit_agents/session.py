"""`MemkitSession` wraps a session: its items pass through unchanged, and what the user says is learned on the way in.

The runner pops items to try a run again, so what is popped is un-learned: the memory that came of it is taken back, and
the change that does it is named after the turn. All of it is read from the journal, so it works in whichever process
the pop happens, and pops of the same words take back one turn after the other."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from agents import RunConfig, RunHooks
from agents.memory import Session, SessionSettings
from agents.run_config import CallModelData, ModelInputData

from memkit.engine.words import rows_of
from memkit.errors import Conflict, NotFound, UndoConflict
from memkit.models import OpDraft, Turn
from memkit.ops import make_op_id
from memkit.runtime.open_bank import OpenBank
from memkit_agents.unlearning import pop_id, taking_back
from memkit_plug.bound import AnyMemory
from memkit_plug.talk import HostTalk, Message, Recalled, fitting, session_of, text_of

log = logging.getLogger("memkit")

_SETTLE_S = 60.0
"""How long a pop waits for a turn that is still being decided."""

_ATTEMPTS = 100
"""Commits that lost to another one before a pop gives up."""


class MemkitSession:
    """Implements the SDK's `Session` protocol. `clear_session` clears the history; memories outlive it, and
    `memory.delete_all` or `erase` end them."""

    def __init__(
        self,
        inner: Session,
        memory: AnyMemory,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        max_tokens: int = 800,
    ) -> None:
        self._inner = inner
        self._talk = HostTalk.of(memory, user_id, agent_id, session_of(inner.session_id), max_tokens)
        self.recalled = Recalled()
        """What the newest model call was given, with its trace."""

    @property
    def session_id(self) -> str:
        return self._inner.session_id

    @session_id.setter
    def session_id(self, value: str) -> None:
        self._inner.session_id = value
        self._talk = dataclasses.replace(self._talk, session_id=session_of(value))

    @property
    def session_settings(self) -> SessionSettings | None:
        return self._inner.session_settings

    @session_settings.setter
    def session_settings(self, value: SessionSettings | None) -> None:
        self._inner.session_settings = value

    # -- the protocol ------------------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return await self._inner.get_items(limit)

    async def add_items(self, items: list[Any]) -> None:
        """A caller that is cancelled leaves history and memory alike: both steps are finished."""
        await asyncio.shield(asyncio.ensure_future(self._add(items)))

    async def pop_item(self) -> Any:
        return await asyncio.shield(asyncio.ensure_future(self._pop()))

    async def clear_session(self) -> None:
        await self._inner.clear_session()

    # -- recall --------------------------------------------------------------------------------------------------------

    def run_config(self, config: RunConfig | None = None) -> RunConfig:
        """A run config (yours, copied) whose model calls see what is known about the user."""
        given = config or RunConfig()
        earlier = given.call_model_input_filter

        async def recalling(data: CallModelData[Any]) -> ModelInputData:
            if earlier is not None:
                made = earlier(data)
                model_data = await made if asyncio.iscoroutine(made) else made
                data = dataclasses.replace(data, model_data=model_data)
            return await self.recall(data)

        return dataclasses.replace(given, call_model_input_filter=recalling)

    async def recall(self, data: CallModelData[Any]) -> ModelInputData:
        """For `RunConfig(call_model_input_filter=…)`: the block joins the instructions of this one call. The session
        does not see it, so it is never learned."""
        own = data.model_data
        said = _said(own.input)
        self.recalled = await self._talk.arecall(said[-1]["content"] if said else "")
        if not self.recalled.block:
            return own
        parts = [own.instructions, self.recalled.block]
        return ModelInputData(input=own.input, instructions="\n\n".join(part for part in parts if part))

    def hooks(self) -> MemkitHooks:
        return MemkitHooks(self)

    async def observe(self, reply: str) -> None:
        """Tell what was answered with what the newest model call recalled."""
        await self._talk.alearn([], reply=reply, trace_id=self.recalled.trace_id)

    # -- learning and un-learning ---------------------------------------------------------------------------------

    async def _add(self, items: list[Any]) -> None:
        await self._inner.add_items(items)
        for message in _said(items):
            await self._talk.alearn([message])  # one by one: an item is popped alone

    async def _pop(self) -> Any:
        item = await self._inner.pop_item()
        for message in _said([item] if item else []):
            try:
                await asyncio.to_thread(self._unlearn, message["content"])
            except Exception as error:
                log.warning("a popped message could not be un-learned (%s)", type(error).__name__)
        return item

    def _unlearn(self, text: str) -> None:
        bank = self._talk.bound.bank()
        turn = self._learned_turn(bank, text)
        if turn is not None and not _taken_back(bank, turn):
            log.warning("a popped message could not be un-learned: later memories build on it")

    def _learned_turn(self, bank: OpenBank, text: str) -> Turn | None:
        """The newest turn of these words in this session that is not taken back yet, once it is decided."""
        # the history holds the words as they were said, the journal as they may be kept
        kept = bank.redact(fitting(text, bank.max_text_bytes))
        turns = [turn for turn in bank.turns(self._talk.session_id) if turn.text == kept]
        if not turns:
            log.warning("a popped message could not be un-learned: the journal has no turn of these words")
        for turn in reversed(turns):
            if not bank.wait_settled(turn.intake_id, _SETTLE_S):
                log.warning("a popped message could not be un-learned: it is still being decided")
                return None
            if not bank.ops(op_id=make_op_id(pop_id(turn.turn_id), 0)):
                return turn
        return None


class MemkitHooks(RunHooks[Any]):
    """Tells the memory what the agent answered, so that it learns which memories helped."""

    def __init__(self, session: MemkitSession) -> None:
        self._session = session

    async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
        if isinstance(output, str):
            await self._session.observe(output)


def _taken_back(bank: OpenBank, turn: Turn) -> bool:
    """Commits the change that takes a turn back, and marks it as such. False where not all of it could be."""
    stuck = False
    for _ in range(_ATTEMPTS):
        seq, _epoch = bank.version()
        drafts, whole = taking_back(turn.turn_id, bank.ops(intake_id=turn.intake_id), bank.get)
        if stuck:
            drafts, whole = [], False
        drafts += [OpDraft("delete", row.id) for row in rows_of(turn, bank.get)]
        try:
            bank.commit(drafts or [OpDraft("noop")], expected_seq=seq, decision_id=pop_id(turn.turn_id))
        except UndoConflict:
            stuck = True  # another memory has the words from before the turn
        except (Conflict, NotFound):
            continue
        else:
            return whole
    return False


def _said(items: str | Sequence[Any]) -> list[Message]:
    """The user's messages among Responses-API items; calls, results and reasoning are none."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}] if items.strip() else []
    said: list[Message] = []
    for item in items:
        if isinstance(item, dict) and item.get("role") == "user" and item.get("type", "message") == "message":
            text = text_of(item.get("content"))
            if text.strip():
                said.append({"role": "user", "content": text})
    return said
