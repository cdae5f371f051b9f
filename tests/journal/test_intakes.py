"""A turn is applied, pending or parked; who decides it, and in which order."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from memkit.errors import Conflict, IdempotencyConflict, InvalidInput, StoreFull
from memkit.journal import DecisionRecord, Journal
from memkit.models import Bank, OpDraft
from tests.journal.making import ANA, AT, IDS, adds, intake, open_journal, start, texts

BOB = Bank("bob")


def test_an_accepted_turn_is_pending_and_comes_back_byte_for_byte(journal: Journal) -> None:
    said = intake("one\0two \U0001f468‍\U0001f469 ‮abc", "second")
    accepted = journal.accept(said)
    state = journal.intake(said.intake_id)
    assert accepted.state.status == "pending"
    assert accepted.claim is None
    assert state is not None
    assert state.intake == said
    assert (state.status, state.attempts, journal.pending_count()) == ("pending", 0, 1)


def test_drafts_are_applied_in_the_accepting_commit(journal: Journal) -> None:
    said = intake("a", "b", infer=False)
    accepted = journal.accept(said, drafts=adds("a", "b"))
    state = journal.intake(said.intake_id)
    assert state == accepted.state
    assert [op.seq for op in accepted.ops] == [1, 2]
    assert tuple(journal.ops(intake_id=said.intake_id)) == accepted.ops
    assert texts(journal) == ["a", "b"]


def test_refused_drafts_leave_nothing_behind(journal: Journal) -> None:
    said = intake("a")
    with pytest.raises(LookupError):
        journal.accept(said, drafts=[*adds("a"), OpDraft("delete", "m_nobody")])
    assert journal.intake(said.intake_id) is None
    assert journal.ops() == []


def test_an_intake_needs_a_turn(journal: Journal) -> None:
    with pytest.raises(InvalidInput):
        journal.accept(intake())


def test_claims_go_in_order_within_a_bank_and_in_parallel_over_banks(journal: Journal) -> None:
    first, second, other = intake("1"), intake("2"), intake("3", bank=BOB)
    claim = journal.accept(first, claim=True).claim
    assert claim is not None
    assert journal.accept(second, claim=True).claim is None
    elsewhere = journal.accept(other, claim=True).claim
    assert elsewhere is not None
    assert journal.claim_next() is None
    journal.apply(ANA, adds("1"), decision_id="d_1", at=AT, claim=claim)
    following = journal.claim_next()
    assert following is not None
    assert following.intake == second


def test_released_goes_back_to_the_head_of_the_line(journal: Journal) -> None:
    first = intake("1")
    claim = journal.accept(first, claim=True).claim
    journal.accept(intake("2"))
    assert claim is not None
    journal.release(claim)
    again = journal.claim_next(ANA)
    assert again is not None
    assert (again.intake_id, again.attempts) == (first.intake_id, 2)
    assert not journal.owns(claim)


def test_parked_does_not_block_and_can_be_retried(journal: Journal) -> None:
    first, second = intake("1"), intake("2")
    claim = journal.accept(first, claim=True).claim
    journal.accept(second)
    assert claim is not None
    journal.park(claim, reason="bad_reply", detail="no JSON")
    (parked,) = journal.list_parked("ana")
    assert (parked.intake, parked.status, parked.reason, parked.detail) == (first, "parked", "bad_reply", "no JSON")
    assert journal.list_parked("bob") == []
    following = journal.claim_next()
    assert following is not None
    assert following.intake == second
    journal.release(following)
    assert journal.retry([first.intake_id], bank=BOB) == 0
    assert journal.retry([first.intake_id]) == 1
    head = journal.claim_next()
    assert head is not None
    assert head.intake == first


def test_a_lost_claim_finishes_nothing(journal: Journal) -> None:
    claim = journal.accept(intake("1"), claim=True).claim
    assert claim is not None
    journal.release(claim)
    newer = journal.claim_next()
    assert newer is not None
    decision = DecisionRecord("d_1", claim.intake_id, ANA, "manager", 0, {}, AT)
    for late in (
        lambda: journal.apply(ANA, adds("late"), decision_id="d_1", at=AT, claim=claim, decisions=[decision]),
        lambda: journal.park(claim, reason="x", detail=""),
        lambda: journal.release(claim),
    ):
        with pytest.raises(Conflict):
            late()
    assert (texts(journal), journal.decisions()) == ([], [])
    journal.apply(ANA, adds("right"), decision_id="d_1", at=AT, claim=newer, decisions=[decision])
    assert texts(journal) == ["right"]
    with pytest.raises(Conflict):
        journal.apply(ANA, adds("twice"), decision_id="d_2", at=AT, claim=newer)


def test_one_decision_is_applied_once(journal: Journal) -> None:
    journal.apply(ANA, adds("a"), decision_id="d_1", at=AT)
    with pytest.raises(Conflict):
        journal.apply(ANA, adds("b"), decision_id="d_1", at=AT)


def test_the_same_key_replays_and_another_body_conflicts(journal: Journal) -> None:
    first = journal.accept(intake("a", key="k", infer=False), drafts=adds("a"))
    replayed = journal.accept(intake("a", key="k", infer=False), drafts=adds("a"))
    assert replayed.replayed
    assert (replayed.state, replayed.ops) == (first.state, first.ops)
    with pytest.raises(IdempotencyConflict):
        journal.accept(intake("b", key="k", infer=False), drafts=adds("b"))
    assert not journal.accept(intake("b", key="k", bank=BOB)).replayed
    assert journal.accept(intake("b", key="k", bank=BOB)).state.status == "pending"
    assert len(journal.ops()) == 1


def test_turns_before_an_intake_are_the_newest_of_its_session(journal: Journal) -> None:
    for text in ("1", "2", "3"):
        journal.accept(intake(text))
    journal.accept(intake("elsewhere", session="other"))
    now = intake("4", "5")
    journal.accept(now)
    journal.accept(intake("6"))
    found = journal.turns(bank=ANA, session_id="s", before=now.intake_id, limit=2)
    assert [turn.text for turn in found] == ["2", "3"]
    assert [t.text for t in journal.turns(bank=ANA, session_id="s", before=now.turns[1].turn_id, limit=2)] == ["3", "4"]
    assert journal.turns(turn_ids=[now.turns[1].turn_id]) == [now.turns[1]]
    assert journal.turns(intake_id=now.intake_id) == list(now.turns)


def test_waiting_misses_no_change(journal: Journal) -> None:
    seen = journal.wait_change(0)
    journal.accept(intake("1"))
    assert journal.wait_change(30, seen) > seen
    waiter = threading.Thread(target=journal.wait_change, args=(30,))
    waiter.start()
    while waiter.is_alive():
        journal.accept(intake("x"))
        waiter.join(0.01)


def test_what_a_closed_journal_held_is_free(tmp_path: Path, journal: Journal) -> None:
    other = open_journal(tmp_path / "store")
    assert other.accept(intake("1"), claim=True).claim is not None
    assert journal.claim_next() is None
    other.close()
    assert journal.claim_next() is not None


def test_claims_of_the_killed_are_taken_over_and_nobody_steals_from_the_living(tmp_path: Path) -> None:
    program = """
        journal = open_journal(Path(sys.argv[1]))
        claim = journal.accept(intake(sys.argv[2], bank=Bank(sys.argv[2])), claim=True).claim
        print(claim.intake_id, flush=True)
        sys.stdin.readline()
        journal.apply(claim.bank, adds("done"), decision_id=IDS.new("d"), at=AT, claim=claim)
    """
    path = tmp_path / "store"
    journal = open_journal(path)
    doomed, living = start(program, path, "doomed"), start(program, path, "living")
    with doomed, living:
        assert doomed.stdout is not None
        assert living.stdout is not None
        doomed_id, _ = doomed.stdout.readline().strip(), living.stdout.readline()
        assert journal.claim_next() is None
        doomed.kill()
        doomed.wait()
        taken = journal.claim_next()
        assert taken is not None
        assert (taken.intake_id, taken.attempts) == (doomed_id, 2)
        assert journal.claim_next() is None
        living.communicate("go\n", timeout=30)
        assert living.returncode == 0
    assert texts(journal, Bank("living")) == ["done"]
    journal.apply(taken.bank, adds("mine"), decision_id=IDS.new("d"), at=AT, claim=taken)
    assert journal.pending_count() == 0
    journal.close()


def test_a_worker_that_cannot_say_that_it_lives_says_why(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    journal.accept(intake("it rains"))

    def full(_handle: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("memkit.journal.locks.os.write", full)
        with pytest.raises(StoreFull):
            journal.claim_next()
    claim = journal.claim_next()
    assert claim is not None
    assert claim.intake.turns[0].text == "it rains"
