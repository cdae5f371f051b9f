"""After `erase` nothing of a user can be recovered from the store's folder, and nobody else has changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memkit.errors import StoreFull
from memkit.models import Bank
from memkit.store import Trajectories, TrajectoryRow
from memkit.store.table import LanceTable
from tests.store._rows import START, file_lock, open_projection, row, tombstone, vector


def everything_on_disk(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((root / "lance").rglob("*")) if path.is_file())


def all_versions(root: Path, name: str) -> str:
    """Every cell of every version that LanceDB can still open."""
    import lancedb

    connection = lancedb.connect(str(root / "lance"))
    cells: list[str] = []
    for version in connection.open_table(name).list_versions():
        cells.append(str(connection.open_table(name, version=version["version"]).to_arrow().to_pylist()))
    return "".join(cells)


def canary(number: int) -> str:
    return f"canary-{number * 7919 % 100_003:06d}-{'q' * (number % 5)}x"


def test_no_canary_survives(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    victim = "victim-7c1f"
    seq = 0
    for group in range(12):
        rows = [
            row(
                seq + n,
                victim if n == 3 else f"user{n}",
                text=canary(seq + n) if n == 3 else f"kept {seq + n}",
                agent=victim if n == 3 else "",
            )
            for n in range(1, 9)
        ]
        seq += 8
        store.apply(rows, seq)
        if group == 5:
            store.maintain(force=True)
    mine = [n for n in range(1, seq + 1) if n % 8 == 3]
    # Earlier revisions, deleted memories, an open tag, a branch, a quarantined version and litter hold bytes too.
    revised = row(mine[0], victim, agent=victim, seq=seq + 1, text=canary(900))
    store.apply([revised, tombstone(mine[1], victim, seq=seq + 2)], seq + 2)
    seq += 2
    import lancedb

    table = lancedb.connect(str(tmp_path / "lance")).open_table("memories")
    table.tags.create("mine", table.version)
    table.branches.create("side")
    folder = tmp_path / "lance" / "memories.lance"
    (folder / "data" / ".tmp_left").write_text(canary(901))
    newest = min((folder / "_versions").glob("*.manifest"))
    newest.with_name("1.manifest.corrupt").write_bytes(newest.read_bytes() + canary(902).encode())
    before = {f"user{n}": store.slice(f"user{n}") for n in range(1, 9) if n != 3}
    secrets = [vector(n).tobytes() for n in range(1, seq - 1) if n % 8 == 3] + [vector(seq - 1).tobytes()]
    assert len(store.slice(victim).records) == 11
    assert any(secret in everything_on_disk(tmp_path) for secret in secrets)

    report = store.erase(victim)

    assert report.rows == 12
    assert report.leftovers == 2
    disk, cells = everything_on_disk(tmp_path), all_versions(tmp_path, "memories")
    for number in [*mine, 900, 901, 902]:
        assert canary(number).encode() not in disk
        assert canary(number) not in cells
    assert victim.encode() not in disk
    assert not any(secret in disk for secret in secrets)
    assert victim not in cells
    assert store.slice(victim).records == []
    for user, old in before.items():
        new = store.slice(user)
        assert new.records == old.records
        assert np.array_equal(new.vectors, old.vectors)
    assert store.watermark() == seq
    assert store.check() == []
    assert store.erase(victim).rows == 0


def test_an_open_handle_of_another_process_follows(tmp_path: Path) -> None:
    store, other = open_projection(tmp_path), open_projection(tmp_path)
    store.apply([row(1), row(2, "bob")], 2)
    assert len(other.slice("ana").records) == 1
    store.erase("ana")
    assert other.slice("ana").records == []
    other.apply([row(3, "bob")], 3)
    assert len(store.slice("bob").records) == 2


def test_orphaned_data_of_a_killed_writer_goes_too(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    store.apply([row(1, text=canary(1)), row(2, "bob")], 2)
    data = tmp_path / "lance" / "memories.lance" / "data"
    orphan = next(iter(data.glob("*.lance")))
    (data / ("0" * 46 + "11.lance")).write_bytes(orphan.read_bytes())  # written, never committed
    store.erase("ana")
    assert canary(1).encode() not in everything_on_disk(tmp_path)
    assert len(list(data.glob("*.lance"))) == 1


@pytest.mark.parametrize("trouble", ["damaged", "full"])
def test_a_table_that_cannot_be_copied_does_not_keep_the_user(
    tmp_path: Path, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_projection(tmp_path)
    store.apply([row(n, text=canary(n)) for n in range(1, 50)], 49)
    store.apply([row(50, "bob")], 50)
    if trouble == "damaged":
        oldest = min((tmp_path / "lance/memories.lance/data").glob("*"), key=lambda path: path.stat().st_mtime_ns)
        oldest.write_bytes(oldest.read_bytes()[:-100])
    else:
        full = StoreFull("no space left")
        monkeypatch.setattr(LanceTable, "overwrite", lambda *_: (_ for _ in ()).throw(full))
    store.erase("ana")
    disk = everything_on_disk(tmp_path)
    assert not any(canary(n).encode() in disk for n in range(1, 50))
    assert store.watermark() == 0


def test_embedder_does_not_matter_for_erasure(tmp_path: Path) -> None:
    open_projection(tmp_path).apply([row(1), row(2, "bob")], 2)
    assert open_projection(tmp_path, dim=4, identity="other").erase("ana").rows == 1


def test_trajectories_are_erased_alike(tmp_path: Path) -> None:
    table = Trajectories(tmp_path / "lance", lock=file_lock(tmp_path / "lock"))
    users = ["ana", "bob"]
    payloads = {n: {"v": 1, "reply": canary(n)} for n in range(1, 61)}
    table.append(
        TrajectoryRow(n, f"d_{n}", Bank(users[n % 2]), "manager", n, payloads[n], START, blobs={"h": canary(n)})
        for n in payloads
    )
    before = [page.to_pylist() for page in table.scan(user_id="bob")]
    assert table.erase("ana").rows == 30
    disk, cells = everything_on_disk(tmp_path), all_versions(tmp_path, "trajectories")
    assert not any(canary(n).encode() in disk or canary(n) in cells for n in range(2, 61, 2))
    assert [page.to_pylist() for page in table.scan()] == before


def test_what_lancedb_could_not_remove_goes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passes over a file whose removal fails, and says nothing."""
    store = open_projection(tmp_path)
    store.apply([row(1, text=canary(1)), row(2, "bob")], 2)
    monkeypatch.setattr(LanceTable, "_drop_old_versions", lambda table, handle: None)
    assert store.erase("ana").rows == 1
    assert canary(1).encode() not in everything_on_disk(tmp_path)
    assert [record.id for _, record in store.slice("bob").records] == ["m_2"]


@pytest.mark.parametrize("torn", ["an older version", "the newest, and the index of the one before"])
def test_what_a_power_cut_tore_stops_no_reading_and_no_erasure(tmp_path: Path, torn: str) -> None:
    """LanceDB reads every manifest when it removes old versions, and it finds rows by their index."""

    def opened() -> Trajectories:
        return Trajectories(tmp_path / "lance", lock=file_lock(tmp_path / "lock"), sealed=lambda: 4)

    def decision(n: int) -> TrajectoryRow:
        return TrajectoryRow(n, f"d_{n}", Bank(f"u{n % 2}"), "manager", n, {"reply": canary(n)}, START, blobs={})

    table = opened()
    table.append([decision(n) for n in range(1, 5)])
    table.maintain(force=True)
    table.append([decision(5)])
    folder = table.path / "trajectories.lance"
    newest, older, *_ = sorted((folder / "_versions").glob("*.manifest"))
    (older if torn == "an older version" else newest).write_bytes(b"")
    if torn != "an older version":
        for path in (folder / "_indices").rglob("page_lookup.lance"):
            path.unlink()
    table = opened()
    assert sorted(table.fetch([1, 2, 3, 4])) == [1, 2, 3, 4]
    table.erase("u1")
    assert sorted(table.fetch([1, 2, 3, 4])) == [2, 4]
    assert not any(canary(n).encode() in everything_on_disk(tmp_path) for n in (1, 3, 5))


@pytest.mark.parametrize("torn", [1, 0], ids=["an older version", "the newest"])
def test_an_erasure_that_a_power_cut_ended_goes_on_though_it_took_the_last_decision(
    tmp_path: Path, torn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the journal still names was erased here before: less than all that was sealed is no damage then."""

    def opened() -> Trajectories:
        return Trajectories(tmp_path / "lance", lock=file_lock(tmp_path / "lock"), sealed=lambda: 5)

    def cut(table: LanceTable, handle: object) -> None:
        raise KeyboardInterrupt

    table = opened()
    table.append(
        [TrajectoryRow(n, f"d_{n}", Bank(f"u{n % 2}"), "manager", n, {}, START, blobs={}) for n in range(1, 6)]
    )
    with monkeypatch.context() as patch:
        patch.setattr(LanceTable, "_drop_old_versions", cut)
        with pytest.raises(KeyboardInterrupt):
            table.erase("u1")
    versions = sorted((table.path / "trajectories.lance" / "_versions").glob("*.manifest"))
    versions[torn].write_bytes(b"")
    table = opened()
    table.erase("u1")
    assert sorted(table.fetch([1, 2, 3, 4, 5])) == [2, 4]
