"""What a person sees of a store, and that looking changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit import Memory
from memkit.errors import ModelUnavailable, NotFound
from memkit.models import JSON


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "store") as opened:
        yield opened


def talk(memory: Memory, *texts: str, user: str = "ana") -> None:
    for text in texts:
        memory.add(text, user_id=user)


def test_why_tells_small_talk_from_what_nobody_said_and_what_is_remembered(memory: Memory) -> None:
    talk(memory, "lol ok whatever", "I am allergic to peanuts.")
    said = memory.views.why("ana", "lol whatever")
    assert said.verdict == "It was said, and no memory was made of it."
    assert [(one.fate, bool(one.reason), one.words_kept) for one in said.turns] == [("nothing", True, True)]
    assert memory.views.why("ana", "Paris").verdict.startswith("Nobody said it here: none of 2 turns")
    known = memory.views.why("ana", "peanuts")
    assert (known.verdict, [one.text for one in known.remembered]) == (
        "It is remembered.",
        ["User is allergic to peanuts."],
    )


def test_why_names_who_ended_it(memory: Memory) -> None:
    talk(memory, "I adopted a dog named Buddy.")
    memory.delete(memory.list(user_id="ana")[0].id, user_id="ana")
    found = memory.views.why("ana", "Buddy dog")
    assert found.verdict == "It was remembered, and has ended since."
    assert "a call of the app or a person" in found.turns[0].reason


def test_why_tells_a_parked_turn_with_its_next_step(tmp_path: Path) -> None:
    def down(_: object) -> str:
        raise ModelUnavailable("the model is away")

    with Memory(tmp_path / "store", model=down) as memory:
        memory.add("I live in Oslo.", user_id="ana")
        (one,) = memory.views.why("ana", "Oslo").turns
    assert (one.fate, "memkit retry" in one.reason) == ("parked", True)


def test_memories_are_seen_as_of_any_operation(memory: Memory) -> None:
    talk(memory, "I live in Oslo.", "I moved to Bergen.")
    now = memory.views.memories("ana")
    then = [memory.views.memories("ana", step=step) for step in range(now.steps + 1)]
    assert any("Bergen" in one.text for one in now.memories)
    assert any("Oslo" in one.text for seen in then for one in seen.memories)
    assert (then[0].memories, then[0].at) == ((), None)
    assert then[-1] == now


def test_lists_are_paged_without_gap_or_repetition(memory: Memory) -> None:
    talk(memory, *[f"I own book number {number}." for number in range(7)])
    for _ in range(5):
        memory.search("book", user_id="ana")
    views = memory.views
    pages: dict[str, list[str]] = {}
    for name, call, key in (
        ("turns", views.turns, lambda one: one.trace_id),
        ("ops", views.ops, lambda one: one.op_id),
        ("decisions", views.decisions, lambda one: one["decision_id"]),
        ("reads", views.reads, lambda one: one["trace_id"]),
    ):
        whole = [key(one) for one in call("ana", limit=100).items]
        before, found = None, []
        while True:
            page = call("ana", before=before, limit=2)
            found += [key(one) for one in page.items]
            before = int(page.next) if page.next and name == "ops" else page.next
            if before is None:
                break
        pages[name] = found
        assert found == whole, name
        assert len(set(found)) == len(found) > 2


def test_grep_finds_what_only_some_say(memory: Memory) -> None:
    talk(memory, "I own a red kayak.", "I own a tent.", "I own a stove.")
    memory.search("kayak", user_id="ana")
    memory.search("tent", user_id="ana")
    views = memory.views
    assert [op.after.text for op in views.ops("ana", grep="KAYAK").items if op.after] == ["User owns a red kayak."]
    assert all("kayak" in str(one).casefold() for one in views.decisions("ana", grep="kayak").items)
    assert [one["question"] for one in views.reads("ana", grep="tent").items] == ["tent"]


def test_a_read_is_told_with_each_signals_share_its_tokens_and_its_thumb(memory: Memory) -> None:
    talk(memory, "I live in Oslo.", "I play the cello.")
    hits = memory.search("where does Ana live?", user_id="ana")
    memory.observe(hits.trace_id, "Ana lives in Oslo.", user_id="ana")
    memory.feedback(hits.trace_id, label="down", expected="Bergen", user_id="ana")
    told = memory.views.read("ana", hits.trace_id)
    best = told.served[0]
    assert sum(best.shares.values()) == pytest.approx(best.score, abs=1e-3)
    assert told.tokens == sum(one.tokens for one in told.served) > 0
    assert any(one.cited for one in told.served)
    (given,) = told.feedback
    assert (given["good"], given["expected"]) == (False, "Bergen")


def test_a_decision_is_told_with_its_prompt(memory: Memory) -> None:
    talk(memory, "I live in Oslo.")
    for one in memory.views.decisions("ana").items:
        told = memory.views.decision("ana", one["decision_id"])
        assert "Oslo" in "".join(text for _, text in told.messages)
    with pytest.raises(NotFound):
        memory.views.decision("bob", one["decision_id"])


def test_health_names_twins_junk_and_what_waits(memory: Memory) -> None:
    memory.import_(
        [{"text": text, "user_id": "ana"} for text in ("Ana owns a red kayak", "A red kayak Ana owns", "ok")]
    )
    found = memory.views.health()
    assert (found.looked_at, found.counts["duplicates"], found.never_served) == (3, 1, 3)
    assert found.counts["junk"] == 1
    memory.search("kayak", user_id="ana")
    memory.flush()
    assert memory.views.health().never_served < 3
    assert sum(found.days["changed"].values()) == 3


def test_erasures_are_told_by_receipt(memory: Memory) -> None:
    talk(memory, "I live in Oslo.")
    memory.erase(user_id="ana")
    (receipt,) = memory.views.erasures().receipts
    assert receipt["scrubbed"]
    assert "Oslo" not in str(receipt)
    assert "ana" not in str(receipt)
    with pytest.raises(NotFound):
        memory.views.person("ana")


def test_looking_changes_nothing(memory: Memory, tmp_path: Path) -> None:
    talk(memory, "I live in Oslo.", "I moved to Bergen.")
    hits = memory.search("home", user_id="ana")
    memory.flush()
    views, before = memory.views, rows(tmp_path / "store")
    for call in (views.people, views.health, views.learning, views.erasures):
        call()
    for call in (views.person, views.memories, views.words, views.ops, views.turns, views.decisions, views.reads):
        call("ana")
    views.search("ana", "home")
    views.why("ana", "home")
    views.read("ana", hits.trace_id)
    memory.flush()
    assert rows(tmp_path / "store") == before


def rows(store: Path) -> JSON:
    with sqlite3.connect(store / "journal.sqlite") as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    db.close()
    return found
