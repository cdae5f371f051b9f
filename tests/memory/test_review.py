"""Corners of the verbs: what fails half-way must neither hang the next call, lose anything, nor cross a scope."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit import errors as e
from memkit.runtime.runtime import Runtime
from memkit.seams.backbone import GenRequest, Replies

NOTHING = "[]"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "store") as opened:
        yield opened


def within(seconds: float, call: Callable[[], Any]) -> Any:
    """The result of `call`, which must not hang."""
    done: list[Any] = []

    def run() -> None:
        try:
            done.append(call())
        except BaseException as error:
            done.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert done, "the call hangs"
    return done[0]


# -- turns that cannot be finished -------------------------------------------------------------------------------------


def test_an_interrupted_add_leaves_its_turn_to_the_next_one(tmp_path: Path) -> None:
    asked: list[int] = []

    def model(messages: Any) -> str:
        asked.append(1)
        if len(asked) == 1:
            raise KeyboardInterrupt
        return NOTHING

    with Memory(tmp_path / "s", model=model, mode="fused") as memory:
        with pytest.raises(KeyboardInterrupt):
            memory.add("I like tea", user_id="ana")
        assert memory.stats()["pending"] == 1
        assert within(10, lambda: memory.add("I like coffee", user_id="ana")).status == "applied"
        assert memory.stats()["pending"] == 0


def test_a_disk_that_refuses_even_the_release_of_a_turn_does_not_block_the_bank(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = memory._runtime.journal

    def full(*args: Any, **kwargs: Any) -> Any:
        raise e.StoreFull("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(journal, "apply", full)
        broken.setattr(journal, "release", full)
        with pytest.raises(e.StoreFull):
            memory.add("I like tea", user_id="ana")
    assert within(10, lambda: memory.add("I like coffee", user_id="ana")).status == "applied"
    assert len(memory.list(user_id="ana")) == 2


def test_an_add_whose_user_is_erased_meanwhile_says_so(tmp_path: Path) -> None:
    asked, erased = threading.Event(), threading.Event()

    def model(messages: Any) -> str:
        asked.set()
        erased.wait(10)
        return NOTHING

    with Memory(tmp_path / "s", model=model, mode="fused") as memory:

        def erase() -> None:
            asked.wait(10)
            memory.erase(user_id="ana")
            erased.set()

        threading.Thread(target=erase).start()
        assert isinstance(within(20, lambda: memory.add("I like tea", user_id="ana")), e.NotFound)
        assert memory.users() == []


class Broken:
    """A backbone with a defect."""

    identity, style, max_parallel = "broken", "json", 1

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        raise RuntimeError("half a character: \ud800 " + "x" * 10_000)

    def close(self) -> None: ...


def test_an_error_that_cannot_be_written_parks_the_turn_all_the_same(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", model=Broken()) as memory:
        result = within(10, lambda: memory.add("I like tea", user_id="ana"))
        assert result.status == "parked"
        assert "half a character" in memory.parked()[0].detail
        assert len(memory.parked()[0].detail) <= 2_000


def test_a_turn_that_was_parked_once_is_applied_without_a_reason(tmp_path: Path) -> None:
    broken = [True]

    def model(messages: Any) -> str:
        if broken[0]:
            raise ValueError
        return NOTHING

    with Memory(tmp_path / "s", model=model, mode="fused") as memory:
        parked = memory.add("I like tea", user_id="ana", idempotency_key="once")
        assert parked.reason
        broken[0] = False
        assert memory.retry(parked.trace_id, user_id="bob") == 0
        assert memory.retry(parked.trace_id, user_id="ana") == 1  # one id, not its letters
        again = memory.add("I like tea", user_id="ana", idempotency_key="once")
        assert (again.status, again.reason, again.replayed) == ("applied", "the manager kept nothing", True)


def test_what_was_decided_is_no_longer_owed(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memkit.runtime.runtime._OWED", 4)
    for number in range(20):
        memory.add(f"I like tea number {number}", user_id=f"user {number}", wait=False)
        while memory.stats()["pending"]:
            time.sleep(0.005)
    assert len(memory._runtime._accepted) <= 5


def test_a_model_that_cannot_be_loaded_at_first_does_not_block_the_bank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*args: Any, **kwargs: Any) -> Any:
        raise e.ModelUnavailable("the hub is down")

    with Memory(tmp_path / "s", model=lambda messages: NOTHING, mode="fused") as memory:
        with monkeypatch.context() as broken:
            broken.setattr("memkit.backbones.make_backbone", unavailable)
            memory.flush()  # nothing to decide, no model needed
            with pytest.raises(e.ModelUnavailable):
                memory.add("I like tea", user_id="ana")
        assert within(10, lambda: memory.add("I like coffee", user_id="ana")).status == "applied"
        assert memory.stats()["pending"] == 0


def test_close_decides_what_this_process_owes_and_leaves_other_banks_alone(tmp_path: Path) -> None:
    options: dict[str, Any] = {"config": {"workers": 0}}
    with Memory(tmp_path / "s", **options) as other:
        intake = other.add("I like tea", user_id="bob", wait=False).trace_id
        other._runtime._accepted.clear()  # as if accepted by a process that died
    with Memory(tmp_path / "s", **options) as memory:
        mine = memory.add("I like tea", user_id="ana", wait=False).trace_id
    with Memory(tmp_path / "s", **options) as memory:
        states = [memory._runtime.journal.intake(one) for one in (mine, intake)]
        assert [state and state.status for state in states] == ["applied", "pending"]


def test_a_retried_call_owes_the_turn_that_was_accepted_first(tmp_path: Path) -> None:
    options: dict[str, Any] = {"config": {"workers": 0}}
    with Memory(tmp_path / "s", **options) as other:
        first = other.add("I like tea", user_id="ana", idempotency_key="k", wait=False)
        other._runtime._accepted.clear()
    with Memory(tmp_path / "s", **options) as memory:
        memory.add("I like tea", user_id="ana", idempotency_key="k", wait=False)
    with Memory(tmp_path / "s", **options) as memory:
        state = memory._runtime.journal.intake(first.trace_id)
        assert state is not None
        assert state.status == "applied"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_starts_workers_of_its_own(memory: Memory) -> None:
    memory.add("I like tea", user_id="ana", wait=False)
    workers = memory._runtime.workers
    while not workers._idle:
        time.sleep(0.01)
    child = os.fork()
    if child == 0:
        try:
            memory.add("I like coffee", user_id="bob", wait=False)
            alive = [thread for thread in workers._threads if thread.is_alive()]
            os._exit(0 if alive else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_that_was_forked_while_a_trace_was_written_searches(memory: Memory) -> None:
    memory.add("I like tea", user_id="ana")
    with memory._runtime.traces._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            memory.search("tea?", user_id="ana")
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_parts_are_made_once_whichever_thread_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memkit.runtime import workers

    made: list[int] = []

    class Slow(workers.Workers):
        def __init__(self, *args: Any) -> None:
            time.sleep(0.05)
            made.append(1)
            super().__init__(*args)

    monkeypatch.setattr(workers, "Workers", Slow)
    runtime = Runtime(tmp_path / "s")
    threads = [threading.Thread(target=lambda: runtime.workers) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runtime.close()
    assert made == [1]


# -- scope -------------------------------------------------------------------------------------------------------------


def test_a_bound_view_cannot_be_talked_into_another_scope(memory: Memory) -> None:
    memory.add("Bob likes tea", user_id="bob", infer=False)
    with pytest.raises(e.InvalidScope):
        memory.user("ana").search("tea", user_id="bob")
    with pytest.raises(e.InvalidScope):
        memory.user("ana", agent_id="one").add("tea", agent_id="two")
    assert memory.user("bob").search("tea", agent_id="another") == []


def test_sources_of_a_memory_never_come_from_another_user(memory: Memory, tmp_path: Path) -> None:
    """Not even where an imported file says so."""
    foreign = memory.add("a secret of Bob", user_id="bob", infer=False).turns[0].turn_id
    own = memory.add("I like tea", user_id="ana", infer=False)
    memory.export(tmp_path / "e", user_id="ana")
    memory.erase(user_id="ana")
    lines = [json.loads(line) for line in (tmp_path / "e").read_text().splitlines()]
    op = next(line for line in lines if line.get("record") == "op") | {"intake_id": None}
    forged = json.dumps(op).replace(own.turns[0].turn_id, foreign)
    (tmp_path / "e").write_text("\n".join([json.dumps(lines[0]), forged, '{"memkit_end": 1}']) + "\n")
    memory.import_(tmp_path / "e")
    (hit,) = memory.search("tea", user_id="ana", expand="sources")
    assert hit.memory.source_turns == (foreign,)
    assert hit.sources == ()


def test_the_decision_behind_an_answer_is_found_by_its_own_user_only(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", model=lambda messages: '{"used": [], "answer": "tea"}', mode="fused") as memory:
        memory.add("I like tea", user_id="ana", infer=False)
        trace_id = memory.answer("What do I like?", user_id="ana").trace_id
        assert [one["role"] for one in memory.decisions(user_id="ana", trace_id=trace_id)] == ["answerer"]
        with pytest.raises(e.NotFound):
            memory.decisions(user_id="bob", trace_id=trace_id)
        assert memory.decisions(user_id="ana", trace_id=memory.search("tea", user_id="ana").trace_id) == []


def test_the_models_answer_stays_beside_what_the_app_says_it_answered(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", model=lambda messages: '{"used": [1], "answer": "tea"}', mode="fused") as memory:
        memory.add("I like tea", user_id="ana", infer=False)
        memory.add("I like coffee", user_id="ana", infer=False)
        trace_id = memory.answer("Do I like coffee or tea?", user_id="ana").trace_id
        before = memory._runtime.traces.get("ana", trace_id).payload
        assert memory.observe(trace_id, "You like coffee.", user_id="ana")
        after = memory._runtime.traces.get("ana", trace_id).payload
        assert {name: after[name] for name in before} == before
        assert (after["answer"], after["cited_by"], after["observed"]) == ("tea", "model", "You like coffee.")
        assert after["observed_cited"] != after["cited"]
        searched = memory.search("coffee", user_id="ana").trace_id
        memory.observe(searched, "You like coffee.", user_id="ana")
        payload = memory._runtime.traces.get("ana", searched).payload
        assert (payload["answer"], payload["cited_by"], "observed" in payload) == ("You like coffee.", "overlap", False)


def test_answers_are_watched_like_turns_whether_they_come_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = iter(['{"used": [1], "answer": "tea"}', "", "", ""])
    seen: list[tuple[list[str], str | None]] = []
    monkeypatch.setattr(
        Runtime, "watch", lambda self, decided, routing, error: seen.append(([c.role for c in decided.calls], error))
    )
    with Memory(tmp_path / "s", model=lambda messages: next(replies), mode="fused") as memory:
        memory.add("I like tea", user_id="ana", infer=False)
        memory.answer("What do I like?", user_id="ana")
        with pytest.raises(e.BadReply):
            memory.answer("What do I like?", user_id="ana")
    assert seen == [(["answerer"], None), (["answerer"], "BadReply")]


def test_everything_that_callers_hand_in_is_redacted(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", redact=lambda text: text.replace("4111", "[card]")) as memory:
        written = memory.add("my card is 4111", user_id="ana", infer=False).ops[0].memory_id
        hits = memory.search("is my card 4111?", user_id="ana")
        assert hits[0].text == "my card is [card]"
        memory.update(str(written), "the card 4111", user_id="ana")
        memory.observe(hits.trace_id, "it is 4111", user_id="ana")
        memory.feedback(hits.trace_id, expected="4111", comment="said 4111", user_id="ana")
        memory.export(tmp_path / "e")
    assert "4111" not in (tmp_path / "e").read_text()


def test_named_redactors_reach_words_names_and_metadata_before_anything_is_written(tmp_path: Path) -> None:
    card, secret, mail = "4111 1111 1111 1111", "zebra-4408", "ana@example.com"
    said = {"role": "user", "name": mail, "content": f"my card is {card}, my password is {secret}"}
    seen = {"wifi": {"password": secret}, "cards": [{"n": card}, card], "of": mail, "count": 3, "none": ""}
    with Memory(tmp_path / "s", redact=["cards", "passwords", "mail"]) as memory:
        record = memory.add(said, user_id="ana", metadata=seen, infer=False).ops[0].after
        assert record is not None
        assert (record.text, record.speaker) == ("my card is [card], my password is [password]", "[mail]")
        cards = [{"n": "[card]"}, "[card]"]
        kept = {"wifi": {"password": "[password]"}, "cards": cards, "of": "[mail]", "count": 3, "none": ""}
        assert record.metadata == kept
        memory.update(record.id, user_id="ana", metadata={"pin": "4711", "mail": mail})
        assert memory.get(record.id, user_id="ana").metadata == {"pin": "[password]", "mail": "[mail]"}
        memory.import_([{"text": f"my password is {secret}", "user_id": "ana", "metadata": {"of": mail}}])
        memory.add(f"The wifi password is {secret}.", user_id="ana")
        hits = memory.search(f"whose is {mail}?", user_id="ana")
        memory.observe(hits.trace_id, f"the password is {secret}", user_id="ana")
        memory.flush()
    stored = b"".join(path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file())
    assert [one for one in (card, secret, mail, "4711") if one.encode() in stored] == []


# -- traces and what they teach ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "error"), [(lambda messages: "%%%", e.BadReply), (lambda messages: 1 / 0, e.ModelError)]
)
def test_an_answer_that_failed_is_logged_as_a_decision(tmp_path: Path, model: Any, error: type[Exception]) -> None:
    with Memory(tmp_path / "s", model=model, mode="fused") as memory:
        memory.add("I like tea", user_id="ana", infer=False)
        with pytest.raises(error):
            memory.answer("What do I like?", user_id="ana")
        (decision,) = memory.decisions(user_id="ana")
        assert decision["role"] == "answerer"
        assert decision["parse"]["ok"] is False


def test_a_full_disk_costs_neither_a_search_nor_its_trace(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*traces: Any) -> None:
        raise e.StoreFull("no space left")

    memory.add("I like tea", user_id="ana", infer=False)
    with monkeypatch.context() as broken:
        broken.setattr(memory._runtime.journal, "write_trace", full)
        hits = [memory.search("tea", user_id="ana") for _ in range(70)]
        with pytest.raises(e.StoreFull):
            memory.feedback(hits[0].trace_id, user_id="ana", reward=1)
    assert all(memory.feedback(one.trace_id, user_id="ana", reward=1) for one in (hits[0], hits[-1]))


def test_a_retried_add_is_no_reaction_to_the_answer(memory: Memory) -> None:
    memory.add("My dog is Rex", user_id="ana", idempotency_key="k")
    trace_id = memory.search("what is my dog called?", user_id="ana").trace_id
    memory.observe(trace_id, "Rex", user_id="ana")
    memory.add("My dog is Rex", user_id="ana", idempotency_key="k")
    memory._runtime.traces.flush()
    assert memory._runtime.journal.feedback_for(trace_id) == []
    memory.add("No, it is Max", user_id="ana")
    memory._runtime.traces.flush()
    assert [one.payload["signal"] for one in memory._runtime.journal.feedback_for(trace_id)] == ["correction"]


def test_the_same_rating_is_one_rating(memory: Memory) -> None:
    trace_id = memory.search("tea", user_id="ana").trace_id
    assert memory.feedback(trace_id, user_id="ana", reward=1) == memory.feedback(trace_id, user_id="ana", reward=1.0)
    for wrong in (7, object(), "\ud800"):
        with pytest.raises(e.InvalidText):
            memory.feedback(trace_id, user_id="ana", comment=wrong)  # type: ignore[arg-type]


# -- undo --------------------------------------------------------------------------------------------------------------


def test_undo_never_gives_an_old_revision_to_another_text(memory: Memory) -> None:
    first = memory.add("one", user_id="ana", infer=False).ops[0]
    key = str(first.memory_id)
    memory.update(key, "two", user_id="ana")
    memory.delete(key, user_id="ana")
    memory.undo(user_id="ana", since=first.seq + 1)
    images = [op.after for op in memory.history(user_id="ana", memory_id=key) if op.after]
    assert memory.get(key, user_id="ana").text == "one"
    assert len({image.revision for image in images}) == len(images)


def test_a_memory_that_was_said_again_is_not_undone_with_its_first_turn(memory: Memory) -> None:
    first = memory.add("I like tea", user_id="ana", infer=False)
    second = memory.add("I like tea", user_id="ana", infer=False)
    with pytest.raises(e.UndoConflict):
        memory.undo(user_id="ana", turn_id=first.trace_id)
    memory.undo(user_id="ana", turn_id=second.trace_id)
    assert memory.list(user_id="ana")[0].source_turns == first.ops[0].source_turns


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-10:00"])
def test_a_time_without_a_moment_in_utc_is_refused(memory: Memory, at: str) -> None:
    """One such row would stop the projection of every user."""
    for call in (
        lambda: memory.add("x", user_id="ana", infer=False, at=at),
        lambda: memory.add("x", user_id="ana", infer=False, expires_at=at),
        lambda: memory.search("x", user_id="ana", as_of=at),
    ):
        with pytest.raises(e.InvalidTime):
            call()
    assert memory.users() == []


def test_numbers_beyond_the_journal_are_refused(memory: Memory) -> None:
    from base64 import urlsafe_b64encode

    for after in (2**63, -1):
        with pytest.raises(e.InvalidInput):
            memory.list(user_id="ana", cursor=urlsafe_b64encode(json.dumps({"after": after}).encode()).decode())
    with pytest.raises(e.LimitExceeded):
        memory.undo(user_id="ana", since=2**70)


@pytest.mark.parametrize("wrong", [{"max_k": "5"}, {"workers": -1}, {"deadline_s": float("nan")}, {"guard": 3}])
def test_a_configuration_of_the_wrong_kind_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(e.InvalidConfig):
        Memory(tmp_path / "s", config=wrong)
    assert not (tmp_path / "s").exists()


def test_files_that_cannot_be_read_or_written(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picture").write_bytes(b'{"memkit_export": 1}\n\x89PNG\xff\xfe\n')
    with pytest.raises(e.InvalidInput):
        memory.import_(tmp_path / "picture")
    with pytest.raises(e.InvalidInput):
        memory.export(tmp_path / "nowhere" / "e")

    memory.add("I like tea", user_id="ana", infer=False)

    def damaged(user_id: str | None) -> Iterator[dict[str, Any]]:
        yield {"record": "intake"}
        raise e.StoreDamaged("unreadable")

    monkeypatch.setattr(memory._runtime.journal, "dump", damaged)
    with pytest.raises(e.StoreDamaged):
        memory.export(tmp_path / "e")
    assert not list(tmp_path.glob("e*"))  # nor a part of it


# -- erasure -----------------------------------------------------------------------------------------------------------


def test_adapters_are_marked_even_where_the_last_step_of_an_erasure_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(tmp_path / "s", adapters=tmp_path / "adapters") as memory:
        memory.add("I like tea", user_id="ana", infer=False)
        marked: list[str] = []

        def taint(subject: str) -> list[str]:
            marked.append(subject)
            return []

        def busy() -> None:
            raise e.StoreBusy("somebody reads")

        monkeypatch.setattr(memory.adapters, "taint", taint)
        with monkeypatch.context() as broken:
            broken.setattr(memory._runtime.journal._engine, "scrub", busy)
            subject = memory._runtime.journal.subject("ana")
            with pytest.raises(e.StoreBusy):
                memory.erase(user_id="ana")
        assert marked == [subject]


# -- room --------------------------------------------------------------------------------------------------------------


def test_asking_about_banks_that_are_not_there_takes_no_room_for_ever(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", config={"cache_bytes": 100_000}) as memory:
        for number in range(100):
            assert memory.search("tea", user_id=f"user {number}", agent_id="agent") == []
        assert len(memory._runtime.reader._slots) < 50
