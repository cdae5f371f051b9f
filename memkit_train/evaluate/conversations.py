"""What every data set becomes: conversations with dated sessions, and questions with gold answers and evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memkit.inputs import ORIGINS
from memkit.models import JSON, Bank, Turn


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """One turn."""

    ref: str
    """Its id in the data set (`D1:3`, `s2:1`): what evidence names."""
    speaker: str
    text: str
    at: datetime
    session_id: str
    role: str = "user"

    def as_turn(self, user_id: str, trainable: bool = True) -> Turn:
        """As the runtime takes it in: what a tool returned or a system prompt says is not the user's word."""
        origin = ORIGINS[self.role]
        return Turn(
            turn_id=self.ref,
            intake_id=self.ref,
            bank=Bank(user_id),
            position=0,
            role=self.role,
            text=self.text,
            at=self.at,
            speaker=self.speaker,
            session_id=self.session_id,
            origin=origin,
            at_given=True,
            trainable=trainable,
        )


@dataclass(frozen=True, slots=True)
class GoldQuestion:
    """One question."""

    question_id: str
    text: str
    gold: tuple[str, ...]
    """Acceptable answers; empty: the right answer is that it is unknown."""
    category: str
    evidence: tuple[str, ...] = ()
    at: datetime | None = None
    as_of: datetime | None = None
    after_session: str | None = None
    """Asked right after this session (streaming); None: after the last one."""
    stale: tuple[str, ...] = ()
    """Answers that were right once."""
    number: int | None = None
    """LoCoMo's category number."""


@dataclass(frozen=True, slots=True)
class Conversation:
    conversation_id: str
    turns: tuple[SpokenTurn, ...]
    questions: tuple[GoldQuestion, ...]
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def sessions(self) -> list[str]:
        """Session ids in order."""
        return list(dict.fromkeys(turn.session_id for turn in self.turns))

    def refs(self) -> set[str]:
        return {turn.ref for turn in self.turns}


@dataclass(frozen=True, slots=True)
class Dataset:
    name: str
    conversations: tuple[Conversation, ...]
    repairs: Mapping[str, int] = field(default_factory=dict[str, int])
    """What had to be repaired on loading, by name, with counts: reported, never silent."""

    def describe(self) -> JSON:
        return {
            "name": self.name,
            "conversations": len(self.conversations),
            "turns": sum(len(one.turns) for one in self.conversations),
            "questions": sum(len(one.questions) for one in self.conversations),
            "repairs": dict(self.repairs),
        }


def first(conversations: Sequence[Conversation], limit: int | None) -> tuple[Conversation, ...]:
    return tuple(conversations[:limit] if limit else conversations)
