"""A part of a user is erased: what was said, what was drawn from it, whatever showed it. The rest stays as it was."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memkit import AsyncMemory, Memory
from memkit import errors as e
from memkit_train.log import StoreSource
from memkit_train.replay import Env, scripts_of

SECRET = "zebrafluke-4408"
SAID = f"By the way, my wifi password is {SECRET}."


def holding(path: Path, *needles: str | bytes) -> list[str]:
    """Files of a store in which a needle is found. Read by another process: closing a handle here would drop the locks
    of this one."""
    wanted = [needle if isinstance(needle, bytes) else needle.encode() for needle in needles]
    files = [file for file in path.rglob("*") if file.is_file()]
    return [
        str(file.relative_to(path))
        for file in files
        if any(one in subprocess.run(["cat", file], capture_output=True, check=True).stdout for one in wanted)
    ]


def model(messages: list[dict[str, str]]) -> str:
    """A manager that repeats what it is shown, and an answerer that does."""
    shown = messages[-1]["content"]
    if "NEW turns" not in shown:
        return json.dumps({"used": [1], "answer": f"I was shown {shown[-200:]}"})
    new = shown.split("NEW turns:")[1]
    fact = f"User told: {new.strip()[-80:]}" + (f" (their password is {SECRET})" if "router" in new else "")
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": fact, "turn": 1}]})


@pytest.fixture(params=["rules", "model"])
def memory(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Memory]:
    options: dict[str, Any] = {"model": model, "mode": "fused"} if request.param == "model" else {}
    with Memory(tmp_path / "store", **options) as opened:
        yield opened


def banks_agree(memory: Memory, path: Path) -> bool:
    """Whether the trainer's replay of what is logged ends in the bank that the journal has."""
    env, journal = Env(memory._runtime.embedder), memory._runtime.journal
    with StoreSource(path) as source:
        (episode,) = source.trajectories(["ana"])
    (script,) = scripts_of(episode)
    replayed = list(env.list_states(script)[-1].live.state)
    return sorted(map(str, replayed)) == sorted(str(record) for _, record in journal.live(user_id="ana"))


def state_of(memory: Memory) -> dict[str, list[Any]]:
    journal = memory._runtime.journal
    return {
        "turns": [turn.text for state in journal.iter_intakes() for turn in state.intake.turns],
        "ops": [op.op_id for op in journal.ops()],
        "facts": [record.text for _, record in journal.live()],
    }


def live_a_life(memory: Memory) -> str:
    """Two talks, the secret in the middle of one, and everything that can hold it. Returns the id of its turn."""
    memory.add("I live in Oslo.", user_id="ana", session_id="s1")
    said = memory.add(
        [{"role": "user", "content": SAID}, {"role": "assistant", "content": f"Noted, I keep {SECRET} for you."}],
        user_id="ana",
        session_id="s1",
        idempotency_key="k",
        metadata={"seen": {"note": f"has {SECRET}"}},
    )
    memory.add("I adopted a dog named Waffles.", user_id="ana", session_id="s1")
    memory.add("I bought a new router today.", user_id="ana", session_id="s2")
    memory.add("I play the violin.", user_id="ana", session_id="s3")
    memory.add("I live in Rome.", user_id="bob")
    memory.flush()
    memory.context("what is the wifi password?", user_id="ana")
    hits = memory.search("which password has the wifi?", user_id="ana")
    memory.observe(hits.trace_id, f"It is {SECRET}.", user_id="ana")
    memory.feedback(hits.trace_id, expected=SECRET, comment=f"say {SECRET}", user_id="ana")
    memory.feedback(said.trace_id, comment=f"no {SECRET}", user_id="ana")
    if memory._runtime.answerer is not None:
        memory.answer("what is my wifi password?", user_id="ana")
    dog = memory.search("which dog?", user_id="ana", k=1)
    memory.feedback(dog.trace_id, label="up", user_id="ana")
    memory.flush()
    return said.turns[0].turn_id


def test_a_pasted_password_is_in_no_file_and_the_rest_is_there(memory: Memory, tmp_path: Path) -> None:
    turn_id = live_a_life(memory)
    store = tmp_path / "store"
    vectors = [memory._runtime.embedder.embed([record_line(memory, turn_id)])[0].tobytes()]
    assert holding(store, SECRET)
    receipt = memory.erase(user_id="ana", turn_id=turn_id)
    assert holding(store, SECRET, *vectors) == []
    assert receipt.counts["turns"] == 2  # the assistant had repeated it
    assert receipt.counts["rows_in_lancedb"] >= 2
    assert memory.doctor() == []
    assert banks_agree(memory, store)
    found = state_of(memory)
    for kept in ("Oslo", "Waffles", "router", "violin", "Rome"):
        assert any(kept in text for text in found["turns"]), kept
    assert "Waffles" in memory.search("which dog?", user_id="ana", k=1)[0].text
    assert "violin" in memory.search("who plays the violin?", user_id="ana", k=1)[0].text
    for hit in memory.search("wifi password zebrafluke", user_id="ana", expand="sources"):
        assert "zebrafluke" not in hit.text + str(hit.sources)
    memory.flush()
    memory.close()
    assert holding(store, SECRET, *vectors) == []
    with Memory(store) as again:
        assert again.doctor() == []
        assert [record.text for record in again.list(user_id="bob")]
        assert state_of(again) == found


def record_line(memory: Memory, turn_id: str) -> str:
    from memkit.retrieval import embed_text

    return embed_text(memory.get(turn_id, user_id="ana"))


def test_other_ops_are_undone_as_before_and_numbers_go_on(memory: Memory) -> None:
    turn_id = live_a_life(memory)
    journal = memory._runtime.journal
    newest = journal.last_seq()
    violin = next(op for op in memory.history(user_id="ana") if op.text and "violin" in op.text)
    memory.erase(user_id="ana", turn_id=turn_id)
    assert journal.last_seq() >= newest
    (undone,) = [op for op in memory.undo(user_id="ana", op_id=violin.op_id) if op.memory_id == violin.memory_id]
    assert undone.action == "delete"
    memory.undo(user_id="ana", op_id=undone.op_id)
    assert any("violin" in record.text for record in memory.list(user_id="ana"))
    memory.add("I moved to Bergen.", user_id="ana", session_id="s1")
    assert any("Bergen" in hit.text for hit in memory.search("moved to Bergen", user_id="ana", k=3))
    memory.flush()
    assert memory.doctor() == []


def test_a_memory_goes_with_the_words_that_said_it(memory: Memory, tmp_path: Path) -> None:
    live_a_life(memory)
    fact = next(record for record in memory.list(user_id="ana") if SECRET in record.text)
    memory.erase(user_id="ana", memory_id=fact.id)
    assert holding(tmp_path / "store", SECRET) == []
    with pytest.raises(e.NotFound):
        memory.get(fact.id, user_id="ana")
    assert memory.history(user_id="ana", memory_id=fact.id) == []
    assert memory.doctor() == []


def test_a_session_goes_and_the_others_stay(memory: Memory, tmp_path: Path) -> None:
    live_a_life(memory)
    memory.user("ana").erase(session_id="s1")
    assert holding(tmp_path / "store", SECRET, "Waffles") == []
    assert {turn.session_id for turn in memory._runtime.journal.turns() if turn.bank.user_id == "ana"} == {"s2", "s3"}
    assert memory.doctor() == []


def test_what_is_told_again_under_the_same_key_is_new(memory: Memory) -> None:
    turn_id = live_a_life(memory)
    memory.erase(user_id="ana", turn_id=turn_id)
    assert not memory.add(SAID, user_id="ana", idempotency_key="k").replayed


def test_nothing_of_that_name_and_two_names_are_refused(memory: Memory) -> None:
    turn_id = live_a_life(memory)
    for user, named in (("bob", {"turn_id": turn_id}), ("ana", {"session_id": "s9"}), ("ana", {"memory_id": "m_1"})):
        with pytest.raises(e.NotFound, match="nothing of that name"):
            memory.erase(user_id=user, **named)
    with pytest.raises(e.InvalidInput, match="turn_id and session_id"):
        memory.erase(user_id="ana", turn_id=turn_id, session_id="s1")
    memory.erase(user_id="ana", turn_id=turn_id)
    with pytest.raises(e.NotFound):
        memory.erase(user_id="ana", turn_id=turn_id)


def test_turns_that_wait_or_are_parked_are_erased_too(tmp_path: Path) -> None:
    replies = iter(["no operations at all"] * 9)
    with Memory(tmp_path / "s", model=lambda _: next(replies), mode="fused", config={"workers": 0}) as memory:
        parked = memory.add([SAID, "and I like tea"], user_id="ana")
        assert parked.status == "parked"
        waiting = memory.add(f"the pin is {SECRET}", user_id="ana", wait=False)
        memory.erase(user_id="ana", turn_id=parked.turns[0].turn_id)
        memory.erase(user_id="ana", turn_id=waiting.trace_id)
        assert holding(tmp_path / "s", SECRET) == []
        (left,) = memory.parked()
        assert [(turn.text, turn.position) for turn in left.turns] == [("and I like tea", 0)]
        assert memory._runtime.journal.pending_count() == 0
        memory.export(tmp_path / "file")
        with Memory(tmp_path / "other") as other:
            assert other.import_(tmp_path / "file")
        assert memory.doctor() == []


def test_what_was_ended_by_an_erased_turn_stays_ended(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as memory:
        memory.add("The garage PIN is 4408.", user_id="ana")
        assert memory.search("garage PIN", user_id="ana")
        asked = memory.add("Delete the garage PIN 4408 from memory.", user_id="ana")
        memory.erase(user_id="ana", turn_id=asked.trace_id)
        assert [hit.text for hit in memory.search("garage PIN", user_id="ana") if "4408" in hit.text] == []
        assert memory.doctor() == []


def test_a_memory_goes_back_to_what_it_said_before(tmp_path: Path) -> None:
    texts = iter(["ADD|Ana lives in Oslo.", f"UPDATE|Ana lives in Oslo, {SECRET}.", "ADD|Ana has a cat."])

    def manager(messages: list[dict[str, str]]) -> str:
        op, text = next(texts).split("|")
        return json.dumps({"operations": [{"op": op, "id": 1 if op == "UPDATE" else None, "text": text, "turn": 1}]})

    with Memory(tmp_path / "s", model=manager, mode="fused") as memory:
        memory.add("I live in Oslo.", user_id="ana", session_id="a")
        second = memory.add(f"My password there is {SECRET}.", user_id="ana", session_id="b")
        memory.flush()
        memory.add("I have a cat.", user_id="ana", session_id="c")
        oslo = memory.list(user_id="ana")[0]
        memory.erase(user_id="ana", turn_id=second.turns[0].turn_id)
        assert holding(tmp_path / "s", SECRET) == []
        now = memory.get(oslo.id, user_id="ana")
        assert (now.text, now.revision, len(now.source_turns)) == ("Ana lives in Oslo.", 3, 1)
        assert [op.cause for op in memory.history(user_id="ana", memory_id=oslo.id)] == ["decision", "erase"]
        assert banks_agree(memory, tmp_path / "s")
        memory.flush()
        assert memory.doctor() == []
        assert "Oslo" in memory.search("where does Ana live?", user_id="ana", kinds=["fact"])[0].text


def test_a_decision_that_was_under_way_is_made_anew_without_it(tmp_path: Path) -> None:
    asked, erased, shown = threading.Event(), threading.Event(), list[str]()

    def slow(messages: list[dict[str, str]]) -> str:
        shown.append(messages[-1]["content"])
        if "violin" in shown[-1] and not erased.is_set():
            asked.set()
            erased.wait(30)
        return model(messages)

    with Memory(tmp_path / "s", model=slow, mode="fused") as memory:
        said = memory.add(SAID, user_id="ana")
        late = threading.Thread(target=memory.add, args=("I play the violin.",), kwargs={"user_id": "ana"})
        late.start()
        assert asked.wait(30)
        assert SECRET in shown[-1]
        memory.erase(user_id="ana", turn_id=said.turns[0].turn_id)
        erased.set()
        late.join()
        memory.flush()
        assert SECRET not in shown[-1]
        assert holding(tmp_path / "s", SECRET) == []
        assert any("violin" in record.text for record in memory.list(user_id="ana"))
        assert memory.doctor() == []


def test_the_async_verb_takes_the_same(tmp_path: Path) -> None:
    async def work() -> None:
        async with AsyncMemory(tmp_path / "s") as memory:
            said = await memory.add(SAID, user_id="ana")
            await memory.erase(user_id="ana", turn_id=said.turns[0].turn_id)

    asyncio.run(work())
    assert holding(tmp_path / "s", SECRET) == []


# -- killed in the middle ----------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from memkit import Memory
from memkit.journal import Journal
from memkit.journal.sqlite import SqliteEngine
from memkit.store import Projection, Trajectories
from tests.memory.test_erase import live_a_life, model

def killed(owner, name, first):
    real = getattr(owner, name)
    def dying(*args, **more):
        if first:
            real(*args, **more)
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(owner, name, dying)

memory = Memory(sys.argv[1], model=model, mode="fused")
turn_id = live_a_life(memory)
place = sys.argv[2]
if place == "the intent":
    killed(Journal, "begin_erase", True)
elif place == "half of LanceDB":
    killed(Projection, "erase_memories", True)
elif place == "all of LanceDB":
    killed(Trajectories, "erase_decisions", True)
else:
    killed(SqliteEngine, "scrub", False)
memory.erase(user_id="ana", turn_id=turn_id)
"""


@pytest.mark.parametrize("place", ["the intent", "half of LanceDB", "all of LanceDB", "the rows"])
def test_a_killed_erasure_is_finished_when_the_store_is_next_opened(tmp_path: Path, place: str) -> None:
    store = tmp_path / "store"
    died = subprocess.run([sys.executable, "-c", KILLED, store, place], cwd=Path(__file__).parents[2])
    assert died.returncode == -signal.SIGKILL
    with Memory(store, model=model, mode="fused") as memory:
        assert holding(store, SECRET) == []
        assert memory._runtime.journal.unfinished_parts() == []
        assert memory.doctor() == []
        assert "Waffles" in memory.search("which dog?", user_id="ana", k=1)[0].text


# -- over files that cannot be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [False, True], ids=["a user", "a turn"])
def test_an_erasure_over_a_damaged_sealed_file_spares_what_can_be_read(tmp_path: Path, part: bool) -> None:
    store = tmp_path / "store"
    with Memory(store, model=model, mode="fused") as memory:
        said = memory.add(SAID, user_id="ana")
        memory.flush()
        memory.add("I play the violin.", user_id="bob")
        memory.flush()
        memory.add("I keep bees.", user_id="carl")
        memory.flush()
        kept = memory.decisions(user_id="carl")
    files = sorted((store / "sealed" / "trajectories.lance" / "data").iterdir(), key=lambda path: path.stat().st_mtime)
    files[1].write_bytes(files[1].read_bytes()[:50])
    with Memory(store, model=model, mode="fused") as memory:
        memory.erase(user_id="ana", turn_id=said.turns[0].turn_id if part else None)
        assert memory.search("wifi password", user_id="ana") == []
        assert memory.decisions(user_id="carl") == kept
    for _ in range(2):
        with Memory(store, model=model, mode="fused") as memory:
            assert [one.code for one in memory.doctor()] == ["sealed_quarantine", "sealed_missing"]
            assert memory.decisions(user_id="carl") == kept
            memory.add("I keep goats.", user_id="dora")
            memory.flush()


def test_an_erasure_that_the_disk_does_not_let_finish_stays_open_and_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memkit.store import Trajectories

    def fail(*_: object) -> None:
        raise e.StoreUnreachable("the disk did not answer")

    with Memory(tmp_path / "s", model=model, mode="fused") as memory:
        memory.add(SAID, user_id="ana")
        memory.flush()
        with monkeypatch.context() as patch:
            patch.setattr(Trajectories, "erase", fail)
            with pytest.raises(e.StoreUnreachable):
                memory.erase(user_id="ana")
            memory.close()
            with Memory(tmp_path / "s", model=model, mode="fused") as again:
                assert "erasure_unfinished" in {one.code for one in again.doctor()}
    with Memory(tmp_path / "s", model=model, mode="fused") as memory:
        assert memory.users() == []
        assert memory.doctor() == []
    assert holding(tmp_path / "s", SECRET) == []


def test_a_clock_that_goes_back_after_an_erasure_parks_nobody(tmp_path: Path) -> None:
    class Back:
        at = datetime(2026, 5, 1, 12, tzinfo=UTC)

        def now(self) -> datetime:
            self.at += timedelta(milliseconds=1)
            return self.at

    clock = Back()
    with Memory(tmp_path / "s", model=model, mode="fused", clock=clock) as memory:
        memory.add(SAID, user_id="ana")
        memory.erase(user_id="ana")
        clock.at -= timedelta(hours=1)
        assert memory.add("I keep bees.", user_id="ana").status == "applied"
        assert memory.parked() == []
        assert memory.doctor() == []
