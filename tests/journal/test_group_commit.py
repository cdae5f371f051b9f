"""Write transactions that wait for each other share one commit: each fails alone, all are durable together."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from memkit.errors import OpRejected
from memkit.journal import Journal
from memkit.models import OpDraft
from tests.journal.making import adds, intake, texts


def test_one_bad_batch_among_many_fails_alone(journal: Journal) -> None:
    barrier = threading.Barrier(24)

    def one(number: int) -> bool:
        barrier.wait()
        drafts = adds(f"fact {number}") if number % 3 else [*adds(f"fact {number}"), OpDraft("add", text=" ")]
        try:
            journal.accept(intake(f"fact {number}"), drafts=drafts)
        except OpRejected:
            return False
        return True

    with ThreadPoolExecutor(24) as pool:
        stored = list(pool.map(one, range(24)))
    assert stored == [bool(number % 3) for number in range(24)]
    assert sorted(texts(journal)) == sorted(f"fact {number}" for number in range(24) if number % 3)
    assert [op.seq for op in journal.ops()] == list(range(1, 17))
    assert journal.check() == []


def test_waiting_writers_share_commits(journal: Journal) -> None:
    commits: list[str] = []
    journal.accept(intake("first"), drafts=adds("first"))
    writer = journal._engine._writer.connection  # type: ignore[attr-defined]
    writer.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
    barrier = threading.Barrier(32)

    def one(number: int) -> None:
        barrier.wait()
        journal.accept(intake(f"fact {number}"), drafts=adds(f"fact {number}"))

    with ThreadPoolExecutor(32) as pool:
        list(pool.map(one, range(32)))
    writer.set_trace_callback(None)
    assert len(texts(journal)) == 33
    assert len(commits) < 32


def test_a_transaction_that_sqlite_gives_up_fails_all_its_members(journal: Journal) -> None:
    """A full disk ends the whole transaction: nobody in the group may believe that it was stored."""
    entered, leave = threading.Event(), threading.Event()
    outcomes: list[object] = []
    engine = journal._engine  # type: ignore[attr-defined]

    def first() -> None:
        try:
            with engine.write() as tx:
                tx.run("INSERT INTO meta VALUES ('app.first', '1')")
                entered.set()
                leave.wait(5)
        except Exception as error:
            outcomes.append(error)

    def second() -> None:
        try:
            with engine.write() as tx:
                engine._writer.group.connection.execute("ROLLBACK")
                tx.run("SELECT * FROM no_such_table")
        except Exception as error:
            outcomes.append(error)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    entered.wait(5)
    threads[1].start()
    while not engine._writer.queued:
        pass
    leave.set()
    for thread in threads:
        thread.join(10)
    assert len(outcomes) == 2
    assert journal.meta_get("first") is None
    journal.meta_set("after", "works")
    assert journal.meta_get("after") == "works"


@pytest.mark.parametrize("durable", [True, False])
def test_what_must_be_durable_never_shares_a_commit_that_is_not(journal: Journal, durable: bool) -> None:
    engine = journal._engine  # type: ignore[attr-defined]
    with engine.write(durable=durable):
        assert engine._writer.connection.execute("PRAGMA synchronous").fetchone()[0] == (2 if durable else 1)
        assert engine._writer.group.durable is durable
