"""`doctor`: finds what is wrong with LanceDB, makes it good from the journal, and leaves a healthy store alone."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import lancedb
import numpy as np
import pytest
from numpy.typing import NDArray

from memkit import Memory
from memkit.embedders.hash import HashEmbedder
from memkit.errors import StoreDamaged
from memkit.runtime import care


def lance(path: Path) -> Path:
    return path / "lance" / "memories.lance"


def flip_a_data_byte(path: Path) -> None:
    """Inside what the rows say: the text of one of them."""
    for file in sorted((lance(path) / "data").iterdir()):
        raw = bytearray(file.read_bytes())
        at = raw.find(b"platform")
        if at >= 0:
            raw[at] ^= 1
            file.write_bytes(raw)
            return
    raise AssertionError("no text found in the data files")


def cut_the_newest_manifest(path: Path) -> None:
    min((lance(path) / "_versions").glob("*.manifest")).write_bytes(b"")


def garble_every_file(path: Path) -> None:
    rng = random.Random(3)
    for file in lance(path).rglob("*"):
        if file.is_file():
            file.write_bytes(rng.randbytes(file.stat().st_size))


def delete_rows(path: Path) -> None:
    lancedb.connect(path / "lance").open_table("memories").delete("text LIKE '%platform 7%'")


def change_a_row(path: Path) -> None:
    table = lancedb.connect(path / "lance").open_table("memories")
    table.update(where="text LIKE '%platform 7%'", values={"text": "nothing of the kind"})


DAMAGES = [flip_a_data_byte, cut_the_newest_manifest, garble_every_file, delete_rows, change_a_row]


def ranked(memory: Memory) -> list[list[tuple[str, float]]]:
    found = (memory.search(f"platform {n}", user_id=user) for n in (3, 7) for user in ("ana", "bob"))
    return [[(hit.memory.id, hit.score) for hit in hits] for hits in found]


class Vectors:
    """Not cheap, so that banks are read from LanceDB."""

    identity, dim, cheap = "test/1:8", 8, False

    def embed(self, texts: list[str]) -> list[list[float]]:
        rows = [[1.0 + (sum(text.encode()) * n) % 7 for n in range(1, 9)] for text in texts]
        return [[value / sum(one * one for one in row) ** 0.5 for value in row] for row in rows]


def opened(path: Path) -> Memory:
    import numpy as np

    vectors = Vectors()
    give = vectors.embed
    vectors.embed = lambda texts: np.array(give(texts), dtype=np.float32).reshape(-1, 8)  # type: ignore[method-assign]
    return Memory(path, embedder=vectors)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with opened(tmp_path / "s") as memory:
        for number in range(40):
            memory.add(f"The train leaves from platform {number}.", user_id=("ana", "bob")[number % 2], infer=False)
            if number % 15 == 14:
                memory.flush()
        memory.flush()
        assert memory.doctor() == []
    return tmp_path / "s"


@pytest.mark.parametrize("damage", DAMAGES)
def test_reads_are_right_whatever_happened_to_lancedb(store: Path, damage: Callable[[Path], None]) -> None:
    with opened(store) as memory:
        want = ranked(memory)
    damage(store)
    with opened(store) as memory:
        assert ranked(memory) == want


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_doctor_finds_the_damage_and_repairs_it(store: Path, damage: Callable[[Path], None]) -> None:
    with opened(store) as memory:
        want = ranked(memory)
    damage(store)
    with opened(store) as memory:
        found = memory.doctor()
        assert found
        assert all(problem.fix and not problem.repaired for problem in found)
        assert all(problem.repaired for problem in memory.doctor(repair=True))
        assert memory.doctor() == []
        assert ranked(memory) == want
        memory.add("The train leaves from platform 99.", user_id="ana", infer=False)
        memory.flush()
        assert memory.doctor() == []
        rows = lancedb.connect(store / "lance").open_table("memories").count_rows("NOT deleted")
        assert rows == 41


def test_users_are_compared_many_at_a_time_and_each_with_his_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(care, "_USERS", 3)
    with Memory(tmp_path / "s") as memory:
        for user in ("ana", "*", "ANA", "bob", "ana "):
            memory.add(f"I am {user}.", user_id=user, infer=False)
        memory.flush()
        projection, reads = memory._runtime.projection, list[Sequence[str]]()
        honest = projection.slice_users
        monkeypatch.setattr(projection, "slice_users", lambda users: reads.append(users) or honest(users))
        assert memory.doctor() == []
        assert [len(one) for one in reads] == [3, 2]
        lost = memory.list(user_id="*")[0].id
        lancedb.connect(tmp_path / "s" / "lance").open_table("memories").delete(f"id = '{lost}'")
        assert [one.details.get("ids") for one in memory.doctor()] == [[lost]]


def test_reembedding_replaces_every_vector_and_keeps_every_memory(store: Path) -> None:
    from memkit.runtime.reembed import adopt_embedder

    assert [problem.repaired for problem in adopt_embedder(store, "hash")] == [True]
    with Memory(store) as memory:
        assert memory.doctor() == []
        assert len(memory.list(user_id="ana")) == 20
        assert memory.search("platform 7", user_id="bob", k=1)[0].text.endswith("platform 7.")


def forget_earlier(table: lancedb.table.Table) -> None:
    with pytest.warns(UserWarning, match="every version"):
        table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)


def test_the_doctor_looks_at_sealed_decisions(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", model=lambda messages: '{"operations": []}', mode="fused") as memory:
        for n in range(3):
            memory.add(f"I said {n}.", user_id="ana")
        memory.flush()
        assert memory.doctor() == []
    table = lancedb.connect(tmp_path / "s" / "sealed").open_table("trajectories")
    table.update(where="seq = 2", values={"payload": "{}"})
    forget_earlier(table)
    with Memory(tmp_path / "s") as memory:
        assert [problem.code for problem in memory.doctor()] == ["sealed_checksum", "sealed_missing"]
    table.delete("seq = 3")
    forget_earlier(table)
    with Memory(tmp_path / "s") as memory:
        for repair in (False, True):  # there is no copy to repair it from
            assert [one.code for one in memory.doctor(repair=repair)] == ["sealed_checksum", "sealed_missing"]


class Moody(HashEmbedder):
    """Fails as other people's code fails, until it is well again."""

    well = False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not self.well:
            raise ZeroDivisionError("not one of ours")
        return super().embed(texts)


def test_the_projector_outlives_whatever_is_raised_says_so_and_tries_again(tmp_path: Path) -> None:
    embedder = Moody()
    with Memory(tmp_path / "s", embedder=embedder, config={"project_every": 1, "project_idle_s": 0.01}) as memory:
        memory.add("The train leaves from platform 9.", user_id="ana", infer=False)
        wait_until(lambda: memory.stats()["projection_error"] == "ZeroDivisionError")
        assert [problem.code for problem in memory.doctor()] == ["projection_failing"]
        embedder.well = True
        wait_until(lambda: memory.stats()["projection_error"] is None and not memory.stats()["waiting_for_lancedb"])
        assert memory.doctor() == []


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def tear(path: Path, rng: random.Random) -> None:
    """As a power cut leaves files that were never flushed: empty, cut, zeroed or missing."""
    files = sorted(file for file in (path / "lance").rglob("*") if file.is_file())
    for file in rng.sample(files, rng.randint(1, len(files))):
        raw = file.read_bytes()
        match rng.randrange(4):
            case 0:
                file.unlink()
            case 1:
                file.write_bytes(raw[: rng.randrange(len(raw))])
            case 2:
                file.write_bytes(bytes(len(raw)))
            case _:
                file.write_bytes(b"")


@pytest.mark.parametrize("rounds", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_one_repair_is_enough_however_lancedb_was_torn(store: Path, tmp_path: Path, rounds: int) -> None:
    for seed in range(4, 4 + rounds):
        print(f"seed {seed}")
        shutil.copytree(store, copy := tmp_path / f"torn{seed}")
        tear(copy, random.Random(seed))
        with opened(copy) as memory:
            assert [one for one in memory.doctor(repair=True) if not one.repaired] == []
            assert memory.doctor() == []
            assert len(memory.list(user_id="ana")) == 20


def test_a_journal_that_lost_its_newest_operations_is_told_and_nothing_is_cut_to_it(tmp_path: Path) -> None:
    """As a damaged log does, or an old copy of `journal.sqlite` in the place of the present one."""
    with opened(tmp_path / "s") as memory:
        memory.add("The train leaves from platform 1.", user_id="ana", infer=False)
        memory.flush()
    old = (tmp_path / "s" / "journal.sqlite").read_bytes()
    with opened(tmp_path / "s") as memory:
        for number in (2, 3):
            memory.add(f"The train leaves from platform {number}.", user_id="ana", infer=False)
        memory.flush()
    (tmp_path / "s" / "journal.sqlite").write_bytes(old)
    with opened(tmp_path / "s") as memory:
        for repair in (False, True):
            (problem,) = memory.doctor(repair=repair)
            assert (problem.code, problem.repaired) == ("journal_behind", False)
        assert [hit.text[-2:] for hit in memory.search("platform", user_id="ana")] == ["1."]
        memory.add("The train leaves from platform 4.", user_id="ana", infer=False)
        with pytest.raises(StoreDamaged, match="journal ends at 2"):
            memory.flush()
        texts = lancedb.connect(tmp_path / "s" / "lance").open_table("memories").to_arrow()["text"].to_pylist()
        assert "The train leaves from platform 3." in texts
    (tmp_path / "s" / "lance").rename(tmp_path / "aside")
    (tmp_path / "s" / "behind.json").unlink()
    with opened(tmp_path / "s") as memory:
        memory.flush()
        assert memory.doctor() == []
        assert {hit.text[-2:] for hit in memory.search("platform", user_id="ana")} == {"1.", "4."}


def test_what_a_power_cut_took_of_lancedb_is_written_anew_by_the_next_flush(tmp_path: Path) -> None:
    """LanceDB syncs nothing: the newest version is there, a file that it names is not."""
    with Memory(tmp_path) as memory:
        for number in range(3):
            memory.add(f"Platform {number} is closed.", user_id="ana", infer=False)
            memory.flush()
            memory._runtime.projector.project(maintain=number == 1)
    min((lance(tmp_path) / "data").iterdir(), key=lambda file: file.stat().st_mtime_ns).unlink()
    with Memory(tmp_path) as memory:
        memory.add("Platform 4 is closed.", user_id="bob", infer=False)
        memory.flush()
        assert len(memory.search("platform", user_id="ana", k=9)) == 3
        assert {problem.code for problem in memory.doctor()} <= {"lancedb_quarantine"}
