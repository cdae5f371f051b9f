"""Stores that simulated users made: they talk to a memory run by a world policy, ask, and rate some answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.seams.backbone import Backbone
from memkit_train.credit.labels import labels
from memkit_train.lab.worlds import Ask, Episode, Knobs, Manners, Say, SimulatedUser, TeacherBackbone, Truth, generate
from memkit_train.log import StoreSource
from memkit_train.log.splits import Split

SMALL = Knobs(sessions=3, turns=3, extra_turns=0, probes=2, questions=4)


class Hands:
    """A clock that is set."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


class Counted:
    """Ids in order, so that two stores made alike are alike."""

    def __init__(self) -> None:
        self.count = 0

    def new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count:06d}"


def world(count: int = 3, seed: int = 0, knobs: Knobs = SMALL) -> list[Episode]:
    return generate(count, seed=seed, knobs=knobs)


def teacher(episodes: Sequence[Episode], seed: int = 0) -> TeacherBackbone:
    return TeacherBackbone(Truth(episodes), seed=seed)


def lived(
    path: Path, episodes: Sequence[Episode], backbone: Backbone, *, manners: Manners | None = None, **more: Any
) -> Path:
    """A store after every user said, asked and rated everything. Closed when it is returned. It keeps no words: in
    the world, whose sentences are short and plain, they answer nearly everything, and hide what a manager does."""
    clock = Hands(episodes[0].sessions[0].at)
    with Memory(path, model=backbone, clock=clock, **{"ids": Counted(), "keep_turns": "logged", **more}) as memory:
        for episode in episodes:
            user = SimulatedUser(episode, manners=manners or Manners(rated=1.0, wrong_ratings=0.0))
            for event in user.script():
                _follow(memory, episode.user_id, user, event, clock)
    return path


def dividing_seed(store: Path, share: float = 0.3) -> int:
    """Opaque ids are salted anew in every store; this seed holds out about the share of its few users, and leaves
    answers of both kinds to learn from, where there are such."""
    with StoreSource(store) as source:
        users = {source.subject(user): user for user in source.users()}
        said = kinds(source)
    wanted = max(1, round(share * len(users)))
    sides = {
        seed: [user for one, user in users.items() if not Split(seed, share).is_heldout(one)] for seed in range(300)
    }
    fitting = {seed: rest for seed, rest in sides.items() if len(users) - len(rest) == wanted}
    return next((seed for seed, rest in fitting.items() if both(said, rest)), next(iter(fitting)))


def kinds(source: StoreSource) -> dict[str, set[bool]]:
    """User → whether they said of answers that they were good, that they were bad, or both."""
    return {
        one: {label.y >= 0.5 for episode in source.trajectories([one]) for label in labels(episode)}
        for one in source.users()
    }


def _follow(memory: Memory, user_id: str, user: SimulatedUser, event: Say | Ask, clock: Hands) -> None:
    if isinstance(event, Say):
        turn = event.turn
        clock.at = max(clock.at, turn.at)
        message = {"role": turn.role, "name": turn.speaker, "content": turn.text}
        memory.add(message, user_id=user_id, session_id=event.session_id, at=turn.at)
        return
    clock.at = max(clock.at, event.question.asked_at)
    answer = memory.answer(event.question.text, user_id=user_id)
    reaction = user.react(event, answer.text)
    if reaction.rating is not None:
        memory.feedback(answer.trace_id, reward=reaction.rating, user_id=user_id)
    if reaction.follow_up is not None:
        _follow(memory, user_id, user, reaction.follow_up, clock)


def both(said: Mapping[str, set[bool]], users: Iterable[str]) -> bool:
    """Whether these users' labels are of both kinds."""
    return {True, False} == {one for user in users for one in said[user]}
