"""A backup is a store as it was at one moment, and a restored store is healthy."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from memkit import Memory
from memkit.errors import InvalidInput, MemkitError, NotAStore, StoreDamaged
from memkit.runtime.copies import restore
from tests.faults._copies import copies
from tests.faults._tally import SEED


def test_a_copy_under_load_restores_to_a_state_that_existed() -> None:
    """`python -m tests.bench trust --full` makes fifty of each kind."""
    found = copies(2, SEED)
    assert (found.tried, found.broken) == (4, [])


def test_a_backup_replaces_nothing_and_half_a_one_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memkit.journal import disk

    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        memory.backup(tmp_path / "b")
        for there in (tmp_path / "b", tmp_path / "s" / "inside"):
            with pytest.raises(InvalidInput):
                memory.backup(there)
        with monkeypatch.context() as patch:
            patch.setattr(
                disk, "write_marker", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
            )
            with pytest.raises(MemkitError, match="no room left"):
                memory.backup(tmp_path / "c")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "s"]
    with pytest.raises(NotAStore, match="no backup"):
        restore(tmp_path, tmp_path / "new")


def test_a_damaged_backup_is_refused_and_a_damaged_journal_is_not_backed_up(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        for n in range(60):
            memory.add(f"I said {n}, and a good deal more besides.", user_id="ana", infer=False)
        memory.backup(tmp_path / "b")
    for folder in ("b", "s"):
        file = tmp_path / folder / "journal.sqlite"
        raw = bytearray(file.read_bytes())
        raw[4096 * 4 : 4096 * 9] = bytes(4096 * 5)
        file.write_bytes(raw)
    with pytest.raises(MemkitError):
        restore(tmp_path / "b", tmp_path / "r")
    with suppress(MemkitError), Memory(tmp_path / "s") as memory, pytest.raises(StoreDamaged):
        memory.backup(tmp_path / "c")
    assert not (tmp_path / "c").exists()
    assert not (tmp_path / "r").exists()


def test_adapters_travel_with_the_store_but_for_work_under_way(tmp_path: Path) -> None:
    from memkit.adapters.registry import Registry

    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        Registry(tmp_path / "s" / "adapters")
        (tmp_path / "s" / "adapters" / ".incoming-x").mkdir()
        (tmp_path / "s" / "adapters" / ("a" * 64)).mkdir()
        (tmp_path / "s" / "adapters" / ("a" * 64) / "adapter_config.json").write_text("{}")
        memory.backup(tmp_path / "b")
    found = {path.relative_to(tmp_path / "b").as_posix() for path in (tmp_path / "b" / "adapters").rglob("*")}
    assert found == {"adapters/registry.sqlite", f"adapters/{'a' * 64}", f"adapters/{'a' * 64}/adapter_config.json"}
