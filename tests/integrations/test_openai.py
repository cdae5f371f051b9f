"""`wrap`: the official clients, with a memory. The API behind them is a stub on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memkit import AsyncMemory, Memory
from memkit.errors import InvalidInput, InvalidScope
from memkit_openai import trace_id, wrap
from memkit_openai.dialects import ChatRequest, Messages, Responses, dialect_of
from tests import stub_server
from tests.stub_server import StubServer

openai = pytest.importorskip("openai", reason="needs the extra openai")

SAID = [{"role": "user", "content": "I adopted a dog named Buddy."}]
QUESTION = [{"role": "user", "content": "Which dog do I have?"}]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as opened:
        yield opened


@pytest.fixture
def api() -> Iterator[StubServer]:
    with StubServer(reply="You have a dog named Buddy.") as server:
        yield server


@pytest.fixture
def client(api: StubServer) -> Iterator[Any]:
    with openai.OpenAI(base_url=api.url, api_key="unused", max_retries=2) as made:
        yield made


def texts(memory: Memory) -> list[str]:
    memory.flush()
    return [record.text for record in memory.list(user_id="ana")]


def answered(memory: Memory, trace: str) -> str | None:
    return memory._runtime.traces.get("ana", trace).payload.get("answer")


def test_one_line_gives_a_client_a_memory(memory: Memory, api: StubServer, client: Any) -> None:
    ana = wrap(client, memory, user_id="ana")
    ana.chat.completions.create(model="stub", messages=SAID)
    assert texts(memory) == ["User adopted a dog named Buddy."]
    messages = [dict(message) for message in QUESTION]
    reply = ana.chat.completions.create(model="stub", messages=messages)
    assert messages == QUESTION, "the app's own history stays as it is"
    sent = api.bodies[-1]["messages"][0]["content"]
    assert "User adopted a dog named Buddy." in sent
    assert sent.endswith("Which dog do I have?")
    assert answered(memory, trace_id(reply)) == "You have a dog named Buddy."
    assert memory.feedback(trace_id(reply), label="up", user_id="ana")
    assert "memkit" not in json.dumps(reply.model_dump())


def test_the_client_that_was_wrapped_stays_without(memory: Memory, api: StubServer, client: Any) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    ana = wrap(client, memory, user_id="ana")
    client.chat.completions.create(model="stub", messages=QUESTION)
    assert api.bodies[-1]["messages"] == QUESTION
    ana.with_options(timeout=5).chat.completions.create(model="stub", messages=QUESTION)
    assert "Buddy" in json.dumps(api.bodies[-1]["messages"])
    assert isinstance(ana, openai.OpenAI)


def test_streams_are_learned_from_when_they_end_and_when_they_are_left(
    memory: Memory, api: StubServer, client: Any
) -> None:
    ana = wrap(client, memory, user_id="ana")
    stream = ana.chat.completions.create(model="stub", messages=SAID, stream=True)
    assert texts(memory) == []
    assert "".join(event.choices[0].delta.content or "" for event in stream) == "You have a dog named Buddy."
    assert texts(memory) == ["User adopted a dog named Buddy."]
    assert answered(memory, trace_id(stream)) == "You have a dog named Buddy."
    lives = [{"role": "user", "content": "I live in Oslo."}]
    with ana.chat.completions.create(model="stub", messages=lives, stream=True) as left:
        next(left)
    assert "User lives in Oslo." in texts(memory)
    assert answered(memory, trace_id(left)) is None
    with ana.chat.completions.stream(model="stub", messages=QUESTION) as helper:
        assert [event.type for event in helper][-1] == "content.done"
    assert answered(memory, trace_id(helper)) == "You have a dog named Buddy."
    assert "Buddy" in json.dumps(api.bodies[-1]["messages"])


def test_retries_inside_the_sdk_are_one_statement_and_failures_none(
    memory: Memory, api: StubServer, client: Any
) -> None:
    ana = wrap(client, memory, user_id="ana")
    api.plan(stub_server.status(500, retry_after=0.01), None)
    ana.chat.completions.create(model="stub", messages=SAID)
    assert memory.stats()["turns"] == 1
    api.always(stub_server.status(400))
    with pytest.raises(openai.BadRequestError):
        ana.chat.completions.create(model="stub", messages=QUESTION)
    assert memory.stats()["turns"] == 1


def test_tool_calls_and_raw_responses_pass(memory: Memory, api: StubServer, client: Any) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    ana = wrap(client, memory, user_id="ana")
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    called = ana.chat.completions.create(model="stub", messages=QUESTION, tools=[tool])
    assert called.choices[0].message.tool_calls
    assert answered(memory, trace_id(called)) is None
    raw = ana.chat.completions.with_raw_response.create(model="stub", messages=QUESTION)
    assert raw.parse().choices[0].message.content == "You have a dog named Buddy."
    assert ana.models.list().data[0].id == "stub"


def test_a_reply_that_is_no_model_passes(memory: Memory, api: StubServer, client: Any) -> None:
    ana = wrap(client, memory, user_id="ana")
    assert ana.post("/chat/completions", body={"model": "stub", "messages": SAID}, cast_to=dict)["choices"]
    api.plan(stub_server.not_json)
    assert ana.chat.completions.create(model="stub", messages=SAID) == "<html>It works!</html>"
    assert trace_id("<html>It works!</html>") == ""


def test_wrapping_again_is_for_the_new_user_alone(memory: Memory, api: StubServer, client: Any) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    bob = wrap(wrap(client, memory, user_id="ana"), memory, user_id="bob")
    lives = [{"role": "user", "content": "I live in Oslo. Which dog do I have?"}]
    bob.chat.completions.create(model="stub", messages=lives)
    assert api.bodies[-1]["messages"] == lives
    assert texts(memory) == ["User adopted a dog named Buddy."]
    assert [record.text for record in memory.list(user_id="bob")] == ["User lives in Oslo."]


@pytest.mark.parametrize("read", [list, next])
def test_a_stream_that_fails_half_way_keeps_what_was_said(
    memory: Memory, api: StubServer, client: Any, read: Any
) -> None:
    ana = wrap(client, memory, user_id="ana")
    half = {"choices": [{"index": 0, "delta": {"content": "half "}}]}
    api.plan(lambda handler: handler.send_events([half, {"error": {"message": "overloaded"}}], done=False))
    stream = ana.chat.completions.create(model="stub", messages=SAID, stream=True)
    with pytest.raises(openai.APIError, match="overloaded"):
        list(stream) if read is list else [next(stream) for _ in range(2)]
    assert texts(memory) == ["User adopted a dog named Buddy."]
    assert answered(memory, trace_id(stream)) is None


def test_async_clients_with_either_memory(memory: Memory, tmp_path: Path, api: StubServer) -> None:
    async def main() -> None:
        other = AsyncMemory(tmp_path / "other")
        async with openai.AsyncOpenAI(base_url=api.url, api_key="unused") as client:
            for store in (memory, other):
                ana = wrap(client, store, user_id="ana")
                await ana.chat.completions.create(model="stub", messages=SAID)
                stream = await ana.chat.completions.create(model="stub", messages=QUESTION, stream=True)
                said = "".join([event.choices[0].delta.content or "" async for event in stream])
                assert said == "You have a dog named Buddy."
        await other.flush()
        assert [record.text for record in await other.list(user_id="ana")] == ["User adopted a dog named Buddy."]
        await other.close()

    asyncio.run(main())
    assert texts(memory) == ["User adopted a dog named Buddy."]


def test_one_message_that_is_too_long_costs_no_other(memory: Memory, client: Any) -> None:
    ana = wrap(client, memory, user_id="ana")
    long = {"role": "user", "content": "x " * 150_000}
    reply = ana.chat.completions.create(model="stub", messages=[*SAID, long])
    assert "User adopted a dog named Buddy." in texts(memory)
    assert answered(memory, trace_id(reply)) == "You have a dog named Buddy."


def test_what_cannot_be_wrapped_says_so(memory: Memory, tmp_path: Path, client: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be wrapped"):
        wrap(object(), memory, user_id="ana")
    with pytest.raises(InvalidScope):
        wrap(client, memory, user_id="")
    aside = AsyncMemory(tmp_path / "a")
    with pytest.raises(InvalidInput, match="synchronous"):
        wrap(client, aside, user_id="ana")
    asyncio.run(aside.close())


def test_a_memory_that_fails_does_not_stop_the_chat(memory: Memory, client: Any) -> None:
    ana = wrap(client, memory, user_id="ana")
    memory.close()
    reply = ana.chat.completions.create(model="stub", messages=SAID)
    assert reply.choices[0].message.content == "You have a dog named Buddy."
    assert trace_id(reply) == ""


ANTHROPIC_REPLY = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "stub",
    "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "You have a dog named Buddy."}],
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
ANTHROPIC_EVENTS = [
    {"type": "message_start", "message": ANTHROPIC_REPLY | {"content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "You have a dog "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "named Buddy."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def _anthropic(handler: stub_server.Handler) -> None:
    if not handler.stub.seen[-1].body.get("stream"):
        return handler.send_json(200, ANTHROPIC_REPLY)
    raw = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in ANTHROPIC_EVENTS)
    return handler.send_raw(200, raw.encode(), "text/event-stream")


def test_anthropic_messages_whole_streamed_and_async(memory: Memory, api: StubServer) -> None:
    anthropic = pytest.importorskip("anthropic", reason="needs the extra anthropic")
    api.always(_anthropic)
    base = api.url.removesuffix("/v1")
    with anthropic.Anthropic(base_url=base, api_key="unused") as client:
        ana = wrap(client, memory, user_id="ana")
        reply = ana.messages.create(model="stub", max_tokens=9, messages=SAID)
        assert answered(memory, trace_id(reply)) == "You have a dog named Buddy."
        assert texts(memory) == ["User adopted a dog named Buddy."]
        with ana.messages.stream(model="stub", max_tokens=9, messages=QUESTION) as stream:
            assert stream.get_final_text() == "You have a dog named Buddy."
        assert answered(memory, trace_id(stream)) == "You have a dog named Buddy."
        assert "User adopted a dog named Buddy." in api.bodies[-1]["messages"][0]["content"]
        events = ana.messages.create(model="stub", max_tokens=9, messages=QUESTION, stream=True)
        assert [event.type for event in events][-1] == "message_stop"
        assert answered(memory, trace_id(events)) == "You have a dog named Buddy."

    async def main() -> None:
        async with anthropic.AsyncAnthropic(base_url=base, api_key="unused") as client:
            ana = wrap(client, memory, user_id="ana")
            lives = [{"role": "user", "content": "I live in Oslo."}]
            async with ana.messages.stream(model="stub", max_tokens=9, messages=lives) as stream:
                assert await stream.get_final_text() == "You have a dog named Buddy."

    asyncio.run(main())
    assert "User lives in Oslo." in texts(memory)


def test_the_responses_api(memory: Memory, api: StubServer, client: Any) -> None:
    body = {
        "id": "r",
        "object": "response",
        "created_at": 0,
        "model": "stub",
        "status": "completed",
        "tools": [],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "output": [
            {
                "type": "message",
                "id": "o",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "You have a dog named Buddy.", "annotations": []}],
            }
        ],
    }
    api.always(lambda handler: handler.send_json(200, body))
    ana = wrap(client, memory, user_id="ana")
    ana.responses.create(model="stub", input="I adopted a dog named Buddy.")
    assert texts(memory) == ["User adopted a dog named Buddy."]
    reply = ana.responses.create(model="stub", input=QUESTION, instructions="Be brief.")
    assert reply.output_text == "You have a dog named Buddy."
    assert answered(memory, trace_id(reply)) == "You have a dog named Buddy."
    assert api.bodies[-1]["input"] == QUESTION
    assert api.bodies[-1]["instructions"].startswith("Be brief.\n\n<<memkit:memories")


def test_blocks_go_where_each_api_allows_them() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "42"}
    body = {"messages": [{"role": "user", "content": [result, {"type": "text", "text": "and now?"}]}]}
    injected = Messages().inject(body, "BLOCK")["messages"][0]["content"]
    assert [part.get("text", part["type"]) for part in injected] == ["tool_result", "BLOCK", "and now?"]
    assert body["messages"][0]["content"] == [result, {"type": "text", "text": "and now?"}]
    assert Messages().read_request({"messages": [{"role": "user", "content": [result]}]}) is None
    heard = Responses().heard()
    heard.event({"type": "response.output_text.delta", "delta": "Hi"})
    assert heard.text == "Hi"
    heard.event({"type": "response.failed", "response": {"error": {"message": "overloaded"}}})
    assert heard.text == ""
    user, output = {"role": "user", "content": "Draw me."}, {"type": "custom_tool_call_output", "output": "done"}
    for call in ("function_call", "custom_tool_call", "computer_call", "shell_call", "reasoning"):
        assert Responses().read_request({"input": [user, {"type": call}, output]}) == ChatRequest("Draw me.", ())
    assert dialect_of("/v1/messages/count_tokens") is None
    for odd in (None, 7, "text", [7], [{"role": "user"}], [{"role": "user", "content": 7}]):
        assert Messages().read_request({"messages": odd}) is None
