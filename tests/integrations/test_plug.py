"""What every chat plug shares: one message that cannot be kept costs no other, and no host's name breaks a chat."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.config import Config
from memkit.errors import InvalidInput
from memkit_plug.talk import QUERY_CHARS, HostTalk, session_of

MOST = 20_000


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m", config=Config(max_message_bytes=MOST, max_messages=4)) as memory:
        yield memory


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def turns(memory: Memory) -> list[str]:
    return [turn.text for turn in memory.bank(user_id="ana").turns()]


def test_a_message_that_cannot_be_kept_costs_no_other(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    talk = HostTalk.of(memory, "ana")
    said = [user("I live in Oslo."), user("é" * MOST), user("A secret.", name="n" * 600), user("I like \ud83d tea.")]
    for _ in range(2):  # a retry
        talk.learn(said, key="k")
    assert turns(memory) == ["I live in Oslo.", "é" * (MOST // 2), "I like ? tea."]
    assert "only what can be kept of it was learned" in caplog.text
    assert "left out of memory (InvalidScope)" in caplog.text
    assert "secret" not in caplog.text


def test_more_messages_than_one_call_takes_are_all_learned(memory: Memory) -> None:
    HostTalk.of(memory, "ana").learn([user(f"I like food number {n}.") for n in range(9)])
    assert len(turns(memory)) == 9


def test_recall_looks_for_the_end_of_a_long_message(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    caplog.set_level(logging.WARNING, "memkit")
    for padding in ("x " * MOST, "\ud83d " * QUERY_CHARS):
        assert "Buddy" in HostTalk.of(memory, "ana").recall(padding + "What is my dog called?").block
    assert caplog.messages == []


def test_an_answer_is_observed_although_nothing_could_be_learned(memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    talk = HostTalk.of(memory, "ana")
    recalled = talk.recall("What is my dog called?")
    talk.learn([user("Hm.", name="n" * 600)], reply="Buddy.", trace_id=recalled.trace_id)
    assert memory._runtime.traces.get("ana", recalled.trace_id).payload["answer"] == "Buddy."


def test_any_name_that_a_host_gives_a_conversation_makes_a_session(memory: Memory) -> None:
    assert [session_of(name) for name in ("t1", 7, None, "")] == ["t1", "7", None, None]
    for name in ("é" * 300, "a\x00b", "\ud83d"):
        session_id = session_of(name)
        assert session_id == session_of(name)
        HostTalk.of(memory, "ana", session_id=session_id).learn([user("I live in Oslo.")])
    assert len({turn.session_id for turn in memory.bank(user_id="ana").turns()}) == 3


@pytest.mark.parametrize("given", ["./memory", None, 42])
def test_what_is_no_memory_is_refused_where_a_plug_is_made(given: Any) -> None:
    with pytest.raises(InvalidInput, match="is no memory"):
        HostTalk.of(given, "ana")


def test_a_chat_goes_on_without_a_closed_memory_and_says_so(memory: Memory) -> None:
    talk = HostTalk.of(memory, "ana")
    memory.close()
    with pytest.warns(UserWarning, match="the memory is closed"):
        assert talk.recall("What is my dog called?").block == ""
    with pytest.warns(UserWarning, match="the memory is closed"):
        talk.learn([user("I live in Oslo.")])
