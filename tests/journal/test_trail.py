"""Decisions, reads and feedback: what can be learned from later."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memkit.errors import InvalidInput, NotFound
from memkit.journal import DecisionRecord, FeedbackRecord, Journal, Trace
from memkit.models import Bank, digest
from tests.journal.making import ANA, AT, IDS, add, intake

BOB = Bank("bob")


def decision(bank: Bank = ANA, intake_id: str | None = None, **payload: object) -> DecisionRecord:
    prompt = f"prompt of {bank.user_id}"
    return DecisionRecord(
        IDS.new("d"), intake_id, bank, "manager", 3, {"v": 1, **payload}, AT, {digest(prompt): prompt}
    )


def test_a_decision_comes_back_whole(journal: Journal) -> None:
    said = intake("hello")
    journal.accept(said)
    first = decision(intake_id=said.intake_id, reply="ADD \0 é", logprobs=[-0.25, -1e-9], apply=None)
    journal.record(first)
    journal.record(decision(BOB))
    assert journal.decisions(intake_id=said.intake_id) == [first]
    assert journal.blob(digest("prompt of ana")) == "prompt of ana"
    assert [d.bank for d in journal.decisions(after=first.decision_id)] == [BOB]


def test_blobs_are_stored_once_and_must_carry_their_hash(journal: Journal) -> None:
    for _ in range(3):
        journal.record(decision())
    with pytest.raises(InvalidInput):
        journal.record(DecisionRecord("d_x", None, ANA, "manager", 0, {}, AT, {digest("a"): "b"}))
    assert len(journal.decisions()) == 3


def test_traces_are_scoped_and_feedback_is_idempotent(journal: Journal) -> None:
    trace = Trace(IDS.new("s"), "search", Bank("ana", "coach"), 4, {"query": "pets?"}, AT)
    journal.write_trace(trace)
    assert journal.trace("ana", trace.trace_id) == trace
    assert journal.trace("bob", trace.trace_id) is None
    feedback = FeedbackRecord("f_1", trace.trace_id, {"reward": 1.0}, "api", datetime.now(UTC))
    assert journal.add_feedback(feedback)
    assert not journal.add_feedback(feedback)
    assert journal.feedback_for(trace.trace_id) == [feedback]
    with pytest.raises(NotFound):
        journal.add_feedback(FeedbackRecord("f_2", "s_none", {}, "api", AT))
    assert journal.user_banks("ana") == []  # reading makes nobody a user with memories
    assert journal.users() == []


def test_traces_iterate_in_the_order_they_were_written(journal: Journal) -> None:
    for number in range(1100):
        journal.write_trace(Trace(f"s_{number}", "search" if number % 2 else "answer", ANA, 0, {}, AT))
    assert [t.trace_id for t in journal.iter_traces(user_id="ana")] == [f"s_{n}" for n in range(1100)]
    assert len(list(journal.iter_traces(kinds=["answer"], after="s_9"))) == 545


def test_users_can_be_kept_out_of_training_with_banks_to_come(journal: Journal) -> None:
    add(journal, "a")
    journal.set_trainable("ana", False)
    journal.set_trainable(BOB, False)
    assert not journal.is_trainable(Bank("ana", "later"))
    assert not journal.is_trainable(BOB)
    assert journal.is_trainable(Bank("bob", "other"))
    assert [info.trainable for info in journal.users()] == [False]
    journal.set_trainable("ana", True)
    journal.set_trainable(BOB, True)
    assert journal.is_trainable(ANA)
    assert journal.is_trainable(BOB)


def test_settings_are_kept(journal: Journal) -> None:
    assert journal.meta_get("embedder") is None
    journal.meta_set("embedder", "hash/1:384")
    journal.meta_set("embedder", "minilm")
    assert journal.meta_get("embedder") == "minilm"
