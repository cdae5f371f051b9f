"""The values of the world: episodes, turns with their truth, questions with their dates and evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from memkit_train.lab.worlds.lexicon import Split

Level = Literal["closed", "open"]
Move = Literal["new", "change", "extend", "restate", "retract", "plan", "happened", "correct", "soft", "smalltalk"]
"""What a turn does to the truth. soft: a visit, joke or hypothetical that must not be stored; smalltalk: nothing."""

RATES: Mapping[str, float] = {
    "new": 3.0,
    "change": 2.0,
    "extend": 1.5,
    "restate": 1.0,
    "retract": 1.2,
    "plan": 0.5,
    "happened": 0.8,
    "correct": 0.5,
    "soft": 1.2,
    "smalltalk": 0.8,
}


@dataclass(frozen=True, slots=True)
class Knobs:
    """How hard an episode is. The defaults are the closed level that the tiny model is measured on."""

    level: Level = "closed"
    sessions: int = 8
    turns: int = 4
    """Turns per session; every session has this many or up to `extra_turns` more."""
    extra_turns: int = 1
    people: int = 2
    questions: int = 16
    """Questions asked after the last session; each earlier session closes with `probes` of them."""
    probes: int = 3
    replies: bool = False
    """Whether an assistant answers each turn with small talk: twice the turns, nothing more to know."""
    unseen_templates: bool = False
    """Open level, held-out side: speak with the held-out templates as well."""
    rates: Mapping[str, float] = field(default_factory=lambda: dict(RATES))


@dataclass(frozen=True, slots=True)
class WorldTurn:
    ref: str
    """`s3:2`: session 3, turn 2."""
    speaker: str
    text: str
    at: datetime
    move: Move
    facts: tuple[str, ...] = ()
    """What an extractor should draw from it, in canonical words. Soft facts are here too: managing them is the test."""
    role: Literal["user", "assistant"] = "user"


@dataclass(frozen=True, slots=True)
class Question:
    question_id: str
    text: str
    kind: str
    """single | list | count | asof | owner | hop | unknown"""
    answer: tuple[str, ...]
    """The values that make up the answer; empty: nobody said so, the right answer is that it is unknown."""
    asked_at: datetime
    as_of: datetime | None
    evidence: tuple[str, ...]
    """Refs of the turns that the answer rests on."""
    key: tuple[str, str]
    """(subject, attribute) asked for, after the hop if there is one."""
    via: tuple[str, str] | None = None
    """What must be looked up first: (subject found, attribute)."""
    stale: tuple[str, ...] = ()
    """Earlier values that are wrong by now."""

    @property
    def expected(self) -> str:
        return " and ".join(self.answer) if self.answer else "unknown"


@dataclass(frozen=True, slots=True)
class Session:
    session_id: str
    at: datetime
    turns: tuple[WorldTurn, ...]
    probes: tuple[Question, ...]
    """Asked right after this session, answerable from it and the earlier ones."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One user's months of talk, and everything that is true about them."""

    user_id: str
    split: Split
    knobs: Knobs
    people: tuple[str, ...]
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    """Asked after the last session."""
    final: Mapping[tuple[str, str], tuple[str, ...]]
    """Truth at the end: (subject, attribute) → values."""

    @property
    def turns(self) -> list[WorldTurn]:
        return [turn for session in self.sessions for turn in session.turns]
