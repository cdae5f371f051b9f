"""Every example runs as it is."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from tests.integrations._env import ENV
from tests.stub_server import StubServer
from tests.tiny_models import tiny_adapter, tiny_checkpoint

CHECKPOINTS = Path(__file__).resolve().parents[2] / "memkit_train" / "lab" / "tiny" / "checkpoints"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *args: str, cwd: Path, stdin: str = "", code: int = 0) -> str:
    """What it said, on both streams."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *args],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        env=ENV,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_chatbot_remembers_between_sittings(tmp_path: Path) -> None:
    run("chatbot.py", "ana", cwd=tmp_path, stdin="I adopted a dog named Buddy.\n\n")
    out = run("chatbot.py", "ana", cwd=tmp_path, stdin="which dog do I have?\n+\n?\n\n")
    assert "Buddy" in out
    assert "(noted)" in out


def test_counterfactuals_name_what_would_be_decided_otherwise(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        memory.add("I moved to Bergen.", user_id="ana")
        memory.add("I moved to Rome.", user_id="bob")
    rules = ("--model", "rules")
    assert "rules: 2 of 2 turns as they were" in run("counterfactual.py", "memory", "ana", *rules, cwd=tmp_path)
    assert "no decided turn" in run("counterfactual.py", "memory", "eve", *rules, cwd=tmp_path, code=4)
    assert "hf:PATH" in run("counterfactual.py", "memory", "ana", *rules, "--adapter", "x", cwd=tmp_path, code=1)


@pytest.mark.slow
def test_counterfactuals_set_a_model_beside_the_rules_and_an_adapter_beside_its_model(tmp_path: Path) -> None:
    model = tiny_checkpoint(tmp_path / "model")
    adapter = tiny_adapter(tmp_path / "adapter", base=model)
    with Memory(tmp_path / "memory") as memory:
        memory.add("I live in Oslo.", user_id="ana")
    asked = ("memory", "ana", "--model", f"hf:{model}")
    out = run("counterfactual.py", *asked, cwd=tmp_path)
    assert "- rules: ADD" in out
    assert f"+ hf:{model}:" in out
    assert "without: 0 of 1" in run("counterfactual.py", *asked, "--adapter", str(adapter), cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not (CHECKPOINTS / "skilled").is_dir(), reason="this checkout has no tiny model")
def test_counterfactuals_ask_the_shipped_model_by_default(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory") as memory:
        memory.add("I live in Oslo.", user_id="ana")
    assert "tiny: " in run("counterfactual.py", "memory", "ana", cwd=tmp_path)


def test_a_graphs_agent_recalls_what_another_thread_was_told(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.graph", reason="the example needs langgraph")
    with StubServer(reply="In Oslo.") as api:
        hosted = ("ana@example.com", "--model", "stub", "--base-url", api.url)
        run("langgraph_agent.py", *hosted, "--style", "in rhymes", cwd=tmp_path, stdin="I live in Oslo.\n\n")
        out = run("langgraph_agent.py", *hosted, cwd=tmp_path, stdin="Where do I live?\nAre you sure?\n\n")
        first, second = (body["messages"] for body in api.bodies[-2:])
    assert out.count("bot> In Oslo.") == 2
    assert "in rhymes" in first[0]["content"]
    assert "User lives in Oslo." in first[0]["content"]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert "Oslo" not in second[1]["content"], "recalled text stays out of the thread"
    assert "Oslo" in run("langgraph_agent.py", "ana@example.com", cwd=tmp_path, stdin="Where do I live?\n")


@pytest.mark.slow
def test_four_workers_of_the_service_lose_nothing_and_mix_nothing(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the service example needs fastapi")
    import httpx

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "fastapi_service:app", "--workers", "4", "--port", str(port)],
        cwd=EXAMPLES,
        env=ENV | {"MEMKIT_STORE": str(tmp_path / "memory")},
        stderr=subprocess.DEVNULL,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            _until(lambda: client.get("/context", params={"q": "pets?"}, headers={"x-user": "nobody"}).is_success)
            said = [(f"user {n % 8}", f"I bought item number {n}.") for n in range(40)]

            def say(one: tuple[str, str]) -> int:
                return client.post("/turns", json={"text": one[1]}, headers={"x-user": one[0]}).status_code

            with ThreadPoolExecutor(8) as threads:
                assert set(threads.map(say, said)) == {202}
    finally:
        service.terminate()
        service.wait(60)
    with Memory(tmp_path / "memory") as memory:
        memory.flush()
        assert memory.stats()["turns"] == 40
        for user in range(8):
            texts = " ".join(
                turn["text"] for one in memory.decisions(user_id=f"user {user}", last=100) for turn in one["turns"]
            )
            assert {n for n in range(40) if f"number {n}." in texts} == set(range(user, 40, 8))


def _until(ready: Callable[[], bool]) -> None:
    import httpx

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if ready():
                return
        time.sleep(0.2)
    pytest.fail("the service did not start")


def test_the_service_remembers_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="the service example needs fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    monkeypatch.setenv("MEMKIT_STORE", str(tmp_path / "memory"))
    service = load("fastapi_service")
    with TestClient(service.app) as client:
        ana = {"x-user": "ana"}
        assert client.post("/turns", json={"text": "I adopted a dog named Buddy."}, headers=ana).status_code == 202
        client.portal.call(service.app.state.memory.flush)  # type: ignore[union-attr]
        found = client.get("/context", params={"q": "pets?"}, headers=ana).json()
        assert "Buddy" in found["context"]
        rated = {"trace_id": found["trace_id"], "label": "up"}
        assert client.post("/feedback", json=rated, headers=ana).status_code == 200
        assert client.post("/feedback", json=rated, headers={"x-user": "eve"}).status_code == 404
        assert client.post("/turns", json={"text": " "}, headers=ana).status_code == 422
        for text, code in (("I have a cat.", 202), ("I have a cat.", 202), ("I have a car.", 409)):
            said = {"text": text, "message_id": "1"}
            assert client.post("/turns", json=said, headers=ana).status_code == code
        assert client.delete("/me", headers=ana).json()["turns"] == 2
