"""One embedder per store: work without it loses nothing, and changing it is done before it is named."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from memkit import Memory
from memkit.embedders import close_embedder, make_embedder
from memkit.embedders.recorded import Recorded, remake
from memkit.errors import EmbedderError, EmbedderMismatch, NotAStore
from memkit.runtime.reembed import adopt_embedder
from memkit.runtime.store_embedder import embedder_for

ROOT = Path(__file__).resolve().parents[2]


class Apps:
    """An app's own embedder. Not cheap, so that banks are read from LanceDB; its name tells nothing."""

    cheap = False

    def __init__(self, identity: str = "apps-own", dim: int = 8, fails_after: int = 1_000_000) -> None:
        self.identity, self.dim, self._left = identity, dim, fails_after

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self._left -= 1
        if self._left < 0:
            raise EmbedderError("the endpoint is down")
        rows = np.array([[1.0 + (sum(text.encode()) * n) % 7 for n in range(1, self.dim + 1)] for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with Memory(tmp_path / "s", embedder=Apps()) as memory:
        for number in range(6):
            memory.add(f"The train leaves from platform {number}.", user_id=("ana", "bob")[number % 2], infer=False)
        memory.flush()
    return tmp_path / "s"


def test_a_memory_closes_the_embedder_that_it_made_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    monkeypatch.setattr("memkit.embedders.openai.OpenAIEmbedder.close", lambda self: closed.append(self.endpoint))
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    own = make_embedder("openai:text-embedding-3-small")
    Memory(tmp_path / "own", embedder=own).close()
    assert closed == []
    Memory(tmp_path / "made", embedder="openai:text-embedding-3-small").close()
    assert closed == ["https://api.openai.com/v1"]
    close_embedder(own)


def healthy(path: Path, embedder: object) -> None:
    with Memory(path, embedder=embedder) as memory:
        assert memory.search("platform 3", user_id="bob", k=1)[0].text.endswith("platform 3.")
        memory.add("The train leaves from platform 99.", user_id="ana", infer=False)
        memory.flush()
        assert memory.doctor() == []


def test_without_the_embedder_nothing_is_lost_and_its_app_catches_up(store: Path, tmp_path: Path) -> None:
    export = tmp_path / "all.jsonl"
    with Memory(tmp_path / "other", embedder="hash") as other:
        other.add("Carl skis.", user_id="carl", infer=False)
        other.export(export)
    absent = embedder_for(store, None, embeds=False)
    assert (type(absent), absent.identity, absent.dim) == (Recorded, "apps-own", 8)
    with Memory(store, embedder=absent, config={"workers": 0, "project_every": 1}) as memory:
        (gone,) = [op for op in memory.history(user_id="bob") if op.after and op.after.text.endswith("platform 3.")]
        memory.delete(gone.memory_id or "", user_id="bob")
        assert memory.doctor() == [], "what LanceDB covers is right; it only lags"
        (back,) = memory.undo(user_id="bob", op_id=memory.history(user_id="bob")[-1].op_id)
        memory.import_(export)
        memory.import_([{"text": "Dora sails.", "user_id": "dora"}])
        assert memory.erase(user_id="ana").counts["rows_in_lancedb"] == 3
        assert memory.stats()["projection_error"] is None
        for embeds in (lambda: memory.search("platform", user_id="bob"), memory.flush):
            with pytest.raises(EmbedderError, match="apps-own"):
                embeds()
    assert back.after is not None
    healthy(store, Apps())
    with Memory(store, embedder=Apps()) as memory:
        assert [memory.search(user, user_id=user)[0].text for user in ("carl", "dora")] == ["Carl skis.", "Dora sails."]


@pytest.mark.parametrize("works", [0, 1], ids=["at once", "in the middle"])
def test_an_embedder_that_fails_is_not_adopted(store: Path, works: int) -> None:
    with pytest.raises(EmbedderError, match="down"):
        adopt_embedder(store, Apps("new", 4, fails_after=works))
    healthy(store, Apps())


def test_a_failing_embedder_is_not_adopted_by_an_empty_store_either(tmp_path: Path) -> None:
    Memory(tmp_path / "s").close()
    with pytest.raises(EmbedderError):
        adopt_embedder(tmp_path / "s", Apps("new", 4, fails_after=0))
    Memory(tmp_path / "s").close()
    with pytest.raises(NotAStore):
        adopt_embedder(tmp_path / "none", "hash")
    assert not (tmp_path / "none").exists()


KILLED = """
    import os, sys
    from pathlib import Path
    from memkit.runtime import reembed
    from memkit.runtime import projector
    from tests.memory.test_embedder import Apps
    class Killer(Apps):
        calls = 0
        def embed(self, texts):
            Killer.calls += 1
            if sys.argv[2] == "embedding" and Killer.calls == 2:
                os._exit(9)
            return super().embed(texts)
    projector.name_embedder = lambda *_: os._exit(9)
    reembed.adopt_embedder(Path(sys.argv[1]), Killer("new", 4))
"""


@pytest.mark.parametrize("moment", ["embedding", "naming"])
def test_killed_while_adopting_the_store_is_whole_for_the_old_and_the_new(store: Path, moment: str) -> None:
    """Between LanceDB's commit and the journal's, the two disagree: the journal is right."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(store), moment],
        cwd=ROOT,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(ROOT)])},
    )
    assert done.returncode == 9
    with Memory(store, embedder=embedder_for(store, None, embeds=False)) as memory:
        codes = [problem.code for problem in memory.doctor()]
        assert codes == {"embedding": [], "naming": ["lancedb_other_embedder"]}[moment]
    healthy(store, Apps())
    adopt_embedder(store, Apps("new", 4))
    healthy(store, Apps("new", 4))


def test_a_process_with_the_former_embedder_takes_nothing_back_and_closes(store: Path) -> None:
    with Memory(store, embedder=Apps()) as late:
        adopt_embedder(store, Apps("new", 4))
        late.add("The train leaves from platform 7.", user_id="ana", infer=False)
        with pytest.raises(EmbedderMismatch):
            late.flush()
    with Memory(store, embedder=Apps("new", 4)) as memory:
        memory.flush()
        assert memory.doctor() == []
        assert len(memory.list(user_id="ana")) == 4


def test_the_refusal_names_the_usual_fix_first_and_a_command_that_does_what_it_says(tmp_path: Path) -> None:
    Memory(tmp_path / "a b").close()
    with pytest.raises(EmbedderMismatch) as caught:
        Memory(tmp_path / "a b", embedder=Apps())
    usual, _, other = caught.value.fix.partition("usual fix")
    assert "--embedder hash" in usual
    assert "adopt_embedder" in other
    with Memory(tmp_path / "own", embedder=Apps()), pytest.raises(EmbedderMismatch) as caught:
        Memory(tmp_path / "own")
    assert f"memkit doctor {tmp_path / 'own'} --reembed --embedder hash" in caught.value.fix


def test_an_embedder_is_made_from_its_name_only_where_that_tells_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-unused")
    for identity in ("hash/1:384", "hash/1:128", "openai:text-embedding-3-small:256"):
        made = remake(identity)
        assert made is not None
        assert made.identity == identity
    assert remake("callable/embed:8") is None
    assert remake("openai:nomic:768") is None, "queries would go to an endpoint that nobody named"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    made = remake("openai:nomic:768")
    assert made is not None
    assert made.identity == "openai:nomic:768", "without asking the endpoint"
