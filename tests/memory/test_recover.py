"""`recover`: a new store of what a damaged one still holds. And a journal that ends too early is told."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memkit import Memory
from memkit.errors import InvalidInput, NotAStore
from memkit.runtime.recovery import recover

SAY = """
import os, sys
from memkit import Memory

memory = Memory(sys.argv[1], config={"workers": 0})
for number in range(30):
    memory.add(f"The train leaves from platform {number}.", user_id="ana", infer=False)
os._exit(0)
"""


def texts(path: Path, user_id: str = "ana") -> set[str]:
    with Memory(path) as memory:
        assert memory.doctor() == []
        return {one.text for one in memory.list(user_id=user_id, limit=1_000)}


def said(count: int) -> set[str]:
    return {f"The train leaves from platform {number}." for number in range(count)}


def test_what_stands_beside_a_damaged_page_goes_on_in_a_new_store(tmp_path: Path) -> None:
    reply = '{"operations": [{"op": "ADD", "id": null, "text": "Bob keeps bees.", "turn": 1}]}'
    with Memory(tmp_path / "s", model=lambda _: reply, mode="fused") as memory:
        for number in range(300):
            memory.add(f"The train leaves from platform {number}.", user_id="ana", infer=False)
        memory.add("I keep bees.", user_id="bob")
        memory.add("I leave.", user_id="gone", infer=False)
        memory.erase(user_id="gone")
    journal = tmp_path / "s" / "journal.sqlite"
    raw = bytearray(journal.read_bytes())
    at = raw.index(b"platform 150.") // 4096 * 4096
    raw[at : at + 4096] = bytes(4096)
    journal.write_bytes(raw)
    found = recover(tmp_path / "s", tmp_path / "new")
    assert journal.read_bytes() == bytes(raw)
    kept = texts(tmp_path / "new")
    assert kept <= said(300)
    assert 200 < len(kept) < 300
    assert texts(tmp_path / "new", "bob") == {"Bob keeps bees."}
    assert found.records["intake"] > 200
    with Memory(tmp_path / "new") as memory:
        assert [one["reply"] for one in memory.decisions(user_id="bob")] == [reply]
        memory.add("And platform 301.", user_id="ana", infer=False)
    assert b"I leave." not in b"".join(path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file())


def test_a_flipped_bit_of_the_log_is_told_and_costs_what_it_hit_alone(tmp_path: Path) -> None:
    """SQLite drops what comes after it without a word."""
    ran = subprocess.run([sys.executable, "-c", SAY, str(tmp_path / "s")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    log = tmp_path / "s" / "journal.sqlite-wal"
    raw = bytearray(log.read_bytes())
    raw[raw.index(b"platform 12.") - 40] ^= 4
    log.write_bytes(raw)
    shutil.copytree(tmp_path / "s", tmp_path / "damaged")
    for _ in range(2):  # what is written from now on does not hide it
        with Memory(tmp_path / "s") as memory:
            memory.add("I am back.", user_id="ana", infer=False)
            assert len(memory.list(user_id="ana")) < 20
            assert [one.code for one in memory.doctor(repair=True)] == ["journal_behind"]
    recover(tmp_path / "damaged", tmp_path / "new")
    kept = texts(tmp_path / "new")
    assert kept <= said(30)
    assert len(kept) >= 28


def test_what_only_lancedb_still_has_is_taken_from_there(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add(["I have a cat.", "I have a boat."], user_id="ana", infer=False)
        memory.flush()
    old = (tmp_path / "s" / "journal.sqlite").read_bytes()
    with Memory(tmp_path / "s") as memory:
        memory.add("I have a dog.", user_id="ana", infer=False)
        (boat,) = [one for one in memory.list(user_id="ana") if "boat" in one.text]
        memory.delete(boat.id, user_id="ana")
        memory.flush()
    (tmp_path / "s" / "journal.sqlite").write_bytes(old)
    found = recover(tmp_path / "s", tmp_path / "new")
    assert found.records["lancedb"] >= 2
    assert texts(tmp_path / "new") == {"I have a cat.", "I have a dog."}


def test_a_new_store_is_made_in_a_new_folder_of_a_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore):
        recover(tmp_path / "nothing", tmp_path / "new")
    with Memory(tmp_path / "s") as memory:
        memory.add("I have a cat.", user_id="ana", infer=False)
    (tmp_path / "there").mkdir()
    for place in (tmp_path / "there", tmp_path / "s" / "inside"):
        with pytest.raises(InvalidInput):
            recover(tmp_path / "s", place)
    recover(tmp_path / "s", tmp_path / "new")
    assert texts(tmp_path / "new") == {"I have a cat."}
