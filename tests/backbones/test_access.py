"""Whose key goes where: secrets stay hidden, and the environment never overrides what code says."""

import copy
import logging
import pickle
import traceback

import pytest

from memkit.backbones import make_backbone
from memkit.backbones.openai import OpenAIBackbone
from memkit.errors import InvalidConfig
from memkit.net.secret import Secret
from tests import stub_server as stub
from tests.backbones._requests import failure, request
from tests.stub_server import StubServer

KEY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret(KEY)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>40}",
        repr([secret]),
        repr({"k": secret}),
    ]
    assert not any(KEY in text for text in shown)
    for leak in (pickle.dumps, copy.deepcopy, vars):
        with pytest.raises(TypeError):
            leak(secret)
    assert secret == Secret(KEY) != Secret("other")


@pytest.mark.parametrize("key", [f"{KEY}\nX-Evil: 1", f" {KEY}", f"{KEY}é", ""])
def test_an_unusable_key_is_refused_without_being_quoted(key: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        OpenAIBackbone("m", base_url="https://example.com/v1", api_key=key)
    assert "canary" not in "".join(traceback.format_exception(refused.value))


def test_neither_key_nor_content_reach_logs_errors_or_tracebacks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    prompt = request(KEY.replace("sk", "prompt"), deadline_s=0.6)  # spelt so that no line of this test shows it
    with StubServer(reply=KEY.replace("sk", "reply"), key="another") as server:
        faults = [
            None,
            stub.status(500),
            stub.not_json,
            stub.reset_after_headers,
            stub.hang,
            stub.endless_body,
            stub.empty_choices,
            stub.redirect("http://127.0.0.1/x"),
        ]
        with OpenAIBackbone("m", base_url=server.url, api_key=KEY) as backbone:
            texts += [repr(backbone), str(backbone)]
            for fault in faults:
                server.always(fault)
                error, _ = failure(lambda: backbone.generate([prompt]))
                texts += [*traceback.format_exception(error), repr(error), str(error.details)]
            server.always(None)
            server.key = KEY
            backbone.generate([prompt])
        assert server.seen[-1].headers["authorization"] == f"Bearer {KEY}"
    texts += [record.getMessage() for record in caplog.records]
    assert len(texts) > 50
    assert [text for text in texts if "canary" in text] == []


def test_explicit_configuration_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer() as hijacker, StubServer() as chosen:
        monkeypatch.setenv("OPENAI_BASE_URL", hijacker.url)
        monkeypatch.setenv("OPENAI_API_KEY", "environment-key")
        for name in ("OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "OPENAI_API_BASE"):
            monkeypatch.setenv(name, hijacker.url)
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
            monkeypatch.setenv(name, hijacker.url.removesuffix("/v1"))
        with OpenAIBackbone("m", base_url=chosen.url, api_key="mine") as backbone:
            backbone.generate([request()])
        assert chosen.seen[0].headers["authorization"] == "Bearer mine"
        assert hijacker.calls == 0


def test_a_key_of_the_environment_is_not_sent_to_an_endpoint_that_code_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "environment-key")
    with StubServer() as server:
        with OpenAIBackbone("m", base_url=server.url) as backbone:
            backbone.generate([request()])
        assert "authorization" not in server.seen[0].headers


def test_the_environment_fills_in_what_code_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "environment-key")
        with OpenAIBackbone("m") as backbone:
            backbone.generate([request()])
        assert server.seen[0].headers["authorization"] == "Bearer environment-key"


def test_the_environments_url_is_judged_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://169.254.169.254/v1")
    with pytest.raises(InvalidConfig):
        OpenAIBackbone("m", api_key="k")


def test_the_default_endpoint_needs_a_key() -> None:
    with pytest.raises(InvalidConfig) as refused:
        make_backbone("openai:gpt-4.1-mini")
    assert "OPENAI_API_KEY" in str(refused.value)


def test_trust_env_is_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    with StubServer() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        with OpenAIBackbone("m", base_url="http://10.9.9.9/v1", allow_insecure=True, trust_env=True) as backbone:
            backbone.generate([request()])
        assert proxy.seen[0].headers["host"] == "10.9.9.9"
