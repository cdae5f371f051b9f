"""Simulated users: they talk, ask, rate some answers (not always rightly), correct or ask again. They never label an
operation, and they know nothing of memories."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from memkit_train.lab.worlds import language
from memkit_train.lab.worlds.model import Episode, Question, WorldTurn
from memkit_train.lab.worlds.questions import matches


@dataclass(frozen=True, slots=True)
class Manners:
    """How a user treats answers. All shares are of the answers that they apply to."""

    rated: float = 0.3
    wrong_ratings: float = 0.1
    """Share of the ratings that say the opposite of the truth."""
    corrects: float = 0.15
    """After a wrong answer to a question about one value: says the right one in a new turn."""
    asks_again: float = 0.15
    """After a wrong answer, when not correcting: asks the same once more."""


@dataclass(frozen=True, slots=True)
class Say:
    session_id: str
    turn: WorldTurn


@dataclass(frozen=True, slots=True)
class Ask:
    session_id: str
    question: Question
    again: bool = False


@dataclass(frozen=True, slots=True)
class Reaction:
    """What the user does with an answer. `right` is the hidden truth: for scoring, never for training."""

    right: bool
    rating: float | None = None
    follow_up: Say | Ask | None = None


class SimulatedUser:
    """Drives one conversation: iterate `script`, hand every answer to `react`, then handle its follow-up.
    Reactions depend on (seed, question) alone, so two systems meet the same user."""

    def __init__(self, episode: Episode, *, seed: int = 0, manners: Manners | None = None) -> None:
        self.episode, self.seed, self.manners = episode, seed, manners or Manners()

    def script(self, *, final_questions: bool = False) -> Iterator[Say | Ask]:
        """Turns in order, each session followed by its questions; the held-back final questions only on request."""
        for session in self.episode.sessions:
            for turn in session.turns:
                yield Say(session.session_id, turn)
            for question in session.probes:
                yield Ask(session.session_id, question)
        if final_questions:
            for question in self.episode.questions:
                yield Ask("final", question)

    def react(self, ask: Ask, answer: str) -> Reaction:
        question, manners = ask.question, self.manners
        rng = random.Random(f"{self.seed}/{self.episode.user_id}/{question.question_id}/{ask.again}")
        right = matches(question, answer)
        rating = None
        if rng.random() < manners.rated:
            rating = float(right != (rng.random() < manners.wrong_ratings))
        if right or ask.again:
            return Reaction(right, rating)
        draw = rng.random()
        if question.kind == "single" and question.key[1] != "plan" and draw < manners.corrects:
            return Reaction(right, rating, Say(ask.session_id, self._correction(question)))
        if draw < manners.corrects + manners.asks_again:
            return Reaction(right, rating, Ask(ask.session_id, question, again=True))
        return Reaction(right, rating)

    def _correction(self, question: Question) -> WorldTurn:
        subject, attribute = question.key
        fact = language.state(subject, attribute, question.answer)
        at = question.asked_at + timedelta(minutes=1)
        return WorldTurn(f"{question.question_id}+", subject, f"No. {fact}", at, "correct", (fact,))
