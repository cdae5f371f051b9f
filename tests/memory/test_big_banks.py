"""Banks above `preselect_from`: LanceDB selects, the one scorer ranks; what was just written counts at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit import Memory
from memkit.engine.big_bank import BigBank

SMALL, LARGE = 40, 300
CONFIG = {"preselect_from": SMALL, "preselect": 60, "project_idle_s": 1e6, "project_every": 10**6}
NEEDLES = {
    "Which instrument does Clara play?": "Clara plays the bassoon in an orchestra.",
    "Where does Omar keep his telescope?": "Omar keeps his telescope on the roof of the bakery.",
}


def fill(memory: Memory, user: str = "ana") -> None:
    texts = [
        f"Item {n}: a {('red', 'green', 'blue')[n % 3]} box number {n * 7919} in hall {n % 13}." for n in range(LARGE)
    ]
    for start in range(0, LARGE, 100):
        said = [{"role": "user", "content": text} for text in texts[start : start + 100]]
        memory.add(said, user_id=user, infer=False)
    for text in NEEDLES.values():
        memory.add(text, user_id=user, infer=False)


@pytest.fixture
def big(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "s", config=CONFIG) as memory:
        fill(memory)
        memory.flush()
        yield memory


def test_planted_memories_are_found_as_exact_ranking_finds_them(big: Memory, tmp_path: Path) -> None:
    assert isinstance(big._runtime.reader.scope("ana", None), BigBank)
    selected = {question: big.search(question, user_id="ana", k=1)[0].memory for question in NEEDLES}
    trace = big._runtime.traces.get("ana", big.search("a box", user_id="ana").trace_id)
    assert trace.payload["of"] == LARGE + len(NEEDLES)
    assert 0 < trace.payload["preselected"] <= 60
    big.close()
    with Memory(tmp_path / "s") as exact:
        for question, text in NEEDLES.items():
            best = exact.search(question, user_id="ana", k=1)[0].memory
            assert best == selected[question]
            assert best.text == text


def test_reads_see_this_process_s_and_other_processes_writes(big: Memory, tmp_path: Path) -> None:
    added = big.add("Dora repairs accordions.", user_id="ana", infer=False).ops[0].memory_id
    assert big.search("Who repairs accordions?", user_id="ana", k=1)[0].memory.id == added
    big.update(added, "Dora tunes harpsichords.", user_id="ana")
    assert big.search("Who tunes harpsichords?", user_id="ana", k=1)[0].memory.text == "Dora tunes harpsichords."
    big.delete(added, user_id="ana")
    assert all(hit.memory.id != added for hit in big.search("Who tunes harpsichords?", user_id="ana", k=20))
    with Memory(tmp_path / "s", config=CONFIG) as other:
        there = other.add("Emil collects barometers.", user_id="ana", agent_id="helper", infer=False).ops[0].memory_id
    assert big.search("Who collects barometers?", user_id="ana", k=1)[0].memory.id == there
    assert all(hit.memory.id != there for hit in big.search("barometers", user_id="ana", agent_id="b"))


def test_filters_and_kinds_choose_before_the_selection(big: Memory) -> None:
    big.add("A box in the attic.", user_id="ana", infer=False, session_id="attic")
    big.flush()
    found = big.search("a red box in a hall", user_id="ana", session_id="attic", k=5)
    assert [hit.memory.text for hit in found] == ["A box in the attic."]
    assert big.search("a red box", user_id="ana", kinds=["fact"]) == []


def test_the_manager_sees_selected_candidates_and_supersedes(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", config=CONFIG) as memory:
        for n in range(SMALL + 20):
            memory.add(f"My friend number {n} likes the colour {n * 31}.", user_id="ana")
        memory.add("I live in Lisbon.", user_id="ana")
        memory.flush()
        assert isinstance(memory._runtime.reader.scope("ana", ""), BigBank)
        before = len(memory.list(user_id="ana", limit=500))
        memory.add("I moved to Porto.", user_id="ana")
        again = memory.add("I moved to Porto.", user_id="ana")
        texts = [record.text for record in memory.list(user_id="ana", limit=500)]
        assert len(texts) == before
        assert not any("lives in Lisbon" in text for text in texts)
        assert sum("Porto" in text for text in texts) == 1
        assert again.status == "applied"


def test_a_bank_that_grows_past_the_threshold_and_one_that_lagged(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", config=CONFIG) as memory:
        memory.add("A first note.", user_id="ana", infer=False)
        assert memory.search("first", user_id="ana")
        fill(memory)  # nothing of it is in LanceDB: the search brings it up to date
        for question, text in NEEDLES.items():
            assert memory.search(question, user_id="ana", k=1)[0].memory.text == text
        assert memory._runtime.projection.watermark() > 0


def test_a_damaged_projection_does_not_stop_the_search(big: Memory, tmp_path: Path) -> None:
    for file in (tmp_path / "s" / "lance" / "memories.lance" / "data").iterdir():
        raw = bytearray(file.read_bytes())
        raw[: len(raw) // 2] = bytes(len(raw) // 2)
        file.write_bytes(raw)
    for question, text in NEEDLES.items():
        assert big.search(question, user_id="ana", k=1)[0].memory.text == text
