"""What goes with turns that are destroyed, op by op: nothing that came from them stays, and nothing else goes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from memkit.engine.drawn import Drawn, drawn_from, echoes, repeating
from memkit.models import Bank, MemoryRecord, Op, OpDraft, Turn
from memkit.ops import BankState, Context, Past, apply

MAY = datetime(2026, 5, 1, tzinfo=UTC)
ANA = Bank("ana")
GONE = {"t2"}


class Log:
    """A bank that is written to as the runtime does."""

    def __init__(self) -> None:
        self.state, self.ops = BankState(), list[Op]()

    def write(self, action: str, text: str = "", turn: str = "", memory_id: str | None = None) -> str:
        draft = OpDraft(action, memory_id, text or None, (turn,) if turn else ())  # type: ignore[arg-type]
        return self._apply(draft, "decision" if turn else "api")

    def undo(self) -> None:
        found = Past(self.ops).compensate({self.ops[-1].op_id})
        assert found is not None
        self._apply(found.draft, "undo", found.undoes)

    def _apply(self, draft: OpDraft, cause: str, *undoes: str) -> str:
        context = Context(ANA, f"d{len(self.ops)}", len(self.ops) + 1, MAY, MAY, cause=cause)
        self.state, ops = apply(self.state, [draft], context)
        self.ops += [replace(op, undoes=undoes[0] if undoes else None) for op in ops]
        return ops[0].memory_id or ""

    def without(self) -> tuple[list[int], list[str]]:
        """Numbers of the ops that stay; what memories that went back say."""
        found = drawn_from(self.ops, GONE)
        return [op.seq for op in self.ops if op.seq not in found.ops], [one.image.text for one in found.back]


@pytest.fixture
def log() -> Log:
    return Log()


def test_what_a_turn_began_goes_whole(log: Log) -> None:
    oslo = log.write("add", "Oslo", "t2")
    log.write("update", "Oslo, Norway", "t3", oslo)
    log.write("delete", turn="t4", memory_id=oslo)
    assert log.without() == ([], [])


def test_a_change_is_taken_back_where_nothing_was_built_on_it(log: Log) -> None:
    log.write("update", "Oslo, hunter2", "t2", log.write("add", "Oslo", "t1"))
    assert log.without() == ([1], ["Oslo"])
    (back,) = drawn_from(log.ops, GONE).back
    assert (back.ground.seq, back.image.revision, back.image.source_turns) == (1, 2, ("t1",))


def test_what_was_built_on_a_change_goes_with_it(log: Log) -> None:
    oslo = log.write("add", "Oslo", "t1")
    log.write("update", "Oslo, hunter2", "t2", oslo)
    log.write("update", "Bergen, hunter2", "t3", oslo)
    assert log.without() == ([], [])


def test_what_was_only_said_again_stays(log: Log) -> None:
    oslo = log.write("add", "Oslo", "t1")
    log.write("noop", turn="t2", memory_id=oslo)
    log.write("add", "Oslo.", "t3")
    assert log.without() == ([1, 2, 3], [])


def test_a_change_that_was_undone_leaves_what_was_before(log: Log) -> None:
    oslo = log.write("add", "Oslo", "t1")
    log.write("update", "Oslo, hunter2", "t2", oslo)
    log.undo()
    assert log.without() == ([1], ["Oslo"])


def test_what_was_ended_does_not_come_back(log: Log) -> None:
    oslo = log.write("add", "Oslo", "t1")
    log.write("delete", turn="t2", memory_id=oslo)
    assert log.without() == ([1, 2], [])
    tea = log.write("add", "tea", "t1")
    log.write("update", "tea, hunter2", "t2", tea)
    log.write("delete", memory_id=tea)
    assert log.without() == ([1, 2], [])


def test_a_memory_goes_whole_where_another_says_by_now_what_it_said(log: Log) -> None:
    oslo = log.write("add", "Oslo", "t1")
    log.write("update", "Oslo, hunter2", "t2", oslo)
    log.write("add", "Oslo", "t3")
    assert log.without() == ([3], [])


def test_memories_that_are_named_go_whole(log: Log) -> None:
    oslo = log.write("add", "Oslo", "t1")
    log.write("add", "tea", "t1")
    found = drawn_from(log.ops, set(), memories=[oslo])
    assert (found.ops, found.memories) == ({1}, {oslo: 1})
    assert drawn_from(log.ops, set()) == Drawn()


def turn(name: str, text: str, role: str = "user", session: str = "s") -> Turn:
    return Turn(name, name, ANA, 0, role, text, MAY, session_id=session)


def test_an_assistant_that_repeats_it_in_the_same_talk_is_an_echo() -> None:
    said = [
        turn("t1", "Noted, hunter2.", "assistant"),  # before it was said
        turn("t2", "my garage password is hunter2"),
        turn("t3", "Noted, hunter2.", "assistant"),
        turn("t4", "How is the dog today?", "assistant"),
        turn("t5", "hunter2, as I said"),
    ]
    assert echoes(said[:4], GONE) == {"t3"}
    assert echoes(said, GONE) == set()  # the user says it elsewhere too


def test_a_code_that_an_assistant_repeats_in_another_talk_is_an_echo_too() -> None:
    said = [
        turn("t1", "hunter2? 2026?", "assistant", session="other"),  # before it was said
        turn("t2", "my garage password of 2026 is hunter2"),
        turn("t3", "You told me: hunter2.", "assistant", session="other"),
        turn("t4", "In 2026 there were four.", "assistant", session="other"),
        turn("t5", "The password of 2026?", "assistant", session="other"),
    ]
    assert echoes(said, GONE) == {"t3", "t5"}


def test_a_name_that_a_model_carried_into_another_memory_is_found(log: Log) -> None:
    log.write("add", "The garage code of Zanzibarite is 4711", "t2")
    log.write("add", "User bought a router (code 4711)", "t3")
    log.write("add", "User has a garage in Oslo", "t4")
    said = [turn("t2", "the code of Zanzibarite is 4711"), turn("t3", "a router"), turn("t4", "garage in Oslo")]
    assert repeating(log.ops, said, GONE, since=1) == {2}
    assert drawn_from(log.ops, GONE, also={2}).ops == {1, 2}


def test_records_are_compared_by_what_they_say() -> None:
    one = MemoryRecord("m", "Oslo", metadata={"a": 1})
    first = Op("d#0", 1, ANA, "add", "m", "Oslo", None, one, ("t1",), "d", MAY, MAY)
    second = Op(
        "e#0", 2, ANA, "update", "m", "Oslo", one, replace(one, metadata={"a": "hunter2"}), ("t2",), "e", MAY, MAY
    )
    assert drawn_from([first, second], GONE).ops == {2}
