"""The block learns what leaves the short-term memory and recalls it for the newest question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("llama_index.core.memory", reason="needs the extra llamaindex")

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory as ChatMemory
from pydantic import ValidationError

from memkit import Memory
from memkit_llamaindex import MemkitMemoryBlock


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as memory:
        yield memory


def message(role: str, content: str) -> ChatMessage:
    return ChatMessage(role=role, content=content)


def test_what_is_put_is_learned_from_the_user_alone(memory: Memory) -> None:
    block = MemkitMemoryBlock(memory=memory, user_id="ana")
    said = [message("user", "I live in Oslo."), message("assistant", "I live in Paris."), message("user", " ")]
    asyncio.run(block.aput(said, session_id="s1"))
    memory.flush()
    (record,) = memory.list(user_id="ana")
    assert (record.text, record.session_id) == ("User lives in Oslo.", "s1")
    found = asyncio.run(block.aget([message("user", "Where do I live?"), message("assistant", "Hm.")]))
    assert "Oslo" in found
    assert asyncio.run(block.aget([])) == ""
    assert asyncio.run(block.aget(None)) == ""


def test_it_works_inside_the_hosts_memory(memory: Memory) -> None:
    pytest.importorskip("aiosqlite", reason="the host's memory needs it")
    block = MemkitMemoryBlock(memory=memory, user_id="ana")
    chat = ChatMemory.from_defaults(
        session_id="s1",
        token_limit=60,
        chat_history_token_ratio=0.5,
        token_flush_size=20,
        memory_blocks=[block],
        tokenizer_fn=str.split,
    )

    async def run() -> str:
        await chat.aput(message("user", "I adopted a dog named Buddy."))
        for number in range(8):
            await chat.aput(message("assistant", f"answer {number} " + "word " * 8))
            await chat.aput(message("user", f"question {number}?"))
        await asyncio.to_thread(memory.flush)
        await chat.aput(message("user", "What is my dog called?"))
        found = str([one.content for one in await chat.aget()])
        await chat.sql_store._async_engine.dispose()
        return found

    assert "Buddy" in asyncio.run(run())
    assert "Buddy" in memory.list(user_id="ana")[0].text


def test_wrong_arguments_are_refused(memory: Memory) -> None:
    with pytest.raises(ValidationError):
        MemkitMemoryBlock(memory="./memory", user_id="ana")
    with pytest.raises(ValidationError):
        MemkitMemoryBlock(memory=memory, user_id="")
