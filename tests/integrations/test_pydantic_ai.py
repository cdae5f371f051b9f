"""The capability injects for one request only; the harness's file memory keeps its promises on a bank."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai.capabilities", reason="needs the extra pydantic-ai")

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextContent, TextPart
from pydantic_ai.models.function import FunctionModel

from memkit import Memory
from memkit_pydantic_ai import MemkitCapability, MemkitMemoryStore


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        memory.add("I adopted a dog named Buddy.", user_id="ana")
        yield memory


def model(seen: list[Any], reply: str = "Buddy.") -> FunctionModel:
    def answer(messages: Any, info: Any) -> ModelResponse:
        seen.append(messages)
        return ModelResponse(parts=[TextPart(reply)])

    return FunctionModel(answer)


def texts(memory: Memory, user_id: str = "ana") -> list[str]:
    memory.flush()
    return [record.text for record in memory.list(user_id=user_id)]


def test_recall_reaches_the_request_and_not_the_history(memory: Memory) -> None:
    seen: list[Any] = []
    agent = Agent(model(seen), capabilities=[MemkitCapability(memory, user_id="ana")])
    result = asyncio.run(agent.run("What is my dog called?"))
    contents = [part.content for part in seen[0][-1].parts]
    assert "Buddy" in contents[-2]
    assert contents[-1] == "What is my dog called?"
    assert "memkit:" not in str(result.all_messages())


def test_what_the_user_says_is_learned_and_the_reply_is_not(memory: Memory) -> None:
    agent = Agent(model([], "I live in Paris."), capabilities=[MemkitCapability(memory, user_id="ana")])
    asyncio.run(agent.run("I live in Oslo."))
    assert texts(memory) == ["User adopted a dog named Buddy.", "User lives in Oslo."]


def test_text_with_metadata_is_recalled_for_and_learned(memory: Memory) -> None:
    seen: list[Any] = []
    agent = Agent(model(seen), capabilities=[MemkitCapability(memory, user_id="ana")])
    prompt = [TextContent("My dog and I live in Oslo.", metadata={"row": 7}), "I like tea."]
    asyncio.run(agent.run(prompt))
    assert "Buddy" in str(seen[0])
    memory.flush()
    assert memory.bank(user_id="ana").turns()[-1].text == "My dog and I live in Oslo.\nI like tea."


def test_one_capability_serves_concurrent_runs_of_many_users(memory: Memory) -> None:
    seen: list[Any] = []
    capability = MemkitCapability(memory, user_id=lambda ctx: ctx.deps)
    agent = Agent(model(seen), deps_type=str, capabilities=[capability])

    async def run() -> None:
        await asyncio.gather(*(agent.run(f"I live in city {n}.", deps=f"user{n}") for n in range(8)))
        await agent.run("What is my dog called?", deps="bob")

    asyncio.run(run())
    assert "Buddy" not in str(seen[-1])
    assert [texts(memory, f"user{n}") for n in range(8)] == [[f"User lives in city {n}."] for n in range(8)]


def test_a_memory_that_fails_does_not_stop_a_run(memory: Memory) -> None:
    agent = Agent(model([]), capabilities=[MemkitCapability(memory, user_id="ana")])
    memory.close()
    assert asyncio.run(agent.run("hello")).output == "Buddy."


# -- the harness's store ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["memkit", "harness"])
def store(request: pytest.FixtureRequest, memory: Memory) -> Any:
    """The harness's own store keeps the same promises, so the tests are right about them."""
    harness = pytest.importorskip("pydantic_ai_harness.memory", reason="needs pydantic-ai-harness")
    return MemkitMemoryStore(memory, user_id="ana") if request.param == "memkit" else harness.InMemoryStore()


def test_versions_are_compared_and_set(store: Any) -> None:
    from pydantic_ai_harness.memory import MemoryConflictError, MemoryStore

    assert isinstance(store, MemoryStore)

    async def check() -> None:
        assert await store.read("a/b.md", max_chars=10) is None
        first = await store.write("a/b.md", "hello world", expected_version=None)
        assert (first.replayed, first.existed) == (False, False)
        file = await store.read("a/b.md", max_chars=5)
        assert (file.content, file.version, file.truncated) == ("hello", first.version, True)
        second = await store.write("a/b.md", "", expected_version=first.version)
        assert second.existed
        assert second.version != first.version
        assert (await store.read("a/b.md", max_chars=5)).content == ""
        same = await store.write("a/b.md", "", expected_version=second.version)
        for version in (None, first.version, "nonsense"):
            with pytest.raises(MemoryConflictError):
                await store.write("a/b.md", "x", expected_version=version)
            with pytest.raises(MemoryConflictError):
                await store.delete("a/b.md", expected_version=version)
        gone = await store.delete("a/b.md", expected_version=same.version)
        assert (gone.version, gone.existed) == (None, True)
        assert not (await store.delete("a/b.md", expected_version=None)).existed
        again = await store.write("a/b.md", "x", expected_version=None)
        assert again.version not in (first.version, second.version)

    asyncio.run(check())


def test_a_write_tells_its_own_version_whoever_writes_next(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = pytest.importorskip("pydantic_ai_harness.memory", reason="needs pydantic-ai-harness")
    mine, other = MemkitMemoryStore(memory, user_id="ana"), MemkitMemoryStore(memory, user_id="ana")
    change = mine._files.change

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        done = change(*args, **kwargs)
        there = asyncio.run(other.read("a", max_chars=9))
        asyncio.run(other.write("a", "theirs", expected_version=there.version))
        return done

    monkeypatch.setattr(mine._files, "change", overtaken)
    written = asyncio.run(mine.write("a", "mine", expected_version=None))
    monkeypatch.undo()
    with pytest.raises(harness.MemoryConflictError):
        asyncio.run(mine.write("a", "mine again", expected_version=written.version))


def test_an_operation_counts_once(store: Any) -> None:
    from pydantic_ai_harness.memory import MemoryOperation, MemoryOperationConflictError

    async def check() -> None:
        write, delete = MemoryOperation("w", "f1"), MemoryOperation("d", "f2")
        assert await store.get_operation(write) is None
        done = await store.write("a", "x", expected_version=None, operation=write)
        again = await store.write("a", "x", expected_version=None, operation=write)
        assert (again.version, again.replayed, again.existed) == (done.version, True, False)
        assert (await store.get_operation(write)).version == done.version
        assert (await store.read("a", max_chars=9)).operation_id == "w"
        with pytest.raises(MemoryOperationConflictError):
            await store.write("a", "y", expected_version=None, operation=MemoryOperation("w", "other"))
        await store.delete("a", expected_version=done.version, operation=delete)
        again = await store.delete("a", expected_version=done.version, operation=delete)
        assert (again.version, again.replayed, again.existed) == (None, True, True)
        with pytest.raises(MemoryOperationConflictError):
            await store.get_operation(MemoryOperation("d", "other"))
        nothing = MemoryOperation("n", "f3")
        assert not (await store.delete("b", expected_version=None, operation=nothing)).existed
        assert (await store.delete("b", expected_version=None, operation=nothing)).replayed

    asyncio.run(check())


def test_paths_are_listed_sorted_and_checked(store: Any) -> None:
    async def check() -> None:
        for path in ("b/x", "a/y", "a/x", "ab"):
            await store.write(path, path, expected_version=None)
        assert await store.list_paths(limit=10) == ["a/x", "a/y", "ab", "b/x"]
        assert await store.list_paths("a/", limit=1) == ["a/x"]
        for wrong in ("", "../x", "a/../b", "/a", "a//b", "a/./b"):
            with pytest.raises(ValueError):
                await store.read(wrong, max_chars=1)
        with pytest.raises(ValueError):
            await store.read("a", max_chars=0)

    asyncio.run(check())


def test_metadata_is_that_of_the_last_write(store: Any) -> None:
    async def check() -> None:
        first = await store.write_with_metadata("a", "x", expected_version=None, metadata={"by": "me"})
        assert (await store.read("a", max_chars=1)).metadata == {"by": "me"}
        await store.write("a", "y", expected_version=first.version)
        assert (await store.read("a", max_chars=1)).metadata is None

    asyncio.run(check())
