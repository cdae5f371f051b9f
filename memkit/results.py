"""What the verbs return. Lists and strings stay lists and strings, and carry the `trace_id` that feedback names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from memkit.models import JSON, Action, MemoryRecord, Op, Origin, Status, Turn, brief


@dataclass(frozen=True, slots=True)
class AddResult:
    """`status` applied: `ops` are in the store. pending: durable, decided in the background. parked: the turn is kept
    but could not be decided, `retry()` tries again."""

    trace_id: str
    status: Status
    ops: tuple[Op, ...] = ()
    turns: tuple[Turn, ...] = ()
    reason: str | None = None
    """Why nothing was written, in plain words: what the manager said of it, or why the turn is parked. None where
    something was written, or where it is not decided yet."""
    replayed: bool = False
    """True where the idempotency key had been seen: nothing new was stored."""


@dataclass(frozen=True, slots=True)
class Hit:
    memory: MemoryRecord
    score: float
    why: str
    """The signals in words."""
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    sources: tuple[Turn, ...] = ()
    """The turns it came from, with `expand="sources"`."""
    relevance: float = 0.0
    """How likely it bears on the question, 0 to 1; unlike `score` it means the same in every bank."""

    @property
    def text(self) -> str:
        return self.memory.text

    def __repr__(self) -> str:
        return f"Hit({brief(self.text)}, score={self.score:.3f}, why={self.why!r})"


class Hits(list[Hit]):
    """Hits, best first."""

    def __init__(self, hits: Iterable[Hit] = (), *, trace_id: str = "") -> None:
        super().__init__(hits)
        self.trace_id = trace_id


class ContextBlock(str):
    """A prompt-ready block of memories, rendered as data."""

    trace_id: str
    hits: tuple[Hit, ...]

    def __new__(cls, text: str, *, trace_id: str = "", hits: Iterable[Hit] = ()) -> ContextBlock:
        block = super().__new__(cls, text)
        block.trace_id = trace_id
        block.hits = tuple(hits)
        return block


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    cited: tuple[MemoryRecord, ...]
    """The memories that the model selected before it answered."""
    trace_id: str
    abstained: bool = False


Right = Literal["read", "write", "share", "forget"]
RIGHTS: tuple[Right, ...] = ("read", "write", "share", "forget")
"""What may be granted in a space: to find memories; to add, change and end them; to grant, and to take memories into
another space; to destroy what others said."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Who may do what in a space."""

    space: str
    right: Right
    to: str
    is_role: bool = False
    """Whether `to` is a role, and no user."""
    until: datetime | None = None
    by: str = field(default="", compare=False)
    grant_id: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, str, bool]:
        return self.right, self.to, self.is_role

    def holds(self, now: datetime) -> bool:
        return self.until is None or now < self.until


class Page(list[MemoryRecord]):
    """Memories in the order in which they were last written; `cursor` goes on from here, None at the end."""

    def __init__(self, records: Iterable[MemoryRecord] = (), *, cursor: str | None = None) -> None:
        super().__init__(records)
        self.cursor = cursor


class Imported(int):
    """How many records are new."""

    dropped: Mapping[str, int]
    """Kind of record → how many were left out, with `drop_dangling`."""

    def __new__(cls, count: int, dropped: Mapping[str, int] | None = None) -> Imported:
        found = super().__new__(cls, count)
        found.dropped = dict(dropped or {})
        return found


class SaidTurn(TypedDict):
    turn_id: str
    role: str
    speaker: str
    text: str
    at: datetime


class ShownMemory(TypedDict):
    handle: int
    """The number by which the prompt calls it."""
    id: str
    revision: int
    score: float
    signals: dict[str, float]
    text: str
    """As it stood then; "(erased)" where it is gone."""


class ToldDecision(TypedDict):
    """One decision of a model, as `decisions()` tells it and as training reads it: JSON, but for the times of its
    turns. `missing` says of each field that a model may leave out why it did."""

    v: int
    """Version of the record."""
    decision_id: str
    trace_id: str | None
    """What `add` returned; None for an answer."""
    user_id: str
    agent_id: str | None
    created_at: str
    role: str
    """extractor, manager, fused or answerer."""
    turns: list[SaidTurn]
    """What was said."""
    candidates: list[ShownMemory]
    """What was shown."""
    reply: str | None
    """What was replied; `attempts` has the replies that were sent back, with the reason."""
    attempts: list[JSON]
    parse: JSON
    """Whether the reply could be read: ok, repairs, error."""
    drafts: list[JSON]
    """What the reply asked for."""
    ops: list[JSON]
    """What was done, with before- and after-images."""
    state_seq: int
    """Sequence number of the bank that the prompt was made from."""
    prompt_version: str
    prompt_hash: str
    style: str
    sampling: JSON
    source_turns: list[str]
    edition: NotRequired[JSON]
    held: NotRequired[list[JSON]]
    """What was asked for and not done because of whose words it rests on."""
    model: str | None
    served_by: str | None
    """The adapter that produced the reply; `adapter` is the one that was chosen, by `alias` in `alias_version`."""
    adapter: str | None
    alias: str | None
    alias_version: int | None
    propensity: float
    """How likely this adapter was to be chosen."""
    finish: str
    usage: JSON | None
    """prompt_tokens, completion_tokens, calls."""
    latency_ms: float | None
    extra: JSON
    """What only this kind of model tells: the choices of the small manager, a price."""
    missing: dict[str, str]
    prompt_ids: NotRequired[list[int]]
    token_ids: NotRequired[list[int]]
    logprobs: NotRequired[list[float]]
    sampled_logprobs: NotRequired[list[float]]


@dataclass(frozen=True, slots=True)
class ParkedTurn:
    trace_id: str
    user_id: str
    agent_id: str | None
    reason: str
    detail: str
    attempts: int
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class HeldChange:
    """What a reply asked for, and what was not done because of whose words it rests on."""

    id: str
    action: Action
    memory: MemoryRecord
    """Which it was to change, as it stands."""
    text: str | None
    origin: Origin
    source_turns: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class EraseReceipt:
    """Counts and hashes of what was destroyed; no content."""

    subject: str
    """Opaque id of the user within this store."""
    counts: Mapping[str, int]
    tainted_adapters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TidyResult:
    """What a pass of `tidy` did."""

    trace_id: str
    """`undo(turn_id=...)` takes the whole pass back; "" where it changed nothing."""
    ops: tuple[Op, ...]
    asked: int
    """Decisions of the manager; the rules count, too."""
    left: int
    """Facts that it did not get to within its budget. The next pass goes on there."""
    live_before: int
    """Memories and words that were found before it, and after."""
    live_after: int
    reason: str | None = None
    """Why it ended before that: the model gave no answer."""


@dataclass(frozen=True, slots=True)
class PruneReceipt:
    """What of the log went; no content."""

    before: datetime | None
    """All of the log before it, but for what concerns undecided turns; None where the log is small enough."""
    counts: Mapping[str, int]
    log_bytes_before: int
    log_bytes_after: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding of the doctor."""

    code: str
    what: str
    fix: str
    repaired: bool = False
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
