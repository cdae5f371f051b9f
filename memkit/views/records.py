"""What the views return. Plain values, made to be shown or to go out as JSON (`as_data`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from memkit.models import JSON, MemoryRecord, Op, Status, Turn

Fate = Literal["remembered", "ended", "nothing", "parked", "pending", "not kept"]
"""remembered: a memory that it led to is live. ended: it led to memories, and none of them is. nothing: it was decided,
and nothing was written. not kept: its words were not to be kept."""


@dataclass(frozen=True, slots=True)
class Person:
    user_id: str
    agents: tuple[str, ...]
    memories: int
    turns: int
    parked: int
    last_seq: int
    trainable: bool


@dataclass(frozen=True, slots=True)
class TurnFate:
    """One turn, and what became of it."""

    turn: Turn
    trace_id: str
    status: Status
    fate: Fate
    reason: str
    """In plain words, with the next step where there is one."""
    ops: tuple[Op, ...]
    """What it led to, but for the keeping of its words."""
    live: tuple[MemoryRecord, ...]
    """What of it is remembered now."""
    decisions: tuple[str, ...]
    words_kept: bool
    """Whether its own words are searchable."""
    match: float = 0.0
    """Share of the words asked for that it says."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why something is not remembered, or that it is."""

    asked: str
    verdict: str
    remembered: tuple[MemoryRecord, ...]
    """Live memories that say it."""
    turns: tuple[TurnFate, ...]
    """Turns that said it, the closest first."""
    searched: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """One page of something; `next` goes on from here, None at the end."""

    items: Sequence[Any]
    next: str | None


@dataclass(frozen=True, slots=True)
class Remembered:
    """A user's memories at one moment."""

    user_id: str
    seq: int
    """As of this sequence number."""
    at: datetime | None
    """When that was."""
    newest: int
    """The user's newest sequence number."""
    step: int
    steps: int
    """The moment is the step-th of the user's operations; there are so many."""
    standing: tuple[MemoryRecord, ...]
    memories: tuple[MemoryRecord, ...]
    words: int
    total: int


@dataclass(frozen=True, slots=True)
class ServedMemory:
    """A memory as one read was given it."""

    id: str
    revision: int
    rank: int
    """0: it always matters, and was carried without being found."""
    score: float
    text: str
    shares: Mapping[str, float]
    """Signal → what it added to the score; empty where a learned ranker weighed them."""
    signals: Mapping[str, float]
    cited: bool
    tokens: int
    live: bool
    """Whether this revision is what is remembered now."""


@dataclass(frozen=True, slots=True)
class ReadStory:
    """A search, a context or an answer: what was asked, found, said, and how it was rated."""

    trace_id: str
    kind: str
    user_id: str
    agent_id: str | None
    at: datetime
    question: str
    answer: str | None
    observed: str | None
    """What the app answered, beside the model."""
    abstained: bool
    served: tuple[ServedMemory, ...]
    max_tokens: int | None
    tokens: int
    """Of the memories that were served."""
    ranker: str
    adapter: str | None
    decision_id: str | None
    cited_by: str
    feedback: tuple[JSON, ...]
    state_seq: int


@dataclass(frozen=True, slots=True)
class DecisionDetail:
    """One decision in full."""

    decision: JSON
    messages: tuple[tuple[str, str], ...]
    """The prompt, as (role, text); empty where the words were not kept."""
    logprob: float | None
    """Of the whole reply, where the backbone reports it."""
    shadows: tuple[JSON, ...]
    """What candidates in the shadow decided on the same prompt."""


@dataclass(frozen=True, slots=True)
class Health:
    stats: Mapping[str, Any]
    days: Mapping[str, Mapping[str, int]]
    """What happened → day → how often."""
    looked_at: int
    """Memories that the next four were counted in, in whole banks drawn evenly."""
    junk: tuple[tuple[str, MemoryRecord], ...]
    """(user, memory) that say next to nothing."""
    duplicates: tuple[tuple[str, MemoryRecord, MemoryRecord], ...]
    stale: tuple[tuple[str, MemoryRecord], ...]
    never_served: int
    counts: Mapping[str, int]
    parked: tuple[Any, ...]
    parked_total: int
    largest: tuple[Person, ...]
    costs: tuple[JSON, ...]
    """Per day and model, of the newest decisions: calls, tokens, unusable replies."""


@dataclass(frozen=True, slots=True)
class Learning:
    reads: Mapping[str, int]
    """Day → searches, contexts and answers."""
    labels: Mapping[str, Mapping[str, int]]
    """Day → good, bad, other → how many."""
    coverage: float
    """Labels per read, over those days."""
    runs: tuple[JSON, ...]
    adapters: tuple[JSON, ...]
    aliases: tuple[JSON, ...]
    mix: Mapping[str, Mapping[str, int]]
    """Adapter → action → how often, in the newest decisions."""
    shadows: tuple[JSON, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Erasures:
    receipts: tuple[JSON, ...]
    taints: Mapping[str, Sequence[str]]
    """Adapter → opaque ids of erased users that it learned from."""
    problems: tuple[JSON, ...] = field(default_factory=tuple)
