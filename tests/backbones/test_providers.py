"""Anthropic, Gemini, Ollama, and what LiteLLM reaches: each in its own words on the wire, all alike to who asks."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.backbones import make_backbone
from memkit.errors import BadReply, InvalidConfig, MissingExtra, ModelError, ModelRefused, ModelUnavailable
from memkit.roles.base import ChatMessage
from memkit.seams.backbone import GenReply, GenRequest
from tests import stub_server as stub
from tests.backbones import _providers as real
from tests.backbones._requests import SCHEMA, request
from tests.stub_server import StubServer, logprob_of, tokens

TEXT = '{"operations": ["NOOP"]}'
SPECS = {"anthropic": "anthropic:claude-x", "gemini": "gemini:gemini-x", "ollama": "ollama:qwen3:8b"}
GOOD = {
    "anthropic": real.anthropic(real.anthropic_message(TEXT)),
    "gemini": real.gemini(real.gemini_reply(TEXT)),
    "ollama": real.ollama(real.ollama_reply(TEXT)),
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[StubServer]:
    with StubServer() as stubbed:
        yield stubbed


def ask(server: StubServer, provider: str, *, of: GenRequest | None = None, **options: Any) -> GenReply | ModelError:
    options = {"api_key": real.KEY, **options}
    backbone = make_backbone(SPECS[provider], base_url=f"http://127.0.0.1:{server.port}", **options)
    try:
        return backbone.generate([of or request()])[0]
    finally:
        backbone.close()


def asked_again() -> GenRequest:
    """A conversation: the reply that could not be read, and what was wrong with it."""
    first = request()
    told = (*first.prompt.messages, ChatMessage("assistant", "ADD what?"), ChatMessage("user", "Reply in JSON."))
    return replace(first, prompt=replace(first.prompt, messages=told))


@pytest.mark.parametrize("provider", SPECS)
def test_each_provider_is_asked_in_its_own_words(server: StubServer, provider: str) -> None:
    server.always(GOOD[provider])
    reply = ask(server, provider, of=asked_again())
    assert isinstance(reply, GenReply), reply
    assert (reply.text, reply.finish, reply.usage.calls) == (TEXT, "stop", 1)
    # what a cache gave and what was thought are paid for as well
    counted = {"anthropic": (41, 5), "gemini": (40, 26), "ollama": (33, 7)}
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == counted[provider]
    assert {"token_ids", "prompt_ids", "logprobs", "sampled_logprobs"} <= set(reply.missing)


def test_anthropic_gets_the_system_prompt_apart_and_the_schema_as_its_own(server: StubServer) -> None:
    server.always(GOOD["anthropic"])
    ask(server, "anthropic", of=asked_again())
    body = server.bodies[0]
    assert body["system"] == "Reply in JSON."
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert body["temperature"] == 0


def test_an_older_claude_is_held_to_the_schema_by_a_tool_from_then_on(server: StubServer) -> None:
    said = real.anthropic_message("I will note that.", stop="tool_use", tool=json.loads(TEXT))
    server.always(real.anthropic(said, old=True))
    url = f"http://127.0.0.1:{server.port}"
    with make_backbone(SPECS["anthropic"], base_url=url, api_key=real.KEY) as backbone:
        first, second = backbone.generate([request()])[0], backbone.generate([request()])[0]
    assert isinstance(first, GenReply)
    assert isinstance(second, GenReply)
    assert (first.text, first.usage.calls, second.usage.calls) == (TEXT, 2, 1)
    assert server.bodies[-1]["tool_choice"] == {"type": "tool", "name": "memkit_manager"}


def test_gemini_has_room_to_think_beside_its_reply(server: StubServer) -> None:
    server.always(GOOD["gemini"])
    ask(server, "gemini", of=asked_again())
    config = server.bodies[0]["generationConfig"]
    assert config["maxOutputTokens"] == 200 + config["thinkingConfig"]["thinkingBudget"]
    assert config["responseJsonSchema"] == SCHEMA
    assert [turn["role"] for turn in server.bodies[0]["contents"]] == ["user", "model", "user"]


def test_a_gemini_that_neither_thinks_nor_counts_is_asked_for_neither(server: StubServer) -> None:
    server.always(real.gemini(real.gemini_reply(TEXT), thinks=False, logprobs=False))
    reply = ask(server, "gemini")
    assert isinstance(reply, GenReply), reply
    assert reply.text == TEXT
    assert server.bodies[-1]["generationConfig"]["maxOutputTokens"] == 200


@pytest.mark.parametrize("provider", ["gemini", "ollama"])
def test_log_probs_are_taken_where_there_are_any(server: StubServer, provider: str) -> None:
    gives = {"gemini": real.gemini(real.gemini_reply(TEXT, logprobs=True))}
    server.always(gives.get(provider) or real.ollama(real.ollama_reply(TEXT, logprobs=True)))
    reply = ask(server, provider)
    assert isinstance(reply, GenReply), reply
    assert reply.logprobs == pytest.approx([logprob_of(token) for token in tokens(TEXT)])


def test_ollamas_window_holds_the_longest_prompt_so_far(server: StubServer) -> None:
    server.always(GOOD["ollama"])
    with make_backbone(SPECS["ollama"], base_url=f"http://127.0.0.1:{server.port}") as backbone:
        for text in ("short", "пятнадцать слов " * 1_000, "short"):
            backbone.generate([request(text)])
    assert [body["options"]["num_ctx"] for body in server.bodies] == [4_096, 16_384, 16_384]
    assert all(body["truncate"] is False for body in server.bodies)


CUT = {
    "anthropic": real.anthropic(real.anthropic_message(TEXT[:9], stop="max_tokens")),
    "gemini": real.gemini(real.gemini_reply(TEXT[:9], finish="MAX_TOKENS")),
    "ollama": real.ollama(real.ollama_reply(TEXT[:9], done="length")),
}


@pytest.mark.parametrize("provider", CUT)
def test_a_reply_that_met_its_limit_is_cut(server: StubServer, provider: str) -> None:
    server.always(CUT[provider])
    reply = ask(server, provider)
    assert isinstance(reply, GenReply), reply
    assert (reply.text, reply.finish) == (TEXT[:9], "length")


ODD = [
    ("anthropic", real.anthropic(real.anthropic_message(None, stop="refusal")), ModelRefused, "declined"),
    ("gemini", real.gemini(real.gemini_reply("", finish="SAFETY")), ModelRefused, "SAFETY"),
    ("gemini", real.gemini({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}), ModelRefused, "PROHIBITED"),
    ("gemini", real.gemini(real.gemini_reply("", finish="MAX_TOKENS")), BadReply, "thinkingConfig"),
    ("gemini", real.gemini({"candidates": [7]}), BadReply, "no text"),
    ("anthropic", real.anthropic({"content": "text"}), BadReply, "no message"),
    ("ollama", real.ollama({"message": None}), BadReply, "no message"),
]


@pytest.mark.parametrize(("provider", "answer", "kind", "says"), ODD)
def test_what_is_no_reply_is_a_typed_error(
    server: StubServer, provider: str, answer: Any, kind: type[ModelError], says: str
) -> None:
    server.always(answer)
    error = ask(server, provider, of=request(max_calls=1))
    assert type(error) is kind
    assert says in str(error)
    assert "Next:" in str(error)


@pytest.mark.parametrize(
    ("provider", "names"), [("anthropic", "ANTHROPIC_API_KEY"), ("gemini", "GOOGLE_API_KEY or GEMINI_API_KEY")]
)
def test_a_wrong_key_says_where_the_right_one_is_set(server: StubServer, provider: str, names: str) -> None:
    server.always(GOOD[provider])
    error = ask(server, provider, api_key="another")
    assert isinstance(error, ModelRefused)
    assert names in error.fix
    assert "another" not in str(error)
    assert server.calls == 1


def test_a_model_that_is_not_pulled_names_the_command(server: StubServer) -> None:
    server.always(GOOD["ollama"])
    with make_backbone("ollama:llama9", base_url=f"http://127.0.0.1:{server.port}") as backbone:
        error = backbone.generate([request()])[0]
    assert isinstance(error, ModelRefused)
    assert "ollama pull" in error.fix


@pytest.mark.parametrize("provider", SPECS)
@pytest.mark.parametrize("status", [429, 503, 529])
def test_a_provider_that_is_busy_is_asked_again(server: StubServer, provider: str, status: int) -> None:
    server.always(GOOD[provider])
    server.plan(stub.status(status, retry_after=0))
    reply = ask(server, provider)
    assert isinstance(reply, GenReply), reply
    assert reply.usage.calls == 2


@pytest.mark.parametrize("provider", SPECS)
def test_one_that_stays_busy_is_unavailable(server: StubServer, provider: str) -> None:
    server.always(stub.status(529, retry_after=0))
    error = ask(server, provider, of=request(max_calls=2))
    assert isinstance(error, ModelUnavailable)
    assert (error.details["status"], error.details["calls"]) == (529, 2)


def test_further_fields_join_those_that_are_sent(server: StubServer) -> None:
    server.always(GOOD["ollama"])
    ask(server, "ollama", extra_body={"options": {"num_ctx": 9_000}, "keep_alive": "1h"})
    assert server.bodies[0]["options"]["num_ctx"] == 9_000
    assert server.bodies[0]["options"]["num_predict"] == 200


def test_each_provider_has_its_own_key_and_none_is_shown_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with pytest.raises(InvalidConfig, match="ANTHROPIC_API_KEY"):
        make_backbone("anthropic:m")
    with pytest.raises(InvalidConfig, match="GEMINI_API_KEY"):
        make_backbone("gemini:m")
    assert make_backbone("ollama:m").identity == "ollama:m"
    with pytest.raises(InvalidConfig, match="anthropic and openai"):
        make_backbone({"manager": "anthropic:m", "answerer": "openai:m"}, api_key="k")


def test_a_memory_is_kept_by_each_provider(server: StubServer, tmp_path: Path) -> None:
    """The whole way: prompt, schema, reply, operations, log."""
    operations = {"operations": [{"op": "ADD", "id": None, "text": "Ana lives in Oslo.", "turn": 1}]}
    text = json.dumps(operations)
    replies = {
        "anthropic": real.anthropic(real.anthropic_message(text)),
        "gemini": real.gemini(real.gemini_reply(text)),
        "ollama": real.ollama(real.ollama_reply(text)),
    }
    for provider, answer in replies.items():
        server.always(answer)
        url = f"http://127.0.0.1:{server.port}"
        with Memory(tmp_path / provider, model=SPECS[provider], base_url=url, api_key=real.KEY) as memory:
            added = memory.add("I live in Oslo.", user_id="ana")
            assert [op.text for op in added.ops] == ["Ana lives in Oslo."], provider


# LiteLLM: importing it alone takes seconds

LITELLM = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::ResourceWarning")


@LITELLM
@pytest.mark.slow
def test_litellm_reaches_a_provider_and_tells_tokens_and_cost(server: StubServer) -> None:
    pytest.importorskip("litellm", reason="LiteLLM is not installed")
    server.reply = TEXT
    backbone = make_backbone("litellm:openai/gpt-4.1-mini", base_url=server.url, api_key="k" * 20)
    reply = backbone.generate([request()])[0]
    assert isinstance(reply, GenReply), reply
    assert reply.text == TEXT
    assert reply.usage.prompt_tokens
    assert reply.extra["usd"] > 0
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == SCHEMA


@LITELLM
@pytest.mark.slow
def test_what_litellm_raises_is_typed_and_quotes_nothing(server: StubServer) -> None:
    pytest.importorskip("litellm", reason="LiteLLM is not installed")
    backbone = make_backbone("litellm:openai/gpt-4.1-mini", base_url=server.url, api_key="k" * 20)
    server.key = "another"
    refused = backbone.generate([request("canary")])[0]
    server.always(stub.status(503))
    away = backbone.generate([request("canary", max_calls=2)])[0]
    assert isinstance(refused, ModelRefused)
    assert isinstance(away, ModelUnavailable)
    assert (refused.details["calls"], away.details["calls"], server.calls) == (1, 2, 3)
    assert not any(word in str(error) for error in (refused, away) for word in ("canary", "kkkk"))


def test_a_provider_that_litellm_does_not_know_is_refused_at_once() -> None:
    pytest.importorskip("litellm", reason="LiteLLM is not installed")
    for name in ("nobody", "nobody/model"):
        with pytest.raises(InvalidConfig, match="knows no provider"):
            make_backbone(f"litellm:{name}")


def test_without_litellm_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from memkit.backbones import litellm

    monkeypatch.setitem(sys.modules, "litellm", None)
    litellm._load.cache_clear()
    with pytest.raises(MissingExtra, match=r"memkit\[litellm\]"):
        make_backbone("litellm:groq/m")
    litellm._load.cache_clear()
