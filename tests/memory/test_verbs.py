"""The public verbs on the embedded defaults: real journal, real LanceDB, rules, hashing embedder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memkit import Memory, Message, memo
from memkit import errors as e
from memkit.embedders.hash import HashEmbedder

MAY = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "store") as opened:
        yield opened


def texts(memory: Memory, user: str = "ana") -> list[str]:
    return [record.text for record in memory.list(user_id=user)]


def test_the_quickstart(memory: Memory) -> None:
    result = memory.add("I adopted a dog named Buddy.", user_id="ana")
    assert result.status == "applied"
    assert [op.action for op in result.ops] == ["add"]
    hits = memory.search("what pets does Ana have?", user_id="ana", k=5)
    assert "Buddy" in hits[0].text
    assert hits.trace_id
    assert hits[0].why
    assert hits[0].memory.source_turns == tuple(turn.turn_id for turn in result.turns)


def test_a_second_dog_a_move_and_a_retraction(memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="ana")
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    memory.add("I adopted another dog named Scout.", user_id="ana")
    memory.add("I moved to Bergen.", user_id="ana")
    memory.add("Hi! How are you?", user_id="ana")
    held = " | ".join(texts(memory))
    assert "Buddy" in held
    assert "Scout" in held
    assert "Bergen" in held
    assert len(texts(memory)) == 2


def test_what_is_written_is_read_by_another_handle_at_once(tmp_path: Path) -> None:
    with Memory(tmp_path / "s") as one, Memory(tmp_path / "s") as two:
        one.add("The sky is green.", user_id="u", infer=False)
        assert two.search("sky colour", user_id="u")[0].text == "The sky is green."
        one.flush()
        one.add("The grass is blue.", user_id="u", infer=False)
        assert two.search("grass colour", user_id="u")[0].text == "The grass is blue."


def test_infer_false_keeps_the_turn_as_it_is(memory: Memory) -> None:
    text = "  emoji 🙂, RTL שלום, NUL \x00 and\nlines  "
    said = {"role": "user", "name": "Caroline", "content": text}
    memory.add(said, user_id="talk", at=MAY, metadata={"ref": "D1:3"}, infer=False)
    memory.flush()
    (record,) = memory.list(user_id="talk")
    assert (record.text, record.kind, record.speaker, record.at) == (text, "episode", "Caroline", MAY)
    assert dict(record.metadata) == {"ref": "D1:3"}
    assert memory.search("emoji", user_id="talk")[0].memory == record


def test_as_of_a_sequence_number_and_a_time(memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="ana", at=MAY)
    then = memory.history(user_id="ana")[-1].seq
    memory.add("I moved to Bergen.", user_id="ana", at=MAY + timedelta(days=30))
    assert "Bergen" in memory.search("where does Ana live?", user_id="ana")[0].text
    assert "Oslo" in memory.search("where does Ana live?", user_id="ana", as_of=then)[0].text
    assert "Oslo" in memory.search("where does Ana live?", user_id="ana", as_of=MAY + timedelta(days=1))[0].text
    assert memory.search("where does Ana live?", user_id="ana", as_of=MAY - timedelta(days=1)) == []


def test_update_delete_undo_and_history(memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="ana")
    (record,) = memory.list(user_id="ana")
    changed = memory.update(record.id, "Ana lives in Bergen.", user_id="ana", expected_revision=1)
    assert (changed.revision, changed.id) == (2, record.id)
    with pytest.raises(e.RevisionConflict):
        memory.update(record.id, "x", user_id="ana", expected_revision=1)
    gone = memory.delete(record.id, user_id="ana")
    assert texts(memory) == []
    memory.undo(user_id="ana", op_id=gone.op_id)
    assert texts(memory) == ["Ana lives in Bergen."]
    memory.undo(user_id="ana", since=changed.seq)
    assert texts(memory) == [record.text]
    causes = [op.cause for op in memory.history(user_id="ana", memory_id=record.id)]
    assert causes == ["decision", "api", "api", "undo", "undo"]


def test_undo_of_a_turn_and_its_refusal(memory: Memory) -> None:
    added = memory.add("I adopted a dog named Buddy.", user_id="ana")
    memory.add("I adopted another dog named Scout.", user_id="ana")
    with pytest.raises(e.UndoConflict):
        memory.undo(user_id="ana", turn_id=added.turns[0].turn_id)
    with pytest.raises(e.NotFound):
        memory.undo(user_id="eve", turn_id=added.turns[0].turn_id)


def test_ops_are_undone_one_after_the_other_and_the_refusal_names_what_is_in_the_way(memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="ana")
    (record,) = memory.list(user_id="ana")
    for city in ("Bergen", "Voss"):
        memory.update(record.id, f"Ana lives in {city}.", user_id="ana")
    first, second, third = memory.history(user_id="ana", memory_id=record.id)
    with pytest.raises(e.UndoConflict) as refused:
        memory.undo(user_id="ana", op_id=second.op_id)
    assert third.op_id in refused.value.fix
    (of_third,) = memory.undo(user_id="ana", op_id=third.op_id)
    memory.undo(user_id="ana", op_id=second.op_id)
    assert texts(memory) == [record.text]
    with pytest.raises(e.UndoConflict, match="undone already") as refused:
        memory.undo(user_id="ana", op_id=third.op_id)
    memory.undo(user_id="ana", op_id=refused.value.details["op"])
    memory.undo(user_id="ana", op_id=of_third.op_id)
    assert texts(memory) == ["Ana lives in Voss."], "an undo is undone where it is named"
    assert memory.undo(user_id="ana", since=first.seq)
    assert texts(memory) == []
    assert memory.doctor() == []


def test_what_is_said_again_keeps_its_date_and_says_when_it_was_confirmed(memory: Memory, tmp_path: Path) -> None:
    june = MAY + timedelta(days=30)
    for at in (MAY, june):
        memory.add("I live in Oslo.", user_id="ana", at=at)
    (record,) = memory.list(user_id="ana")
    assert (record.at, record.confirmed_at) == (MAY, june)
    memory.flush()
    assert memory.doctor() == []
    memory.export(tmp_path / "all.jsonl")
    with Memory(tmp_path / "copy") as copy:
        copy.import_(tmp_path / "all.jsonl")
        assert copy.list(user_id="ana") == [record]
    moved = memory.update(record.id, "Ana lives in Bergen.", user_id="ana")
    assert moved.at is not None
    assert moved.at > june
    assert moved.confirmed_at is None


def test_idempotency(memory: Memory) -> None:
    first = memory.add("I live in Oslo.", user_id="ana", idempotency_key="k1")
    again = memory.add("I live in Oslo.", user_id="ana", idempotency_key="k1")
    assert again.replayed
    assert (again.trace_id, again.ops) == (first.trace_id, first.ops)
    assert len(memory.history(user_id="ana")) == len(first.ops)
    with pytest.raises(e.IdempotencyConflict):
        memory.add("I live in Bergen.", user_id="ana", idempotency_key="k1")


def test_background_adds_are_decided_in_order_and_flush_waits(memory: Memory) -> None:
    cities = ["Oslo", "Bergen", "Paris", "Rome"]
    first = memory.add("I live in Lima.", user_id="ana", wait=False)
    assert first.status == "pending"
    for city in cities:
        memory.add(f"I moved to {city}.", user_id="ana", wait=False)
    memory.flush()
    assert len(texts(memory)) == 1
    assert "Rome" in texts(memory)[0]


def test_a_process_that_only_looks_decides_nothing(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", config={"workers": 0}) as app:
        app.add("I live in Oslo.", user_id="ana", wait=False)
        app._runtime._accepted.clear()  # it dies before it can decide
    with Memory(tmp_path / "s", config={"workers": 0}) as looking:
        assert looking.list(user_id="ana") == []
        assert looking.stats()["pending"] == 1
    with Memory(tmp_path / "s") as app_again:
        app_again.flush()
        assert len(app_again.list(user_id="ana")) == 1


def test_scope_is_law(memory: Memory) -> None:
    hostile = ["*", "' OR '1'='1", "a' --", "%", "_", " blank", "שלום", "🙂", 'q"uote', "ana\n"]
    for user in [*hostile, "ana"]:
        memory.add(f"The secret of {user!r} is {user!r}.", user_id=user, infer=False)
    memory.flush()
    for user in [*hostile, "ana"]:
        (hit,) = memory.search("secret", user_id=user)
        assert repr(user) in hit.text
    (record,) = memory.list(user_id="ana")
    for user in hostile:
        with pytest.raises(e.NotFound):
            memory.get(record.id, user_id=user)
        with pytest.raises(e.NotFound):
            memory.delete(record.id, user_id=user)
    assert memory.delete_all(user_id="*") == 1
    assert len(memory.list(user_id="ana")) == 1
    assert sorted(memory.users()) == sorted([*hostile, "ana"])


def test_banks_of_agents_are_apart_and_reads_without_agent_cover_all(memory: Memory) -> None:
    memory.add("Ana likes tea.", user_id="ana", agent_id="cook", infer=False)
    memory.add("Ana likes chess.", user_id="ana", agent_id="coach", infer=False)
    assert [hit.text for hit in memory.search("likes", user_id="ana", agent_id="cook")] == ["Ana likes tea."]
    assert len(memory.search("likes", user_id="ana")) == 2
    assert len(memory.list(user_id="ana")) == 2


def test_filters_kinds_sessions_and_pages(memory: Memory) -> None:
    for number in range(25):
        session, extra = f"s{number % 2}", {"a": {"b": number}}
        memory.add(f"note number {number}", user_id="u", infer=False, metadata=extra, session_id=session)
    assert len(memory.search("note", user_id="u", k=50, filters={"metadata.a.b": {"$gte": 20}})) == 5
    assert len(memory.search("note", user_id="u", k=50, session_id="s1")) == 12
    assert memory.search("note", user_id="u", kinds=["fact"]) == []
    seen, cursor = [], None
    while True:
        page = memory.list(user_id="u", limit=10, cursor=cursor)
        seen += [record.text for record in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [f"note number {number}" for number in range(25)]


def test_context_is_prompt_ready_and_answer_without_a_model_names_it(memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    block = memory.context("pets?", user_id="ana", max_tokens=200)
    assert "Buddy" in block
    assert block.trace_id
    with pytest.raises(e.NoModel, match="context"):
        memory.answer("How many dogs?", user_id="ana")


def test_observe_and_feedback_belong_to_the_user(memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    memory.add("I play the cello.", user_id="ana")
    hits = memory.search("pets?", user_id="ana")
    assert memory.observe(hits.trace_id, "You have a dog named Buddy.", user_id="ana") == (hits[0].memory.id,)
    once = memory.feedback(hits.trace_id, label="up", user_id="ana")
    assert memory.feedback(hits.trace_id, label="up", user_id="ana") == once
    with pytest.raises(e.NotFound):
        memory.feedback(hits.trace_id, label="up", user_id="eve")
    with pytest.raises(e.InvalidInput):
        memory.feedback(hits.trace_id, reward=2, user_id="ana")


def test_the_next_turn_is_recorded_as_an_implicit_signal(memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    for question, said, signal in [
        ("pets?", "No, that's wrong, I have two dogs.", "correction"),
        ("what is the name of my dog", "What is the name of my dog?", "reask"),
        ("pets?", "Thanks! I am off to Rome.", "next_turn"),
    ]:
        hits = memory.search(question, user_id="ana")
        memory.observe(hits.trace_id, "You have one dog.", user_id="ana")
        memory.add(said, user_id="ana")
        memory.flush()
        (found,) = memory._runtime.journal.feedback_for(hits.trace_id)
        assert (found.source, found.payload["signal"]) == ("implicit", signal)


def test_expired_memories_are_not_served(memory: Memory) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    memory.add("The door code is 1234.", user_id="u", infer=False, expires_at=past)
    assert memory.search("door code", user_id="u") == []
    assert memory.list(user_id="u") == []


def test_user_binds_the_scope(memory: Memory) -> None:
    ana = memory.user("ana")
    ana.add("I live in Oslo.")
    assert "Oslo" in ana.search("where?")[0].text
    assert memory.list(user_id="ana") == ana.list()


def test_the_story_of_a_decision_is_complete(memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="ana")
    added = memory.add("I moved to Bergen.", user_id="ana")
    story = memory.decisions(user_id="ana", trace_id=added.trace_id)
    manager = next(one for one in story if one["role"] == "manager")
    assert "Oslo" in manager["candidates"][0]["text"]
    assert manager["ops"][0]["action"] == "update"
    assert manager["reply"]
    memory.flush()  # sealed into LanceDB, it is told the same
    assert memory.decisions(user_id="ana", trace_id=added.trace_id) == story
    assert set(manager["missing"]) == {"prompt_ids", "token_ids", "logprobs", "sampled_logprobs"}


def test_export_and_import_are_lossless(memory: Memory, tmp_path: Path) -> None:
    memory.add("I live in Oslo.", user_id="ana")
    memory.add("I moved to Bergen.", user_id="ana")
    memory.add("I like tea.", user_id="bob")
    hits = memory.search("where?", user_id="ana")
    memory.feedback(hits.trace_id, label="up", user_id="ana")
    assert memory.export(tmp_path / "all.jsonl") > 0
    with Memory(tmp_path / "other") as other:
        other.import_(tmp_path / "all.jsonl")
        assert other.history(user_id="ana") == memory.history(user_id="ana")
        assert other.list(user_id="bob") == memory.list(user_id="bob")
        assert other.feedback(hits.trace_id, label="down", user_id="ana")
        assert other.import_(tmp_path / "all.jsonl") == 0
    (tmp_path / "marked.jsonl").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "all.jsonl").read_bytes())
    with Memory(tmp_path / "edited") as edited:  # some editors begin a file with a mark
        assert edited.import_(tmp_path / "marked.jsonl") > 0
    whole = (tmp_path / "all.jsonl").read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join(whole[:-1]))
    with Memory(tmp_path / "third") as third, pytest.raises(e.InvalidInput):
        third.import_(tmp_path / "cut.jsonl")


def test_erase_leaves_nothing_of_the_user_and_all_of_the_others(memory: Memory, tmp_path: Path) -> None:
    memory.add("The canary-Zebra lives in Quito.", user_id="eve", infer=False)
    memory.add("Bob lives in Rome.", user_id="bob", infer=False)
    memory.search("canary-Zebra", user_id="eve")
    memory.flush()
    before = memory.list(user_id="bob")
    assert memo.count_entries()
    receipt = memory.erase(user_id="eve")
    assert not memo.count_entries()
    assert receipt.counts
    assert "eve" not in receipt.subject
    for file in (tmp_path / "store").rglob("*"):
        if file.is_file():
            assert b"canary-Zebra" not in file.read_bytes(), file
    assert memory.list(user_id="bob") == before
    assert memory.users() == ["bob"]
    assert memory.history(user_id="eve") == []


def test_the_projection_can_be_deleted_at_any_time(tmp_path: Path) -> None:
    import shutil

    with Memory(tmp_path / "s") as memory:
        for number in range(700):
            memory.add(f"fact number {number}", user_id="u", infer=False)
        memory.flush()
    shutil.rmtree(tmp_path / "s" / "lance")
    with Memory(tmp_path / "s") as memory:
        assert memory.search("fact number 650", user_id="u")[0].text == "fact number 650"
        memory.flush()
        assert memory.doctor() == []


# ---- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "   ", "\n", None, 7, b"bytes", ["ok", ""], [], {"role": "user"}, "\ud800"])
def test_bad_text_is_refused_and_nothing_is_written(memory: Memory, text: object) -> None:
    with pytest.raises(e.InvalidInput):
        memory.add(text, user_id="ana")
    assert memory.stats()["turns"] == 0


@pytest.mark.parametrize("user", ["", None, 7, "a\x00b", "\ud800", "x" * 513, ["ana"]])
def test_bad_ids_are_refused(memory: Memory, user: object) -> None:
    for call in (
        lambda: memory.add("hi there", user_id=user),  # type: ignore[arg-type]
        lambda: memory.search("hi", user_id=user),  # type: ignore[arg-type]
        lambda: memory.delete_all(user_id=user),  # type: ignore[arg-type]
        lambda: memory.erase(user_id=user),  # type: ignore[arg-type]
    ):
        with pytest.raises(e.InvalidScope):
            call()


def test_limits_are_exact(memory: Memory) -> None:
    memory.add("x" * 262_144, user_id="u", infer=False)
    with pytest.raises(e.LimitExceeded):
        memory.add("x" * 262_145, user_id="u", infer=False)
    assert memory.add("ok", user_id="x" * 512, infer=False).status == "applied"


def test_naive_times_unknown_filters_and_wrong_names(memory: Memory) -> None:
    with pytest.raises(e.InvalidTime):
        memory.add("hi", user_id="u", at=datetime(2026, 5, 1))
    with pytest.raises(e.InvalidFilter):
        memory.search("hi", user_id="u", filters={"1=1 OR id": "x"})
    with pytest.raises(e.WrongName, match="use k"):
        memory.search("hi", user_id="u", limit=3)  # type: ignore[call-arg]
    with pytest.raises(e.WrongName, match=r"use list\(\)"):
        memory.get_all(user_id="u")
    with pytest.raises(TypeError):
        memory.delete_all()  # type: ignore[call-arg]
    assert not hasattr(memory, "something_else")


def test_foreign_folders_newer_formats_and_closed_stores(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "letter.txt").write_text("dear")
    with pytest.raises(e.NotAStore):
        Memory(tmp_path / "docs")
    assert [file.name for file in (tmp_path / "docs").iterdir()] == ["letter.txt"]
    memory = Memory(tmp_path / "s")
    memory.close()
    memory.close()
    with pytest.raises(e.StoreClosed):
        memory.add("hi", user_id="u")
    with pytest.raises(e.EmbedderMismatch):
        Memory(tmp_path / "s", embedder=lambda texts: [[1.0, 0.0] for _ in texts])


def test_openai_histories(memory: Memory) -> None:
    history = [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": [{"type": "text", "text": "I live in Oslo."}, {"type": "image_url"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "22 degrees", "tool_call_id": "1"},
        {"role": "assistant", "content": "Nice!", "name": "Bot"},
    ]
    result = memory.add(history, user_id="ana")
    assert [turn.origin for turn in result.turns] == ["document", "user", "tool", "assistant"]
    assert any("Oslo" in text for text in texts(memory))


def test_a_message_of_an_old_chat_is_of_its_own_time(memory: Memory, tmp_path: Path) -> None:
    march, june = datetime(2025, 3, 4, 18, tzinfo=UTC), datetime(2025, 6, 11, 9, tzinfo=UTC)
    chat = [
        {"role": "user", "content": "I went hiking yesterday.", "at": march.isoformat()},
        Message("user", "I bought a kayak yesterday.", at=june),
        {"role": "user", "content": "I like tea.", "at": None},
    ]
    added = memory.add(chat, user_id="ana", at=MAY, idempotency_key="chat")
    assert [turn.at for turn in added.turns] == [march, june, MAY]
    assert [(one.at, one.text) for one in memory.list(user_id="ana")][:2] == [
        (march, "User went hiking on 3 March 2025."),
        (june, "User bought a kayak on 10 June 2025."),
    ]
    assert not any("kayak" in hit.text for hit in memory.search("kayak", user_id="ana", as_of=march))
    memory.export(tmp_path / "chat.jsonl")
    with Memory(tmp_path / "other") as other:
        other.import_(tmp_path / "chat.jsonl")
        assert other.list(user_id="ana") == memory.list(user_id="ana")
        assert other.add(chat, user_id="ana", at=MAY, idempotency_key="chat").replayed
        with pytest.raises(e.IdempotencyConflict):
            other.add([*chat[:2], "I like tea."], user_id="ana", idempotency_key="chat")
    kept = memory.add(chat[:2], user_id="bo", infer=False)
    assert [op.after.at for op in kept.ops if op.after] == [march, june]
    answered = memory.add([chat[0], {"role": "assistant", "content": "Nice!"}], user_id="cy")
    assert [turn.at for turn in answered.turns] == [march, march]


@pytest.mark.parametrize("at", ["soon", "2025-03-04T18:00:00", 1741111200, True, {}])
def test_a_message_with_a_time_that_is_none_is_refused_whole(memory: Memory, at: object) -> None:
    said = [{"role": "user", "content": "I like tea."}, {"role": "user", "content": "I like jam.", "at": at}]
    with pytest.raises(e.InvalidTime, match="at of message 1"):
        memory.add(said, user_id="ana")
    assert not memory.history(user_id="ana")


class MiniLike(HashEmbedder):
    """Vectors of words under the name of an embedder whose cosines are known."""

    identity = "minilm/like:384"  # type: ignore[assignment]


def test_a_question_about_what_was_never_spoken_of_gets_an_empty_context(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", embedder=MiniLike()) as memory:
        memory.add("My sister Ada plays the cello in an orchestra.", user_id="ana", infer=False)
        assert "cello" in memory.context("Which instrument does Ada play, the cello?", user_id="ana")
        assert memory.context("quarterly tax deadlines abroad", user_id="ana") == ""
        assert "cello" in memory.context("quarterly tax deadlines abroad", user_id="ana", min_score=0.0)


def test_a_context_ends_where_what_was_said_bears_no_longer_on_the_question(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", embedder=MiniLike()) as memory:
        memory.add("My sister Ada plays the cello in an orchestra.", user_id="ana", session_id="s1", infer=False)
        memory.add("Nothing new here.", user_id="ana", session_id="s2", infer=False)
        question = "Which instrument does my sister Ada play, the cello?"
        assert len(memory.search(question, user_id="ana")) == 2
        block = memory.context(question, user_id="ana")
        assert "cello" in block
        assert "Nothing new" not in block
        assert "Nothing new" in memory.context(question, user_id="ana", min_score=0.0)


def test_reads_leave_out_what_is_less_relevant_than_was_asked_for(memory: Memory) -> None:
    memory.add("My dog Buddy eats salmon.", user_id="ana", infer=False)
    memory.add("The train leaves at noon.", user_id="ana", infer=False)
    question = "What does my dog Buddy eat?"
    hits = memory.search(question, user_id="ana")
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)
    assert all(0 < hit.relevance < 1 for hit in hits)
    assert len(hits) == 2
    least = (hits[0].relevance + hits[1].relevance) / 2
    assert [hit.text for hit in memory.search(question, user_id="ana", min_score=least)] == [hits[0].text]
    block = memory.context(question, user_id="ana", min_score=least)
    assert "salmon" in block
    assert "train" not in block
    for wrong in (-0.1, 1.1, True, "0.5"):
        with pytest.raises(e.InvalidInput, match="relevance"):
            memory.search(question, user_id="ana", min_score=wrong)  # type: ignore[arg-type]


def test_the_hits_of_a_context_carry_their_turns_where_asked_for(memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana")
    block = memory.context("Which dog?", user_id="ana", expand="sources")
    assert [turn.text for turn in block.hits[0].sources] == ["I adopted a dog named Buddy."]
    assert memory.context("Which dog?", user_id="ana").hits[0].sources == ()
