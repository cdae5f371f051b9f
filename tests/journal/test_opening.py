"""What a path may hold, and how disks fail: typed errors, nothing touched, nothing lost."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit.errors import (
    Conflict,
    InvalidText,
    MemkitError,
    NewerFormat,
    NotAStore,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnsafe,
)
from memkit.journal import Journal, disk
from memkit.journal.schema import FORMAT
from tests.journal.making import ANA, ROOT, add, adds, finish, intake, open_journal, start, texts


def listing(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def test_a_store_keeps_its_id_and_its_rows(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "deep" / "store")
    add(journal, "a")
    name, worker = journal.store_id, journal.worker_id
    journal.close()
    with pytest.raises(StoreClosed):
        journal.live()
    again = open_journal(tmp_path / "deep" / "store")
    assert (again.store_id, texts(again)) == (name, ["a"])
    assert again.worker_id != worker
    assert json.loads((tmp_path / "deep" / "store" / "memkit.json").read_text()) == {"format": FORMAT, "store_id": name}
    again.close()
    assert not (tmp_path / "deep" / "store" / "journal.sqlite-wal").exists()
    assert {p.name for p in (tmp_path / "deep" / "store" / "locks").iterdir()} == {"store.lock", "journal.lock"}


@pytest.mark.parametrize("entry", ["notes.txt", ".hidden", "journal.sqlite", "locks/other.txt", "memkit.json.md"])
def test_a_foreign_folder_is_refused_untouched(tmp_path: Path, entry: str) -> None:
    (tmp_path / entry).parent.mkdir(exist_ok=True)
    (tmp_path / entry).write_text("mine")
    with pytest.raises(NotAStore):
        open_journal(tmp_path)
    assert listing(tmp_path) == {entry: b"mine"}


def test_a_file_or_nothing_to_read_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, read_only in ((tmp_path / "file", False), (tmp_path / "none", True)):
        with pytest.raises(NotAStore):
            open_journal(path, read_only=read_only)
    assert not (tmp_path / "none").exists()


def test_a_creation_that_was_killed_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    name = journal.store_id
    journal.close()
    (path / "memkit.json").rename(path / "memkit.json.1a2b3c4d")
    again = open_journal(path)
    assert again.store_id == name
    again.close()
    (tmp_path / "early" / "locks").mkdir(parents=True)
    (tmp_path / "early" / "journal.sqlite").touch()
    open_journal(tmp_path / "early").close()


@pytest.mark.parametrize("where", ["marker", "journal"])
def test_a_newer_format_is_refused_untouched(tmp_path: Path, where: str) -> None:
    path = tmp_path / "store"
    open_journal(path).close()
    if where == "marker":
        (path / "memkit.json").write_text(json.dumps({"format": FORMAT + 1, "store_id": "x"}))
    else:
        connection = sqlite3.connect(path / "journal.sqlite")
        connection.execute(f"PRAGMA user_version={FORMAT + 1}")
        connection.close()
    before = listing(path)
    with pytest.raises(NewerFormat):
        open_journal(path)
    after = listing(path)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("harm", ["gone", "empty", "garbage", "marker", "page"])
def test_damage_is_named(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    add(journal, *(f"fact {number}" for number in range(300)))
    journal.close()
    file = path / "journal.sqlite"
    match harm:
        case "gone":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "garbage":
            file.write_bytes(os.urandom(8192))
        case "marker":
            (path / "memkit.json").write_text("{}")
        case _:
            data = bytearray(file.read_bytes())
            data[4096 * 4 : 4096 * 40] = os.urandom(4096 * 36)
            file.write_bytes(data)
    with pytest.raises(StoreDamaged):  # noqa: PT012
        journal = open_journal(path)
        try:
            journal.ops()
        finally:
            journal.close()


def doors(path: Path, *damage: tuple[bytes, bytes]) -> tuple[Journal, str]:
    """A journal of a turn and a memory, with some bytes of its file replaced."""
    journal = open_journal(path)
    said = intake("the blue door")
    journal.accept(said, drafts=adds("the red door"))
    journal.close()
    file = path / "journal.sqlite"
    raw = file.read_bytes()
    for old, new in damage:
        raw = raw.replace(old, new)
    file.write_bytes(raw)
    return open_journal(path), said.intake_id


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    journal, said = doors(tmp_path / "store", (b"the red door", b"the rad door"), (b"the blue door", b"the blue d00r"))
    assert {problem.kind for problem in journal.check()} == {"checksum"}
    for read in (lambda: journal.live(), lambda: journal.ops(), lambda: journal.intake(said)):
        with pytest.raises(StoreDamaged):
            read()
    journal.close()


@pytest.mark.parametrize("text", [b"the red door", b"the blue door"])
def test_bytes_that_are_no_text_any_more_are_damage_and_are_not_quoted(tmp_path: Path, text: bytes) -> None:
    journal, _ = doors(tmp_path / "store", (text, text.replace(b"d", b"\xff")))
    assert {problem.kind for problem in journal.check()} == {"checksum"}
    with pytest.raises(StoreDamaged) as raised:
        list(journal.dump(None))
    assert "door" not in str(raised.value)
    assert raised.value.__suppress_context__
    journal.close()


def test_check_names_rows_that_break_a_promise(tmp_path: Path) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    (first, _) = add(journal, "a", "b")
    journal.accept(intake("c"), drafts=adds("c"))
    journal.close()
    harms = {
        "heads": "DELETE FROM heads WHERE seq = 1",
        "bank": "UPDATE banks SET last_seq = 9",
        "intake": "UPDATE ops SET intake = NULL",
        "orphan": "INSERT INTO blobs VALUES (x'00', x'00')",
    }
    for kind, statement in harms.items():
        connection = sqlite3.connect(path / "journal.sqlite", isolation_level=None)
        connection.execute("BEGIN")
        connection.execute(statement)
        connection.execute("COMMIT")
        connection.close()
        journal = open_journal(path)
        assert kind in {problem.kind for problem in journal.check()}
        assert first not in str(journal.check()) or kind == "heads"
        journal.close()


def test_network_disks_are_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share = "/mnt/team\\040share"
    table = f"/dev/vda / ext4 rw 0 0\nhost:/x {share} nfs4 rw 0 0\ntmpfs {share}/local tmpfs rw 0 0\n"
    assert disk.network_filesystem(Path("/mnt/team share/a/b"), table) == "nfs4"
    assert disk.network_filesystem(Path("/mnt/team share/local/b"), table) is None
    assert disk.network_filesystem(Path("/mnt/team shared"), table) is None
    monkeypatch.setattr(disk, "network_filesystem", lambda path: "cifs")
    with pytest.raises(StoreUnsafe, match="local disk"):
        open_journal(tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_reading_only_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    add(journal, "a")
    reader = open_journal(path, read_only=True)
    add(journal, "b")
    assert texts(reader) == ["a", "b"]
    with reader.lance_lock(False):
        pass
    for write in (lambda: add(reader, "c"), lambda: reader.accept(intake("x"), claim=True)):
        with pytest.raises(StoreReadOnly):
            write()
    reader.close()
    journal.close()


def test_lone_surrogates_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    journal = open_journal(tmp_path / "store")
    with pytest.raises(InvalidText):
        journal.accept(intake("bad \ud800"))
    assert journal.pending_count() == 0
    said = intake("x")
    journal.accept(said)
    with pytest.raises(Conflict):
        journal.accept(said)
    journal.close()


def test_opening_is_light() -> None:
    program = (
        "import sys; from memkit.journal import Journal;"
        "print({'numpy', 'pydantic', 'httpx', 'lancedb', 'pyarrow', 'asyncio'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


# -- disks that are full or cannot be written ----------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mount = tmp_path / "disk"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(mount)], capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_loses_nothing(small_disk: Path) -> None:
    path = small_disk / "store"
    journal = open_journal(path)
    kept: list[str] = []
    with pytest.raises(StoreFull):  # noqa: PT012
        for number in range(1000):
            add(journal, f"{number} " + "x" * 4000)
            kept.append(f"{number} " + "x" * 4000)
    assert texts(journal) == kept
    journal.close()
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    journal = open_journal(path)
    assert texts(journal) == kept
    add(journal, "more")
    assert journal.check() == []
    journal.close()


def test_no_store_is_made_on_a_full_disk(small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * (2 * 1024 * 1024 - 16 * 4096))
    with pytest.raises(StoreError):
        open_journal(small_disk / "store")
    (small_disk / "ballast").unlink()
    open_journal(small_disk / "store").close()


def test_a_read_only_disk_is_named_and_can_still_be_read(small_disk: Path) -> None:
    journal = open_journal(small_disk / "store")
    add(journal, "a")
    journal.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for path in (small_disk / "store", small_disk / "new"):
        with pytest.raises(StoreReadOnly) as raised:
            open_journal(path)
        assert "read_only=" not in str(raised.value), "no option of Memory"
    journal = open_journal(small_disk / "store", read_only=True)
    assert texts(journal) == ["a"]
    with journal.lance_lock(False):
        pass
    with pytest.raises(StoreReadOnly):
        add(journal, "b")
    journal.close()


def test_a_file_size_limit_loses_nothing(tmp_path: Path) -> None:
    program = f"""
        import resource
        from memkit.errors import StoreFull
        journal = open_journal(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, ({512 * 1024}, resource.RLIM_INFINITY))
        try:
            for number in range(1000):
                add(journal, str(number) + "x" * 2000)
                print(number, flush=True)
        except StoreFull:
            os._exit(0)
    """
    assert resource.RLIMIT_FSIZE is not None
    (output,) = finish([start(program, tmp_path / "store")])
    journal = open_journal(tmp_path / "store")
    assert [text.rstrip("x") for text in texts(journal)] == output.split()
    assert journal.check() == []
    journal.close()


def test_every_refusal_says_what_to_do_next(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(MemkitError) as caught:
        open_journal(tmp_path)
    assert "Next:" in str(caught.value)
    assert ANA.user_id not in str(caught.value)


def test_a_damaged_schema_is_found_when_the_store_is_opened(tmp_path: Path) -> None:
    open_journal(tmp_path / "store").close()
    file = tmp_path / "store" / "journal.sqlite"
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"claimed_by TEXT") + 9] ^= 1
    file.write_bytes(raw)
    with pytest.raises(StoreDamaged, match="schema"):
        open_journal(tmp_path / "store")


def test_the_log_shrinks_again_after_a_reader_that_took_long(tmp_path: Path) -> None:
    log = tmp_path / "store" / "journal.sqlite-wal"
    with contextlib.closing(open_journal(tmp_path / "store")) as journal:
        add(journal, "at first")
        with journal._engine.read() as tx:
            tx.all("SELECT count(*) FROM ops")
            for number in range(40):
                add(journal, f"{number}" + "x" * 300_000)
            assert log.stat().st_size > 12 << 20
        for number in range(3):
            add(journal, f"afterwards {number}")
        assert log.stat().st_size <= 8 << 20
