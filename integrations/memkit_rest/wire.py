"""What goes over the wire: one model for each request and each answer. They are checked here for their shape alone;
what a value may be is the library's to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memkit.models import JSON, Entity, EntityKind, Kind, MemoryRecord, Op, Turn
from memkit.results import AddResult, Answer, ContextBlock, EraseReceipt, Hit, Hits, Page, ParkedTurn, TidyResult

Kinds = list[Kind]
Named = Annotated[str, Field(min_length=1)]
Spaces = Annotated[
    list[str], Field(description="Over the user's own memories and all spaces that may be read ([]), or over these.")
]
"""A text or an id that says something."""


class Wire(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Scoped(Wire):
    user_id: str | None = Field(None, description="Whose memories. A token of one user needs none and admits no other.")
    agent_id: str | None = Field(None, description="Narrows to one agent of the user.")
    space: str | None = Field(None, description="In this space, as the user: what a grant allows.")
    role: str | None = Field(None, description="In which role the user calls in spaces; an app's token may say so.")

    def scope(self) -> JSON:
        return {"user_id": self.user_id, "agent_id": self.agent_id}


# ---- requests ------------------------------------------------------------------------------------------------------


class MessageGiven(Wire):
    """A message as chat APIs have them; what else it carries is kept out."""

    model_config = ConfigDict(extra="ignore")
    role: str = "user"
    content: str | list[Any] | None = None
    name: str | None = None
    at: str | None = Field(None, description="When it was said, where it was not when the others were.")


class DocumentRequest(Scoped):
    name: Named
    text: str = Field(description="Read as Markdown or HTML where the name ends in .md or .html.")
    at: str | None = None
    metadata: dict[str, Any] | None = None
    expires_at: str | None = None


class LearnRequest(Scoped):
    steps: list[dict[str, Any]] = Field(description="The run's messages and tool calls, as chat APIs have them.")
    task: Named
    outcome: Literal["success", "failure", "unknown"] | bool
    note: str | None = Field(None, description="How it ended, in words.")
    trace_id: str | None = Field(None, description="Of the context that the run was given.")
    metadata: dict[str, Any] | None = None
    wait: bool = True


class AddRequest(Scoped):
    messages: str | list[MessageGiven] = Field(description="What was said: a text, or messages as chat APIs have them.")
    session_id: str | None = None
    at: str | None = Field(None, description="When it was said: ISO 8601 with an offset.")
    metadata: dict[str, Any] | None = None
    infer: bool = Field(True, description="false: each message is kept as it is, and nothing is drawn from it.")
    wait: bool = Field(True, description="false: answer (202) as soon as it is durable.")
    expires_at: str | None = None
    keep_turns: Literal["all", "uncovered", "logged", "none"] | None = None


class _Reading(Scoped):
    session_id: str | None = None
    filters: dict[str, Any] | None = Field(None, description="Conditions on columns or `metadata.a.b`; see the guide.")
    as_of: str | int | None = Field(
        None, description="A sequence number (what the store knew) or a time (what was said)."
    )


class SearchRequest(_Reading):
    query: Named
    k: int = Field(10, ge=1, description="As many as the store allows: 200, unless it was opened otherwise.")
    kinds: Kinds | None = None
    min_score: float | None = None
    spaces: Spaces | None = None
    sources: bool = Field(False, description="With the turns that each memory was drawn from.")


class ContextRequest(_Reading):
    query: Named
    max_tokens: int = Field(800, ge=1, le=1_000_000)
    kinds: Kinds | None = None
    min_score: float | None = None
    spaces: Spaces | None = None


class AnswerRequest(_Reading):
    question: Named
    max_tokens: int | None = Field(None, ge=1, le=1_000_000)
    stream: bool = Field(False, description="Server-sent events: `waiting` while the model works, then `answer`.")


class ListRequest(Scoped):
    limit: int = Field(100, ge=1, le=1000)
    cursor: str | None = Field(None, description="`cursor` of the page before.")
    session_id: str | None = None
    kind: Kind | None = Field(None, description="Of this kind alone; else facts, episodes and lessons.")


class OneRequest(Scoped):
    id: Named


class ChangeRequest(OneRequest):
    text: str | None = None
    metadata: dict[str, Any] | None = Field(None, description="Replaces what is there.")
    expected_revision: int | None = None
    pinned: bool | None = Field(None, description="true: every context carries it.")


class Several(Scoped):
    limit: int = Field(100, ge=1, le=10_000)


class AboutRequest(Several):
    name: str = Field(description='A name, what it is to the user ("my sister"), or any word.')


class HistoryRequest(Scoped):
    memory_id: str | None = None
    limit: int | None = Field(None, ge=1, le=1_000_000)


class UndoRequest(Scoped):
    op_id: str | None = None
    trace_id: str | None = Field(None, description="All that one add led to.")
    since: int | str | None = Field(None, description="All since a sequence number or a time.")


class ObserveRequest(Scoped):
    trace_id: Named
    answer: Named


class FeedbackRequest(Scoped):
    trace_id: Named
    label: Literal["up", "down"] | None = None
    reward: float | None = None
    expected: str | None = None
    comment: str | None = None


class RetryRequest(Scoped):
    trace_ids: list[str] | None = None


class TidyRequest(Scoped):
    budget: int | None = Field(None, ge=1, description="Decisions of the manager, at most.")


class DecisionsRequest(Scoped):
    trace_id: str | None = None
    last: int = Field(20, ge=1, le=1000)


class EraseRequest(Scoped):
    turn_id: str | None = None
    memory_id: str | None = None
    session_id: str | None = None
    everything: bool = Field(False, description="true: all of the user. Cannot be undone.")


class Nothing(Wire): ...


# ---- answers -------------------------------------------------------------------------------------------------------


class TurnShown(Wire):
    turn_id: str
    role: str
    text: str
    at: str
    speaker: str
    session_id: str
    origin: str

    @classmethod
    def of(cls, turn: Turn) -> TurnShown:
        names = ("turn_id", "role", "text", "speaker", "session_id", "origin")
        return cls(**{name: getattr(turn, name) for name in names}, at=turn.at.isoformat())


class MemoryShown(Wire):
    id: str
    text: str
    kind: str
    metadata: dict[str, Any]
    source_turns: list[str]
    revision: int
    standing: bool
    speaker: str
    session_id: str
    origin: str
    at: str | None
    created_at: str | None
    updated_at: str | None
    confirmed_at: str | None
    expires_at: str | None

    @classmethod
    def of(cls, record: MemoryRecord) -> MemoryShown:
        known = record.to_dict()
        return cls(**{name: known.get(name, getattr(record, name)) for name in cls.model_fields})


class OpShown(Wire):
    op_id: str
    seq: int
    action: Literal["add", "update", "delete", "noop"]
    memory_id: str | None
    text: str | None
    before: MemoryShown | None
    after: MemoryShown | None
    source_turns: list[str]
    cause: str
    undoes: str | None
    at: str
    recorded_at: str

    @classmethod
    def of(cls, op: Op) -> OpShown:
        names = ("op_id", "seq", "action", "memory_id", "text", "cause", "undoes")
        return cls(
            **{name: getattr(op, name) for name in names},
            before=op.before and MemoryShown.of(op.before),
            after=op.after and MemoryShown.of(op.after),
            source_turns=list(op.source_turns),
            at=op.at.isoformat(),
            recorded_at=op.recorded_at.isoformat(),
        )


class Added(Wire):
    trace_id: str
    status: Literal["applied", "pending", "parked"]
    reason: str | None = Field(description="Why nothing was written, in plain words.")
    replayed: bool = Field(description="true: the idempotency key had been seen, and nothing new was stored.")
    ops: list[OpShown]
    turns: list[TurnShown]

    @classmethod
    def of(cls, result: AddResult) -> Added:
        return cls(
            trace_id=result.trace_id,
            status=result.status,
            reason=result.reason,
            replayed=result.replayed,
            ops=[OpShown.of(op) for op in result.ops],
            turns=[TurnShown.of(turn) for turn in result.turns],
        )


class HitShown(Wire):
    memory: MemoryShown
    score: float
    relevance: float = Field(description="How likely it bears on the question; means the same for every user.")
    why: str
    sources: list[TurnShown]

    @classmethod
    def of(cls, hit: Hit) -> HitShown:
        return cls(
            memory=MemoryShown.of(hit.memory),
            score=hit.score,
            relevance=hit.relevance,
            why=hit.why,
            sources=[TurnShown.of(turn) for turn in hit.sources],
        )


class HitList(Wire):
    trace_id: str
    hits: list[HitShown]

    @classmethod
    def of(cls, hits: Hits) -> HitList:
        return cls(trace_id=hits.trace_id, hits=[HitShown.of(hit) for hit in hits])


class ContextShown(Wire):
    trace_id: str
    text: str = Field(description="Put this into the prompt as it is.")
    memory_ids: list[str]

    @classmethod
    def of(cls, block: ContextBlock) -> ContextShown:
        return cls(trace_id=block.trace_id, text=str(block), memory_ids=[hit.memory.id for hit in block.hits])


class AnswerShown(Wire):
    trace_id: str
    text: str
    abstained: bool
    cited: list[MemoryShown]

    @classmethod
    def of(cls, answer: Answer) -> AnswerShown:
        cited = [MemoryShown.of(record) for record in answer.cited]
        return cls(trace_id=answer.trace_id, text=answer.text, abstained=answer.abstained, cited=cited)


class MemoryPage(Wire):
    memories: list[MemoryShown]
    cursor: str | None = Field(description="Pass it back to go on; null at the end.")

    @classmethod
    def of(cls, page: Page) -> MemoryPage:
        return cls(memories=[MemoryShown.of(record) for record in page], cursor=page.cursor)


class Memories(Wire):
    memories: list[MemoryShown]


class EntityShown(Wire):
    name: str
    kind: EntityKind
    names: list[str] = Field(description="All that it goes by.")
    relations: list[str] = Field(description='What it is said to be: "sister", "dog".')
    memory_ids: list[str] = Field(description="The live memories that name it, oldest first.")

    @classmethod
    def of(cls, one: Entity) -> EntityShown:
        parts = {"names": list(one.names), "relations": list(one.relations), "memory_ids": list(one.memories)}
        return cls(name=one.name, kind=one.kind, **parts)


class Entities(Wire):
    entities: list[EntityShown]


class OpList(Wire):
    ops: list[OpShown]


class Count(Wire):
    count: int


class Observed(Wire):
    memory_ids: list[str] = Field(description="The memories that the answer seems to have used.")


class Noted(Wire):
    feedback_id: str


class ParkedShown(Wire):
    trace_id: str
    user_id: str
    agent_id: str | None
    reason: str
    detail: str
    attempts: int
    turns: list[TurnShown]

    @classmethod
    def of(cls, parked: ParkedTurn) -> ParkedShown:
        names = ("trace_id", "user_id", "agent_id", "reason", "detail", "attempts")
        return cls(**{name: getattr(parked, name) for name in names}, turns=[TurnShown.of(t) for t in parked.turns])


class ParkedList(Wire):
    parked: list[ParkedShown]


class DecisionList(Wire):
    decisions: list[dict[str, Any]] = Field(description="Trajectory records, oldest first; each says its version.")


class Erased(Wire):
    subject: str
    counts: dict[str, int]
    tainted_adapters: list[str]

    @classmethod
    def of(cls, receipt: EraseReceipt) -> Erased:
        return cls(
            subject=receipt.subject, counts=dict(receipt.counts), tainted_adapters=list(receipt.tainted_adapters)
        )


class TidyShown(Wire):
    trace_id: str = Field(description="Send it to /undo to take the whole pass back.")
    changes: int
    asked: int
    left: int
    live_before: int
    live_after: int
    reason: str | None

    @classmethod
    def of(cls, done: TidyResult) -> TidyShown:
        names = ("trace_id", "asked", "left", "live_before", "live_after", "reason")
        return cls(changes=len(done.ops), **{name: getattr(done, name) for name in names})


class Users(Wire):
    users: list[str]
    cursor: str | None


class UsersRequest(Wire):
    limit: int = Field(100, ge=1, le=1000)
    cursor: str | None = None


class ServiceHealth(Wire):
    status: Literal["ok"]
    version: str


class ProblemShown(Wire):
    """An error (RFC 9457): what happened, why, and the next step."""

    model_config = ConfigDict(extra="allow")
    type: str
    title: str
    status: int
    why: str | None = None
    next: str | None = None


def without_none(values: Mapping[str, Any]) -> JSON:
    return {name: value for name, value in values.items() if value is not None}
