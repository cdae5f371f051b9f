"""What a role hands to a backbone, and what it makes of the reply. Roles know words; backbones know how to generate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from memkit.models import MemoryRecord, Origin, Turn
from memkit.roles.grammar import Grammar

RoleName = Literal["extractor", "manager", "answerer", "fused", "reflector"]
Style = Literal["compact", "json"]
"""compact: one op per line, for small local models (constrained by `grammar`). json: for hosted models (`schema`)."""

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A memory as shown in one prompt: `handle` is its number in this call and the only name a model may use."""

    handle: int
    record: MemoryRecord
    score: float = 0.0
    signals: Mapping[str, float] = field(default_factory=dict[str, float])
    whole: bool = True
    """False: the prompt shows only the beginning of its text. A model may not rewrite what it has not read."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A self-contained statement drawn from turns, with what its turns say about where it comes from."""

    text: str
    source_turns: tuple[str, ...] = ()
    speaker: str = ""
    at: datetime | None = None
    session_id: str = ""
    origin: Origin = "user"
    trainable: bool = True


@dataclass(frozen=True, slots=True)
class AnswerDraft:
    """An answer with the memories that it was distilled from."""

    text: str
    used: tuple[int, ...] = ()
    """Handles of the selected memories, as the reply named them."""
    memory_ids: tuple[str, ...] = ()
    """The same memories by id."""
    abstained: bool = False
    """The memories do not hold the answer."""


@dataclass(frozen=True, slots=True)
class Parsed(Generic[T]):
    """What a reply means, and what had to be repaired to read it (by name; empty for a clean reply)."""

    value: T
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """The structured content behind a rendered prompt. The rule baseline decides from it; trainers score with it.
    It holds nothing that the rendered prompt does not show."""

    turns: Sequence[Turn] = ()
    facts: Sequence[Fact] = ()
    shown: Sequence[Shown] = ()
    question: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything a backbone needs to generate one reply."""

    role: RoleName
    style: Style
    version: str
    """Prompt version with the hash of its fixed text and of the user's instructions, e.g. `manager/1:9f3a2c…`."""
    messages: tuple[ChatMessage, ...]
    grammar: Grammar | None
    """compact only: the language of valid replies."""
    schema: Mapping[str, Any] | None
    """json only: JSON schema of the reply."""
    max_tokens: int
    view: View
