from __future__ import annotations

import os
from pathlib import Path

import pytest

from memkit.errors import StoreDamaged, StoreUnreachable
from memkit.models import Bank
from memkit.store import Trajectories, TrajectoryRow
from memkit.store.lance import connect
from memkit.store.trajectories import record_of
from tests.store._rows import START, file_lock


def decision(number: int, user: str = "ana") -> TrajectoryRow:
    payload = {"v": 1, "mode": "split", "propensity": 0.9, "reply": f"ADD {number}", "logprobs": [-0.1 / 3]}
    return TrajectoryRow(
        seq=number,
        decision_id=f"d_{number}",
        bank=Bank(user, "a"),
        role="manager",
        state_seq=number - 1,
        payload=payload,
        created_at=START,
        intake_id=f"i_{number}",
        blobs={"h": "the prompt"},
    )


@pytest.fixture
def table(tmp_path: Path) -> Trajectories:
    return Trajectories(tmp_path / "lance", lock=file_lock(tmp_path / "lock"), sealed=lambda: 29)


def test_sealing_twice_adds_nothing(table: Trajectories) -> None:
    assert (table.last_seq(), list(table.scan())) == (0, [])
    assert table.append(decision(n) for n in range(1, 2500)) == 2499
    assert table.append(decision(n) for n in range(1, 2502)) == 2
    assert table.last_seq() == 2501
    assert table.check() == []


def test_scanning_goes_in_order_and_in_bounded_pages(table: Trajectories) -> None:
    table.append(decision(n, "ana" if n % 3 else "bob") for n in range(1, 301) if not 100 < n < 250)
    pages = list(table.scan(batch_rows=64))
    assert max(page.num_rows for page in pages) <= 64
    seqs = [seq for page in pages for seq in page.column("seq").to_pylist()]
    assert seqs == [n for n in range(1, 301) if not 100 < n < 250]
    bob = [row for page in table.scan(user_id="bob", after=30, upto=60) for row in page.to_pylist()]
    assert [row["seq"] for row in bob] == list(range(33, 61, 3))
    assert record_of(bob[0]) == dict(decision(33).payload)
    assert (bob[0]["propensity"], bob[0]["mode"], bob[0]["adapter"]) == (0.9, "split", None)
    assert next(table.scan(columns=["role"])).column_names == ["role"]


def test_maintenance_and_healing(table: Trajectories) -> None:
    for start in range(1, 30):
        table.append([decision(start)])
    assert table.commits_since_maintenance >= 29
    assert table.maintain().files_after < 12
    assert table.last_seq() == 29
    folder = table.path / "trajectories.lance"
    table.append([decision(30)])
    min((folder / "_versions").glob("*.manifest")).write_bytes(b"")
    assert table.last_seq() == 29
    assert table.append([decision(29), decision(30)]) == 1


def test_a_column_that_lost_its_name_is_told(table: Trajectories) -> None:
    """A flipped byte in the manifest does this; the table opens, and nothing else fails."""
    table.append([decision(1)])
    connect(table.path).open_table("trajectories").alter_columns({"path": "logprobs", "rename": "logprgbs"})
    assert [problem.what for problem in table.check()] == ["unreadable"]
    with pytest.raises(StoreDamaged):
        list(table.scan())


def test_what_nothing_else_holds_is_not_healed_away_by_a_read(table: Trajectories) -> None:
    """The version before lacks a decision that the journal no longer has."""
    table.append([decision(n) for n in range(1, 29)])
    table.append([decision(29)])
    newest = min((table.path / "trajectories.lance" / "_versions").glob("*.manifest"))
    whole = newest.read_bytes()
    newest.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(StoreDamaged):
            table.last_seq()
    newest.write_bytes(whole)
    assert table.last_seq() == 29
    assert table.list_quarantined() == []


def test_a_disk_that_does_not_answer_once_moves_nothing_aside(
    table: Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memkit.store import trajectories

    table.append([decision(n) for n in range(1, 30)])

    def fail(_: object) -> int:
        raise RuntimeError("lance error: LanceError(IO): Generic LocalFileSystem error: (os error 5)")

    with monkeypatch.context() as patch:
        patch.setattr(trajectories, "_last_seq", fail)
        with pytest.raises(StoreUnreachable):
            table.last_seq()
    assert table.last_seq() == 29
    assert table.list_quarantined() == []


def test_a_damaged_file_costs_its_own_rows_and_is_kept(table: Trajectories) -> None:
    for start in range(1, 30):
        table.append([decision(start, "ana" if start % 2 else "bob")])
    victims = sorted((table.path / "trajectories.lance" / "data").glob("*"))[:3]
    for victim in victims:
        victim.write_bytes(victim.read_bytes()[:40])
    with pytest.raises(StoreDamaged):
        table.erase("ana")
    table.salvage()
    left = [seq for page in table.scan() for seq in page.column("seq").to_pylist()]
    assert len(left) == 26
    assert table.check() == []
    table.erase("ana")
    (aside,) = table.list_quarantined()
    assert {path.name for path in victims} <= {path.name for path in aside.rglob("*")}


def test_what_replaces_old_versions_is_on_the_disk_before_they_go(
    table: Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the order of what the process asks of the disk. LanceDB's own writes are seen as files that are there."""
    synced, folder, fsync = dict[int, bool](), table.path / "trajectories.lance", os.fsync
    before: set[Path] = set()

    def note(handle: int) -> None:
        synced.setdefault(os.fstat(handle).st_ino, all(path.exists() for path in before))
        fsync(handle)

    for start in range(1, 9):
        table.append([decision(start, "ana" if start % 2 else "bob")])
    monkeypatch.setattr(os, "fsync", note)

    def grow() -> None:
        """Rows that the index knows and rows that it does not: LanceDB compacts them in two goes."""
        table.append([decision(9)])
        table.append([decision(10)])
        table.maintain(force=True)

    for work in (lambda: table.maintain(force=True), grow, lambda: table.erase("ana")):
        synced.clear()
        before = {path for path in folder.rglob("*") if path.is_file()}
        work()
        new = {path for path in folder.rglob("*") if path.is_file()} - before
        assert new
        assert all(synced[path.stat().st_ino] for path in new)
        folders = [table.path, folder, folder / "_versions", folder / "data"]
        assert {path.stat().st_ino for path in folders} <= set(synced)


def test_a_newest_version_that_is_torn_but_opens_gives_way_to_the_one_before(table: Trajectories) -> None:
    """As a power cut leaves it while rows are written anew: the names are there, of the data a part."""
    for start in range(1, 30):
        table.append([decision(start)])
    folder = table.path / "trajectories.lance"
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    table.maintain(force=True)
    (newest,) = folder.rglob("data/*")
    raw = newest.read_bytes()
    at = raw.index(b"ADD 7")
    newest.write_bytes(raw[:at] + bytes(5) + raw[at + 5 :])
    for path, raw in before.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    again = Trajectories(table.path, lock=file_lock(table.path / "lock"), sealed=lambda: 29)
    assert [again.fetch([n])[n][0] for n in range(1, 30)] == [dict(decision(n).payload) for n in range(1, 30)]
    assert again.check() == []
    assert again.list_quarantined()


def test_an_index_that_is_not_there_is_made_anew(table: Trajectories) -> None:
    table.append([decision(n) for n in range(1, 30)])
    table.maintain(force=True)
    for path in table.path.rglob("_indices/*/*.lance"):
        path.unlink()
    again = Trajectories(table.path, lock=file_lock(table.path / "lock"), sealed=lambda: 29)
    assert len(again.fetch(list(range(1, 30)))) == 29
    assert list(table.path.rglob("_indices/*/*.lance"))
    assert again.list_quarantined() == []
