"""Spans and events, held against the GenAI conventions as they are written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memkit import AsyncMemory, Memory
from memkit.errors import Conflict, NotFound
from tests.stub_server import StubServer

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")

OPERATIONS = {
    "create_memory",
    "update_memory",
    "upsert_memory",
    "delete_memory",
    "search_memory",
    "create_memory_store",
    "delete_memory_store",
}
MEMORY_ATTRIBUTES = {
    "gen_ai.memory.store.id": str,
    "gen_ai.memory.record.id": str,
    "gen_ai.memory.record.count": int,
    "gen_ai.memory.query.text": str,
    "gen_ai.memory.records": str,
}
OPT_IN = {"gen_ai.memory.query.text", "gen_ai.memory.records", "gen_ai.evaluation.explanation"}
OTHERS = {
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.conversation.id",
    "gen_ai.agent.id",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.request.temperature",
    "gen_ai.response.finish_reasons",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "error.type",
}


class Exporter:
    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))

    def spans(self, name: str | None = None) -> list[Any]:
        return [span for span in self._kept.get_finished_spans() if name in (None, span.name)]

    def clear(self) -> None:
        self._kept.clear()


@pytest.fixture
def exporter() -> Exporter:
    return Exporter()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "m") as opened:
        yield opened


def check(span: Any, *, content: bool = False) -> None:
    """The rules of the conventions that can be checked on any span of ours."""
    attributes = dict(span.attributes)
    operation = attributes.get("gen_ai.operation.name")
    for name, value in attributes.items():
        if name.startswith(("gen_ai.", "error.")):
            assert name in MEMORY_ATTRIBUTES or name in OTHERS, name
        else:
            assert name.startswith("memkit."), name
        if name in MEMORY_ATTRIBUTES:
            assert isinstance(value, MEMORY_ATTRIBUTES[name]), name
        assert content or name not in OPT_IN, f"{name} is sent only where content was asked for"
    assert attributes["gen_ai.provider.name"]
    if operation is None:
        assert span.name.startswith("memkit.")
        return
    assert span.kind.name == "CLIENT"
    if operation == "chat":
        assert span.name == f"chat {attributes['gen_ai.request.model']}"
        return
    assert operation in OPERATIONS
    assert span.name == operation
    assert attributes["gen_ai.memory.store.id"]
    if operation == "delete_memory":
        assert attributes["gen_ai.memory.record.id"], "without an id it reads as the wipe of a store"
    for record in json.loads(attributes.get("gen_ai.memory.records", "[]")):
        assert "content" in record
        assert isinstance(record.get("id", ""), str)
        assert isinstance(record.get("metadata", {}), dict)
        assert isinstance(record.get("score", 0.0), float)


def use_everything(memory: Memory) -> None:
    memory.add("I adopted a dog named Buddy.", user_id="ana", session_id="s1", agent_id="coder")
    memory.add("As it was said.", user_id="ana", infer=False)
    record = memory.list(user_id="ana")[0]
    memory.update(record.id, "User has a dog named Max.", user_id="ana")
    hits = memory.search("which dog is secret?", user_id="ana")
    block = memory.context("which dog?", user_id="ana")
    memory.feedback(hits.trace_id, label="up", comment="just right", user_id="ana")
    memory.feedback(block.trace_id, reward=0.25, user_id="ana")
    memory.delete(record.id, user_id="ana")
    memory.undo(user_id="ana", op_id=memory.history(user_id="ana")[-1].op_id)
    memory.delete_all(user_id="ana")
    memory.erase(user_id="ana")


def test_every_verb_speaks_the_conventions_and_sends_no_content(memory: Memory, exporter: Exporter) -> None:
    from memkit_otel import instrument

    assert instrument(memory, tracer_provider=exporter.provider) is memory
    use_everything(memory)
    spans = exporter.spans()
    for span in spans:
        check(span)
    assert {span.attributes.get("gen_ai.operation.name") for span in spans} - {None} == OPERATIONS
    told = repr([(span.attributes, [(event.name, event.attributes) for event in span.events]) for span in spans])
    for secret in ("Buddy", "Max", "secret", "just right", "ana"):
        assert secret not in told, "neither texts, nor queries, nor user ids"
    (first,) = [span for span in spans if span.attributes.get("gen_ai.conversation.id") == "s1"][-1:]
    assert first.attributes["gen_ai.agent.id"] == "coder"
    (searched, _) = exporter.spans("search_memory")
    assert searched.attributes["gen_ai.memory.record.count"] == 3, "a fact, and the words of two turns"


def test_content_is_sent_where_it_was_asked_for(memory: Memory, exporter: Exporter) -> None:
    from memkit_otel import instrument

    instrument(memory, tracer_provider=exporter.provider, content=True)
    use_everything(memory)
    for span in exporter.spans():
        check(span, content=True)
    searched = exporter.spans("search_memory")[0].attributes
    assert searched["gen_ai.memory.query.text"] == "which dog is secret?"
    assert "Max" in searched["gen_ai.memory.records"]


def test_deletions_that_the_manager_decides_are_spans_with_ids(memory: Memory, exporter: Exporter) -> None:
    from memkit_otel import instrument

    memory.add("I have a dog named Buddy.", user_id="ana")
    memory.add("I have a cat named Tom.", user_id="ana")
    ids = {record.id for record in memory.list(user_id="ana")}
    instrument(memory, tracer_provider=exporter.provider)
    memory.delete_all(user_id="ana")
    deleted = exporter.spans("delete_memory")
    assert {span.attributes["gen_ai.memory.record.id"] for span in deleted} == ids
    (parent,) = exporter.spans("memkit.delete_all")
    assert {span.parent.span_id for span in deleted} == {parent.context.span_id}


def test_the_managers_model_calls_are_children_with_usage(tmp_path: Path, exporter: Exporter) -> None:
    from memkit_otel import instrument

    reply = json.dumps({"operations": [{"op": "ADD", "turn": 1, "text": "User has a dog named Buddy."}]})
    with (
        StubServer(reply=reply) as api,
        Memory(tmp_path / "m", model="openai:stub", base_url=api.url, api_key="unused") as memory,
    ):
        instrument(memory, tracer_provider=exporter.provider)
        memory.add("I have a dog named Buddy.", user_id="ana")
        (added,) = exporter.spans("upsert_memory")
        chats = [span for span in exporter.spans() if span.name.startswith("chat ")]
        assert chats, "the model was asked"
        for span in chats:
            check(span)
            assert span.parent.span_id == added.context.span_id
            assert span.attributes["gen_ai.usage.input_tokens"] > 0
            assert span.attributes["memkit.role"] in ("fused", "manager", "extractor")
            assert added.start_time <= span.end_time <= added.end_time + 50_000_000
        exporter.clear()
        memory.add("I have a cat named Tom.", user_id="ana", wait=False)
        (added,) = exporter.spans("upsert_memory")
        assert added.attributes["memkit.status"] == "pending"
        memory.flush()
        later = [span for span in exporter.spans() if span.name.startswith("chat ")]
        assert {span.parent.span_id for span in later} == {added.context.span_id}


def test_calls_may_tell_of_the_same_adds_at_once(memory: Memory, exporter: Exporter) -> None:
    from memkit_otel import instrument

    decisions, decided, others = memory.decisions, [], []

    def overtaken(**kwargs: Any) -> Any:
        if others:
            others.pop()()
        return decisions(**kwargs) if decided else []

    memory.decisions = overtaken  # type: ignore[method-assign]
    instrument(memory, tracer_provider=exporter.provider)
    added = [memory.add(text, user_id="ana", wait=False) for text in ("I live in Oslo.", "I like tea.")]
    decided += [memory.bank(user_id="ana").wait_settled(one.trace_id, 20) for one in added]
    others.append(lambda: memory.search("tea", user_id="ana"))  # it tells of the second add first
    memory.add("I work as a nurse.", user_id="ana")
    memory.flush()
    assert len(memory.list(user_id="ana")) == 3


def test_an_add_that_was_erased_is_not_asked_for_again(memory: Memory, exporter: Exporter) -> None:
    from memkit_otel import instrument

    asked: list[Any] = []
    memory.decisions = lambda **kwargs: asked.append(kwargs) or []  # type: ignore[method-assign, assignment]
    instrument(memory, tracer_provider=exporter.provider)
    memory.add("I live in Oslo.", user_id="ana", agent_id="coder", wait=False)
    for count in (1, 2):
        memory.search("Oslo", user_id="ana")
        assert len(asked) == count, "nothing is decided yet"
    memory.erase(user_id="ana")
    memory.search("Oslo", user_id="ana")
    asked.clear()
    memory.search("Oslo", user_id="ana")
    assert asked == []


def test_feedback_is_an_evaluation_of_what_was_served(memory: Memory, exporter: Exporter) -> None:
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

    from memkit_otel import instrument, uninstrument

    memory.add("I adopted a dog named Buddy.", user_id="ana")
    instrument(memory, tracer_provider=exporter.provider)
    hits = memory.search("which dog?", user_id="ana")
    memory.feedback(hits.trace_id, label="down", user_id="ana")
    (rated,), (searched,) = exporter.spans("memkit.feedback"), exporter.spans("search_memory")
    (event,) = rated.events
    assert event.name == "gen_ai.evaluation.result"
    assert event.attributes["gen_ai.evaluation.name"] == "user_feedback"
    assert event.attributes["gen_ai.evaluation.score.value"] == 0.0
    assert event.attributes["gen_ai.evaluation.score.label"] == "down"
    assert rated.links[0].context.span_id == searched.context.span_id

    uninstrument(memory)
    logs, kept = LoggerProvider(), InMemoryLogRecordExporter()
    logs.add_log_record_processor(SimpleLogRecordProcessor(kept))
    instrument(memory, tracer_provider=exporter.provider, logger_provider=logs)
    hits = memory.search("which dog?", user_id="ana")
    memory.feedback(hits.trace_id, reward=0.5, user_id="ana")
    record = kept.get_finished_logs()[0].log_record
    assert record.event_name == "gen_ai.evaluation.result"
    assert record.attributes["gen_ai.evaluation.score.value"] == 0.5
    assert record.span_id == exporter.spans("search_memory")[-1].context.span_id


def test_errors_are_named_and_nothing_else_changes(memory: Memory, exporter: Exporter) -> None:
    from memkit_otel import instrument, uninstrument

    instrument(memory, tracer_provider=exporter.provider)
    with pytest.raises(Conflict):
        instrument(memory, tracer_provider=exporter.provider)
    with pytest.raises(NotFound):
        memory.delete("m_nobody", user_id="ana")
    (span,) = exporter.spans("delete_memory")
    assert span.attributes["error.type"] == "NotFound"
    assert span.status.status_code.name == "ERROR"
    assert not span.events
    with pytest.raises(TypeError, match="k"):
        memory.search("x", user_id="ana", limit=3)
    ana = memory.user("ana")
    ana.add("I live in Oslo.")
    assert exporter.spans("upsert_memory")
    exporter.clear()
    uninstrument(memory)
    memory.search("x", user_id="ana")
    assert exporter.spans() == []


def test_async_memories_keep_the_callers_span_as_parent(tmp_path: Path, exporter: Exporter) -> None:
    from memkit_otel import instrument

    async def main() -> None:
        memory = instrument(AsyncMemory(tmp_path / "m"), tracer_provider=exporter.provider)
        with exporter.provider.get_tracer("app").start_as_current_span("request"):
            await memory.add("I live in Oslo.", user_id="ana")
        await memory.close()

    asyncio.run(main())
    (request,), (added,) = exporter.spans("request"), exporter.spans("upsert_memory")
    assert added.parent.span_id == request.context.span_id
