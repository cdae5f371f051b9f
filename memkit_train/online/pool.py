"""States to decide from, in the banks that the policy of the moment makes.

States from a log or a teacher are not those that the policy meets once it has changed, and a policy that is only ever
asked about the mistakes of others learns nothing about its own. So every `refresh` batches some conversations are
played from the start, greedily (as the deployed policy decides), and every scene of theirs is a state: a snapshot is a
reference. Which conversations and which states depends on the seed and the number of the batch alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memkit_train.online.settings import OnlineSettings
from memkit_train.online.talks import Talk, Timed
from memkit_train.replay.env import Env, Policy, State, Trail
from memkit_train.rewards.base import Probed


@dataclass(frozen=True, slots=True)
class Place:
    """A state, and what may be asked once its scene is decided."""

    talk: Talk
    state: State
    turning: tuple[Timed, ...]
    """Questions whose answer holds from this scene on: what was said here decides them."""
    standing: tuple[Timed, ...]
    """Questions whose answer held before and still holds: the decision can only spoil them."""

    @property
    def key(self) -> str:
        return f"{self.talk.user}@{self.state.at}"

    def ask(self, count: int, rng: random.Random, *, played: bool = False) -> tuple[Probed, ...]:
        """Right after the scene; `played`: where it was asked."""
        chosen = rng.sample(self.turning, min(count, len(self.turning)))
        rest = min(count - len(chosen), len(self.standing))
        chosen += rng.sample(self.standing, rest)
        return tuple(one.probe if played else one.put(self.state.at + 1, self.talk.script) for one in chosen)


class Pool:
    def __init__(self, env: Env, talks: Sequence[Talk], settings: OnlineSettings, seed: int) -> None:
        self._env, self._talks, self._settings, self._seed = env, talks, settings, seed
        self._turning: list[Place] = []
        self._standing: list[Place] = []
        self.played: list[tuple[Talk, Trail]] = []
        """The conversations behind the states."""

    def due(self, batch: int) -> bool:
        return batch % self._settings.refresh == 0 or not self.played

    def play(self, batch: int, policy: Policy) -> None:
        rng = random.Random(f"{self._seed}/talks/{batch}")
        talks = rng.sample(self._talks, min(self._settings.talks, len(self._talks)))
        greedy = replace(policy, temperature=0.0)
        trails = self._env.run([(self._env.start(talk.script), greedy) for talk in talks], upto=None)
        self.played = list(zip(talks, trails, strict=True))
        found = [place for talk, trail in self.played for place in places(talk, trail, policy.roles)]
        self._turning = [one for one in found if one.turning]
        self._standing = [one for one in found if not one.turning and one.standing]

    def draw(self, batch: int, count: int) -> list[Place]:
        rng = random.Random(f"{self._seed}/places/{batch}")
        guards = min(round(count * self._settings.guard_share), len(self._standing))
        turning = rng.sample(self._turning, min(count - guards, len(self._turning)))
        return turning + rng.sample(self._standing, guards)


def places(talk: Talk, trail: Trail, roles: Sequence[str]) -> list[Place]:
    """The states of a played conversation in which one of these roles had something to decide."""
    found: list[Place] = []
    for at, step in enumerate(trail.steps):
        if not any(call.role in roles for call in step.calls):
            continue
        asked = [one for one in talk.questions if one.holds(at + 1)]
        found.append(
            Place(
                talk, State(talk.script, at, step.before),
                tuple(one for one in asked if one.since == at + 1), tuple(one for one in asked if one.since <= at),
            )
        )  # fmt: skip
    return found
