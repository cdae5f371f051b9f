"""The hosted backbone against a real server on loopback: what it sends, what it reports, what it learns."""

import asyncio
import hashlib
import os
import random
import subprocess
import sys
import threading
import time

import pytest

from memkit.backbones.openai import OpenAIBackbone
from memkit.backbones.wire import Dialect, EventStream, fits_strict, narrow
from memkit.errors import ModelRefused, ModelTimeout, ModelUnavailable
from tests import stub_server as stub
from tests.backbones._requests import SCHEMA, failure, request
from tests.stub_server import StubServer, logprob_of, tokens

TEXT = '{"operations": ["ADD dog named Buddy"]}'


@pytest.fixture
def server():
    with StubServer(reply=TEXT) as running:
        yield running


@pytest.fixture
def backbone(server: StubServer):
    with OpenAIBackbone("stub", base_url=server.url, rng=random.Random(1)) as built:
        yield built


def test_a_reply_says_everything_the_endpoint_gave_and_why_the_rest_is_missing(
    server: StubServer, backbone: OpenAIBackbone
) -> None:
    (reply,) = backbone.generate([request()])
    assert reply.text == TEXT
    assert reply.model == "stub"
    assert reply.finish == "stop"
    assert reply.logprobs == tuple(logprob_of(token) for token in tokens(TEXT))
    assert list(reply.extra["tokens"]) == tokens(TEXT)
    assert reply.usage.calls == 1
    assert reply.usage.prompt_tokens == server.calls + 8
    assert reply.usage.completion_tokens == len(tokens(TEXT))
    assert reply.latency_ms > 0
    assert set(reply.missing) == {"prompt_ids", "token_ids", "sampled_logprobs"}


def test_what_is_sent(server: StubServer, backbone: OpenAIBackbone) -> None:
    backbone.generate([request("hello"), request("hello", temperature=0.7, key="d_2")])
    greedy, sampled = sorted(server.bodies, key=lambda body: body["temperature"])
    assert greedy["messages"][-1] == {"role": "user", "content": "hello"}
    assert greedy["response_format"]["json_schema"] == {"name": "memkit_manager", "schema": SCHEMA, "strict": True}
    assert greedy["max_tokens"] == 200
    assert "seed" not in greedy
    expected = hashlib.sha256(b"0\x1fd_2").digest()[:4]
    assert sampled["seed"] == int.from_bytes(expected, "big") // 2
    assert server.seen[0].path == "/v1/chat/completions"


def test_lone_surrogates_in_a_prompt_travel(server: StubServer, backbone: OpenAIBackbone) -> None:
    """A re-ask quotes the model's own reply, which may hold half a character."""
    backbone.generate([request("half \ud83d of an emoji")])
    assert server.bodies[0]["messages"][-1]["content"] == "half \ud83d of an emoji"


@pytest.mark.parametrize(
    ("refuses", "calls", "ends_with"),
    [
        ({"json_schema"}, 2, {"type": "json_object"}),
        ({"json_schema", "json_object"}, 3, None),
        ({"logprobs"}, 2, "schema"),
        ({"json_schema", "json_object", "logprobs"}, 3, None),
        ({"max_tokens", "temperature"}, 2, "schema"),
        ({"max_tokens", "temperature", "logprobs"}, 3, "schema"),
        ({"temperature"}, 2, "schema"),
    ],
    ids=lambda value: "+".join(sorted(value)) if isinstance(value, set) else str(value),
)
@pytest.mark.parametrize("vague", [False, True])
def test_what_the_endpoint_refuses_is_left_out_and_remembered(
    server: StubServer, backbone: OpenAIBackbone, refuses: set[str], calls: int, ends_with: object, vague: bool
) -> None:
    vague = vague and not refuses & {"max_tokens", "temperature"}  # these are dropped only when they are named
    server.refuses, server.vague = frozenset(refuses), vague
    (first,) = backbone.generate([request()])
    assert first.text == TEXT
    assert server.calls <= calls
    if not vague:
        form = server.bodies[-1].get("response_format")
        assert form == ends_with if ends_with != "schema" else form["type"] == "json_schema"
    if "logprobs" in refuses:
        assert first.logprobs is None
        assert first.missing["logprobs"]
    before = server.calls
    backbone.generate([request()])
    assert server.calls == before + 1


def test_a_refusal_that_leaving_out_cannot_cure_is_final_and_quotes_nothing(server: StubServer) -> None:
    with OpenAIBackbone("stub", base_url=server.url) as backbone:
        server.always(lambda handler: handler.refuse(400, "context_length_exceeded", "maximum context length; canary"))
        error, _ = failure(lambda: backbone.generate([request("canary")]))
        assert type(error) is ModelRefused
        assert error.details["code"] == "context_length_exceeded"
        assert server.calls == 1
        assert "canary" not in str(error) + repr(error.details)
        server.always(None)
        backbone.generate([request()])
        assert "logprobs" in server.bodies[-1], "a failed attempt teaches nothing"


def test_what_one_role_does_not_need_is_not_unlearnt(server: StubServer, backbone: OpenAIBackbone) -> None:
    """A request that was under way with the old beliefs must not bring them back."""
    server.refuses = frozenset({"json_schema"})
    backbone.generate([request()])
    backbone.generate([request(schema=None)])
    backbone.generate([request()])
    assert server.calls == 4


def test_a_forced_tool_call_is_read_like_a_reply(server: StubServer) -> None:
    with OpenAIBackbone("stub", base_url=server.url, structured="tool") as backbone:
        assert backbone.generate([request()])[0].text == TEXT
        assert server.bodies[0]["tools"][0]["function"]["parameters"] == SCHEMA
        assert list(backbone.stream(request(schema=None))) == tokens(TEXT)


def test_token_ids_are_taken_where_a_server_gives_them(server: StubServer) -> None:
    server.token_ids = True
    with OpenAIBackbone("stub", base_url=server.url, extra_body={"return_token_ids": True}) as backbone:
        (reply,) = backbone.generate([request()])
    assert server.bodies[0]["return_token_ids"] is True
    assert reply.prompt_ids == (1, 2, 3)
    assert reply.token_ids == tuple(range(len(tokens(TEXT))))
    assert set(reply.missing) == {"sampled_logprobs"}


def test_an_adapter_is_asked_for_by_the_name_the_server_knows(server: StubServer) -> None:
    with OpenAIBackbone("stub", base_url=server.url) as backbone:
        assert backbone.generate([request(adapter="a1b2")])[0].adapter == "a1b2"
        assert server.bodies[-1]["model"] == "a1b2"
    with OpenAIBackbone("stub", base_url=server.url, adapter_model_name=lambda digest: f"lora-{digest}") as backbone:
        assert backbone.generate([request(adapter="a1b2")])[0].adapter == "a1b2"
        assert server.bodies[-1]["model"] == "lora-a1b2"


def test_an_endpoint_that_used_another_model_did_not_use_the_adapter(server: StubServer) -> None:
    server.reply = lambda body: stub.completion(TEXT, body | {"model": "base"})
    with OpenAIBackbone("stub", base_url=server.url) as backbone:
        (reply,) = backbone.generate([request(adapter="a1b2")])
    assert reply.adapter is None
    assert "adapter" in reply.missing
    assert reply.model == "base"


@pytest.mark.parametrize(
    ("message", "finish", "text", "reported"),
    [
        ({"content": None, "refusal": "I cannot."}, "stop", "I cannot.", "refusal"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "stop", "ab", "stop"),
        ({"content": "cut"}, "length", "cut", "length"),
        ({"content": None}, "content_filter", "", "content_filter"),
    ],
)
def test_odd_messages(server: StubServer, message: dict, finish: str, text: str, reported: str) -> None:
    server.reply = {"choices": [{"message": message, "finish_reason": finish}]}
    with OpenAIBackbone("stub", base_url=server.url) as backbone:
        (reply,) = backbone.generate([request()])
    assert (reply.text, reply.finish) == (text, reported)


@pytest.mark.parametrize("value", [0.5, "x", None, True, float("nan")])
def test_log_probs_that_are_none_are_not_logged(server: StubServer, value: object) -> None:
    content = [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": value}]
    server.reply = {
        "choices": [{"message": {"content": "ab"}, "finish_reason": "stop", "logprobs": {"content": content}}]
    }
    with OpenAIBackbone("stub", base_url=server.url) as backbone:
        (reply,) = backbone.generate([request()])
    assert reply.logprobs is None
    assert "no numbers" in reply.missing["logprobs"]


# Streaming


def test_text_arrives_while_it_is_generated(server: StubServer, backbone: OpenAIBackbone) -> None:
    words = "one two three four"
    server.always(
        lambda handler: handler.send_events(stub.chunks(words, {"model": "stub", "messages": []}), pause=0.05)
    )
    started, arrivals = time.monotonic(), []
    with backbone.stream(request()) as stream:
        for text in stream:
            arrivals.append((text, time.monotonic() - started))
    assert [text for text, _ in arrivals] == tokens(words)
    assert arrivals[-1][1] - arrivals[0][1] > 0.1
    assert stream.reply is not None
    assert stream.reply.text == words


def test_a_streamed_reply_is_as_complete_as_a_whole_one(server: StubServer, backbone: OpenAIBackbone) -> None:
    (whole,) = backbone.generate([request()])
    stream = backbone.stream(request())
    assert "".join(stream) == whole.text
    assert stream.reply is not None
    assert (stream.reply.logprobs, stream.reply.usage, stream.reply.missing) == (
        whole.logprobs,
        whole.usage,
        whole.missing,
    )


def test_streaming_from_a_server_that_does_not_stream(server: StubServer, backbone: OpenAIBackbone) -> None:
    server.always(stub.wrong_content_type)
    assert list(backbone.stream(request())) == ["NOOP"]


def test_a_stream_is_retried_only_before_its_first_text(server: StubServer, backbone: OpenAIBackbone) -> None:
    server.plan(stub.status(503), stub.reset_before_headers)
    assert "".join(backbone.stream(request())) == TEXT
    assert server.calls == 3
    server.always(stub.broken_stream)
    stream = backbone.stream(request())
    assert next(stream) == "half "
    error, _ = failure(lambda: next(stream))
    assert type(error) is ModelUnavailable
    assert server.calls == 4


def test_a_stream_ends_by_its_deadline(server: StubServer, backbone: OpenAIBackbone) -> None:
    server.always(stub.silent_stream)
    stream = backbone.stream(request(deadline_s=0.5))
    error, took = failure(lambda: list(stream))
    assert type(error) is ModelTimeout
    assert 0.45 <= took < 30, "a generous ceiling: the stub is silent for a minute"


def test_leaving_a_stream_frees_its_place(server: StubServer) -> None:
    with OpenAIBackbone("stub", base_url=server.url, max_parallel=1) as backbone:
        server.plan(stub.silent_stream)
        with backbone.stream(request(deadline_s=30)) as stream:
            next(stream)
        assert backbone.generate([request(deadline_s=2)])[0].text == TEXT


def test_the_asynchronous_twin(server: StubServer, backbone: OpenAIBackbone) -> None:
    async def use() -> tuple[str, list[str]]:
        (reply,) = await backbone.agenerate([request()])
        async with backbone.astream(request()) as stream:
            return reply.text, [text async for text in stream]

    for _ in range(2):  # each run has an event loop of its own
        assert asyncio.run(use()) == (TEXT, tokens(TEXT))


def test_waiting_does_not_block_the_callers_event_loop(server: StubServer, backbone: OpenAIBackbone) -> None:
    server.delay = 0.3

    async def use() -> int:
        turns = 0
        pending = asyncio.ensure_future(backbone.agenerate([request()]))
        while not pending.done():
            await asyncio.sleep(0.005)
            turns += 1
        return turns

    assert asyncio.run(use()) > 1, "a loop that is blocked gets its next turn when the reply is there"


def test_cancelling_the_caller_cancels_the_call(server: StubServer) -> None:
    server.plan(stub.hang)

    async def use(backbone: OpenAIBackbone) -> None:
        call = asyncio.ensure_future(backbone.agenerate([request(deadline_s=30)]))
        while not server.calls:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    with OpenAIBackbone("stub", base_url=server.url, max_parallel=1) as backbone:
        asyncio.run(use(backbone))
        assert backbone.generate([request(deadline_s=2)])[0].text == TEXT


def test_many_threads_share_one_backbone(server: StubServer, backbone: OpenAIBackbone) -> None:
    server.reply = lambda body: body["messages"][-1]["content"]
    wrong: list[str] = []

    def work(name: str) -> None:
        for n in range(10):
            text = f"{name}/{n}"
            if backbone.generate([request(text)])[0].text != text:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert server.calls == 80


def test_a_forked_child_opens_its_own_connections(server: StubServer, backbone: OpenAIBackbone) -> None:
    backbone.generate([request()])
    pid = os.fork()
    if pid == 0:
        ok = backbone.generate([request(deadline_s=5)])[0].text == TEXT
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert backbone.generate([request()])[0].text == TEXT


# Pure parts


def test_events_may_be_cut_anywhere() -> None:
    raw = b': comment\r\ndata: {"a": 1}\r\n\r\nevent: x\ndata: two\ndata: lines\n\ndata: unfinished'
    for cut in range(len(raw)):
        events = EventStream()
        assert events.feed(raw[:cut]) + events.feed(raw[cut:]) == [b'{"a": 1}', b"two\nlines"]


def test_strict_schemas_are_recognised() -> None:
    assert fits_strict(SCHEMA)
    assert not fits_strict({"type": "object", "properties": {"a": {}}, "required": ["a"]})
    assert not fits_strict(SCHEMA | {"required": []})
    assert not fits_strict({"anyOf": [SCHEMA, {"properties": {"b": {}}, "additionalProperties": False}]})


def test_a_plain_request_cannot_be_narrowed() -> None:
    assert narrow(Dialect(), {"model": "m", "max_tokens": 5}, "bad request") is None


_AT_EXIT = """
import atexit, sys
from memkit.backbones.openai import OpenAIBackbone
from tests.backbones._requests import request
backbone = OpenAIBackbone("stub", base_url=sys.argv[1])
atexit.register(lambda: print(backbone.generate([request(deadline_s=5)])[0].text))
"""


def test_turns_can_still_be_decided_while_the_program_ends(server: StubServer) -> None:
    """A name has to be resolved at a time when the interpreter starts no more helper threads."""
    url = f"http://localhost:{server.port}/v1"
    run = subprocess.run([sys.executable, "-c", _AT_EXIT, url], capture_output=True, text=True, timeout=30, check=False)
    assert (run.stdout.strip(), run.stderr) == (TEXT, "")
