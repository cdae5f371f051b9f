"""What is wrong with a memory is said when it is opened, before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memkit import AsyncMemory, Memory
from memkit.errors import EmbedderMismatch, InvalidConfig
from memkit.runtime.reembed import adopt_embedder


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("gpt-4o", {}, 'pass model="openai:gpt-4o"'),
        ("openai:gpt-4o", {}, "pass api_key="),
        ({"manager": "openai:gpt-4o"}, {}, "pass api_key="),
        ({"boss": None}, {}, "roles are extractor"),
        ("hf:./no/such/folder", {}, "no such folder"),
        ("openai:gpt-4o", {"api_key": "k", "temprature": 0}, "temprature="),
        (42, {}, "pass one of these"),
    ],
)
@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
def test_a_model_that_cannot_be_is_refused(
    kind: Any, model: Any, options: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InvalidConfig) as refused:
        kind(tmp_path / "s", model=model, **options)
    assert words.lower() in str(refused.value).lower()
    assert list(tmp_path.iterdir()) == []


def test_an_app_may_go_to_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with Memory("./s") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        monkeypatch.chdir(elsewhere)
        memory.add("I like tea.", user_id="ana")
        assert "Oslo" in memory.search("Where do I live?", user_id="ana")[0].text
        memory.flush()
    assert list(elsewhere.iterdir()) == []
    with Memory(tmp_path / "s") as memory:
        assert len(memory.list(user_id="ana")) == 2


def test_a_store_is_opened_with_its_own_embedder(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Oslo.", user_id="ana")
    adopt_embedder(tmp_path / "s", "minilm")
    with Memory(tmp_path / "s") as memory:
        assert "Oslo" in memory.search("Where do I live?", user_id="ana")[0].text
    with pytest.raises(EmbedderMismatch, match="minilm"):
        Memory(tmp_path / "s", embedder="hash")
    with Memory(tmp_path / "own", embedder=lambda texts: [[1.0, 0.0] for _ in texts]) as memory:
        memory.add("I live in Oslo.", user_id="ana")
    with pytest.raises(EmbedderMismatch, match="pass it as embedder="):
        Memory(tmp_path / "own")
