from __future__ import annotations

from pathlib import Path

import pytest

from memkit.models import Bank
from memkit.store import Trajectories, TrajectoryRow
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
    return Trajectories(tmp_path / "lance", lock=file_lock(tmp_path / "lock"))


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
    for path in (folder / "data").glob("*"):
        path.write_bytes(b"")
    assert table.heal()
    assert table.last_seq() == 0
