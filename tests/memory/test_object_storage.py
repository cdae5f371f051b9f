"""One LanceDB on object storage for all machines of a store in PostgreSQL: real S3 requests, on loopback."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.errors import InvalidConfig, StorageRefused, StoreBusy, StoreUnreachable
from memkit.seams.catalog import PublishedTable
from memkit.store.lance import connect_bucket
from tests.object_storage import BUCKET, ObjectStorage, own_bucket, reached
from tests.postgres import own_url

Machine = Callable[..., Memory]
IDLE = {"project_idle_s": 1e6, "project_every": 10**6}
"""Nothing is written to LanceDB but by `flush`."""
LEASE_S = 0.6


class Vectors:
    """An embedder that is worth sparing: it counts the texts it is given."""

    identity, dim, cheap = "counting@8", 8, False

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Any) -> Any:
        import numpy as np

        self.texts += texts
        found = np.array([[1.0 + (hash(text) >> bit & 1) for bit in range(8)] for text in texts], np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStorage]:
    found = own_bucket()
    monkeypatch.setenv("OBJECT_STORE_CLIENT_MAX_RETRIES", "0")
    with reached(found):
        yield found


@pytest.fixture
def machine(storage: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    url = own_url(tmp_path)
    with ExitStack() as opened:

        def open_there(name: str, **options: Any) -> Memory:
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / name))
            memory = Memory(url, lance=f"s3://{BUCKET}/{tmp_path.name}", config=IDLE, **options)
            assert memory._runtime.journal.catalog is not None
            memory._runtime.journal.catalog.lease_s = LEASE_S  # type: ignore[attr-defined]
            return opened.enter_context(memory)

        yield open_there
        storage.gate.reset()


def _rows(memory: Memory) -> Counter[str]:
    """Live rows of LanceDB, by id."""
    projection = memory._runtime.projection
    return Counter(record.id for user in projection.users() for _, record in projection.slice(user).records)


def _live(memory: Memory) -> Counter[str]:
    return Counter(record.id for _, record in memory._runtime.journal.live())


def _holding(storage: ObjectStorage, place: Path, words: bytes) -> list[str]:
    return [key for key, data in storage.objects(place.name).items() if words in data]


def test_all_machines_read_what_one_wrote(machine: Machine, storage: ObjectStorage) -> None:
    ours, theirs = Vectors(), Vectors()
    one = machine("one", embedder=ours)
    one.add("I adopted a dog named Buddy.", user_id="ana")
    one.flush()
    two = machine("two", embedder=theirs)
    assert "User adopted a dog named Buddy." in {hit.text for hit in two.search("dog", user_id="ana")}
    assert theirs.texts == ["dog"], "vectors come from object storage"
    one.add("I moved to Lisbon.", user_id="ana")
    found = two.search("Where does Ana live?", user_id="ana")
    assert "User moved to Lisbon." in {hit.text for hit in found}, "what LanceDB lacks comes from the journal"
    two.add("I like tea.", user_id="bob")
    two.flush()
    assert _rows(one) == _rows(two) == _live(one)
    assert one.doctor() == two.doctor() == []
    assert one.stats()["lance"] == two.stats()["lance"]


@pytest.mark.parametrize("kind", ["/data/", "/_transactions/", "/_versions/", "the answer"])
def test_storage_that_fails_in_a_write_costs_nothing(machine: Machine, storage: ObjectStorage, kind: str) -> None:
    """From then on there is no answer. What was begun is taken over by another machine. `python -m tests.bench
    fleet-storage` kills the machine itself, at each request that writes."""
    one, two = machine("one"), machine("two")
    for number in range(3):
        one.add(f"My ticket number is {number}.", user_id="ana", infer=False)
        if number == 1:
            one.flush()
    one.delete(one.list(user_id="ana")[0].id, user_id="ana")
    is_away = threading.Event()

    def admit(count: int, line: str) -> bool:
        if is_away.is_set():
            return False
        if line.startswith("PUT") and (kind in line or "/_versions/" in line):
            is_away.set()
        return kind not in line

    storage.gate.reset(admit)
    with pytest.raises(StoreUnreachable):
        one.flush()
    assert {hit.text for hit in two.search("ticket number", user_id="ana")} == {
        "My ticket number is 1.",
        "My ticket number is 2.",
    }
    storage.gate.reset()
    two.flush()
    assert _rows(two) == _live(two)
    assert two.doctor() == []


@pytest.mark.parametrize("erases", [False, True])
def test_a_machine_that_wakes_up_late_damages_nothing(
    machine: Machine, storage: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, erases: bool
) -> None:
    """It was stopped as it committed, with somebody at hand whom another machine, which took over after the lease,
    then ended, or erased."""
    late, other = machine("late"), machine("other")
    late.add("I collect zeppelins.", user_id="bob")
    late.add("I like tea.", user_id="ana")
    late.flush()
    late.add("I collect marbles.", user_id="bob")
    stopped, go_on = threading.Event(), threading.Event()

    def hold_the_first_commit(count: int, line: str) -> bool:
        if line.startswith("PUT") and "/_versions/" in line and not stopped.is_set():
            stopped.set()
            go_on.wait(60)
        return True

    storage.gate.reset(hold_the_first_commit)
    monkeypatch.setattr(late._runtime.journal.catalog, "_renew", lambda term, quiet: None)
    thread = threading.Thread(target=late.flush)
    thread.start()
    assert stopped.wait(60)
    if erases:
        other.erase(user_id="bob")
    else:
        other.delete_all(user_id="bob")
    other.add("I like coffee.", user_id="ana")
    other.flush()
    go_on.set()
    thread.join(60)
    assert not thread.is_alive()
    assert _rows(other) == _rows(late) == _live(other)
    other.flush()
    assert other.doctor() == late.doctor() == []
    other._runtime.projector.project(maintain=True)
    assert not _holding(storage, tmp_path, b"marbles")
    assert not _holding(storage, tmp_path, b"zeppelins")


@pytest.mark.parametrize("meanwhile", [False, True])
def test_what_others_write_into_the_bucket_counts_for_nobody(
    machine: Machine, storage: ObjectStorage, meanwhile: bool
) -> None:
    """Before a machine writes, or between the version that it began at and its own."""
    one, two = machine("one"), machine("two")
    one.add("I like tea.", user_id="ana")
    one.flush()
    catalog = one._runtime.journal.catalog
    assert catalog is not None
    published = catalog.read()
    assert published is not None
    once = threading.Event()

    def take_away() -> None:
        once.set()
        table = connect_bucket(catalog.place).open_table(published.table)
        table.delete("user_id = 'ana'")
        assert table.version > published.version

    def admit(count: int, line: str) -> bool:
        if line.startswith("PUT") and "/_versions/" in line and not once.is_set():
            take_away()
        return True

    if meanwhile:
        storage.gate.reset(admit)
    else:
        take_away()
    one.add("I like coffee.", user_id="bob")
    one.flush()
    assert once.is_set()
    assert _rows(one) == _rows(two) == _live(one)
    assert two.doctor() == []


def test_a_lease_that_went_to_another_publishes_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    late, other = (machine(name)._runtime.journal for name in ("late", "other"))
    assert late.catalog is not None
    assert other.catalog is not None
    monkeypatch.setattr(late.catalog, "_renew", lambda term, quiet: None)
    with late.applier_lock():
        with pytest.raises(StoreBusy, match="another machine is writing"), other.applier_lock(wait=False):
            pass
        with other.applier_lock():
            other.catalog.publish(PublishedTable("theirs", 1))
            assert other.catalog.term > late.catalog.term
            with pytest.raises(StoreBusy, match="taken over"):
                late.catalog.publish(PublishedTable("ours", 1))
        assert late.catalog.read() == PublishedTable("theirs", 1)
    with pytest.raises(StoreBusy):
        late.catalog.publish(None)


def test_a_lease_is_renewed_for_as_long_as_it_is_held(machine: Machine) -> None:
    one, two = (machine(name)._runtime.journal for name in ("one", "two"))
    with one.applier_lock(), pytest.raises(StoreBusy), two.applier_lock():
        pass  # it waits for twice the lease
    with two.applier_lock(wait=False):
        pass


def test_what_was_written_and_not_published_counts_for_nobody(machine: Machine, storage: ObjectStorage) -> None:
    """A machine died after its commit, before it said so."""
    one, two = machine("one"), machine("two")
    one.add("I like tea.", user_id="ana")
    one.flush()
    catalog = one._runtime.journal.catalog
    assert catalog is not None
    before = catalog.read()
    one.add("I collect marbles.", user_id="bob")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(catalog), "publish", _die)
        with pytest.raises(KeyboardInterrupt):
            one.flush()
    assert catalog.read() == before
    assert set(two._runtime.projection.users()) == {"ana"}
    two.delete_all(user_id="bob")
    two.flush()
    assert _rows(one) == _rows(two) == _live(one)
    assert one.doctor() == []


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_reader_follows_a_table_that_was_replaced(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = machine("one"), machine("two")
    one.add("I like tea.", user_id="ana")
    one.flush()
    catalog = two._runtime.journal.catalog
    assert catalog is not None
    outdated: list[PublishedTable | None] = [catalog.read()]
    one._runtime.projector.project(maintain=True)
    read = catalog.read
    monkeypatch.setattr(catalog, "read", lambda: outdated.pop() if outdated else read())
    assert two._runtime.projection.users() == {"ana"}
    assert not outdated


def test_erasing_leaves_no_byte_in_the_bucket(machine: Machine, storage: ObjectStorage, tmp_path: Path) -> None:
    one, two = machine("one"), machine("two")
    said = one.add("I adopted a dog named Buddy.", user_id="ana")
    one.add("I play chess.", user_id="ana")
    one.add("I collect zeppelins.", user_id="bob")
    two.flush()
    assert _holding(storage, tmp_path, b"Buddy")
    assert _holding(storage, tmp_path, b"zeppelins")
    two.erase(user_id="bob")
    one.erase(user_id="ana", turn_id=said.turns[0].turn_id)
    assert not _holding(storage, tmp_path, b"Buddy")
    assert not _holding(storage, tmp_path, b"zeppelins")
    two.flush()
    assert _rows(one) == _live(one)
    assert one.doctor() == two.doctor() == []


def test_objects_that_are_gone_are_read_from_the_journal_and_built_anew(
    machine: Machine, storage: ObjectStorage
) -> None:
    one = machine("one", embedder=Vectors())
    for text in ("I like tea.", "I adopted a dog named Buddy."):
        one.add(text, user_id="ana")
    one.flush()
    found = one._runtime.journal.catalog
    assert found is not None
    published = found.read()
    assert published is not None
    one._runtime.projection._table._connection().drop_table(published.table)  # type: ignore[union-attr]
    two = machine("two", embedder=Vectors())
    assert "User likes tea." in {hit.text for hit in two.search("tea", user_id="ana")}
    two.flush()
    assert one.doctor() == two.doctor() == []
    assert _rows(one) == _live(one)


def test_storage_that_refuses_or_is_away_stops_nobody(
    storage: ObjectStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    with Memory(own_url(tmp_path), lance="s3://nobodys-bucket/x", config=IDLE) as memory:
        memory.add("I like tea.", user_id="ana")
        assert memory.search("tea", user_id="ana")
        with pytest.raises(StorageRefused, match="bucket"):
            memory.flush()
        storage.gate.reset(lambda count, line: False)
        with pytest.raises(StoreUnreachable, match="does not answer"):
            memory.flush()
        assert memory.search("tea", user_id="ana")
        storage.gate.reset()
        memory.erase(user_id="ana")
        assert memory.search("tea", user_id="ana") == []


@pytest.mark.parametrize(
    "place", [Path("s3://bucket/prefix"), "gs://bucket/prefix", "file:///var/cache/memkit", "s3://b ad"]
)
def test_other_urls_are_refused_and_no_folder_of_their_name_is_made(
    place: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfig, match="lance= is a URL"):
        Memory("postgresql:///db", lance=place)
    assert list(tmp_path.iterdir()) == []
