"""After an erasure nothing of the user can be read, and everything of the others can."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from memkit.errors import Conflict, NotFound, StoreBusy
from memkit.journal import DecisionRecord, FeedbackRecord, Journal, Trace
from memkit.journal.sqlite import SqliteEngine
from memkit.models import Bank, OpDraft, digest
from memkit.ops import BankState, inverse
from tests.journal.making import ANA, AT, IDS, add, adds, finish, intake, open_journal, start

BOB = Bank("bob")
SHARED = "the same instructions for everybody"


def live_a_life(journal: Journal, bank: Bank, canary: str) -> None:
    """Leave `canary` wherever text can end up."""
    for number in range(30):
        said = intake(f"{canary} turn {number} " + "x" * 50 * number, bank=bank, key=f"{canary}-key-{number}")
        claim = journal.accept(said, claim=True).claim
        assert claim is not None
        prompts = {digest(text): text for text in (SHARED, f"{canary} prompt {number}")}
        decision = DecisionRecord(
            IDS.new("d"), said.intake_id, bank, "manager", 0, {"reply": f"{canary} reply"}, AT, prompts
        )
        journal.record(decision)
        journal.apply(bank, adds(f"{canary} fact {number}"), decision_id=decision.decision_id, at=AT, claim=claim)
        trace = Trace(IDS.new("s"), "search", bank, 1, {"query": f"{canary} query"}, AT)
        journal.write_trace(trace)
        journal.add_feedback(FeedbackRecord(IDS.new("f"), trace.trace_id, {"comment": f"{canary} bad"}, "api", AT))
    for _, record in journal.live(bank=bank)[:10]:
        journal.apply(bank, [OpDraft("delete", record.id)], decision_id=IDS.new("u"), at=AT)
    claim = journal.accept(intake(f"{canary} parked", bank=bank), claim=True).claim
    assert claim is not None
    journal.park(claim, reason="bad_reply", detail=f"{canary} detail")
    journal.accept(intake(f"{canary} pending", bank=bank))


def bytes_of(path: Path) -> bytes:
    """Read by another process: closing a handle here would drop this process's locks on the file."""
    return subprocess.run(["cat", *map(str, filter(Path.is_file, path.rglob("*")))], capture_output=True).stdout


def test_nothing_readable_is_left_and_others_are_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    bank, coach = Bank("canary-user"), Bank("canary-user", "canary-agent")
    for one, name in ((bank, "canary-a"), (BOB, "bobs"), (coach, "canary-b"), (ANA, "anas")):
        live_a_life(journal, one, name)
    journal.set_trainable("canary-user", False)
    before = {one: BankState().fold(journal.ops(bank=one)).hash() for one in (BOB, ANA)}
    bobs = (journal.decisions(user_id="bob"), list(journal.iter_traces(user_id="bob")), journal.turns(bank=BOB))
    newest = journal.last_seq()
    assert b"canary" in bytes_of(path)
    receipt = journal.erase("canary-user")
    assert b"canary" not in bytes_of(path)
    assert receipt.scrubbed
    assert (receipt.counts["turns"], receipt.counts["banks"]) == (64, 2)
    assert {one: BankState().fold(journal.ops(bank=one)).hash() for one in (BOB, ANA)} == before
    assert bobs == (journal.decisions(user_id="bob"), list(journal.iter_traces(user_id="bob")), journal.turns(bank=BOB))
    assert journal.blob(digest(SHARED)) == SHARED
    with pytest.raises(NotFound):
        journal.blob(digest("canary-a prompt 1"))
    assert [info.user_id for info in journal.users()] == ["ana", "bob"]
    assert journal.last_seq() == newest
    assert journal.check() == []
    journal.close()
    assert b"canary" not in bytes_of(path)


def test_numbers_are_not_used_again_and_caches_can_tell(journal: Journal) -> None:
    add(journal, "a", "b")
    version = journal.bank_version(ANA)
    journal.erase("ana")
    erased = journal.bank_version(ANA)
    assert (version, erased[0]) == ((2, 0), 0)
    assert erased[1] > 0
    add(journal, "c")
    assert [op.seq for op in journal.ops()] == [3]
    assert journal.bank_version(ANA) == (3, erased[1])


def test_caches_can_tell_though_what_was_begun_later_was_done_first(journal: Journal) -> None:
    for bank in (ANA, Bank("bob")):
        journal.apply(bank, adds("tea"), decision_id=f"d_{bank.user_id}", at=AT)
        journal.begin_erase(bank.user_id)
    journal.erase("bob")
    before = journal.bank_version(Bank("eve"))
    journal.erase("ana")
    assert journal.bank_version(Bank("eve")) > before
    assert [receipt.subject for receipt in journal.erasures()] == [journal.subject("bob"), journal.subject("ana")]


def test_what_was_under_way_resurrects_nothing(journal: Journal) -> None:
    add(journal, "a")
    (op,) = journal.ops()
    back = inverse(op)
    assert back is not None
    journal.apply(ANA, [back], decision_id="u1", at=AT, undoes=[op.op_id])
    undo_delete = inverse(journal.ops()[-1])
    assert undo_delete is not None
    claim = journal.accept(intake("b"), claim=True).claim
    assert claim is not None
    journal.erase("ana")
    late = DecisionRecord("d_late", claim.intake_id, ANA, "manager", 0, {}, AT)
    answer = DecisionRecord("d_answer", None, ANA, "answerer", 1, {}, AT)
    for what in (
        lambda: journal.apply(ANA, [undo_delete], decision_id="u2", at=AT, undoes=[op.op_id]),
        lambda: journal.apply(ANA, adds("b"), decision_id="d2", at=AT, claim=claim),
        lambda: journal.apply(ANA, adds("b"), decision_id="d2", at=AT, intake_id=claim.intake_id),
        lambda: journal.record(late),
        lambda: journal.record(answer),
        lambda: journal.add_feedback(FeedbackRecord("f", claim.intake_id, {}, "api", AT)),
    ):
        with pytest.raises((Conflict, NotFound)):
            what()
    journal.write_trace(Trace("s_late", "search", ANA, 1, {"query": "b"}, AT))
    assert list(journal.iter_traces()) == []
    assert (journal.live(), journal.ops(), journal.users(), journal.decisions()) == ([], [], [], [])
    assert journal.claim_next() is None


def test_an_erasure_that_was_killed_is_finished_at_the_next_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    live_a_life(journal, Bank("canary-user"), "canary")

    def killed(_: SqliteEngine) -> None:
        raise StoreBusy("in the way")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteEngine, "scrub", killed)
        with pytest.raises(StoreBusy):
            journal.erase("canary-user")
    assert journal.live() == []
    assert not journal.erasures()[0].scrubbed
    journal.close()
    open_journal(path).close()
    assert b"canary" not in bytes_of(path)


def test_an_intent_is_remembered_until_the_rows_are_gone(tmp_path: Path) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    add(journal, "a")
    journal.begin_erase("ana")
    journal.close()
    journal = open_journal(path)
    assert journal.unfinished_erasures() == ["ana"]
    journal.erase("ana")
    assert journal.unfinished_erasures() == []
    assert len(journal.erasures()) == 1
    journal.close()


def test_erasing_under_load_from_another_process(tmp_path: Path) -> None:
    path = tmp_path / "store"
    journal = open_journal(path)
    live_a_life(journal, Bank("canary-user"), "canary")
    program = """
        journal = open_journal(Path(sys.argv[1]))
        print("on", flush=True)
        count = 0
        while not (Path(sys.argv[1]) / "stop").exists():
            add(journal, f"fact {count}", bank=Bank("bob"))
            assert len(journal.live(user_id="bob", limit=50)) == min(50, count + 1)
            count += 1
        print(count)
    """
    other = start(program, path)
    assert other.stdout is not None
    other.stdout.readline()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            journal.ops(user_id="bob", limit=20)

    reader = threading.Thread(target=read)
    reader.start()
    journal.erase("canary-user")
    assert b"canary" not in bytes_of(path)
    stop.set()
    reader.join()
    (path / "stop").write_text("x")
    (count,) = finish([other])
    assert journal.count_live(user_id="bob") == int(count)
    assert journal.check() == []
    journal.close()
