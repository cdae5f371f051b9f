"""Rare ways to use the verbs: ends that pass, talks loaded late, arguments of the wrong kind, verbs after close."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memkit import AsyncMemory, Memory
from memkit import errors as e
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy, scripts_of
from tests.train.stores import Hands

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> Hands:
    return Hands(NOW)


@pytest.fixture
def memory(tmp_path: Path, clock: Hands) -> Iterator[Memory]:
    with Memory(tmp_path / "store", clock=clock) as opened:
        yield opened


def listed(memory: Memory) -> list[tuple[str, datetime | None]]:
    return [(one.text, one.expires_at) for one in memory.list(user_id="ana")]


# ---- metadata ----------------------------------------------------------------------------------------------------


def test_what_is_written_carries_the_metadata_of_the_turn_that_it_was_drawn_from(memory: Memory) -> None:
    def tags() -> list[tuple[str, dict[str, Any]]]:
        return [(one.text, dict(one.metadata)) for one in memory.list(user_id="ana")]

    memory.add("I adopted a dog named Buddy.", user_id="ana", metadata={"app": "web"})
    assert tags() == [("User adopted a dog named Buddy.", {"app": "web"})]
    assert memory.search("dog", user_id="ana", filters={"metadata.app": "web"})
    memory.add("I adopted a dog named Buddy.", user_id="ana", metadata={"app": "phone"})
    assert tags() == [("User adopted a dog named Buddy.", {"app": "web"})], "nothing was written"
    for said, carried in (("I adopted another dog named Scout.", "web"), ("I adopted another dog named Rex.", "phone")):
        memory.add(said, user_id="ana", metadata={} if carried == "web" else {"app": carried})
        ((text, kept),) = tags()
        assert said.split()[-1] in text
        assert kept == {"app": carried}


# ---- ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "wait", "again", "left"),
    [
        (HOUR, 2, 5 * HOUR, NOW + 5 * HOUR),  # ended already: it is back
        (HOUR, 2, None, None),
        (5 * HOUR, 0, None, None),  # said again without an end
        (5 * HOUR, 0, 9 * HOUR, NOW + 9 * HOUR),
        (5 * HOUR, 0, HOUR, NOW + 5 * HOUR),  # nothing is taken away
        (None, 0, HOUR, None),
    ],
)
def test_what_is_said_again_lasts_as_long_as_it_was_last_said_to(
    memory: Memory, clock: Hands, first: timedelta | None, wait: int, again: timedelta | None, left: datetime | None
) -> None:
    said = "The gate code is 4711."
    memory.add(said, user_id="ana", infer=False, expires_at=first and NOW + first)
    clock.at = NOW + wait * HOUR
    result = memory.add(said, user_id="ana", infer=False, expires_at=again and NOW + again)
    assert listed(memory) == [(said, left)]
    assert result.ops[0].action == ("noop" if left == (first and NOW + first) else "update")
    assert memory.search("gate code", user_id="ana")[0].text == said


def test_an_end_holds_for_what_is_inferred_and_in_replay(memory: Memory, clock: Hands, tmp_path: Path) -> None:
    memory.add("I live in Oslo.", user_id="ana", expires_at=NOW + HOUR)
    ((_, ends),) = listed(memory)
    assert ends == NOW + HOUR
    with StoreSource(tmp_path / "store") as source:
        (episode,) = source.trajectories()
        (script,) = scripts_of(episode)
        env = Env(memory._runtime.embedder)
        (trail,) = env.run([(env.start(script), Policy(memory._runtime.backbone))], upto=None)
        assert trail.ops[0].after == episode.ops[-1].after
    clock.at += 2 * HOUR
    assert listed(memory) == []
    assert memory.search("where?", user_id="ana") == []


# ---- time travel -------------------------------------------------------------------------------------------------


def test_a_talk_that_is_loaded_late_does_not_show_what_came_after_it(memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana", at="2024-06-01T00:00:00+00:00")
    memory.add("I adopted another dog named Scout.", user_id="ana", at="2024-01-01T00:00:00+00:00")
    found = memory.search("dogs", user_id="ana", as_of="2024-03-01T00:00:00+00:00")
    assert not any("Buddy" in hit.text for hit in found), "nobody had said so by March"
    assert "Scout" in memory.search("dogs", user_id="ana")[0].text


# ---- arguments of the wrong kind ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"redcat": str.upper},
        {"model": "openai:m", "redcat": str.upper},
        {"model": {"manager": "openai:m"}, "max": 3},
        {"model": lambda messages: "", "temprature": 1.0},
        {"instructions": "\ud800"},
        {"config": 5},
        {"config": {"guard": {"max_ops": "many"}}},
    ],
    ids=" ".join,
)
def test_a_wrong_option_is_refused_before_anything_is_written(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(e.InvalidConfig):
        Memory(tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("path", [None, "", "a\0b", 5])
def test_a_path_is_a_path(path: Any, memory: Memory) -> None:
    for call in (lambda: Memory(path), lambda: memory.export(path)):
        with pytest.raises(e.InvalidInput):
            call()


def test_wrong_kinds_of_arguments_are_named(memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="ana")
    deep: dict[str, Any] = {}
    for _ in range(500):
        deep = {"in": deep}
    wrong: dict[str, Any] = {
        "kinds": lambda: memory.search("x", user_id="ana", kinds=5),  # type: ignore[arg-type]
        "query": lambda: memory.search(None, user_id="ana"),  # type: ignore[arg-type]
        "question": lambda: memory.answer(None, user_id="ana"),  # type: ignore[arg-type]
        "filters": lambda: memory.list(user_id="ana", filters=[]),  # type: ignore[arg-type]
        "filter text": lambda: memory.list(user_id="ana", filters=""),  # type: ignore[arg-type]
        "ids": lambda: memory.retry(5),  # type: ignore[arg-type]
        "memories": lambda: memory.import_(5),  # type: ignore[arg-type]
        "depth": lambda: memory.add("x", user_id="ana", metadata=deep),
        "a memory": lambda: memory.import_([5]),  # type: ignore[list-item]
    }
    for name, call in wrong.items():
        with pytest.raises(e.InvalidInput, match=r"."):
            assert call() is None, f"{name} was taken"
    huge = {"trust": {"$gte": 10**400}}
    assert list(memory.list(user_id="ana", filters=huge)) == []


# ---- the end -----------------------------------------------------------------------------------------------------


def test_an_async_memory_says_that_it_is_closed(tmp_path: Path) -> None:
    async def use() -> None:
        memory = AsyncMemory(tmp_path / "store")
        await memory.add("I live in Oslo.", user_id="ana")
        await memory.close()
        await memory.close()
        with pytest.raises(e.StoreClosed):
            await memory.search("where?", user_id="ana")

    asyncio.run(use())


def test_an_erased_users_question_is_not_waited_on(memory: Memory) -> None:
    block = memory.context("where is my secret hidden?", user_id="ana")
    memory.observe(block.trace_id, "in Oslo", user_id="ana")
    assert memory._runtime.traces._answered
    memory.erase(user_id="ana")
    assert not memory._runtime.traces._answered


def test_an_imported_memory_with_fields_of_all_sorts_is_refused_in_words(memory: Memory) -> None:
    with pytest.raises(e.InvalidInput, match="has the field"):
        memory.import_([{"text": "x", "user_id": "ana", 5: 6, "more": 1}])  # type: ignore[dict-item]
