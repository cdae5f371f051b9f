"""The session wraps another one: history passes through, the user's words are learned, and un-learned when popped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents.memory", reason="needs the extra agents")

from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.memory import Session, SessionSettings
from agents.models.interface import Model
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

from memkit import Memory
from memkit_agents import MemkitSession


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        yield memory


@pytest.fixture
def session(memory: Memory) -> Iterator[MemkitSession]:
    inner = SQLiteSession("chat-1")
    yield MemkitSession(inner, memory, user_id="ana")
    inner.close()


class Echo(Model):
    """Answers what it is told to, and keeps what it was given."""

    def __init__(self, reply: str = "Fine.") -> None:
        self.reply, self.given = reply, []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        self.given.append((system_instructions, input))
        text = ResponseOutputText(text=self.reply, type="output_text", annotations=[])
        message = ResponseOutputMessage(id="1", type="message", role="assistant", content=[text], status="completed")
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("not streamed here")


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(memory: Memory) -> list[str]:
    memory.flush()
    return [record.text for record in memory.list(user_id="ana")]


def run(agent: Agent, text: str, session: MemkitSession) -> Any:
    config = session.run_config(RunConfig(tracing_disabled=True))
    return asyncio.run(Runner.run(agent, text, session=session, run_config=config, hooks=session.hooks()))


def test_it_is_a_session(session: MemkitSession) -> None:
    assert isinstance(session, Session)
    assert session.session_id == "chat-1"
    session.session_settings = SessionSettings(limit=1)
    asyncio.run(session.add_items([user("one"), user("two")]))  # type: ignore[list-item]
    assert asyncio.run(session.get_items()) == [user("two")]


def test_items_pass_through_unchanged_and_in_order(session: MemkitSession) -> None:
    items: list[Any] = [
        user("I live in Oslo."),
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "I live in Rome."},
        {"role": "assistant", "content": "I live in Paris."},
    ]

    async def check() -> None:
        await session.add_items(items)
        assert await session.get_items() == items
        assert await session.get_items(limit=2) == items[-2:]
        assert await session.get_items(limit=0) == []
        assert await session.pop_item() == items[-1]
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None

    asyncio.run(check())


def test_only_the_user_is_learned_from(session: MemkitSession, memory: Memory) -> None:
    asyncio.run(
        session.add_items(
            [
                user([{"type": "input_text", "text": "I live in Oslo."}, {"type": "input_image", "image_url": "x"}]),
                {"role": "assistant", "content": "I live in Paris."},
                {"type": "function_call_output", "call_id": "c", "output": "I live in Rome."},
                {"role": "system", "content": "I live in Bonn."},
            ]  # type: ignore[list-item]
        )
    )
    assert texts(memory) == ["User lives in Oslo."]
    assert memory.list(user_id="ana")[0].session_id == "chat-1"


def test_what_is_popped_is_unlearned_once(session: MemkitSession, memory: Memory) -> None:
    async def check() -> None:
        await session.add_items([user("I live in Oslo."), user("I moved to Bergen.")])  # type: ignore[list-item]
        await session.pop_item()

    asyncio.run(check())
    assert texts(memory) == ["User lives in Oslo."]
    asyncio.run(session.add_items([user("I moved to Bergen.")]))  # type: ignore[list-item]
    assert "Bergen" in texts(memory)[0]
    asyncio.run(session.pop_item())
    assert texts(memory) == ["User lives in Oslo."]
    asyncio.run(session.pop_item())
    assert texts(memory) == []


def test_words_said_again_and_again_are_unlearned_pop_by_pop(session: MemkitSession, memory: Memory) -> None:
    for _ in range(4):
        asyncio.run(session.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
        memory.flush()
    for left in (1, 1, 1, 0):
        asyncio.run(session.pop_item())
        assert len(texts(memory)) == left


def test_a_pop_leaves_what_was_said_in_another_session(session: MemkitSession, memory: Memory) -> None:
    other = MemkitSession(SQLiteSession("chat-2"), memory, user_id="ana")
    for one in (session, other):
        asyncio.run(one.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
        memory.flush()
    asyncio.run(session.pop_item())
    assert texts(memory) == ["User lives in Oslo."]
    asyncio.run(other.pop_item())
    assert texts(memory) == []


def test_a_session_that_is_renamed_learns_under_its_new_name(session: MemkitSession, memory: Memory) -> None:
    session.session_id = "chat-2"
    asyncio.run(session.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
    assert texts(memory) == ["User lives in Oslo."]
    assert memory.list(user_id="ana")[0].session_id == session.session_id == "chat-2"


def test_a_pop_leaves_what_later_words_build_on(
    session: MemkitSession, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(session.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
    memory.flush()
    memory.add("I moved to Bergen.", user_id="ana")
    before = texts(memory)
    asyncio.run(session.pop_item())
    assert texts(memory) == before
    assert caplog.messages == ["a popped message could not be un-learned: later memories build on it"]


def test_a_message_that_was_too_long_to_be_kept_whole_is_unlearned_too(session: MemkitSession, memory: Memory) -> None:
    asyncio.run(session.add_items([user("I live in Oslo. " + "x" * 300_000)]))  # type: ignore[list-item]
    memory.flush()
    assert memory.search("Where do I live?", user_id="ana")
    asyncio.run(session.pop_item())
    memory.flush()
    assert memory.search("Where do I live?", user_id="ana") == []


def test_a_pop_unlearns_what_was_redacted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Memory(tmp_path / "m", redact=lambda text: text.replace("Oslo", "[city]")) as memory:
        inner = SQLiteSession("s", tmp_path / "s.db")
        session = MemkitSession(inner, memory, user_id="ana")
        asyncio.run(session.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
        assert texts(memory) == ["User lives in [city]."]
        assert asyncio.run(session.pop_item()) == user("I live in Oslo.")
        assert texts(memory) == []
        assert caplog.messages == []
        asyncio.run(inner.add_items([user("I live in Bergen.")]))  # type: ignore[list-item]
        asyncio.run(session.pop_item())
        assert [message.partition(":")[0] for message in caplog.messages] == [
            "a popped message could not be un-learned"
        ]
        assert "Bergen" not in caplog.text


def test_a_pop_in_another_process_unlearns_too(tmp_path: Path) -> None:
    with Memory(tmp_path / "m") as memory:
        first = MemkitSession(SQLiteSession("s", tmp_path / "s.db"), memory, user_id="ana")
        asyncio.run(first.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
    with Memory(tmp_path / "m") as memory:
        again = MemkitSession(SQLiteSession("s", tmp_path / "s.db"), memory, user_id="ana")
        assert asyncio.run(again.pop_item()) == user("I live in Oslo.")
        assert texts(memory) == []


def test_clearing_the_history_leaves_the_memory(session: MemkitSession, memory: Memory) -> None:
    asyncio.run(session.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
    asyncio.run(session.clear_session())
    assert texts(memory) == ["User lives in Oslo."]


def test_a_cancelled_add_is_still_whole(session: MemkitSession, memory: Memory) -> None:
    async def check() -> None:
        task = asyncio.create_task(session.add_items([user("I live in Oslo.")]))  # type: ignore[list-item]
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for _ in range(200):
            if len(await session.get_items()) and memory.decisions(user_id="ana"):
                return
            await asyncio.sleep(0.02)

    asyncio.run(check())
    assert texts(memory) == ["User lives in Oslo."]


def test_a_run_recalls_answers_and_observes(session: MemkitSession, memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    model = Echo("Your dog is called Buddy.")
    agent = Agent(name="a", instructions="Be brief.", model=model)
    result = run(agent, "What is my dog called?", session)
    instructions, given = model.given[0]
    assert result.final_output == "Your dog is called Buddy."
    assert instructions.startswith("Be brief.\n\n")
    assert "Buddy" in instructions
    assert "Buddy" not in str(given)
    assert "memkit" not in str(asyncio.run(session.get_items()))
    assert memory.feedback(session.recalled.trace_id, label="up", user_id="ana")
    memory.flush()
    trace = memory._runtime.journal.trace("ana", session.recalled.trace_id)
    assert trace.payload["answer"] == "Your dog is called Buddy."


def test_the_apps_own_filter_still_runs(session: MemkitSession, memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    seen: list[Any] = []

    def own(data: Any) -> Any:
        seen.append(data)
        return data.model_data

    model = Echo()
    config = session.run_config(RunConfig(tracing_disabled=True, call_model_input_filter=own))
    asyncio.run(Runner.run(Agent(name="a", model=model), "my dog?", session=session, run_config=config))
    assert len(seen) == 1
    assert "Buddy" in model.given[0][0]


def test_a_memory_that_fails_does_not_stop_a_run(session: MemkitSession, memory: Memory) -> None:
    memory.close()
    assert run(Agent(name="a", model=Echo()), "hello", session).final_output == "Fine."
