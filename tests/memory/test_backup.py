"""A backup is a store as it was at one moment, and a restored store is healthy."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from memkit import Memory
from memkit.errors import InvalidInput, MemkitError, NotAStore, StoreDamaged
from memkit.runtime.copies import restore


def model(messages: list[dict[str, str]]) -> str:
    text = messages[-1]["content"].split("NEW turns:")[1].strip().splitlines()[-1][-60:]
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": f"Said: {text}", "turn": 1}]})


def prefixes(memory: Memory, count: int) -> bool:
    """Whether each writer's words are there up to a moment, in order, with none left out."""
    for number in range(count):
        said = [turn.text for turn in memory._runtime.journal.turns() if turn.bank.user_id == f"u{number}"]
        if said != [f"I said {n}." for n in range(len(said))]:
            return False
    return True


@pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_a_backup_under_load_restores_to_a_state_that_existed(tmp_path: Path, rounds: int) -> None:
    stop = threading.Event()
    with Memory(tmp_path / "s", model=model, mode="fused", config={"project_every": 8}) as memory:

        def write(number: int) -> None:
            n = 0
            while not stop.is_set():
                memory.add(f"I said {n}.", user_id=f"u{number}")
                n += 1
                if n % 9 == 0:
                    memory.flush()

        writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for one in writers:
            one.start()
        reached: list[int] = []
        try:
            for number in range(rounds):
                reached.append(memory.backup(tmp_path / f"b{number}"))
                assert restore(tmp_path / f"b{number}", tmp_path / f"r{number}") == reached[-1]
        finally:
            stop.set()
            for one in writers:
                one.join()
    assert reached == sorted(reached)
    for number in range(rounds):
        with Memory(tmp_path / f"r{number}", model=model, mode="fused") as restored:
            assert prefixes(restored, 4)
            restored.add("I live in Oslo.", user_id="u0")
            restored.flush()
            assert restored.doctor() == []
            assert len(restored.decisions(user_id="u1", last=10_000)) == len(restored.list(user_id="u1", limit=10_000))


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
