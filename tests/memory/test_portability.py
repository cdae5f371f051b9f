"""Export and import: a file is whole or not there, a refused import leaves nothing, what a store wrote comes back."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit import errors as e
from memkit.models import JSON, OpDraft

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "store") as opened:
        yield opened


def records(path: Path) -> list[JSON]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[1:-2]]


def write(path: Path, lines: list[JSON]) -> Path:
    whole = [{"memkit_export": 1}, *lines, {"memkit_end": len(lines)}]
    path.write_text("".join(json.dumps(line) + "\n" for line in whole))
    return path


def is_empty(memory: Memory) -> bool:
    journal = memory._runtime.journal
    return not list(journal.dump()) and journal.last_seq() == 0


# -- what a store wrote comes back -------------------------------------------------------------------------------------


def everything(path: Path) -> Memory:
    """A store with all that a store can hold."""

    def model(messages: Any) -> str:
        said = str(messages)
        if "Where" in said:
            return '{"used": [1], "answer": "in Bergen"}'
        return "no operations at all" if "mumble" in said else '[{"op": "ADD", "text": "Ana lives in Oslo."}]'

    memory = Memory(
        path,
        model=model,
        mode="fused",
        redact=lambda text: text.replace("4111", "[card]"),
        config={"max_message_bytes": 400_000, "workers": 0},
    )
    assert memory.add("I live in Oslo.", user_id="ana", session_id="s1", at=MAY).status == "applied"
    assert memory.add("mumble", user_id="ana", idempotency_key="k").status == "parked"
    said = {"role": "tool", "name": "Клара 🦊", "content": "card 4111 " + "ü" * 150_000}
    long = memory.add(said, user_id="ana", agent_id=" x'", metadata={"a": {"b": [1, None, "\u2028"]}}, infer=False)
    for _ in range(2):  # the second time, a source turn more
        memory.add("tea", user_id="ana", infer=False, expires_at=MAY)
    gone = memory.add("gone", user_id="ana", infer=False, at="2026-01-01T00:00:00+05:30").ops[0].memory_id
    memory.update(str(gone), "going", user_id="ana", metadata={"n": 1})
    memory.delete(str(gone), user_id="ana")
    memory.undo(user_id="ana", op_id=memory.history(user_id="ana", memory_id=str(gone))[-1].op_id)
    memory.undo(user_id="ana", turn_id=long.turns[0].turn_id)
    memory.import_([{"text": "of elsewhere", "user_id": "bob", "key": "7", "kind": "episode", "speaker": "Bob"}])
    bank = memory.bank(user_id="bob", agent_id="plug")
    seq = bank.commit(
        [OpDraft("add", text="a note", trust=0.5, trainable=False)], expected_seq=0, decision_id="x" * 600
    )[0].seq
    note = bank.live()[0].id
    bank.commit(
        [OpDraft("noop", note), OpDraft("noop", text=""), OpDraft("delete", note, text="why")], expected_seq=seq
    )
    memory.trainable(False, user_id="bob")
    memory.add("erased", user_id="eve", infer=False)
    memory.erase(user_id="eve")
    answer = memory.answer("Where does Ana live?", user_id="ana")
    memory.feedback(answer.trace_id, reward=0.5, comment="4111", user_id="ana")
    hits = memory.search("tea", user_id="ana", as_of=MAY + timedelta(days=1))
    memory.observe(hits.trace_id, "tea", user_id="ana")
    memory.context("tea", user_id="ana", agent_id="nobody")
    memory.feedback(long.trace_id, label="up", user_id="ana")
    memory.flush()
    memory.add("I moved to Bergen.", user_id="ana", wait=False)
    return memory


def test_a_store_with_all_that_there_can_be_comes_back_as_it_was(tmp_path: Path) -> None:
    with everything(tmp_path / "store") as memory:
        memory.export(tmp_path / "first")
    found = records(tmp_path / "first")
    assert {line["record"] for line in found} == {"intake", "op", "decision", "trace", "feedback", "untrainable"}
    assert {line["action"] for line in found if line["record"] == "op"} == {"add", "update", "delete", "noop"}
    assert {line["status"] for line in found if line["record"] == "intake"} == {"applied", "parked", "pending"}
    assert {line["kind"] for line in found if line["record"] == "trace"} == {"answer", "search", "context"}
    with Memory(tmp_path / "other", config={"workers": 0}) as other:
        assert other.import_(tmp_path / "first") == len(found)
        other.export(tmp_path / "second")
        assert records(tmp_path / "second") == found
        assert other.import_(tmp_path / "first") == 0
        assert other.doctor() == []
    with Memory(tmp_path / "shared", config={"workers": 0}) as shared:  # where other numbers are given
        shared.add("I was here before.", user_id="carl", infer=False)
        assert shared.import_(tmp_path / "first") == len(found)
        assert shared.doctor() == []
        shared.export(tmp_path / "third")
    moved = records(tmp_path / "third")
    numbers = {0} | {line["seq"] for line in moved if line["record"] == "op" and line["bank"]["user_id"] != "carl"}
    assert {line["state_seq"] for line in moved if "state_seq" in line} <= numbers, "states are renumbered as ops are"
    with Memory(tmp_path / "last", config={"workers": 0}) as last:
        assert last.import_(tmp_path / "third") == len(found) + 2


# -- an export is of one moment ----------------------------------------------------------------------------------------


def a_day(memory: Memory, user_id: str, number: int) -> None:
    """Everything that somebody may do while an export is being written."""
    answered = memory.add(f"I live in city {number}.", user_id=user_id)
    memory.feedback(memory.search("where?", user_id=user_id).trace_id, label="up", user_id=user_id)
    memory.feedback(answered.trace_id, label="up", user_id=user_id)
    first = memory.list(user_id=user_id)[0]
    memory.delete(first.id, user_id=user_id) if number % 2 else memory.update(first.id, f"{number}", user_id=user_id)


def test_an_export_holds_what_was_there_at_its_first_record(memory: Memory) -> None:
    a_day(memory, "ana", 0)
    memory.flush()
    before, journal = list(memory._runtime.journal.dump()), memory._runtime.journal
    export = journal.dump()
    found = [next(export)]
    for number in range(1, 4):
        a_day(memory, "ana", number)
        a_day(memory, "bob", number)
        memory.flush()
        found.append(next(export))
    assert found + list(export) == before
    assert len(list(journal.dump())) > len(before)


def test_every_export_while_others_write_can_be_imported(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, days, errors = threading.Event(), list[str](), list[Exception]()
    dump = memory._runtime.journal.dump

    def live(user_id: str) -> None:
        try:
            while not stop.is_set():
                a_day(memory, user_id, days.count(user_id))
                days.append(user_id)
        except Exception as error:
            errors.append(error)

    def slow(user_id: str | None) -> Iterator[JSON]:
        """Somebody lives a day before every twentieth record is read."""
        for number, record in enumerate(dump(user_id)):
            before = len(days)
            while number % 20 == 0 and len(days) == before and not errors:
                time.sleep(0.001)
            yield record

    monkeypatch.setattr(memory._runtime.journal, "dump", slow)
    threads = [threading.Thread(target=live, args=(f"user{n}",)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(4):
            memory.export(tmp_path / f"{number}")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors
    for number in range(4):
        with Memory(tmp_path / f"other{number}", config={"workers": 0}) as other:
            assert other.import_(tmp_path / f"{number}") == len(records(tmp_path / f"{number}"))
            assert other.doctor() == []


def torn(memory: Memory, path: Path) -> list[JSON]:
    """An export as earlier versions could write it: turns first, and the rest when more had been said."""
    memory.add("tea", user_id="ana", infer=False)
    memory.add("I live in Oslo.", user_id="ana")
    memory.export(path)
    early = records(path)
    said = memory.add("I moved to Bergen.", user_id="ana")
    memory.feedback(said.trace_id, label="up", user_id="ana")
    memory.update(memory.list(user_id="ana")[-1].id, "Ana lives in Bergen, by the sea.", user_id="ana")
    memory.add("I adopted a dog named Buddy.", user_id="bob")
    memory.feedback(memory.search("where?", user_id="ana").trace_id, label="up", user_id="ana")
    memory.export(path)
    turns = [line for line in early if line["record"] == "intake"]
    return turns + [line for line in records(path) if line["record"] != "intake"]


def test_of_a_torn_export_everything_is_taken_over_that_stands_on_what_it_holds(memory: Memory, tmp_path: Path) -> None:
    file = write(tmp_path / "e", torn(memory, tmp_path / "e"))
    with Memory(tmp_path / "other") as other:
        with pytest.raises(e.InvalidInput, match="does not hold") as refused:
            other.import_(file)
        assert "drop_dangling=True (--drop-dangling)" in refused.value.fix
        assert is_empty(other)
        found = other.import_(file, drop_dangling=True)
        assert found.dropped == {"op": 5, "decision": 4, "feedback": 1}
        assert found + sum(found.dropped.values()) == len(records(file))
        assert [record.text for record in other.list(user_id="ana")] == ["tea", "User lives in Oslo."]
        assert other.doctor() == []
        assert other.import_(file, drop_dangling=True) == 0


def test_a_turn_that_a_torn_export_holds_undecided_is_decided_again(memory: Memory, tmp_path: Path) -> None:
    memory.add("I live in Oslo.", user_id="ana")
    memory.export(tmp_path / "e")
    lines = records(tmp_path / "e")
    lines[0]["status"] = "pending"
    with Memory(tmp_path / "other") as other:
        other.import_(write(tmp_path / "e", lines), drop_dangling=True)
        other.flush()
        assert [record.text for record in other.list(user_id="ana")] == ["User lives in Oslo."]
        assert other.doctor() == []


@pytest.mark.parametrize("user_id", [None, "ana"])
def test_nothing_is_left_out_of_a_whole_export(tmp_path: Path, user_id: str | None) -> None:
    with everything(tmp_path / "store") as memory:
        memory.export(tmp_path / "e", user_id=user_id)
    with Memory(tmp_path / "other", config={"workers": 0}) as other:
        found = other.import_(tmp_path / "e", drop_dangling=True)
        assert (found, found.dropped) == (len(records(tmp_path / "e")), {})


# -- a refused import leaves nothing -----------------------------------------------------------------------------------


def test_an_import_that_is_refused_in_the_middle_writes_nothing(memory: Memory, tmp_path: Path) -> None:
    for number in range(600):
        memory.add(f"turn {number}", user_id="ana", infer=False, idempotency_key=f"k{number}")
    memory.export(tmp_path / "e")
    with Memory(tmp_path / "other") as other:
        other.add("mine", user_id="ana", infer=False)
        before = list(other._runtime.journal.dump())
        with pytest.raises(e.Conflict, match="another history"):
            other.import_(tmp_path / "e")
        assert list(other._runtime.journal.dump()) == before
        assert not other.add("new", user_id="ana", infer=False, idempotency_key="k7").replayed


def test_a_bank_that_went_on_in_both_stores_is_not_joined(memory: Memory, tmp_path: Path) -> None:
    memory.add("of both", user_id="ana", infer=False)
    memory.export(tmp_path / "e")
    with Memory(tmp_path / "other") as other:
        other.import_(tmp_path / "e")
        memory.add("of the first", user_id="ana", infer=False)
        memory.export(tmp_path / "e")
        assert other.import_(tmp_path / "e") == 2  # while one side alone went on, the other follows
        memory.add("of the first again", user_id="ana", infer=False)
        memory.export(tmp_path / "e")
        other.add("of the second", user_id="ana", infer=False)
        with pytest.raises(e.Conflict, match="another history"):
            other.import_(tmp_path / "e")
        assert [record.text for record in other.list(user_id="ana")] == ["of both", "of the first", "of the second"]


def test_a_clash_of_idempotency_keys_is_named(memory: Memory, tmp_path: Path) -> None:
    memory.add("there", user_id="ana", infer=False, idempotency_key="k")
    memory.export(tmp_path / "e")
    with Memory(tmp_path / "other") as other:
        other.add("here", user_id="ana", infer=False, idempotency_key="k")
        with pytest.raises(e.IdempotencyConflict, match=r"idempotency key 'k'.* another turn") as refused:
            other.import_(tmp_path / "e")
    assert "'ana'" in refused.value.why
    assert "import into" in refused.value.fix


# -- files -------------------------------------------------------------------------------------------------------------


def test_exports_to_one_path_at_once_leave_a_whole_file(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.add("tea", user_id="ana", infer=False)
    dump = memory._runtime.journal.dump
    both_wrote = threading.Barrier(2)

    def meeting(user_id: str | None) -> Iterator[JSON]:
        yield from dump(user_id)
        both_wrote.wait(10)

    monkeypatch.setattr(memory._runtime.journal, "dump", meeting)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(memory.export(tmp_path / "e"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [len(records(tmp_path / "e"))] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "store"]


@pytest.mark.parametrize("name", ["journal.sqlite", "e", "lance/e", "", "../link/e"])
def test_an_export_into_the_store_is_refused(memory: Memory, tmp_path: Path, name: str) -> None:
    memory.add("tea", user_id="ana", infer=False)
    memory.flush()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with pytest.raises(e.InvalidInput, match="inside the store"):
        memory.export(tmp_path / "store" / name)
    assert memory._runtime.journal.check() == []
    assert [record.text for record in memory.list(user_id="ana")] == ["tea"]


def test_an_export_to_what_is_a_folder_is_refused_and_leaves_nothing(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "folder", Path("/"), Path()):
        with pytest.raises(e.InvalidInput, match="cannot write"):
            memory.export(path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "store"]


# -- what no store could have written ----------------------------------------------------------------------------------


def put(kind: str, field: str, value: Any) -> Callable[[list[JSON]], int]:
    """Set a field of the last record of `kind`; the number of its line. `...` takes the field away."""

    def change(lines: list[JSON]) -> int:
        place = max(number for number, line in enumerate(lines) if line["record"] == kind)
        *way, last = field.split(".")
        target: Any = lines[place]
        for step in way:
            target = target[int(step) if step.isdigit() else step]
        if value is ...:
            del target[last]
        else:
            target[last] = value
        return place + 2

    return change


WRONG = [
    ("op", "after.text", 5), ("op", "after.text", " "), ("op", "text", "other"), ("op", "seq", 2**63 - 1),
    ("op", "seq", 2**53), ("op", "seq", 0), ("op", "seq", True), ("op", "seq", 1), ("op", "after.metadata", "x"),
    ("op", "bank.user_id", 5), ("op", "bank.user_id", ""), ("op", "bank.agent_id", None), ("op", "after.id", "m_other"),
    ("op", "before.id", "m_other"), ("op", "memory_id", None), ("op", "before", None), ("op", "after", None),
    ("op", "before.seq", 99), ("op", "after.seq", 1), ("op", "action", "zzz"), ("op", "action", "delete"),
    ("op", "at", "2026-05-01T12:00:00"), ("op", "recorded_at", 7), ("op", "after.at", "2026-05-01"),
    ("op", "after.created_at", None), ("op", "after.expires_at", "soon"), ("op", "after.kind", "zzz"),
    ("op", "after.revision", 0), ("op", "after.trust", "high"), ("op", "after.content_hash", "zz"),
    ("op", "after.source_turns", "t"), ("op", "source_turns", [5]), ("op", "after.trainable", 1),
    ("op", "after.more", 1), ("op", "undoes", ...), ("op", "cause", None), ("op", "intake_id", 5),
    ("intake", "turns", []), ("intake", "status", "weird"), ("intake", "bank", "ana"), ("intake", "infer", 0),
    ("intake", "context.expires_at", "soon"), ("intake", "idempotency_key", 5), ("intake", "created_at", ...),
    ("intake", "turns.0.text", None), ("intake", "turns.0.at", "2026-05-01T12:00:00"),
    ("intake", "turns.0.metadata", []), ("intake", "turns.0.origin", "god"), ("intake", "turns.0.position", 1),
    ("intake", "turns.0.intake_id", "i_other"), ("intake", "turns.0.text", "half \ud800"),
    ("decision", "payload", []), ("decision", "state_seq", -1), ("decision", "blobs.ab", "x"),
    ("trace", "kind", "zzz"), ("trace", "created_at", "2026-05-01T12:00:00"), ("trace", "bank.agent_id", 1),
    ("feedback", "payload", None), ("feedback", "trace_id", ""), ("untrainable", "user_id", 5),
    ("feedback", "record", "zzz"), ("feedback", "record", []),
]  # fmt: skip


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("valid")
    with Memory(folder / "store") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        memory.add("I moved to Bergen.", user_id="ana")
        memory.feedback(memory.search("where?", user_id="ana").trace_id, label="up", user_id="ana")
        memory.trainable(False, user_id="ana")
        memory.export(folder / "e")
    assert {line["record"] for line in records(folder / "e")} >= {kind for kind, _, _ in WRONG}
    return folder / "e"


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
def test_a_field_that_no_store_could_have_written_is_refused(
    memory: Memory, tmp_path: Path, valid: Path, kind: str, field: str, value: Any
) -> None:
    lines = records(valid)
    number = put(kind, field, value)(lines)
    with pytest.raises(e.InvalidInput) as refused:
        memory.import_(write(tmp_path / "e", lines))
    assert f"line {number} of " in refused.value.what
    if not (isinstance(value, str) and "\ud800" in value):
        assert field.rpartition(".")[2] in refused.value.what
    assert refused.value.fix
    assert is_empty(memory)


@pytest.mark.parametrize("more", ["{}", '{"memkit_end": 0}', "x"])
def test_lines_after_the_end_are_refused(memory: Memory, tmp_path: Path, valid: Path, more: str) -> None:
    whole = valid.read_text()
    (tmp_path / "e").write_text(f"{whole}\n{more}\n")
    with pytest.raises(e.InvalidInput, match=f"line {len(whole.splitlines()) + 2} of .* after its end"):
        memory.import_(tmp_path / "e")
    assert is_empty(memory)
    (tmp_path / "e").write_text(f"{whole}\n")
    assert memory.import_(tmp_path / "e") == len(records(valid))


def test_an_export_replaces_no_pipe_and_no_folder(memory: Memory, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(e.InvalidInput, match="a pipe or a device"):
            memory.export(path)
    assert (tmp_path / "pipe").is_fifo()
