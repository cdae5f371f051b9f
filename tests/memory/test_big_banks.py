"""Large banks: ranked as a whole and followed write by write; above `preselect_from` LanceDB selects, the one scorer
ranks. Either way what was just written counts at once."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memkit import Memory
from memkit.embedders.hash import HashEmbedder
from memkit.engine.bank import LiveBank
from memkit.engine.big_bank import BigBank
from memkit.results import Hit
from tests.retrieval._banks import WORDS

LATE: dict[str, Any] = {"project_idle_s": 1e6, "project_every": 10**6}
"""Nothing is written into LanceDB unasked."""
NOW = datetime(2026, 5, 1, tzinfo=UTC)

SMALL, LARGE = 40, 300
CONFIG = {"preselect_from": SMALL, "preselect": 60, "project_idle_s": 1e6, "project_every": 10**6}
NEEDLES = {
    "Which instrument does Clara play?": "Clara plays the bassoon in an orchestra.",
    "Where does Omar keep his telescope?": "Omar keeps his telescope on the roof of the bakery.",
}


def fill(memory: Memory, user: str = "ana", more: int = 0) -> None:
    texts = [
        f"Item {n + more}: a {('red', 'green', 'blue')[n % 3]} box number {n * 7919} in hall {n % 13}."
        for n in range(LARGE)
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
        memory.add("I live in Porto now.", user_id="ana")
        again = memory.add("I live in Porto now.", user_id="ana")
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


# ---- banks that are ranked as a whole --------------------------------------------------------------------------------


class Held:
    """An embedder that notes what it was asked, and waits where it is told to."""

    identity, dim, cheap = "held/1:384", 384, False

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.done = threading.Event()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        vectors = HashEmbedder().embed(texts)
        self.asked.append(list(texts))
        self.done.set()
        return vectors


def texts_of(rng: random.Random, count: int) -> list[dict[str, str]]:
    return [
        {
            "role": "user",
            "name": rng.choice(("Ana", "Ben")),
            "content": f"{' '.join(rng.choices(WORDS, k=8))} {rng.random()}",
        }
        for _ in range(count)
    ]


def ranked(hits: Sequence[Hit]) -> list[tuple[Any, ...]]:
    return [(hit.memory, hit.score, dict(hit.signals)) for hit in hits]


def test_a_warm_bank_ranks_as_one_that_is_read_anew_whatever_was_written(tmp_path: Path) -> None:
    rng, config = random.Random(5), LATE
    asked: list[dict[str, Any]] = [
        {"query": "When did Ana paint the lake?"},
        {"query": "dog", "filters": {"metadata.n": {"$gte": 20}}},
        {"query": "guitar in May", "session_id": "s1"},
        {"query": "kids", "agent_id": "helper"},
        {"query": "camping", "kinds": ["episode"]},
    ]
    with Memory(tmp_path / "s", config=config) as warm:
        ids: list[str] = []
        for step in range(40):
            ends = NOW - timedelta(days=1) if rng.random() < 0.2 else None
            added = warm.add(
                texts_of(rng, rng.randint(1, 30)),
                user_id="ana",
                agent_id=rng.choice((None, None, "helper")),
                infer=False,
                session_id=rng.choice((None, "s1")),
                metadata={"n": step},
                expires_at=ends,
                at=NOW + timedelta(hours=step),
            )
            ids += [op.memory_id for op in added.ops if op.memory_id]
            for _ in range(rng.randint(0, 3)):
                warm.update(rng.choice(ids), texts_of(rng, 1)[0]["content"], user_id="ana")
                warm.delete(ids.pop(rng.randrange(len(ids))), user_id="ana")
            found = [ranked(warm.search(user_id="ana", k=20, **one)) for one in asked]
            if step == 20:
                warm.flush()  # from here on a cold bank is what LanceDB has, and the ops since
            if step % 8 == 7:
                earlier = ranked(warm.search("dog", user_id="ana", as_of=NOW + timedelta(hours=step // 2)))
                with Memory(tmp_path / "s", config=config) as cold:
                    assert found == [ranked(cold.search(user_id="ana", k=20, **one)) for one in asked]
                    again = cold.search("dog", user_id="ana", as_of=NOW + timedelta(hours=step // 2))
                    assert earlier == ranked(again)


def test_decisions_in_a_large_bank_look_up_what_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.runtime.banks._HELD_STATE", LARGE // 2)
    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Lisbon.", user_id="ana")
        fill(memory)
        memory.add("I live in Porto now.", user_id="ana")
        again = memory.add("I live in Porto now.", user_id="ana")
        warm = memory._runtime.reader.scope("ana", "")
        facts = [one.text for one in memory.list(user_id="ana", limit=500) if one.kind == "fact"]
        assert len(facts) == 1
        assert "Porto" in facts[0]
        assert again.ops[0].action == "noop"
        assert isinstance(warm, LiveBank)
        assert "state" not in warm.__dict__, "the records of a large bank are not kept a second time"


def test_raw_writes_are_embedded_in_the_background_and_each_text_once(tmp_path: Path) -> None:
    embedder = Held()
    with Memory(tmp_path / "s", embedder=embedder, config={"project_idle_s": 1e6}) as memory:
        said = ["The ferry leaves at nine.", "The harbour café opens at eight."]
        memory.add([{"role": "user", "content": text} for text in said], user_id="ana", infer=False, at=NOW)
        assert embedder.done.wait(30)
        assert memory.search("When does the ferry leave?", user_id="ana", k=1)[0].text == said[0]
        memory.flush()
        (written, question) = embedder.asked
        assert [text.split("] ")[1] for text in written] == said
        assert question == ["When does the ferry leave?"]


def test_a_search_that_comes_first_embeds_what_is_missing_in_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memkit.runtime.projector._SOON_S", 1e6)
    embedder = Held()
    with Memory(tmp_path / "s", embedder=embedder) as memory:
        for first in (0, 3):
            said = [{"role": "user", "content": f"Note number {n}."} for n in range(first, first + 3)]
            memory.add(said, user_id="ana", infer=False, at=NOW)
            assert len(memory.search("Which note?", user_id="ana")) == first + 3
        assert [len(texts) for texts in embedder.asked] == [3, 1, 3]


def test_a_search_imports_lancedb_only_where_something_is_stored_there_that_is_dear(tmp_path: Path) -> None:
    program = textwrap.dedent(f"""
        import sys
        from memkit import Memory
        from tests.memory.test_big_banks import LATE, Held, fill
        for name, embedder in (("hash", None), ("held", Held())):
            with Memory({str(tmp_path)!r} + "/" + name, embedder=embedder, config=LATE) as memory:
                fill(memory)
                fill(memory, more=300)
                assert memory.search("red box", user_id="ana", k=1)
        assert "lancedb" not in sys.modules
        for flush in (True, False):
            with Memory({str(tmp_path)!r} + "/hash", config=LATE) as memory:
                memory.search("red box", user_id="ana", k=1)
                assert ("lancedb" in sys.modules) is not flush, "600 hashed memories cost less than the import"
                if flush:
                    memory.flush()
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
