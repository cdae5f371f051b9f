"""Every example runs as it is."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from memkit import Memory

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, *args: str, cwd: Path, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *args], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_chatbot_remembers_between_sittings(tmp_path: Path) -> None:
    run("chatbot.py", "ana", cwd=tmp_path, stdin="I adopted a dog named Buddy.\n\n")
    out = run("chatbot.py", "ana", cwd=tmp_path, stdin="which dog do I have?\n+\n?\n\n")
    assert "Buddy" in out
    assert "(noted)" in out


def test_counterfactuals_name_what_would_be_decided_otherwise(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        memory.add("I moved to Bergen.", user_id="ana")
    assert "2 of 2" in run("counterfactual.py", "memory", "ana", cwd=tmp_path)


def test_the_service_remembers_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="the service example needs fastapi")
    pytest.importorskip("httpx")
    from fastapi.testclient import TestClient

    monkeypatch.setenv("MEMKIT_STORE", str(tmp_path / "memory"))
    spec = importlib.util.spec_from_file_location("fastapi_service", EXAMPLES / "fastapi_service.py")
    assert spec is not None
    assert spec.loader is not None
    service = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(service)
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
