"""`MemkitStore` against what LangGraph documents of a `BaseStore`: batches, names, filters, vectors, time to live."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

pytest.importorskip("langgraph.store.base", reason="needs the extra langgraph")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from pydantic import BaseModel

from memkit import Memory
from memkit.errors import InvalidConfig, InvalidInput, InvalidScope
from memkit_langgraph import MemkitStore, MemkitUserStore


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self.time += timedelta(microseconds=1)
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    def pass_minutes(self, minutes: float) -> None:
        self.time += timedelta(minutes=minutes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory(tmp_path: Path, clock: Clock) -> Iterator[Memory]:
    with Memory(tmp_path / "m", clock=clock) as memory:
        yield memory


@pytest.fixture
def store(memory: Memory) -> MemkitStore:
    return MemkitStore(memory)


NS = ("users", "ana")


# -- items are what was put ------------------------------------------------------------------------------------------


def test_what_is_put_is_got_and_nobody_manages_it(store: MemkitStore, memory: Memory) -> None:
    value = {"text": "I live in Oslo.", "n": 1.5, "deep": {"list": [1, None, True, {"ä": "雪"}]}, "": ""}
    store.put(NS, "k", value)
    store.put(NS, "other", {"text": "I live in Bergen."})
    assert store.get(NS, "k").value == value
    assert store.get(NS, "other").value == {"text": "I live in Bergen."}
    assert store.get(("users",), "k") is None
    assert {op.cause for op in memory.history(user_id="langgraph")} == {"api"}


def test_put_replaces_and_delete_ends(store: MemkitStore, clock: Clock) -> None:
    store.put(NS, "k", {"v": "A"})
    first = store.get(NS, "k")
    clock.pass_minutes(1)
    store.put(NS, "k", {"v": "a"})
    second = store.get(NS, "k")
    assert second.value == {"v": "a"}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    store.delete(NS, "k")
    store.delete(NS, "k")
    assert store.get(NS, "k") is None
    assert store.list_namespaces() == []


def test_a_returned_value_is_the_callers_own(store: MemkitStore) -> None:
    given = {"tags": ["a"]}
    store.put(NS, "k", given)
    given["tags"].append("b")
    store.get(NS, "k").value["tags"].append("c")
    store.search(NS)[0].value["tags"].append("d")
    assert store.get(NS, "k").value == {"tags": ["a"]}
    assert store.search(NS, filter={"tags": ["a"]})


def test_an_equal_put_is_an_update_too(store: MemkitStore) -> None:
    store.put(NS, "k", {"v": 1})
    before = store.get(NS, "k").updated_at
    store.put(NS, "k", {"v": 1})
    assert store.get(NS, "k").updated_at > before


def test_times_and_ids_become_text_and_what_is_no_json_is_refused(store: MemkitStore) -> None:
    when = datetime(2026, 5, 1, tzinfo=UTC)
    store.put(NS, "k", {"at": when, "half": "\ud800"})
    assert store.get(NS, "k").value == {"at": when.isoformat(), "half": "\ud800"}
    with pytest.raises(InvalidInput):
        store.put(NS, "k", {"v": object()})
    with pytest.raises(InvalidInput):
        store.put(NS, "\ud800", {})


def test_values_larger_than_a_message_fit(store: MemkitStore) -> None:
    value = {"text": "x" * 600_000}
    store.put(NS, "k", value)
    assert store.get(NS, "k").value == value


def test_a_store_is_durable_and_shared(tmp_path: Path) -> None:
    with MemkitStore(tmp_path / "m") as one:
        one.put(NS, "k", {"v": 1})
        one.put(("b",), "k", {"v": 2})
        one.delete(("b",), "k")
    with MemkitStore(tmp_path / "m") as first, MemkitStore(tmp_path / "m") as second:
        assert [item.value for item in first.search(())] == [{"v": 1}]
        second.put(NS, "k", {"v": 3})
        second.put(NS, "new", {"v": 4})
        second.delete(NS, "new")
        assert first.get(NS, "k").value == {"v": 3}
        assert first.get(NS, "new") is None


def test_the_verbs_of_memkit_work_on_items(store: MemkitStore, memory: Memory) -> None:
    store.put(NS, "k", {"v": "old words"})
    store.put(NS, "k", {"v": "new words"})
    store.delete(NS, "k")
    undone, updated = memory.history(user_id="langgraph")[-1], memory.history(user_id="langgraph")[-2]
    memory.undo(user_id="langgraph", op_id=undone.op_id)
    assert store.get(NS, "k").value == {"v": "new words"}
    assert updated.before is not None
    store.put(NS, "k", {"v": "again"})
    assert memory.search("again", user_id="langgraph")[0].memory.metadata["key"] == "k"
    memory.erase(user_id="langgraph")
    assert store.search(()) == []
    store.put(NS, "k", {"v": "after"})
    assert store.get(NS, "k").value == {"v": "after"}


@pytest.mark.parametrize(
    "change",
    [{"text": "not json"}, {"text": "[1]"}, {"metadata": {}}, {"metadata": {"namespace": ["x"], "key": "k"}}],
    ids=str,
)
def test_an_item_that_was_changed_into_none_is_gone_for_every_store(
    store: MemkitStore, memory: Memory, change: dict[str, Any]
) -> None:
    store.put(NS, "k", {"v": 1})
    assert store.get(NS, "k") is not None
    memory.update(memory.list(user_id="langgraph")[0].id, user_id="langgraph", **change)
    changed = memory.history(user_id="langgraph")[-1]
    for one in (store, MemkitStore(memory)):
        assert one.get(NS, "k") is None
        assert one.search(()) == []
    memory.undo(user_id="langgraph", op_id=changed.op_id)
    for one in (store, MemkitStore(memory)):
        assert [item.value for item in one.search(())] == [{"v": 1}]


def test_an_item_that_was_moved_is_in_one_place_for_every_store(store: MemkitStore, memory: Memory) -> None:
    store.put(NS, "k", {"v": 1})
    record = memory.list(user_id="langgraph")[0]
    memory.update(record.id, user_id="langgraph", metadata={**record.metadata, "key": "other"})
    for one in (store, MemkitStore(memory)):
        assert [item.key for item in one.search(())] == ["other"]


def test_a_double_that_an_undo_brings_back_ends_with_the_next_put(store: MemkitStore, memory: Memory) -> None:
    store.put(NS, "k", {"v": 1})
    store.delete(NS, "k")
    deleted = memory.history(user_id="langgraph")[-1]
    store.put(NS, "k", {"v": 2})
    memory.undo(user_id="langgraph", op_id=deleted.op_id)
    assert len(store.search(NS)) == 1
    store.put(NS, "k", {"v": 3})
    assert [item.value for item in store.search(NS)] == [{"v": 3}]
    assert len(memory.list(user_id="langgraph")) == 1
    store.delete(NS, "k")
    assert store.get(NS, "k") is None
    assert memory.list(user_id="langgraph") == []


def test_memories_that_no_store_put_stay_out(store: MemkitStore, memory: Memory) -> None:
    memory.add("I live in Oslo.", user_id="langgraph")
    store.put(NS, "k", {"v": 1})
    assert [item.key for item in store.search(())] == ["k"]
    assert store.list_namespaces() == [NS]


def test_redaction_reaches_every_text_of_a_value(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", redact=lambda text: text.replace("4711", "****")) as memory:
        store = MemkitStore(memory)
        store.put(NS, "k", {"pin": "4711", "more": [{"x": "is 4711"}], "empty": ""})
        assert store.get(NS, "k").value == {"pin": "****", "more": [{"x": "is ****"}], "empty": ""}


def test_redaction_reaches_what_becomes_text_only_when_it_is_written(tmp_path: Path) -> None:
    class Card(BaseModel):
        pin: str

    with Memory(tmp_path / "m", redact=lambda text: text.replace("4711", "")) as memory:
        store = MemkitStore(memory)
        store.put(NS, "k", {"card": Card(pin="4711"), "set": {"is 4711"}, "view": MappingProxyType({"x": "4711"})})
        assert store.get(NS, "k").value == {"card": {"pin": ""}, "set": ["is "], "view": {"x": ""}}
        store.put(NS, "k", MappingProxyType({"pin": "4711"}))  # type: ignore[arg-type]
        assert store.get(NS, "k").value == {"pin": ""}


def test_what_holds_itself_is_refused(store: MemkitStore) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    deep: Any = 0
    for _ in range(900):
        deep = [deep]
    for value in (endless, {"deep": deep}):
        with pytest.raises(InvalidInput):
            store.put(NS, "k", value)


# -- batches ---------------------------------------------------------------------------------------------------------


def test_results_keep_the_order_of_ops_and_reads_see_the_state_before_the_puts(store: MemkitStore) -> None:
    store.put(NS, "old", {"v": 1})
    got, put, found, listed, missing = store.batch(
        [
            GetOp(NS, "old"),
            PutOp(("users", "bob"), "new", {"v": 2}),
            SearchOp(("users",)),
            ListNamespacesOp(),
            GetOp(("users", "bob"), "new"),
        ]
    )
    assert got.value == {"v": 1}
    assert put is None
    assert [item.key for item in found] == ["old"]
    assert listed == [NS]
    assert missing is None
    assert store.get(("users", "bob"), "new").value == {"v": 2}


def test_the_last_put_of_a_key_wins(store: MemkitStore) -> None:
    store.batch([PutOp(NS, "k", {"v": 1}), PutOp(NS, "k", None), PutOp(NS, "k", {"v": 3})])
    assert store.get(NS, "k").value == {"v": 3}
    store.batch([PutOp(NS, "k", {"v": 4}), PutOp(NS, "k", None)])
    assert store.get(NS, "k") is None


@pytest.mark.parametrize("wrong", [("a.b",), ("a", ""), ("a", 1), ("a\x00",)])
def test_a_wrong_op_rejects_its_whole_batch(store: MemkitStore, wrong: Any) -> None:
    for op in (
        GetOp(wrong, "k"),
        PutOp(wrong, "k", {}),
        PutOp(wrong, "k", None),
        SearchOp(wrong),
        ListNamespacesOp((MatchCondition("prefix", wrong),)),
    ):
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(("valid",), "k", {}), op])
    assert store.get(("valid",), "k") is None


@pytest.mark.parametrize(
    "op",
    [
        SearchOp(NS, limit=-1),
        SearchOp(NS, offset=-1),
        ListNamespacesOp(offset=-1),
        PutOp(NS, "k", {}, ttl=-1),
        PutOp(NS, "k", {}, ttl=float("nan")),
    ],
)
def test_what_makes_no_sense_is_refused(store: MemkitStore, op: Any) -> None:
    with pytest.raises(InvalidInput):
        store.batch([PutOp(NS, "other", {}), op])
    assert store.search(()) == []


def test_a_very_long_time_to_live_is_for_ever(store: MemkitStore) -> None:
    store.put(NS, "k", {}, ttl=1e15)
    assert store.get(NS, "k") is not None
    assert store.sweep_ttl() == 0


def test_the_root_label_is_reserved(store: MemkitStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph", "x"), "k", {})
    with pytest.raises(InvalidNamespaceError):
        store.put((), "k", {})


keys = st.sampled_from(["a", "b", "A", "b*"])
values = st.fixed_dictionaries({"v": st.integers(0, 3)})
labels = st.lists(keys, min_size=1, max_size=3).map(tuple)
ops = st.lists(
    st.one_of(
        st.tuples(labels, keys, st.none() | values).map(lambda given: PutOp(*given)),
        st.tuples(labels, keys).map(lambda given: GetOp(*given)),
        st.tuples(labels | st.just(()), st.none() | values, st.just(100)).map(lambda given: SearchOp(*given)),
        st.tuples(st.sampled_from(["prefix", "suffix"]), labels, st.none() | st.integers(1, 3)).map(
            lambda given: ListNamespacesOp((MatchCondition(given[0], given[1]),), given[2])
        ),
    ),
    max_size=6,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ops, max_size=6))
def test_any_batches_answer_as_the_reference_does(memory: Memory, batches: Any) -> None:
    from langgraph.store.memory import InMemoryStore

    def told(result: Any) -> Any:
        if isinstance(result, list):
            return sorted(map(told, result), key=str)
        return (result.namespace, result.key, result.value) if hasattr(result, "key") else result

    reference, store = InMemoryStore(), MemkitStore(memory, user_id=uuid.uuid4().hex)
    for batch in batches:
        live = {item.namespace for item in reference.search((), limit=1_000)}
        expected, got = map(told, reference.batch(batch)), map(told, store.batch(batch))
        for op, one, other in zip(batch, expected, got, strict=True):
            if isinstance(op, ListNamespacesOp):  # the reference also lists what has no items left
                fresh = InMemoryStore()
                fresh.batch([PutOp(namespace, "k", {}) for namespace in live])
                one = told(fresh.batch([op])[0])
            assert one == other


# -- namespaces and filters ------------------------------------------------------------------------------------------


def test_prefixes_end_at_labels_and_are_case_sensitive(store: MemkitStore) -> None:
    for namespace in [("a",), ("a", "b"), ("ab",), ("A",), ("a*",), ("aXb",)]:
        store.put(namespace, "k", {})
    assert {item.namespace for item in store.search(("a",))} == {("a",), ("a", "b")}
    assert {item.namespace for item in store.search(["a*"])} == {("a*",)}  # type: ignore[arg-type]
    assert len(store.search((), limit=100)) == 6


@pytest.mark.parametrize("label", ["alice\n", "star*", "q?m", "br[ack]et", "user_1", "a%b", "plus+", "é"])
def test_labels_are_literal_to_the_last_character(store: MemkitStore, label: str) -> None:
    decoy = label[:-1] if label.endswith("\n") else "".join(one if one.isalnum() else "X" for one in label) + "X"
    for namespace in [("u", label), ("u", label, "child"), ("u", decoy), (label,)]:
        store.put(namespace, "k", {})
    assert {item.namespace for item in store.search(("u", label))} == {("u", label), ("u", label, "child")}
    assert store.list_namespaces(prefix=("u", label)) == [("u", label), ("u", label, "child")]
    assert store.list_namespaces(suffix=("u", label)) == [("u", label)]
    assert store.list_namespaces(suffix=(decoy,)) == [("u", decoy)]


def test_namespaces_are_listed_by_prefix_suffix_wildcard_depth_and_page(store: MemkitStore) -> None:
    spaces = [("u", "docs", "pub"), ("u", "docs", "priv"), ("u", "imgs", "pub"), ("v", "docs", "a", "pub")]
    for namespace in spaces:
        store.put(namespace, "k", {})
    assert store.list_namespaces() == sorted(spaces)
    assert store.list_namespaces(prefix=("u", "*", "pub")) == [("u", "docs", "pub"), ("u", "imgs", "pub")]
    assert store.list_namespaces(suffix=("docs", "*", "pub")) == [("v", "docs", "a", "pub")]
    assert store.list_namespaces(prefix=("u",), suffix=("pub",)) == [("u", "docs", "pub"), ("u", "imgs", "pub")]
    assert store.list_namespaces(max_depth=2) == [("u", "docs"), ("u", "imgs"), ("v", "docs")]
    assert store.list_namespaces(max_depth=1, offset=1, limit=5) == [("v",)]
    with pytest.raises(ValueError, match="match type"):
        store.batch([ListNamespacesOp((MatchCondition("middle", ("u",)),))])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"n": 2}, {"two"}),
        ({"n": {"$eq": 2}}, {"two"}),
        ({"n": {"$ne": 2}}, {"one", "text", "none"}),
        ({"n": {"$gt": 1}}, {"two", "text"}),
        ({"n": {"$gte": 1, "$lt": 3}}, {"one", "two"}),
        ({"n": {"$lte": float("inf")}}, {"one", "two", "text"}),
        ({"n": {"$lt": 10**400}}, {"one", "two", "text"}),
        ({"n": {"$eq": float("nan")}}, set()),
        ({"n": None}, {"none"}),
        ({"b": True}, {"one"}),
        ({"b": 1}, {"two"}),
        ({"meta": {"kind": "x"}}, {"one"}),
        ({"meta": {"deep": {"n": {"$gt": 1}}}}, {"two"}),
        ({"meta.deep.n": 2}, {"two"}),
        ({"meta.access-level": "lo"}, {"one"}),
        ({"a.b": "literal"}, {"text"}),
        ({"1st": "yes"}, {"none"}),
        ({"tags": ["a", "b"]}, {"one"}),
        ({"tags": ["a"]}, set()),
        ({"day": {"$gt": "2026-01-15"}}, {"two"}),
        ({"n": 2, "b": 1}, {"two"}),
        ({"n": 2, "b": True}, set()),
        ({"x": "' OR '1'='1"}, set()),
        ({}, {"one", "two", "text", "none"}),
    ],
)
def test_filters(store: MemkitStore, wanted: dict[str, Any], found: set[str]) -> None:
    meta = {"kind": "x", "access-level": "lo", "more": 1}
    store.put(NS, "one", {"n": 1, "b": True, "meta": meta, "tags": ["a", "b"]})
    store.put(NS, "two", {"n": 2, "b": 1, "meta": {"deep": {"n": 2}}, "day": "2026-02-01"})
    store.put(NS, "text", {"n": "3", "a.b": "literal", "day": "2026-01-01"})
    store.put(NS, "none", {"1st": "yes"})
    assert {item.key for item in store.search(NS, filter=wanted)} == found


@pytest.mark.parametrize("key", ["a') = 'b' OR '1'='1", "a b", "a;b", "", "a\n", "$.a", "a['b']", "a\x00b"])
def test_hostile_filter_keys_are_refused(store: MemkitStore, key: str) -> None:
    with pytest.raises(ValueError, match="Invalid filter key"):
        store.search(NS, filter={key: "x"})


@pytest.mark.parametrize("wanted", [{"$regex": "x"}, {"$gt": 1, "plain": 2}, {"a": {"$where": "1"}}])
def test_unknown_operators_are_refused(store: MemkitStore, wanted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Unsupported operator"):
        store.search(NS, filter={"n": wanted})


def test_pages_are_newest_first_and_do_not_overlap(store: MemkitStore) -> None:
    for number in range(7):
        store.put((*NS, str(number % 2)), f"k{number}", {"n": number})
    store.put((*NS, "0"), "k0", {"n": 0})
    pages = [[item.key for item in store.search(NS, limit=3, offset=offset)] for offset in (0, 3, 6)]
    assert pages == [["k0", "k6", "k5"], ["k4", "k3", "k2"], ["k1"]]


# -- vectors ---------------------------------------------------------------------------------------------------------


class Embeddings:
    """One dimension per letter of a few; counts what it is asked."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, texts: Any) -> list[list[float]]:
        self.texts += texts
        return [[float(text.count(letter)) for letter in "abc"] for text in texts]


def indexed(memory: Memory, embed: Any, **more: Any) -> MemkitStore:
    return MemkitStore(memory, index={"dims": 3, "embed": embed, **more})


def test_search_ranks_by_the_best_vector_of_an_item(memory: Memory) -> None:
    store = indexed(memory, Embeddings(), fields=["title", "parts[*].text"])
    store.put(NS, "x", {"title": "b", "parts": [{"text": "c"}, {"text": "a"}]})
    store.put(NS, "y", {"title": "ab", "parts": []})
    store.put(NS, "z", {"title": "c"})
    found = store.search(NS, query="a")
    assert [(item.key, round(item.score, 3)) for item in found] == [("x", 1.0), ("y", 0.707), ("z", 0.0)]
    assert [item.key for item in store.search(NS, query="a", limit=1, offset=1)] == ["y"]
    assert [item.key for item in store.search(NS, query="a", filter={"title": "c"})] == ["z"]


def test_index_of_a_put_names_other_fields_or_none(memory: Memory) -> None:
    store = indexed(memory, Embeddings(), fields=["title"])
    store.put(NS, "own", {"title": "a", "body": "b"}, index=["body"])
    store.put(NS, "none", {"title": "b"}, index=False)
    store.put(NS, "usual", {"title": "a"})
    found = store.search(NS, query="b")
    assert [(item.key, item.score) for item in found] == [("own", 1.0), ("usual", 0.0), ("none", None)]
    assert {item.key for item in store.search(NS)} == {"own", "none", "usual"}


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        ("cosine", [("a", 1.0), ("aab", 0.894), ("c", 0.0)]),
        ("inner_product", [("aab", 2.0), ("a", 1.0), ("c", 0.0)]),
        ("l2", [("a", 0.0), ("aab", -1.414), ("c", -1.414)]),
    ],
)
def test_every_distance_ranks_the_closest_first(memory: Memory, distance: str, expected: list[Any]) -> None:
    store = indexed(memory, Embeddings(), fields=["t"], distance_type=distance)
    for text in ("c", "aab", "a"):
        store.put(NS, text, {"t": text})
    found = {item.key: item.score for item in store.search(NS, query="a")}
    assert found == {key: pytest.approx(score, abs=1e-3) for key, score in expected}
    assert next(iter(found)) == expected[0][0]
    with pytest.raises(InvalidConfig):
        indexed(memory, Embeddings(), distance_type="hamming")


def test_a_restart_embeds_nothing_twice_and_another_model_everything(tmp_path: Path) -> None:
    with Memory(tmp_path / "m") as memory:
        store = indexed(memory, Embeddings())
        store.put(NS, "x", {"t": "aaa"})
        store.put(NS, "y", {"t": "ccc"})
    again, other = Embeddings(), Embeddings()
    with Memory(tmp_path / "m") as memory:
        assert indexed(memory, again).search(NS, query="a")[0].key == "x"
        assert again.texts == ["a"]
        other.model = "another"  # type: ignore[attr-defined]
        assert indexed(memory, other).search(NS, query="a")[0].key == "x"
        assert len(other.texts) == 3


def test_without_an_index_the_memorys_own_embedder_searches(store: MemkitStore) -> None:
    store.put(NS, "dog", {"text": "a dog named Buddy"})
    store.put(NS, "city", {"text": "lives in Oslo"})
    found = store.search(NS, query="which dog")
    assert found[0].key == "dog"
    assert found[0].score > found[1].score


def test_an_async_embedder_serves_the_a_methods(memory: Memory) -> None:
    plain = Embeddings()

    async def embed(texts: Any) -> list[list[float]]:
        return plain(texts)

    async def run() -> Any:
        store = indexed(memory, embed)
        await store.aput(NS, "x", {"t": "aaa"})
        return await store.asearch(NS, query="a")

    assert asyncio.run(run())[0].key == "x"


def test_an_async_embedder_finds_what_another_one_embedded(store: MemkitStore, memory: Memory) -> None:
    async def embed(texts: Any) -> list[list[float]]:
        return Embeddings()(texts)

    store.put(NS, "x", {"t": "aaa"})
    later = indexed(memory, embed)

    async def in_a_loop() -> None:
        with pytest.raises(asyncio.InvalidStateError, match="await"):
            later.search(NS, query="a")

    asyncio.run(in_a_loop())
    assert asyncio.run(later.asearch(NS, query="a"))[0].score is not None
    assert later.search(NS, query="a")[0].key == "x"


def test_an_embedder_that_fails_stores_nothing(memory: Memory) -> None:
    store = indexed(memory, lambda texts: [[1.0]] * len(texts))
    with pytest.raises(Exception, match="dims"):
        store.put(NS, "x", {"t": "a"})
    assert store.get(NS, "x") is None


# -- time to live ----------------------------------------------------------------------------------------------------


def test_items_expire_and_are_swept(memory: Memory, clock: Clock) -> None:
    store = MemkitStore(memory, ttl={"default_ttl": 10, "refresh_on_read": False})
    store.put(NS, "usual", {})
    store.put(NS, "long", {}, ttl=60)
    store.put(NS, "forever", {}, ttl=None)
    clock.pass_minutes(11)
    assert store.get(NS, "usual") is not None, "what has expired is there until it is swept"
    assert store.sweep_ttl() == 1
    assert {item.key for item in store.search(NS)} == {"long", "forever"}
    clock.pass_minutes(60)
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0
    assert [item.key for item in store.search(NS)] == ["forever"]


def test_reads_renew_unless_told_not_to(memory: Memory, clock: Clock) -> None:
    store = MemkitStore(memory)
    for key in ("got", "searched", "left", "peeked"):
        store.put((key,), key, {"v": 1}, ttl=10)
    before = store.get(("left",), "left", refresh_ttl=False)
    clock.pass_minutes(6)
    store.get(("got",), "got")
    store.search(("searched",), filter={"v": 1})
    store.get(("peeked",), "peeked", refresh_ttl=False)
    clock.pass_minutes(6)
    assert store.sweep_ttl() == 2
    assert {item.key for item in store.search((), refresh_ttl=False)} == {"got", "searched"}
    renewed = store.get(("got",), "got")
    assert renewed.updated_at == renewed.updated_at
    assert abs(renewed.updated_at - before.updated_at) < timedelta(seconds=1), "a read is no update"


def test_a_ttl_configuration_decides_about_renewal_and_can_be_changed_while_it_runs(
    memory: Memory, clock: Clock
) -> None:
    quiet = MemkitStore(memory, ttl={"default_ttl": 10})
    quiet.put(NS, "read", {})
    quiet.put(NS, "renewed", {})
    clock.pass_minutes(6)
    quiet.get(NS, "read")
    quiet.get(NS, "renewed", refresh_ttl=True)
    clock.pass_minutes(6)
    quiet.ttl_config["omit_expired"] = True
    assert {item.key for item in quiet.search(NS)} == {"renewed"}
    quiet.ttl_config["omit_expired"] = False
    assert {item.key for item in quiet.search(NS)} == {"read", "renewed"}


def test_hot_reads_do_not_cost_a_write_each(store: MemkitStore, memory: Memory) -> None:
    store.put(NS, "k", {}, ttl=10)
    before = len(memory.history(user_id="langgraph"))
    for _ in range(50):
        store.get(NS, "k")
    assert len(memory.history(user_id="langgraph")) == before


def test_omit_expired_hides_before_the_sweep(memory: Memory, clock: Clock) -> None:
    store = MemkitStore(memory, ttl={"omit_expired": True})
    store.put(NS, "k", {}, ttl=5)
    clock.pass_minutes(6)
    assert store.get(NS, "k") is None
    assert store.search(NS) == []
    assert store.list_namespaces() == []
    store.put(NS, "k", {"v": 2})
    clock.pass_minutes(10_000)
    assert store.get(NS, "k").value == {"v": 2}, "a put without a time to live takes the old one off"
    assert store.sweep_ttl() == 0


def test_omitted_items_take_no_place_on_a_page_and_no_read_brings_them_back(memory: Memory, clock: Clock) -> None:
    store = MemkitStore(memory, ttl={"omit_expired": True, "refresh_on_read": True})
    for key, minutes in (("c", 60), ("b", 60), ("expired", 5), ("a", 60)):
        store.put(NS, key, {"k": key}, ttl=minutes)
    clock.pass_minutes(6)
    pages = [[item.key for item in store.search(NS, limit=2, offset=offset)] for offset in (0, 2)]
    assert pages == [["a", "b"], ["c"]]
    assert store.get(NS, "expired", refresh_ttl=True) is None
    assert store.sweep_ttl() == 1
    clock.pass_minutes(58)
    assert store.sweep_ttl() == 0, "what was read lives on"


def test_the_sweeper_runs_in_the_background_and_stops(tmp_path: Path) -> None:
    with MemkitStore(tmp_path / "m", ttl={"sweep_interval_minutes": 0.001}) as store:  # type: ignore[typeddict-item]
        store.put(NS, "k", {}, ttl=0.001)
        waited = threading.Event()
        for _ in range(200):
            if store.get(NS, "k", refresh_ttl=False) is None:
                break
            waited.wait(0.02)
        assert store.get(NS, "k", refresh_ttl=False) is None
        assert store.stop_ttl_sweeper(5)


# -- many at once ----------------------------------------------------------------------------------------------------


def test_async_twins_and_a_sync_call_from_the_loop(store: MemkitStore) -> None:
    async def run() -> None:
        await asyncio.gather(*(store.aput(NS, f"k{n % 20}", {"n": n}) for n in range(200)))
        assert len(await store.asearch(NS, limit=100)) == 20
        assert (await store.aget(NS, "k3")).value["n"] % 20 == 3
        await store.adelete(NS, "k3")
        assert await store.alist_namespaces(prefix=("users",)) == [NS]
        store.put(NS, "as in a notebook", {})
        assert store.get(NS, "as in a notebook").key == store.search(NS)[0].key
        await asyncio.to_thread(store.put, NS, "from a thread", {})

    asyncio.run(run())
    assert len(store.search(NS, limit=100)) == 21


def test_a_bad_batch_fails_alone(store: MemkitStore) -> None:
    async def run() -> list[Any]:
        good = [store.aput(NS, f"k{n}", {}) for n in range(10)]
        bad = [store.asearch(NS, filter={"a b": 1}) for _ in range(3)]
        return await asyncio.gather(*good, *bad, return_exceptions=True)

    results = asyncio.run(run())
    assert results[:10] == [None] * 10
    assert all(isinstance(one, ValueError) for one in results[10:])


WRITER = """
import sys
from memkit_langgraph import MemkitStore, MemkitUserStore
store = MemkitStore(sys.argv[1])
for n in range(40):
    store.put(("ns",), f"k{n % 5}", {"by": sys.argv[2], "n": n})
store.close()
"""


def test_processes_that_put_the_same_keys_leave_one_item_each(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    MemkitStore(path).close()
    root = Path(__file__).parents[2]
    env = {"PYTHONPATH": f"{root}:{root / 'integrations'}", "PATH": "", "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, name], env=env, stderr=subprocess.PIPE)
        for name in ("x", "y", "z")
    ]
    for process in running:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr.decode()
    with Memory(path) as memory:
        records = memory.list(user_id="langgraph")
        assert sorted(record.metadata["key"] for record in records) == [f"k{n}" for n in range(5)]
        assert all(json.loads(record.text)["n"] >= 35 for record in records)


def test_a_graph_uses_it(store: MemkitStore) -> None:
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.runtime import Runtime

    def remember(state: MessagesState, runtime: Runtime[Any]) -> dict[str, Any]:
        assert runtime.store is not None
        runtime.store.put(NS, "last", {"text": state["messages"][-1].content})
        return {}

    graph = StateGraph(MessagesState).add_node(remember).add_edge(START, "remember").compile(store=store)
    graph.invoke({"messages": [("user", "hello")]})
    asyncio.run(graph.ainvoke({"messages": [("user", "hello again")]}))
    assert store.get(NS, "last").value == {"text": "hello again"}

    async def notebook() -> None:
        graph.invoke({"messages": [("user", "hello from a cell")]})

    asyncio.run(notebook())
    assert store.get(NS, "last").value == {"text": "hello from a cell"}


# -- a bank for each user -------------------------------------------------------------------------------------------


def test_erasing_a_user_leaves_no_item_of_hers(tmp_path: Path) -> None:
    with Memory(tmp_path / "m") as memory:
        store = MemkitUserStore(memory, user_at=1)
        store.put(NS, "home", {"text": "I live in canary Oslo."})
        store.put(("users", "bob"), "home", {"text": "I live in Bergen."})
        store.put(("settings",), "tone", {"text": "Be brief."})
        memory.add("I keep bees.", user_id="ana", infer=False)
        assert set(memory.users()) == {"ana", "bob", "langgraph"}
        assert memory.erase(user_id="ana").counts["heads"] == 2
        assert [(one.namespace, one.key) for one in store.search(())] == [
            (("settings",), "tone"),
            (("users", "bob"), "home"),
        ]
        assert store.get(NS, "home") is None
    assert not [path for path in (tmp_path / "m").rglob("*") if path.is_file() and b"canary" in path.read_bytes()]


def test_what_names_no_user_goes_over_all_of_them(memory: Memory, clock: Clock) -> None:
    store = MemkitUserStore(memory, user_at=1, ttl={"default_ttl": None})
    for number, user in enumerate(("ana", "bob", "eva")):
        store.put(("users", user, "food"), "drink", {"text": f"likes {('green tea', 'dark beer', 'red wine')[number]}"})
    store.put(("users", "bob", "food"), "snack", {"text": "likes nuts"}, ttl=5)
    assert [one.namespace[1] for one in store.search(("users",), limit=2)] == ["bob", "eva"]
    assert [one.namespace[1] for one in store.search(("users",), limit=2, offset=2)] == ["bob", "ana"]
    assert store.search(("users",), query="who likes green tea?")[0].namespace[1] == "ana"
    assert len(store.search(("users", "bob"))) == 2
    assert store.list_namespaces(prefix=("users", "*", "food"), limit=2) == [
        ("users", u, "food") for u in ("ana", "bob")
    ]
    assert store.list_namespaces(prefix=("users", "eva")) == [("users", "eva", "food")]
    assert store.list_namespaces(max_depth=1) == [("users",)]
    clock.pass_minutes(10)
    assert store.sweep_ttl() == 1


def test_a_batch_over_users_reads_before_it_puts_and_keeps_the_order(memory: Memory) -> None:
    store = MemkitUserStore(memory, user_at=1)
    put, bob = PutOp(NS, "k", {"n": 1}), ("users", "bob")
    ops = [put, SearchOp(("users",)), GetOp(NS, "k"), PutOp(bob, "k", {"n": 2}), GetOp(bob, "k"), ListNamespacesOp()]
    assert store.batch(ops) == [None, [], None, None, None, []]
    found = asyncio.run(store.abatch(ops))
    assert [found[2].value, found[4].value, found[5]] == [{"n": 1}, {"n": 2}, [NS, bob]]
    assert [one.namespace for one in found[1]] == [bob, NS]
    with pytest.raises(InvalidScope):
        store.batch([PutOp(("users", "x" * 600), "k", {}), PutOp(NS, "k2", {})])
    assert store.get(NS, "k2") is None
