"""Law 11 on real talk: no default finds less than the conversation that it came from. `python -m tests.bench real` says
it of whole sets; here are four talks, without a model, with the embedder that is always there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.bench import real_model
from tests.bench._real_rivals import BM25, told_to
from tests.bench._real_talks import Tally, talks, tally, told
from tests.stub_server import StubServer

FOLDER = Path(__file__).parents[1] / "data" / "talks"
FOUND = talks(str(FOLDER))


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    return {
        "default": tally(told("hash"), FOUND),
        "raw": tally(told("hash", infer=False), FOUND),
        "BM25": tally(told_to(BM25), FOUND),
    }


@pytest.mark.parametrize("control", ["raw", "BM25"])
def test_the_default_finds_no_less_than_the_words_themselves(tallies: dict[str, Tally], control: str) -> None:
    ours, theirs = tallies["default"], tallies[control]
    assert sum(ours.evidence) >= max(sum(theirs.evidence), 37), ours.misses
    assert sum(ours.gold) >= max(sum(theirs.gold), 35), ours.misses
    assert sum(ours.stale) <= sum(theirs.stale)


def test_a_block_is_memory_more_than_frame(tallies: dict[str, Tally]) -> None:
    shares = tallies["default"].memory
    assert sum(shares) / len(shares) >= 0.75


def test_a_run_with_a_model_that_was_broken_off_asks_it_for_the_rest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talks").mkdir()
    shutil.copy(FOLDER / "w1-05.jsonl", tmp_path / "talks")
    kept = json.dumps({"operations": [{"op": "ADD", "id": None, "text": "Pim runs on Sundays.", "turn": 1}]})
    monkeypatch.setattr(real_model, "EMBEDDER", "hash")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("MEMKIT_MODEL", "openai:any")
    monkeypatch.setenv("MEMKIT_TALKS", str(tmp_path / "talks"))
    monkeypatch.setenv("MEMKIT_STORES", str(tmp_path / "stores"))
    with StubServer(reply=kept) as server:
        monkeypatch.setenv("MEMKIT_BASE_URL", server.url)
        (talk,) = talks(str(tmp_path / "talks"))
        monkeypatch.setattr(talk, "turns", talk.turns[:6])
        real_model.manage(talk, tmp_path / "stores" / talk.name)
        assert len(server.seen) == 3
        values = {row.name.split(": ")[-1]: row.value for row in real_model.run()}
        assert values["calls per exchange"] == 1
        assert values["exchanges that came to nothing"] == 0
        assert len(server.seen) == sum(turn["role"] == "user" for turn in FOUND[0].turns)
