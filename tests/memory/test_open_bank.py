"""The door for plugs: several memories in one commit, checked against what was read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit import Memory
from memkit.errors import Conflict, InvalidText, NotFound, StoreClosed
from memkit.models import OpDraft


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "store", redact=lambda text: text.replace("secret", "***")) as opened:
        yield opened


def test_a_commit_is_whole_found_by_search_and_logged(memory: Memory) -> None:
    bank = memory.bank(user_id="ana")
    seq, _ = bank.version()
    ops = bank.commit([OpDraft("add", text="A red box."), OpDraft("add", text="A blue jar.")], expected_seq=seq)
    assert [record.text for record in bank.live()] == ["A red box.", "A blue jar."]
    assert bank.ops(after=seq) == ops == memory.history(user_id="ana")
    assert memory.search("jar", user_id="ana")[0].text == "A blue jar."
    assert bank.get(ops[0].memory_id or "") == bank.live()[0]


def test_nothing_is_written_on_a_state_that_is_gone(memory: Memory) -> None:
    bank = memory.bank(user_id="ana")
    seq, _ = bank.version()
    memory.add("I live in Oslo.", user_id="ana")
    with pytest.raises(Conflict):
        bank.commit([OpDraft("add", text="A red box.")], expected_seq=seq)
    with pytest.raises(NotFound):
        bank.commit([OpDraft("add", text="A red box."), OpDraft("delete", "m_none")], expected_seq=bank.version()[0])
    assert len(bank.live()) == 1


def test_a_named_decision_is_applied_once(memory: Memory) -> None:
    bank = memory.bank(user_id="ana")
    bank.commit([OpDraft("add", text="A red box.")], expected_seq=0, decision_id="u_once")
    with pytest.raises(Conflict):
        bank.commit([OpDraft("add", text="A blue jar.")], expected_seq=bank.version()[0], decision_id="u_once")


def test_other_banks_are_out_of_sight(memory: Memory) -> None:
    ana, bot = memory.bank(user_id="ana"), memory.bank(user_id="ana", agent_id="bot")
    (op,) = ana.commit([OpDraft("add", text="A red box.")], expected_seq=0)
    assert bot.get(op.memory_id or "") is None
    assert bot.live() == bot.ops() == bot.turns() == []


def test_what_was_said_and_whether_it_is_decided(memory: Memory) -> None:
    bank = memory.bank(user_id="ana")
    added = memory.add("I live in Oslo.", user_id="ana", session_id="s", wait=False)
    assert bank.wait_settled(added.trace_id, 10)
    assert [turn.text for turn in bank.turns("s")] == ["I live in Oslo."]
    assert [op.action for op in bank.ops(intake_id=added.trace_id)] == ["add"]


def test_texts_of_callers_are_redacted_blank_ones_too(memory: Memory) -> None:
    bank = memory.bank(user_id="ana")
    assert [bank.redact("a secret"), bank.redact(" ")] == ["a ***", " "]


def test_what_is_redacted_may_be_all_of_a_text_and_longer_than_a_message(tmp_path: Path) -> None:
    pins = lambda text: text.replace("4711", "")  # noqa: E731
    with Memory(tmp_path / "m", redact=pins, config={"max_message_bytes": 9}) as opened:
        bank = opened.bank(user_id="ana")
        assert [bank.redact("4711"), bank.redact("x" * 10)] == ["", "x" * 10]
    with Memory(tmp_path / "m", redact=lambda text: None) as opened, pytest.raises(InvalidText, match="NoneType"):  # type: ignore[arg-type,return-value]
        opened.bank(user_id="ana").redact("4711")


def test_a_closed_memory_says_so(memory: Memory) -> None:
    bank = memory.bank(user_id="ana")
    memory.close()
    with pytest.raises(StoreClosed):
        bank.live()
