"""Simulated users at an app whose memory is run by a tiny model: what they leave behind is all that training gets.

Many users talk at once, each in its own thread, so that one forward pass serves many of them. Ids and clock go with the
thread: two logs that are made alike are alike, decision for decision, however the threads take turns.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from memkit import Memory
from memkit.backbones.base import Backbone
from memkit.backbones.hf import HFBackbone
from memkit_train.replay.env import beside
from memkit_train.worlds import Ask, Episode, Manners, Say, SimulatedUser

AT_ONCE = 24


class _Threaded:
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

    def new(self, prefix: str) -> str:
        if not hasattr(self._local, "name"):
            self._local.name, self._local.count = f"background{threading.get_ident()}", 0
        self._local.count += 1
        return f"{prefix}_{self._local.name}_{self._local.count}"


def live(
    path: Path, episodes: Sequence[Episode], model: Path, *, manners: Manners, seed: int = 0, explore: float = 0.0,
    others: Backbone | None = None, roles: Sequence[str] = ("manager",),
) -> float:  # fmt: skip
    """Every user's months with the app, into a store at `path`; returns the share of right answers. `others` answers in
    all roles but `roles`; None: the model does."""
    hands = _Threaded()
    right: list[bool] = []
    with (
        HFBackbone(model, threads=1, max_batch=AT_ONCE) as backbone,
        Memory(
            path, model=beside(backbone, others, roles), clock=hands, ids=hands, explore=explore, config={"workers": 0}
        ) as memory,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):

        def one(episode: Episode) -> list[bool]:
            with hands.acting_for(episode.user_id, episode.sessions[0].at):
                return _months(memory, SimulatedUser(episode, seed=seed, manners=manners), hands)

        for found in pool.map(one, episodes):
            right += found
        memory.flush()
    return sum(right) / len(right)


def _months(memory: Memory, user: SimulatedUser, hands: _Threaded) -> list[bool]:
    user_id, right = user.episode.user_id, list[bool]()
    for event in user.script():
        waiting: list[Say | Ask] = [event]
        while waiting:
            now = waiting.pop(0)
            if isinstance(now, Say):
                hands.until(now.turn.at)
                message = {"role": "user", "name": now.turn.speaker, "content": now.turn.text}
                memory.add(message, user_id=user_id, session_id=now.session_id, at=now.turn.at)
                continue
            hands.until(now.question.asked_at)
            answer = memory.answer(now.question.text, user_id=user_id)
            reaction = user.react(now, answer.text)
            right.append(reaction.right)
            if reaction.rating is not None:
                memory.feedback(answer.trace_id, reward=reaction.rating, user_id=user_id)
            waiting += [reaction.follow_up] if reaction.follow_up else []
    return right
