"""Every example runs as it is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from tests.integrations._env import ENV
from tests.stub_server import StubServer
from tests.tiny_models import tiny_adapter, tiny_checkpoint

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *args: str, cwd: Path, stdin: str = "", code: int = 0) -> str:
    """What it said, on both streams."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *args], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120,
        env=ENV, check=False,
    )  # fmt: skip
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
    assert "rules: 2 of 2 turns as they were" in run("counterfactual.py", "memory", "ana", cwd=tmp_path)
    assert "no decided turn" in run("counterfactual.py", "memory", "eve", cwd=tmp_path, code=4)


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


def test_a_graphs_agent_recalls_what_another_thread_was_told(tmp_path: Path) -> None:
    pytest.importorskip("langgraph.graph", reason="the example needs langgraph")
    with StubServer(reply="In Oslo.") as api:
        hosted = ("ana", "--model", "stub", "--base-url", api.url)
        run("langgraph_agent.py", *hosted, "--style", "in rhymes", cwd=tmp_path, stdin="I live in Oslo.\n\n")
        out = run("langgraph_agent.py", *hosted, cwd=tmp_path, stdin="Where do I live?\nAre you sure?\n\n")
        first, second = (body["messages"] for body in api.bodies[-2:])
    assert out.count("bot> In Oslo.") == 2
    assert "in rhymes" in first[0]["content"]
    assert "User lives in Oslo." in first[0]["content"]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert "Oslo" not in second[1]["content"], "recalled text stays out of the thread"
    assert "Oslo" in run("langgraph_agent.py", "ana", cwd=tmp_path, stdin="Where do I live?\n")


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
        assert client.delete("/me", headers=ana).json()["turns"] == 1
