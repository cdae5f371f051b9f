"""What is read from a log, and what is concluded from it. Frozen values; no I/O.

log ──► Decision, AnswerEvent, feedback, turns, ops ──► Episode (one user)
Episode ──► Label (an answer was good or bad) ──► Credit (so was this decision) ──► rows
                                              └─► Probe (a question with its answer, to be asked again)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from memkit.journal import FeedbackRecord, Intake
from memkit.models import JSON, Bank, Kind, Op, Turn
from memkit.roles.base import ChatMessage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Source = Literal["expected", "correction", "confirmed"]
LabelSource = Literal["reward", "thumb", "expected", "correction", "reask"]
Fault = Literal["decision", "ranker", "answerer"]


@dataclass(frozen=True, slots=True)
class Texts:
    """Columns of a page of sealed decisions, not yet turned into Python: most of them nobody looks at."""

    payloads: Any
    blobs: Any


class Decision:
    """One logged model call. Token ids and log-probs as they were sampled; everything else of the versioned record is
    in `payload`, which is read only when it is asked for: a million decisions become rows without it."""

    __slots__ = (
        "_blobs",
        "_created",
        "_payload",
        "adapter",
        "bank",
        "decision_id",
        "intake_id",
        "logprobs",
        "model",
        "number",
        "ok",
        "prompt_hash",
        "prompt_ids",
        "propensity",
        "role",
        "state_seq",
        "token_ids",
    )

    def __init__(
        self,
        number: int,
        decision_id: str,
        intake_id: str | None,
        bank: Bank,
        role: str,
        state_seq: int,
        created: int,
        model: str | None,
        adapter: str | None,
        propensity: float | None,
        prompt_hash: str | None,
        ok: bool,
        prompt_ids: tuple[int, ...] | None,
        token_ids: tuple[int, ...] | None,
        logprobs: tuple[float, ...] | None,
        payload: JSON | Texts,
        blobs: Mapping[str, str] | int,
    ) -> None:
        self.number, self.decision_id, self.intake_id, self.bank, self.role = number, decision_id, intake_id, bank, role
        self.state_seq, self._created, self.model, self.adapter = state_seq, created, model, adapter
        self.propensity, self.prompt_hash, self.ok = propensity, prompt_hash, ok
        self.prompt_ids, self.token_ids, self.logprobs = prompt_ids, token_ids, logprobs
        self._payload, self._blobs = payload, blobs

    @property
    def created_at(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self._created)

    def age_days(self, now_micros: int) -> float:
        return max(0.0, (now_micros - self._created) / 86_400_000_000)

    @property
    def payload(self) -> JSON:
        """The record without its token arrays."""
        self._read()
        return self._payload  # type: ignore[return-value]

    @property
    def blobs(self) -> Mapping[str, str]:
        self._read()
        return self._blobs  # type: ignore[return-value]

    def _read(self) -> None:
        if isinstance(self._payload, Texts):
            texts, row = self._payload, self._blobs
            self._payload, self._blobs = json.loads(texts.payloads[row].as_py()), json.loads(texts.blobs[row].as_py())

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The prompt that the last reply, the one that counted, was given to."""
        text = self.blobs.get(self.prompt_hash or "")
        return tuple(ChatMessage(role, content) for role, content in json.loads(text)) if text else ()

    @property
    def reply(self) -> str | None:
        return self.payload.get("reply")

    @property
    def style(self) -> str:
        """How it was asked, and replied: compact or json."""
        return str(self.payload.get("style", "compact"))

    @property
    def source_turns(self) -> tuple[str, ...]:
        return tuple(self.payload.get("source_turns", ()))


@dataclass(frozen=True, slots=True)
class Served:
    """A memory revision that an answer was given, in its rank."""

    memory_id: str
    revision: int
    rank: int
    score: float
    signals: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    trace_id: str
    bank: Bank
    state_seq: int
    """What the bank knew: every op up to here."""
    at: datetime
    question: str
    answer: str
    served: tuple[Served, ...]
    cited: tuple[tuple[str, int], ...]
    """(memory id, revision)."""
    cited_by: str
    """model, or inferred by overlap."""
    abstained: bool = False
    decision_id: str | None = None
    """The answerer's own decision; None where the app answered by itself."""
    adapter: str | None = None
    propensity: float | None = None
    as_of: int | datetime | None = None
    kinds: tuple[Kind, ...] | None = None
    """What the app asked for. None: all."""


@dataclass(frozen=True, slots=True)
class Label:
    """How good an answer was, as its user said or showed. Silence is no label."""

    trace_id: str
    y: float
    weight: float
    source: LabelSource
    said_in: str = ""
    """The turn that corrects the answer, also where it was rated as well."""


@dataclass(frozen=True, slots=True)
class Credit:
    """A label that found its way to a decision."""

    decision_id: str
    role: str
    y: float
    weight: float
    why: str
    """cited | relevant | answered: earned by a good answer. lost | missed | stale: blamed for a bad one.
    duplicate | chitchat: the bias guard, no label at all."""
    trace_id: str = ""
    user: str = ""
    """Opaque subject id."""
    at: tuple[int, ...] = ()
    """Which choice of the decision, where it is one of several: a part of a turn (turn, start, end), or a memory
    beside a fact (fact, handle)."""


@dataclass(frozen=True, slots=True)
class RankerRow:
    """An answer's candidates with the ones that carried it (or should have): a `RankExample` of the ranker."""

    user: str
    served: tuple[Served, ...]
    relevant: tuple[str, ...]
    weight: float
    why: str
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class LoggedQuestion:
    """A question that can be asked of any bank of this user as of then, with what a right answer says."""

    user: str
    user_id: str
    bank: Bank
    as_of: int
    """Sequence number: what was known when it was asked."""
    at: datetime
    question: str
    expected: str
    source: Source
    source_turns: tuple[str, ...]
    trace_id: str
    weight: float = 1.0
    kinds: tuple[Kind, ...] | None = None


@dataclass(frozen=True, slots=True)
class TurnLog:
    """One `add` call as it went."""

    intake: Intake
    status: str
    seqs: tuple[int, int] | None

    @property
    def turns(self) -> tuple[Turn, ...]:
        return self.intake.turns


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Everything that one user's log says, in order. Banks that may not be learned from are left out."""

    user_id: str
    subject: str
    intakes: tuple[TurnLog, ...]
    ops: tuple[Op, ...]
    decisions: tuple[Decision, ...]
    answers: tuple[AnswerEvent, ...]
    feedback: Mapping[str, tuple[FeedbackRecord, ...]]
    """By trace id."""
    context_turns: int = 4
    """Earlier turns of a session that its prompts show: those of the runtime that served it."""


def answer_event(trace_id: str, bank: Bank, state_seq: int, payload: Mapping[str, Any], at: datetime) -> AnswerEvent:
    as_of = payload.get("as_of")
    return AnswerEvent(
        trace_id=trace_id,
        bank=bank,
        state_seq=state_seq,
        at=at,
        question=str(payload["question"]),
        answer=str(payload["answer"]),
        served=tuple(
            Served(one["id"], one["revision"], one["rank"], one["score"], one["signals"]) for one in payload["served"]
        ),
        cited=tuple((one["id"], one["revision"]) for one in payload.get("cited", ())),
        cited_by=str(payload.get("cited_by", "")),
        abstained=bool(payload.get("abstained", False)),
        decision_id=payload.get("decision_id"),
        adapter=payload.get("adapter"),
        propensity=payload.get("propensity"),
        as_of=datetime.fromisoformat(as_of) if isinstance(as_of, str) else as_of,
        kinds=tuple(payload["kinds"]) if payload.get("kinds") else None,
    )
