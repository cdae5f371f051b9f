"""The examples that run a trained adapter: the nightly job, a canary, a vLLM server (its stand-in)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.adapters import Registry
from memkit.backbones.rules import RuleBackbone
from memkit.errors import GateRefused
from memkit.roles import role_prompt_hashes
from memkit.seams.backbone import GenRequest, Replies
from memkit_train.retrain import run as retrain
from tests.adapters._make import TEMPLATE, TOKENIZER, FakeHost, adapter
from tests.examples.test_examples import load, run
from tests.fakes.vllm_server import FakeVLLM
from tests.train import tiny
from tests.train.stores import dividing_seed, lived, teacher, world
from tests.train.test_retrain import outcome_of

EMBEDDER = {"embedder": "hash/1:384", "store_schema": 1}
ASKED = {"tokenizer_digest": TOKENIZER, "template_digest": TEMPLATE, "prompt_hashes": role_prompt_hashes()}
EPISODES = world(8, seed=7)


# -- the nightly job ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


@pytest.fixture
def night(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One run of the job, on a registry of its own; returns its exit code."""
    sets = {
        "data.registry": tmp_path / "registry",
        "data.heldout_share": 0.3,
        "data.split_seed": dividing_seed(store),
        "data.min_labels": 5,
        "model.device": "cpu",
        "method.epochs": 1,
        "method.lora_r": 4,
        "method.lora_alpha": 8,
        "method.lr": 0.01,
        "gate.canaries": 0,
        "gate.min_probes": 1,
        "gate.min_users": 1,
    }

    def job(*args: str) -> int:
        told = ["--store", str(store), "--base", str(tiny.base()), "--output", str(tmp_path / "runs"), *args]
        told += [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
        monkeypatch.setattr(sys, "argv", ["nightly_retrain.py", *told])
        return load("nightly_retrain").main()

    return job


def serving(tmp_path: Path) -> Any:
    registry = Registry(tmp_path / "registry")
    try:
        return registry.alias("production")
    finally:
        registry.close()


def test_a_better_adapter_is_promoted_and_the_next_night_is_quiet(
    night: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    assert night() == 0
    out = capsys.readouterr().out
    assert "8 users" in out
    assert "target       passed" in out
    state = serving(tmp_path)
    assert (state.version, state.actor) == (1, "nightly")
    assert state.route("manager").stable[:12] in out
    assert night() == 4
    assert "0 new labels" in capsys.readouterr().out
    assert serving(tmp_path).version == 1


@pytest.mark.slow
def test_what_is_no_better_is_refused_and_serves_nobody(
    night: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome_of(monkeypatch, 0.5, 0.5)
    assert night() == 3
    assert "target       REFUSED" in capsys.readouterr().out
    assert serving(tmp_path).version == 0


@pytest.mark.slow
def test_a_night_can_begin_with_a_few_users(night: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    assert night("--canary", "0.1") == 0
    route = serving(tmp_path).route("manager")
    assert (route.stable, [arm.share for arm in route.challengers]) == (None, [0.1])


@pytest.mark.slow
def test_another_promotion_meanwhile_is_left_to_a_person(
    night: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    real = retrain.retrain

    def beaten(*args: Any, **more: Any) -> Any:
        done = real(*args, **more)
        registry = Registry(tmp_path / "registry")
        other = registry.publish(adapter(tmp_path / "other"))
        registry.move("production", lambda _: {"manager": _served(other)}, expected=0, actor="somebody")
        registry.close()
        return done

    monkeypatch.setattr(retrain, "retrain", beaten)
    assert night() == 1
    assert "not done" in capsys.readouterr().err
    assert serving(tmp_path).actor == "somebody"


def _served(digest: str) -> Any:
    from memkit.adapters.plan import Route

    return Route(digest)


def test_bad_input_is_told_apart(night: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert night("--set", "method.rank=3") == 2
    assert "lora_r" in capsys.readouterr().err


# -- a canary ----------------------------------------------------------------------------------------------------------


class Served(RuleBackbone):
    """The rules, under any adapter; under a `bad` one, words that no grammar knows."""

    bad = ""

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [
            replace(reply, adapter=one.adapter, text="As an AI model," if one.adapter == self.bad else reply.text)
            for one, reply in zip(requests, super().generate(requests), strict=True)
        ]


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Memory(tmp_path / "store", model=Served(), adapters={"host": FakeHost(), "poll_s": 0.05}) as memory:
        yield memory


def published(memory: Memory, folder: Path, **more: Any) -> str:
    return memory.adapters.publish(adapter(folder, retrieval=EMBEDDER, text=ASKED, **more))


def talk(turns: int) -> list[tuple[str, str]]:
    return [(f"user {n % 40}", f"I bought item number {n}.") for n in range(turns)]


def test_a_bad_canary_is_taken_back_by_itself_and_its_turns_are_not_lost(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = published(memory, tmp_path / "a")
    monkeypatch.setattr(Served, "bad", digest)
    code = load("canary_rollback").trial(memory, digest[:8], talk(600), share=0.3, turns=300)
    out = capsys.readouterr().out
    assert code == 3, out
    assert "rollback by guard: invalid" in out
    assert "0 are left" in out
    state = memory.adapters.registry.alias("production")
    assert (state.route("manager").stable, state.route("manager").challengers) == (None, ())
    assert memory.parked() == []


def test_a_good_canary_is_promoted_after_enough_turns(
    memory: Memory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canary = load("canary_rollback")
    digest = published(memory, tmp_path / "a")
    assert canary.trial(memory, digest, talk(20), share=0.3, turns=40) == 4
    assert canary.trial(memory, digest, talk(400), share=0.3, turns=40) == 0
    assert memory.adapters.registry.alias("production").route("manager").stable == digest
    assert "serves everybody after 40 turns" in capsys.readouterr().out


def test_a_canary_needs_its_gates(memory: Memory, tmp_path: Path) -> None:
    digest = published(memory, tmp_path / "a", gates=[])
    with pytest.raises(GateRefused):
        load("canary_rollback").trial(memory, digest, talk(1), share=0.3, turns=40)


@pytest.mark.slow
def test_the_script_reads_its_traffic_from_lines(tmp_path: Path) -> None:
    from tests.train.test_publish import published as trained

    with Memory(tmp_path / "memory") as memory:
        digest = trained(memory.adapters.registry).digest
    asked = (digest[:12], "--model", f"hf:{tiny.base()}", "--share", "1.0", "--turns", "2")
    lines = '{"user_id": "ana", "text": "I live in Oslo."}\n' * 2
    assert "serves everybody after 2 turns" in run("canary_rollback.py", *asked, cwd=tmp_path, stdin=lines)


# -- vLLM --------------------------------------------------------------------------------------------------------------


def test_the_walk_through_loads_proves_serves_and_rolls_back(tmp_path: Path) -> None:
    folder = adapter(tmp_path / "a", retrieval=EMBEDDER, roles=["extractor", "manager"], text=ASKED)
    with FakeVLLM(base="tiny") as first, FakeVLLM(base="tiny") as second:
        urls = ("--url", first.url, "--url", second.url)
        out = run("vllm_deployment.py", *urls, "--base", "tiny", "--adapter", str(folder), cwd=tmp_path)
        chats = [body["model"] for _, path, body in first.requests if path == "/v1/chat/completions"]
        (digest,) = {body["lora_name"] for _, path, body in second.requests if path == "/v1/load_lora_adapter"}
    assert "2 replica(s) answer; loaded there: no adapter" in out
    assert "its probe's log-probs agree" in out
    assert f"the manager was asked as {digest[:12]}" in out
    assert "decided by tiny again" in out
    assert chats == [digest, digest]


def test_the_walk_through_says_how_to_start_what_is_not_there(tmp_path: Path) -> None:
    there = ("--url", "http://127.0.0.1:9", "--base", "tiny", "--adapter", "nowhere")
    assert "vllm serve tiny --enable-lora" in run("vllm_deployment.py", *there, cwd=tmp_path, code=1)
