"""Damaged files: found, moved aside, and made good by replaying; never wrong rows."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from memkit.errors import StoreDamaged, StoreFull, StoreReadOnly
from memkit.store import Projection
from memkit.store.lance import classify
from tests.store._rows import ids, open_projection, row

ROWS = [row(n, "ana" if n % 2 else "bob") for n in range(1, 41)]


def fill(store: Projection, after: int = 0) -> None:
    for start in range(after, 40, 10):
        store.apply(ROWS[start : start + 10], start + 10)


def manifests(root: Path) -> list[Path]:
    """Newest first: that is how LanceDB names them."""
    return sorted((root / "lance" / "memories.lance" / "_versions").glob("*.manifest"))


@pytest.mark.parametrize("content", [b"", b"garbage" * 99, None], ids=["empty", "garbage", "half"])
@pytest.mark.parametrize("stale_handle", [True, False])
def test_unreadable_newest_manifest(tmp_path: Path, content: bytes | None, stale_handle: bool) -> None:
    store = open_projection(tmp_path)
    fill(store)
    newest = manifests(tmp_path)[0]
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2] if content is None else content)
    if not stale_handle:
        store = open_projection(tmp_path)
    assert store.watermark() == 30
    assert ids(store.slice("ana")) == [r.memory_id for r in ROWS[:30] if r.bank.user_id == "ana"]
    assert newest.with_name(newest.name + ".corrupt").exists()
    fill(store, 30)
    assert len(store.slice("ana").records) == 20
    assert [p.what for p in store.check()] == ["quarantine"]


def test_no_readable_version_at_all(tmp_path: Path) -> None:
    store = open_projection(tmp_path)
    fill(store)
    for path in manifests(tmp_path):
        path.write_bytes(b"")
    assert store.watermark() == 0
    fill(store)
    assert len(store.slice("bob").records) == 20
    for path in manifests(tmp_path):
        path.unlink()
    assert open_projection(tmp_path).watermark() == 0


def test_deleted_folder_under_an_open_handle(tmp_path: Path) -> None:
    store, other = open_projection(tmp_path), open_projection(tmp_path)
    fill(store)
    assert len(other.slice("ana").records) == 20
    shutil.rmtree(tmp_path / "lance")
    assert store.watermark() == 0
    assert store.slice("ana").records == []
    store.apply(ROWS[:10], 10)
    assert len(other.slice("ana").records) == 5
    assert other.watermark() == 10


def test_a_quarantined_version_number_is_not_mistaken_for_the_old_one(tmp_path: Path) -> None:
    """The number of a quarantined version is given out again; a second process must see the new content."""
    store, other = open_projection(tmp_path), open_projection(tmp_path)
    fill(store)
    assert other.watermark() == 40
    manifests(tmp_path)[0].write_bytes(b"")
    assert store.watermark() == 30
    store.apply(ROWS[30:35], 35)
    assert (other.watermark(), other.slice("ana").watermark) == (35, 35)


def test_silent_changes_are_noticed_and_healed(tmp_path: Path) -> None:
    import lancedb

    store = open_projection(tmp_path)
    fill(store)
    table = lancedb.connect(str(tmp_path / "lance")).open_table("memories")
    table.update(where="id = 'm_7'", values={"text": "something else"})
    with pytest.raises(StoreDamaged, match="checksum"):
        store.slice("ana")
    assert len(store.slice("bob").records) == 20
    assert [(p.what, p.memory_id) for p in store.check()] == [("checksum", "m_7")]
    assert store.heal() == ["memories.lance.corrupt"]
    assert store.watermark() == 0
    fill(store)
    assert store.slice("ana").records == [(r.bank, r.record) for r in ROWS if r.bank.user_id == "ana"]


@pytest.mark.slow
def test_random_damage_is_never_silent_to_the_doctor(tmp_path: Path) -> None:
    base = tmp_path / "base"
    store = open_projection(base)
    fill(store)
    store.maintain(force=True)
    store.apply([row(41), row(42, "bob")], 42)
    files = [path.relative_to(base) for path in (base / "lance").rglob("*") if path.is_file()]
    want = {user: store.slice(user).records for user in ("ana", "bob")}
    rng = random.Random(7)
    for number in range(120):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(base, copy)
        victim = copy / rng.choice(files)
        raw = bytearray(victim.read_bytes())
        at = rng.randrange(len(raw))
        match number % 3:
            case 0:
                raw[at] ^= 1 << rng.randrange(8)
            case 1:
                raw[at : at + 64] = bytes(len(raw[at : at + 64]))
            case _:
                raw = raw[:at]
        victim.write_bytes(raw)
        damaged = open_projection(copy)
        damaged.heal()
        done = damaged.watermark()
        damaged.apply([r for r in [*ROWS, row(41), row(42, "bob")] if r.seq > done], 42)
        assert {user: damaged.slice(user).records for user in want} == want, victim
        shutil.rmtree(copy)


def test_unreadable_after_an_acknowledged_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short write can be acknowledged; the read-back must notice and fall back to the version before."""
    import lancedb.merge

    store = open_projection(tmp_path)
    store.apply(ROWS[:10], 10)
    execute = lancedb.merge.LanceMergeInsertBuilder.execute
    seen = set((tmp_path / "lance").rglob("*.lance"))

    def short_write(self, *args, **kwargs):
        result = execute(self, *args, **kwargs)
        for path in set((tmp_path / "lance").rglob("data/*.lance")) - seen:
            path.write_bytes(path.read_bytes()[:100])
        return result

    monkeypatch.setattr(lancedb.merge.LanceMergeInsertBuilder, "execute", short_write)
    with pytest.raises(StoreDamaged):
        store.apply(ROWS[10:20], 20)
    monkeypatch.undo()
    assert store.watermark() == 10
    fill(store, 10)
    assert len(store.slice("ana").records) == 20


def test_errors_are_told_apart_by_message() -> None:
    cases = {
        "lance error: LanceError(IO): No space left on device (os error 28)": StoreFull,
        "Generic LocalFileSystem error: File too large (os error 27)": StoreFull,
        "LanceError(IO): Read-only file system (os error 30)": StoreReadOnly,
        "lance error: LanceError(IO): Invalid range 0..0 for object of size 0 bytes": StoreDamaged,
    }
    assert {text: type(classify(RuntimeError(text))) for text in cases} == cases
    assert classify(KeyboardInterrupt()) is None
    assert classify(MemoryError()) is None
