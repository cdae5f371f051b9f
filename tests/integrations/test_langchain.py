"""The middleware puts memories into a model call and nowhere else; the retriever passes LangChain's own suite."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain.agents.middleware", reason="needs the extra langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from memkit import AsyncMemory, Memory
from memkit.errors import InvalidScope
from memkit_langchain import MemkitMiddleware, MemkitRetriever


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        memory.add("I adopted a dog named Buddy.", user_id="ana")
        yield memory


class Model(GenericFakeChatModel):
    seen: list[Any]

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.seen.append(list(messages))
        return super()._generate(messages, *args, **kwargs)

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self


@tool
def clock() -> str:
    """Tell the time."""
    return "noon"


def agent(memory: Any, replies: list[Any], *, prompt: Any = None, **options: Any) -> tuple[Any, Model]:
    model = Model(messages=iter(replies), seen=[])
    middleware = MemkitMiddleware(memory, **({"user_id": "ana"} | options))
    return create_agent(
        model, [clock], system_prompt=prompt, middleware=[middleware], checkpointer=InMemorySaver()
    ), model


def thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def said(text: str) -> dict[str, Any]:
    return {"messages": [("user", text)]}


def texts(memory: Memory, user_id: str = "ana") -> list[str]:
    memory.flush()
    return [record.text for record in memory.list(user_id=user_id)]


def test_recall_reaches_the_model_and_never_the_state(memory: Memory) -> None:
    app, model = agent(memory, [AIMessage("Woof.")], prompt="Be brief.")
    state = app.invoke(said("What is my dog called?"), thread("t"))
    system = model.seen[0][0]
    assert isinstance(system, SystemMessage)
    assert system.content.startswith("Be brief.\n\n")
    assert "Buddy" in system.content
    assert state.keys() == {"messages"}
    assert [message.content for message in state["messages"]] == ["What is my dog called?", "Woof."]
    assert "Buddy" not in str(app.get_state(thread("t")))


@pytest.mark.parametrize("is_async", [False, True])
def test_what_the_user_says_is_learned_and_the_reply_is_not(memory: Memory, is_async: bool) -> None:
    app, _ = agent(memory, [AIMessage("You live in Paris."), AIMessage("Noted.")])
    for text in ("I live in Oslo.", "I have moved to Bergen."):
        if is_async:
            asyncio.run(app.ainvoke(said(text), thread("t")))
        else:
            app.invoke(said(text), thread("t"))
    found = " ".join(texts(memory))
    assert "Bergen" in found
    assert "Paris" not in found


def test_an_async_memory_serves_async_agents(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with AsyncMemory(tmp_path / "m") as memory:
            app, _ = agent(memory, [AIMessage("Hi.")])
            await app.ainvoke(said("I live in Oslo."), thread("t"))
            await memory.flush()
            return [record.text for record in await memory.list(user_id="ana")]

    assert asyncio.run(run()) == ["User lives in Oslo."]


def test_one_recall_serves_a_whole_run_with_tools(memory: Memory) -> None:
    call = AIMessage("", tool_calls=[{"name": "clock", "args": {}, "id": "1"}])
    app, model = agent(memory, [call, AIMessage("Noon.")])
    app.invoke(said("What time is it, and what is my dog called?"), thread("t"))
    first, second = (messages[0].content for messages in model.seen)
    assert first == second
    assert "Buddy" in first


def test_a_run_that_is_repeated_is_learned_once(memory: Memory) -> None:
    app, _ = agent(memory, [AIMessage("Hi."), AIMessage("Hi again.")])
    message = {"messages": [{"role": "user", "content": "I like chess.", "id": "m1"}]}
    app.invoke(message, thread("t"))
    known, decided = texts(memory), len(memory.decisions(user_id="ana"))
    assert "User likes chess." in known
    app.invoke(message, thread("t"))
    assert texts(memory) == known
    assert len(memory.decisions(user_id="ana")) == decided


@pytest.mark.parametrize("is_async", [False, True])
def test_a_history_that_is_summarised_meanwhile_hides_nothing_the_user_said(memory: Memory, is_async: bool) -> None:
    calls = [AIMessage("", tool_calls=[{"name": "clock", "args": {}, "id": f"{n}"}]) for n in range(3)]
    model = Model(messages=iter([*calls, AIMessage("Noted."), AIMessage("Tea.")]), seen=[])
    writer = Model(messages=iter([AIMessage("The assistant lives in Paris.")] * 9), seen=[])
    app = create_agent(
        model,
        [clock],
        checkpointer=InMemorySaver(),
        middleware=[
            SummarizationMiddleware(writer, trigger=("messages", 5), keep=("messages", 2)),
            MemkitMiddleware(memory, user_id="ana"),
        ],
    )
    for text in ("My dog and I live in Oslo.", "I like tea."):
        if is_async:
            asyncio.run(app.ainvoke(said(text), thread("t")))
        else:
            app.invoke(said(text), thread("t"))
    assert "Paris" in str(model.seen[-1]), "the history was summarised"
    assert all("Buddy" in messages[0].content for messages in model.seen[:4]), "one recall serves the run"
    memory.flush()
    learned = [turn.text for turn in memory.bank(user_id="ana").turns("t")]
    assert learned == ["My dog and I live in Oslo.", "I like tea."]


def test_messages_that_langchain_wrote_are_nobodys_words(memory: Memory) -> None:
    app, _ = agent(memory, [AIMessage("Noted.")])
    notice = HumanMessage("I live in Paris.", additional_kwargs={"lc_source": "async_subagent"})
    app.invoke({"messages": [HumanMessage("I live in Oslo."), notice]}, thread("t"))
    assert texts(memory) == ["User adopted a dog named Buddy.", "User lives in Oslo."]


@pytest.mark.parametrize("name", ["é" * 300, "é" * 256], ids=["no session id", "no room for a key"])
def test_a_thread_of_any_name_is_learned_from(memory: Memory, name: str) -> None:
    middleware = MemkitMiddleware(memory, user_id="ana")
    model = Model(messages=iter([AIMessage("Noted.")] * 2), seen=[])
    app = create_agent(model, [], middleware=[middleware], checkpointer=InMemorySaver())
    for number, text in enumerate(("I live in Oslo.", "I like tea.")):
        app.invoke({"messages": [{"role": "user", "content": text, "id": f"m{number}"}]}, thread(name))
    assert {"User lives in Oslo.", "User likes tea."} <= set(texts(memory))
    assert middleware.trace_id("m0", user_id="ana", thread_id=name)


def test_users_are_told_apart_by_the_runtime(memory: Memory) -> None:
    app, model = agent(memory, [AIMessage("a"), AIMessage("b")], user_id=lambda runtime: runtime.context["user"])
    app.invoke(said("What is my dog called?"), thread("1"), context={"user": "bob"})
    assert "Buddy" not in str(model.seen[0])
    app.invoke(said("What is my dog called?"), thread("2"), context={"user": "ana"})
    assert "Buddy" in str(model.seen[1])


def test_feedback_finds_the_trace(memory: Memory) -> None:
    middleware = MemkitMiddleware(memory, user_id="ana")
    app = create_agent(Model(messages=iter([AIMessage("Buddy.")]), seen=[]), [], middleware=[middleware])
    app.invoke({"messages": [{"role": "user", "content": "What is my dog called?", "id": "m1"}]})
    trace_id = middleware.trace_id("m1", user_id="ana")
    assert memory.feedback(trace_id, label="up", user_id="ana")
    assert middleware.trace_id("m2", user_id="ana") == ""


def test_a_memory_that_fails_does_not_stop_the_agent(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    app, model = agent(memory, [AIMessage("Hi.")])
    memory.close()
    assert app.invoke(said("secret words"), thread("t"))["messages"][-1].content == "Hi."
    assert len(model.seen[0]) == 1
    assert "without memory" in caplog.text
    assert "secret words" not in caplog.text


def test_a_wrong_user_is_refused_at_once(memory: Memory) -> None:
    with pytest.raises(InvalidScope):
        MemkitMiddleware(memory, user_id="")


# -- the retriever ---------------------------------------------------------------------------------------------------

suite = pytest.importorskip("langchain_tests.integration_tests", reason="needs langchain-tests")
Suite: Any = suite.RetrieversIntegrationTests


class TestRetriever(Suite):
    @pytest.fixture(autouse=True)
    def filled(self, tmp_path: Path) -> Iterator[None]:
        with Memory(tmp_path / "m") as memory:
            for text in ("I adopted a dog named Buddy.", "I live in Oslo.", "I play chess.", "I work as a nurse."):
                memory.add(text, user_id="ana")
            self.memory = memory
            yield

    @property
    def retriever_constructor(self) -> Any:
        return MemkitRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory, "user_id": "ana"}

    @property
    def retriever_query_example(self) -> str:
        return "which dog"

    test_ainvoke_returns_documents = pytest.mark.asyncio(Suite.test_ainvoke_returns_documents)

    def test_documents_say_where_they_come_from(self) -> None:
        (found,) = MemkitRetriever(memory=self.memory, user_id="ana", k=1).invoke("which dog")
        assert found.page_content == "User adopted a dog named Buddy."
        assert self.memory.get(found.id, user_id="ana").text == found.page_content
        assert self.memory.feedback(found.metadata["trace_id"], label="up", user_id="ana")
        assert MemkitRetriever(memory=self.memory, user_id="bob").invoke("which dog") == []
