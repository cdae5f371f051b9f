"""What goes into the journal and comes back out of it, beside the values of `memkit.models`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from memkit.engine.drawn import TakenBack
from memkit.models import JSON, Bank, Op, Status, Turn

TraceKind = Literal["search", "context", "answer", "observe"]


@dataclass(frozen=True, slots=True)
class Intake:
    """One `add` call: its turns, and everything that deciding them later needs to know."""

    intake_id: str
    bank: Bank
    session_id: str
    turns: tuple[Turn, ...]
    infer: bool
    idempotency_key: str | None
    created_at: datetime
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """A pure function of the caller's arguments: it is part of the body that an idempotency key is compared on."""

    @property
    def keep_turns(self) -> str:
        return self.context.get("keep_turns", "all")

    @property
    def outcome(self) -> str:
        """How the run ended that was handed to `learn`; "" where it is no run."""
        return self.context.get("outcome", "")

    @property
    def expires_at(self) -> datetime | None:
        """When what is added from these turns ends."""
        found = self.context.get("expires_at")
        return datetime.fromisoformat(found) if found else None


@dataclass(frozen=True, slots=True)
class IntakeState:
    intake: Intake
    status: Status
    attempts: int
    """How often the intake was claimed. A claim that was handed out once more carries a higher number (fencing)."""
    reason: str = ""
    detail: str = ""
    claimed_by: str | None = None
    seq_first: int | None = None
    seq_last: int | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to decide one intake, held by one live worker. `attempts` is the fencing token: a claim that was taken
    over since can finish nothing."""

    intake: Intake
    attempts: int
    worker_id: str

    @property
    def intake_id(self) -> str:
        return self.intake.intake_id

    @property
    def bank(self) -> Bank:
        return self.intake.bank


@dataclass(frozen=True, slots=True)
class Accepted:
    """What `accept` did: the intake as it stands, its ops when it is applied, those that keep its words, the
    claim when one was given."""

    state: IntakeState
    ops: tuple[Op, ...] = ()
    said: tuple[Op, ...] = ()
    replayed: bool = False
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """One read that feedback may refer to."""

    trace_id: str
    kind: TraceKind
    bank: Bank
    state_seq: int
    payload: JSON
    created_at: datetime


@dataclass(frozen=True, slots=True)
class FeedbackRecord:
    feedback_id: str
    trace_id: str
    payload: JSON
    source: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class UserInfo:
    user_id: str
    agents: tuple[str, ...]
    memories: int
    turns: int
    last_seq: int
    trainable: bool


@dataclass(frozen=True, slots=True)
class Part:
    """What of a user is to be erased: turns and memories, by id."""

    turns: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Doomed:
    """A part of a user with everything that was drawn from it, as it is to be deleted in one transaction."""

    turns: frozenset[str]
    ops: frozenset[int]
    silenced: frozenset[int]
    """Deletions that stay, for what was ended stays ended; they may quote the turn that asked for them."""
    memories: frozenset[str]
    """Whose rows in LanceDB go; they are written anew for those that go `back`."""
    back: tuple[TakenBack, ...]
    decisions: frozenset[str]
    traces: frozenset[str]
    feedback: frozenset[str]


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """Proof of an erasure without content: `subject` is a salted hash that only this store can recompute."""

    erasure_id: str
    subject: str
    erased_at: datetime
    counts: Mapping[str, int]
    scrubbed: bool
    """True once the freed bytes are overwritten in the file as well."""


@dataclass(frozen=True, slots=True)
class JournalProblem:
    """One thing that `check` found to be wrong; `where` names the row, never its content."""

    kind: str
    where: str
    detail: str
