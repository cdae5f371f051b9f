"""An app with a memory: many users talk to it at once, one thread each, so that one forward pass serves many of them.

What it does with the memory is what any app does: `add` what was said, `answer` what was asked, `feedback` when there
is some. Ids and clock go with the thread: two runs make the same log, however the threads take turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit_train.lab.worlds import Ask, Episode, Manners, Question, Say, SimulatedUser

AT_ONCE, SHOWN = 24, 5
SILENT = Manners(rated=0.0, corrects=0.0, asks_again=0.0)


@dataclass(frozen=True, slots=True)
class Visit:
    """One user's months with the app."""

    episode: Episode
    user_id: str
    manners: Manners
    learn: bool = True
    """False: the user opted out of training before saying anything."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question as it was answered."""

    user_id: str
    question: Question
    answer: str
    right: bool
    """The hidden truth: for measuring, never for training."""
    rating: float | None
    adapter: str | None
    """Digest of what wrote this user's memories at that moment; None is the base model."""


class Hands:
    """Ids and time of whoever the thread acts for."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def acting_for(self, user_id: str, at: datetime) -> Iterator[None]:
        self._local.name, self._local.count, self._local.at = user_id, 0, at
        try:
            yield
        finally:
            del self._local.name

    def until(self, at: datetime) -> None:
        self._local.at = max(self._local.at, at)

    def now(self) -> datetime:
        return self._local.at if hasattr(self._local, "name") else datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def new(self, prefix: str) -> str:
        if not hasattr(self._local, "name"):
            self._local.name, self._local.count = f"background{threading.get_ident()}", 0
        self._local.count += 1
        return f"{prefix}_{self._local.name}_{self._local.count}"


class Chatbot:
    """Stays open while everything else happens."""

    def __init__(
        self,
        store: Path,
        model: Any,
        *,
        reads: Callable[[Question, Sequence[str]], str] | None = None,
        users: type[SimulatedUser] = SimulatedUser,
        **options: Any,
    ) -> None:
        """`model` and `options` as `Memory` takes them. Backbones stay the caller's to close. `reads`: the app's own
        answer, from the facts that it is served; None: the memory's model answers."""
        self._hands, self._reads, self._users = Hands(), reads, users
        # the tiny models were trained on memories alone; they make nothing of words as they were said beside them
        options = {"keep_turns": "logged"} | options
        self.memory = Memory(store, model=model, clock=self._hands, ids=self._hands, **options)

    def __enter__(self) -> Chatbot:
        return self

    def __exit__(self, *exc: object) -> None:
        self.memory.close()

    @property
    def manager(self) -> str | None:
        """Digest of the adapter that manages new turns; None is the base model."""
        return self.memory.adapters.registry.alias(self.memory.adapters.alias).route("manager").stable

    def serve(
        self,
        visits: Sequence[Visit],
        done: Callable[[int, int], None] | None = None,
        each: Callable[[AnsweredQuestion], None] | None = None,
    ) -> list[AnsweredQuestion]:
        """Every visit to its end; `done` is told how many are over, `each` of every answer as it is given."""

        def months(visit: Visit) -> list[AnsweredQuestion]:
            exchanges: list[AnsweredQuestion] = []
            for one in self._visit(visit):
                exchanges.append(one)
                if each is not None:
                    each(one)
            return exchanges

        found: list[AnsweredQuestion] = []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for number, exchanges in enumerate(pool.map(months, visits), start=1):
                found += exchanges
                if done is not None:
                    done(number, len(visits))
        self.memory.flush()
        return found

    def _visit(self, visit: Visit) -> Iterator[AnsweredQuestion]:
        with self._hands.acting_for(visit.user_id, visit.episode.sessions[0].at):
            if not visit.learn:
                self.memory.trainable(False, user_id=visit.user_id)
            yield from self._months(visit)

    def _months(self, visit: Visit) -> Iterator[AnsweredQuestion]:
        user, user_id = self._users(visit.episode, seed=visit.seed, manners=visit.manners), visit.user_id
        for event in user.script():
            waiting: list[Say | Ask] = [event]
            while waiting:
                now = waiting.pop(0)
                if isinstance(now, Say):
                    self._hands.until(now.turn.at)
                    said = {"role": "user", "name": now.turn.speaker, "content": now.turn.text}
                    self.memory.add(said, user_id=user_id, session_id=now.session_id, at=now.turn.at)
                    continue
                self._hands.until(now.question.asked_at)
                trace_id, text = self._answer(now.question, user_id)
                reaction = user.react(now, text)
                if reaction.rating is not None:
                    self.memory.feedback(trace_id, reward=reaction.rating, user_id=user_id)
                yield AnsweredQuestion(user_id, now.question, text, reaction.right, reaction.rating, self.manager)
                waiting += [reaction.follow_up] if reaction.follow_up else []

    def _answer(self, question: Question, user_id: str) -> tuple[str, str]:
        if self._reads is None:
            answer = self.memory.answer(question.text, user_id=user_id)
            return answer.trace_id, answer.text
        hits = self.memory.search(question.text, user_id=user_id, kinds=("fact",), k=SHOWN)
        text = self._reads(question, [hit.text for hit in hits])
        self.memory.observe(hits.trace_id, text, user_id=user_id)
        return hits.trace_id, text


__all__ = ["AT_ONCE", "SILENT", "AnsweredQuestion", "Chatbot", "Visit"]
