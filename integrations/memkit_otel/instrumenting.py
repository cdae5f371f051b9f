"""A span per verb, the manager's model calls as its children, feedback as an evaluation.

A memory store, in the sense of the conventions, is here the memory of one user: its id is opaque, so that no user id
leaves in telemetry. Every `delete_memory` names its record, because one that names none reads as the wipe of a whole
store; deletions that a manager decided inside an `add` are spans of their own.

Model calls are told from the log of decisions, after the fact, with the times that were measured: the memory itself
knows nothing of tracing. Those of `wait=False` follow with a later call, `flush` or `close`.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from memkit import AsyncMemory, Memory
from memkit.errors import Conflict, MemkitError, MissingExtra
from memkit.models import MemoryRecord, Op, digest
from memkit.results import AddResult, Answer, ContextBlock, Hit, Hits
from memkit_otel import conventions as names

try:
    from opentelemetry import trace
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode
except ImportError as error:
    raise MissingExtra(
        "tracing needs the package opentelemetry-api", why=str(error), fix='pip install "memkit[otel]"'
    ) from error

AnyMemory = TypeVar("AnyMemory", Memory, AsyncMemory)
Attributes = dict[str, Any]

_VERBS = (
    "add",
    "update",
    "delete",
    "delete_all",
    "undo",
    "search",
    "context",
    "answer",
    "feedback",
    "erase",
    "flush",
    "close",
)
_KEPT = 10_000
"""Reads whose span feedback can still find, and users known to have a store."""
_SETTLED_AT_ONCE = 8
"""Background decisions that one call tells at most, so that tracing never holds it up for long."""


def instrument(
    memory: AnyMemory, *, tracer_provider: Any = None, logger_provider: Any = None, content: bool = False
) -> AnyMemory:
    """Trace every verb of this memory; returns it. content: also send texts and queries, which are personal data.
    logger_provider: where evaluations go as log events; without it they are events of a span."""
    inner = _inner(memory)
    if "add" in vars(inner):
        raise Conflict("this memory is instrumented already", fix="uninstrument(memory) first")
    tracing = _Tracing(inner, tracer_provider, logger_provider, content)
    for verb in _VERBS:
        setattr(inner, verb, tracing.wrap(verb))
    return memory


def uninstrument(memory: Memory | AsyncMemory) -> None:
    inner = _inner(memory)
    for verb in _VERBS:
        vars(inner).pop(verb, None)


def _inner(memory: Memory | AsyncMemory) -> Memory:
    """AsyncMemory runs the verbs of a Memory in threads, with the caller's context."""
    return memory if isinstance(memory, Memory) else memory.sync


class _Tracing:
    def __init__(self, memory: Memory, tracer_provider: Any, logger_provider: Any, content: bool) -> None:
        from memkit import __version__

        self._verbs: dict[str, Callable[..., Any]] = {verb: getattr(memory, verb) for verb in _VERBS}
        self._history, self._list, self._decisions = memory.history, memory.list, memory.decisions
        self._bank = memory.bank
        self._tracer = trace.get_tracer("memkit", __version__, tracer_provider)
        self._logger = logger_provider.get_logger("memkit", __version__) if logger_provider is not None else None
        self._content = content
        self._store_id: str = memory.stats()["store_id"]
        self._reads: OrderedDict[str, SpanContext] = OrderedDict()
        self._users: OrderedDict[str, None] = OrderedDict()
        self._undecided: deque[tuple[str, str | None, str, SpanContext]] = deque(maxlen=_KEPT)

    def wrap(self, verb: str) -> Callable[..., Any]:
        traced = getattr(self, verb)

        @functools.wraps(self._verbs[verb])
        def call(*args: Any, **kwargs: Any) -> Any:
            self._settle(_SETTLED_AT_ONCE if verb not in ("flush", "close") else 0)
            return traced(*args, **kwargs)

        return call

    # ---- writing -------------------------------------------------------------------------------------------------

    def add(self, *args: Any, **kwargs: Any) -> AddResult:
        is_new = self._is_new(kwargs.get("user_id"))
        operation = names.UPSERT if kwargs.get("infer", True) else names.CREATE
        with self._span(operation, kwargs) as span:
            result: AddResult = self._verbs["add"](*args, **kwargs)
            span.set_attributes({names.TRACE_ID: result.trace_id, names.STATUS: result.status})
            if is_new:
                with self._span(names.CREATE_STORE, kwargs):
                    self._remember(self._users, kwargs["user_id"], None)
            self._wrote(span, result.ops, kwargs, attempted=len(result.turns))
            context = span.get_span_context()
            if result.status == "pending":
                self._undecided.append((kwargs["user_id"], kwargs.get("agent_id"), result.trace_id, context))
            else:
                self._chats(kwargs["user_id"], result.trace_id, context)
        return result

    def update(self, id: str, *args: Any, **kwargs: Any) -> MemoryRecord:
        with self._span(names.UPDATE, kwargs, {names.RECORD_ID: id, names.RECORD_COUNT: 1}) as span:
            record: MemoryRecord = self._verbs["update"](id, *args, **kwargs)
            self._show(span, [record])
        return record

    def delete(self, id: str, *args: Any, **kwargs: Any) -> Op:
        with self._span(names.DELETE, kwargs, {names.RECORD_ID: id, names.RECORD_COUNT: 1}):
            op: Op = self._verbs["delete"](id, *args, **kwargs)
        return op

    def delete_all(self, *args: Any, **kwargs: Any) -> int:
        ids = self._ids(kwargs)
        with self._span(None, kwargs, name="memkit.delete_all"):
            count: int = self._verbs["delete_all"](*args, **kwargs)
            for memory_id in ids:
                with self._span(names.DELETE, kwargs, {names.RECORD_ID: memory_id, names.RECORD_COUNT: 1}):
                    pass
        return count

    def undo(self, *args: Any, **kwargs: Any) -> Sequence[Op]:
        with self._span(names.UPSERT, kwargs) as span:
            ops: Sequence[Op] = self._verbs["undo"](*args, **kwargs)
            self._wrote(span, ops, kwargs, attempted=len(ops))
        return ops

    def erase(self, *args: Any, **kwargs: Any) -> Any:
        with self._span(names.DELETE_STORE, kwargs):
            receipt = self._verbs["erase"](*args, **kwargs)
        self._users.pop(kwargs.get("user_id", ""), None)
        return receipt

    # ---- reading -------------------------------------------------------------------------------------------------

    def search(self, query: str, *args: Any, **kwargs: Any) -> Hits:
        with self._span(names.SEARCH, kwargs, self._asked(query)) as span:
            hits: Hits = self._verbs["search"](query, *args, **kwargs)
            self._read(span, hits.trace_id, hits)
        return hits

    def context(self, query: str, *args: Any, **kwargs: Any) -> ContextBlock:
        with self._span(names.SEARCH, kwargs, self._asked(query)) as span:
            block: ContextBlock = self._verbs["context"](query, *args, **kwargs)
            self._read(span, block.trace_id, block.hits)
        return block

    def answer(self, question: str, *args: Any, **kwargs: Any) -> Answer:
        with self._span(names.SEARCH, kwargs, self._asked(question)) as span:
            answer: Answer = self._verbs["answer"](question, *args, **kwargs)
            self._read(span, answer.trace_id, answer.cited)
            self._chats(kwargs["user_id"], None, span.get_span_context())
        return answer

    def feedback(self, trace_id: str, *args: Any, **kwargs: Any) -> str:
        known = self._reads.get(trace_id)
        links = [Link(known)] if known is not None else []
        with self._span(None, kwargs, {names.TRACE_ID: trace_id}, name="memkit.feedback", links=links) as span:
            noted: str = self._verbs["feedback"](trace_id, *args, **kwargs)
            attributes = self._evaluation(trace_id, kwargs)
            if self._logger is None:
                span.add_event(names.EVALUATION, attributes)
            else:
                context = trace.set_span_in_context(trace.NonRecordingSpan(known)) if known is not None else None
                self._logger.emit(event_name=names.EVALUATION, attributes=attributes, context=context)
        return noted

    def flush(self) -> None:
        self._verbs["flush"]()
        self._settle(_KEPT)

    def close(self) -> None:
        if self._undecided:
            self._verbs["flush"]()
            self._settle(_KEPT)
        self._verbs["close"]()

    # ---- what spans say ------------------------------------------------------------------------------------------

    @contextmanager
    def _span(
        self,
        operation: str | None,
        scope: Mapping[str, Any],
        attributes: Attributes | None = None,
        *,
        name: str = "",
        links: Sequence[Link] = (),
    ) -> Generator[Span]:
        own: Attributes = {names.PROVIDER: "memkit"}
        if isinstance(scope.get("user_id"), str):
            own[names.STORE_ID] = f"{self._store_id}/{digest([self._store_id, scope['user_id']])[:16]}"
        for key, given in ((names.CONVERSATION, scope.get("session_id")), (names.AGENT, scope.get("agent_id"))):
            if isinstance(given, str):
                own[key] = given
        if operation is not None:
            own[names.OPERATION] = operation
        with self._tracer.start_as_current_span(
            operation or name,
            kind=SpanKind.CLIENT if operation else SpanKind.INTERNAL,
            attributes=own | (attributes or {}),
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute(names.ERROR_TYPE, type(error).__name__)
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    def _wrote(self, span: Span, ops: Iterable[Op], scope: Mapping[str, Any], attempted: int) -> None:
        changed = [op for op in ops if op.action != "noop" and op.memory_id is not None]
        kept = [op for op in changed if op.action != "delete"]
        span.set_attribute(names.RECORD_COUNT, len(kept) if changed else attempted)
        if len(kept) == 1:
            span.set_attribute(names.RECORD_ID, str(kept[0].memory_id))
        for op in ops:
            if op.action == "noop":
                span.add_event(names.NOOP, {names.DECISION_ID: op.decision_id})
        self._show(span, [op.after for op in kept if op.after is not None])
        for op in changed:
            if op.action == "delete":
                attributes = {names.RECORD_ID: str(op.memory_id), names.RECORD_COUNT: 1}
                with self._span(names.DELETE, scope, attributes):
                    pass

    def _read(self, span: Span, trace_id: str, found: Sequence[MemoryRecord | Hit]) -> None:
        span.set_attributes({names.TRACE_ID: trace_id, names.RECORD_COUNT: len(found)})
        self._show(span, found)
        self._remember(self._reads, trace_id, span.get_span_context())

    def _asked(self, query: Any) -> Attributes:
        return {names.QUERY_TEXT: query} if self._content and isinstance(query, str) else {}

    def _show(self, span: Span, records: Sequence[MemoryRecord | Hit]) -> None:
        if self._content and records:
            span.set_attribute(names.RECORDS, names.records_json(records))

    def _evaluation(self, trace_id: str, given: Mapping[str, Any]) -> Attributes:
        label, reward = given.get("label"), given.get("reward")
        score = reward if reward is not None else {"up": 1.0, "down": 0.0}.get(str(label))
        out: Attributes = {names.EVALUATION_NAME: "user_feedback", names.TRACE_ID: trace_id}
        if score is not None:
            out[names.SCORE] = float(score)
        if label is not None:
            out[names.LABEL] = label
        if self._content and given.get("comment"):
            out[names.EXPLANATION] = given["comment"]
        return out

    # ---- model calls, from the log of decisions ------------------------------------------------------------------

    def _settle(self, most: int) -> None:
        for _ in range(min(most, len(self._undecided))):
            try:
                add = self._undecided.popleft()
            except IndexError:
                return  # other threads tell them too
            user_id, agent_id, trace_id, context = add
            if not self._chats(user_id, trace_id, context) and self._is_kept(user_id, agent_id, trace_id):
                self._undecided.append(add)

    def _is_kept(self, user_id: str, agent_id: str | None, trace_id: str) -> bool:
        """False once the add was erased: nothing of it will ever be decided."""
        try:
            return self._bank(user_id=user_id, agent_id=agent_id).knows(trace_id)
        except MemkitError:
            return False  # closed meanwhile

    def _chats(self, user_id: str, trace_id: str | None, parent: SpanContext) -> bool:
        """A span per model call of this add, or of the answer just given; False where nothing is decided yet."""
        if not parent.trace_flags.sampled:
            return True
        try:
            found = self._decisions(user_id=user_id, trace_id=trace_id, last=50 if trace_id else 1)
        except MemkitError:
            return True  # closed meanwhile
        elapsed_ns = 0
        for decision in found:
            if trace_id is None and decision["role"] != "answerer":
                continue
            elapsed_ns += self._chat(decision, parent, elapsed_ns)
        return bool(found)

    def _chat(self, decision: Mapping[str, Any], parent: SpanContext, after_ns: int) -> int:
        """Calls of one decision followed each other; the log has their common beginning and how long each took."""
        model = str(decision.get("model") or "")
        if not model or model.startswith("rules/"):
            return 0  # no model was asked
        took_ns = int(float(decision.get("latency_ms") or 0.0) * 1e6)
        start_ns = int(datetime.fromisoformat(decision["created_at"]).timestamp() * 1e9) + after_ns
        usage, parse = decision.get("usage") or {}, decision.get("parse") or {}
        attributes: Attributes = {
            names.OPERATION: names.CHAT,
            names.PROVIDER: "memkit" if model.startswith("hf:") else "openai",
            names.REQUEST_MODEL: model,
            names.RESPONSE_MODEL: model,
            names.ROLE: decision["role"],
            names.DECISION_ID: decision["decision_id"],
            names.FINISH: [str(decision.get("finish") or "stop")],
            names.TEMPERATURE: float((decision.get("sampling") or {}).get("temperature") or 0.0),
        }
        for name, value in (
            (names.INPUT_TOKENS, usage.get("prompt_tokens")),
            (names.OUTPUT_TOKENS, usage.get("completion_tokens")),
            (names.ADAPTER, decision.get("adapter")),
        ):
            if value is not None:
                attributes[name] = value
        span = self._tracer.start_span(
            f"{names.CHAT} {model}",
            context=trace.set_span_in_context(trace.NonRecordingSpan(parent)),
            kind=SpanKind.CLIENT,
            attributes=attributes,
            start_time=start_ns,
        )
        if not parse.get("ok", True):
            error = (parse.get("error") or {}).get("type", "BadReply")
            span.set_attribute(names.ERROR_TYPE, error)
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_time=start_ns + took_ns)
        return took_ns

    # ---- small things --------------------------------------------------------------------------------------------

    def _is_new(self, user_id: Any) -> bool:
        if not isinstance(user_id, str) or user_id in self._users:
            return False
        try:
            is_new = not self._history(user_id=user_id, limit=1)
        except MemkitError:
            return False  # the verb itself says what is wrong with the id
        if not is_new:
            self._remember(self._users, user_id, None)
        return is_new

    def _ids(self, scope: Mapping[str, Any]) -> list[str]:
        given = {name: scope[name] for name in ("user_id", "agent_id") if name in scope}
        ids: list[str] = []
        cursor: str | None = None
        while True:
            page = self._list(limit=1_000, cursor=cursor, **given)
            ids += [record.id for record in page]
            cursor = page.cursor
            if cursor is None:
                return ids

    @staticmethod
    def _remember(where: OrderedDict[str, Any], key: str, value: Any) -> None:
        where[key] = value
        while len(where) > _KEPT:
            where.popitem(last=False)
