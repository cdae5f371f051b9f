"""`model=` as users write it; functions as backbones; another backbone per role."""

import subprocess
import sys
import threading
import time
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from memkit.backbones import check_model, make_backbone
from memkit.backbones.function import CallableBackbone
from memkit.backbones.offered import is_offered
from memkit.errors import (
    BadReply,
    InvalidConfig,
    MissingExtra,
    ModelTimeout,
    ModelUnavailable,
    ReplyTooLarge,
)
from memkit.seams.backbone import Backbone, all_or_error
from memkit_train.lab import tiny
from tests.backbones._requests import failure, request


def echo(messages: list[dict[str, str]]) -> str:
    return messages[-1]["content"]


async def aecho(messages: list[dict[str, str]]) -> str:
    return messages[-1]["content"]


def test_every_spec_makes_its_kind() -> None:
    hosted = make_backbone("openai:m", base_url="http://127.0.0.1:9/v1", max_parallel=2)
    assert (hosted.identity, hosted.style, hosted.max_parallel) == ("openai:m", "json", 2)
    assert make_backbone(None).identity.startswith("rules/")
    assert make_backbone(echo).identity == "callable:echo"
    assert make_backbone(echo, style="compact").style == "compact"
    built = CallableBackbone(echo)
    assert make_backbone(built) is built
    assert all(isinstance(one, Backbone) for one in (hosted, built, make_backbone({"manager": echo})))


@pytest.mark.parametrize(
    ("spec", "options", "names"),
    [
        ("gpt-4.1-mini", {}, "openai:NAME"),
        (42, {}, "openai:NAME"),
        ("openai:", {"api_key": "k"}, "no name"),
        ("openai:m", {"api_key": "k", "timeout": 3}, "timeout="),
        (echo, {"base_url": "https://x.example"}, "hosted"),
        (echo, {"temprature": 1}, "temprature="),
        (CallableBackbone(echo), {"style": "json"}, "style="),
        ({"manger": echo}, {}, "manger"),
        (echo, {"style": "xml"}, "xml"),
    ],
)
def test_a_wrong_spec_is_told_what_is_right(spec: object, options: dict, names: str) -> None:
    with pytest.raises(InvalidConfig, match=names):
        make_backbone(spec, **options)


def offering(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = EntryPoint(name, value, "memkit.models")
    monkeypatch.setattr("memkit.backbones.offered.entry_points", lambda **asked: [point] * (asked["name"] == name))
    is_offered.cache_clear()
    monkeypatch.setattr("memkit.backbones.is_offered", is_offered.__wrapped__)


def test_installed_packages_offer_models_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tiny, "checkpoint", lambda: tmp_path)
    offering(monkeypatch, "small-talker", "memkit_train.lab.tiny:offer")
    with pytest.raises(MissingExtra, match="hf:PATH"):
        check_model("small-talker", {})  # a checkout without the weights
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.warns(UserWarning, match="tests and demos"):
        check_model("small-talker", {})
    with pytest.raises(InvalidConfig, match="unknown"):
        check_model("another", {})


def test_an_offered_model_whose_package_lacks_something_names_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    offering(monkeypatch, "odd", "no_such_package_here:path")
    with pytest.raises(MissingExtra, match="needs the package no_such_package_here"):
        check_model("odd", {})


def test_one_failure_leaves_the_other_replies() -> None:
    def picky(messages: list[dict[str, str]]) -> str:
        if "bad" in messages[-1]["content"]:
            raise ValueError("no")
        return messages[-1]["content"]

    asked = [request("one"), request("bad"), request("two")]
    for backbone in (CallableBackbone(picky), make_backbone({"manager": picky})):
        replies = backbone.generate(asked)
        assert [type(reply).__name__ for reply in replies] == ["GenReply", "ModelUnavailable", "GenReply"]
        with pytest.raises(ModelUnavailable):
            all_or_error(replies)


def test_making_a_backbone_loads_only_its_own_kind() -> None:
    code = "import sys; from memkit.backbones import make_backbone; make_backbone(lambda m: ''); print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"httpx", "torch", "numpy", "pydantic", "lancedb", "memkit.backbones.openai"}


# Functions


@pytest.mark.parametrize("call", [echo, aecho, lambda m: aecho(m)], ids=["plain", "async", "awaitable"])
def test_a_function_is_a_backbone(call: object) -> None:
    backbone = make_backbone(call)
    replies = backbone.generate([request(f"turn {n}") for n in range(20)])
    assert [reply.text for reply in replies] == [f"turn {n}" for n in range(20)]
    assert set(replies[0].missing) == {"prompt_ids", "token_ids", "logprobs", "sampled_logprobs"}
    backbone.close()


def test_what_a_function_does_wrong_becomes_a_typed_error() -> None:
    def raises(messages: list[dict[str, str]]) -> str:
        raise KeyError("canary")

    error, _ = failure(lambda: make_backbone(raises).generate([request("canary")]))
    assert type(error) is ModelUnavailable
    assert isinstance(error.__cause__, KeyError), "the function's own traceback is kept"
    assert "canary" not in str(error) + str(error.details)
    for value, error_type in ((None, BadReply), (b"x", BadReply), ("x" * 1_000_001, ReplyTooLarge)):
        error, _ = failure(lambda value=value: make_backbone(lambda m: value).generate([request()]))
        assert type(error) is error_type


def test_a_model_error_of_the_functions_own_passes_unchanged() -> None:
    mine = ModelTimeout("my own clock")

    def raises(messages: list[dict[str, str]]) -> str:
        raise mine

    assert failure(lambda: make_backbone(raises).generate([request()]))[0] is mine


def test_a_timeout_inside_the_function_is_not_taken_for_ours() -> None:
    def raises(messages: list[dict[str, str]]) -> str:
        raise TimeoutError

    error, _ = failure(lambda: make_backbone(raises).generate([request(deadline_s=5)]))
    assert type(error) is ModelUnavailable


def test_a_function_that_hangs_meets_its_deadline_and_keeps_its_place() -> None:
    release, running = threading.Event(), []

    def hangs(messages: list[dict[str, str]]) -> str:
        running.append(1)
        release.wait(10)
        return ""

    backbone = CallableBackbone(hangs, max_parallel=2)
    for _ in range(4):
        error, took = failure(lambda: backbone.generate([request(deadline_s=0.3)]))
        assert type(error) is ModelTimeout
        assert took >= 0.3
    assert len(running) == 2
    release.set()


def test_an_async_function_that_hangs_is_cancelled() -> None:
    import asyncio

    ended = threading.Event()

    async def hangs(messages: list[dict[str, str]]) -> str:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return ""

    backbone = CallableBackbone(hangs)
    error, _ = failure(lambda: backbone.generate([request(deadline_s=0.3)]))
    assert type(error) is ModelTimeout
    assert ended.wait(10)
    backbone.close()


def test_requests_of_one_list_run_in_parallel_up_to_the_cap() -> None:
    now, peak, lock = [0], [0], threading.Lock()

    def slow(messages: list[dict[str, str]]) -> str:
        with lock:
            now[0] += 1
            peak[0] = max(peak[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1
        return "x"

    CallableBackbone(slow, max_parallel=4).generate([request() for _ in range(12)])
    assert peak[0] == 4


# Roles


def test_each_role_goes_to_its_backbone_and_replies_keep_their_order() -> None:
    backbone = make_backbone({"answerer": lambda m: "hosted", "default": lambda m: "local"})
    roles = ["manager", "answerer", "extractor", "answerer"]
    replies = backbone.generate([request(role=role) for role in roles])
    assert [reply.text for reply in replies] == ["local", "hosted", "local", "hosted"]


def test_each_role_has_the_style_of_its_backbone() -> None:
    backbone = make_backbone({"answerer": echo})
    assert (backbone.style_of("answerer"), backbone.style_of("manager")) == ("json", "compact")
    assert backbone.style == "compact"


def test_roles_with_one_spec_share_one_backbone() -> None:
    spec = "openai:m"
    backbone = make_backbone({"manager": spec, "answerer": spec}, base_url="http://127.0.0.1:9/v1")
    assert backbone.backbone_of("manager") is backbone.backbone_of("answerer")
    assert backbone.backbone_of("extractor") is not backbone.backbone_of("manager")
