"""States to decide from, in the banks that the policy of the moment makes.

States from a log or a teacher are not those that the policy meets once it has changed, and a policy that is only ever
asked about the mistakes of others learns nothing about its own. So every `refresh` batches some conversations are
played from the start, greedily (as the deployed policy decides), and every scene of theirs is a state: a snapshot is a
reference. Which conversations and which states depends on the seed and the number of the batch alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from memkit.engine.call import ModelCall
from memkit_train.replay.env import Env, Policy, State, Trail
from memkit_train.rewards.base import Probed
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk, Timed

SURE = 0.02
"""Weight of a state whose decision seems settled: the policy may be wrong about that."""


@dataclass(frozen=True, slots=True)
class Place:
    """A state, and what may be asked once its scene is decided."""

    talk: Talk
    state: State
    turning: tuple[Timed, ...]
    """Questions whose answer holds from this scene on: what was said here decides them."""
    standing: tuple[Timed, ...]
    """Questions whose answer held before and still holds: the decision can only spoil them."""
    likely: float
    """Probability of what the policy decided greedily: near 1, its samples will all be the same."""
    call: ModelCall | None
    """The one decision that these roles take here; None where they take several."""

    @property
    def key(self) -> str:
        return f"{self.talk.name}@{self.state.at}"

    def ask(
        self, count: int, rng: random.Random, *, rewritten: frozenset[str] = frozenset(), played: bool = False
    ) -> tuple[Probed, ...]:
        """Right after the scene; `played`: where it was asked. First, by turns, what this scene decides and what rests
        on the `rewritten` (turns behind the memories that some decision here changes or removes): of all that was right
        before, only that can be spoilt, and a few questions drawn from everything would nearly always miss it."""
        turning = rng.sample(self.turning, len(self.turning))
        standing = rng.sample(self.standing, len(self.standing))
        risked = [one for one in standing if not rewritten.isdisjoint(one.probe.source_turns)]
        first = [one for pair in zip_longest(turning, risked) for one in pair if one is not None]
        chosen = list({id(one): one for one in [*first, *standing]}.values())[:count]
        return tuple(one.probe if played else one.put(self.state.at + 1, self.talk.script) for one in chosen)


class Pool:
    """`single`: only states in which one decision is taken."""

    def __init__(
        self, env: Env, talks: Sequence[Talk], settings: OnlineSettings, seed: int, *, single: bool = False
    ) -> None:
        self._single = single
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
        every = [place for talk, trail in self.played for place in places(talk, trail, policy.roles)]
        found = [place for place in every if place.call is not None or not self._single]
        self._turning = [one for one in found if one.turning]
        self._standing = [one for one in found if not one.turning and one.standing]

    def draw(self, batch: int, count: int) -> list[Place]:
        rng = random.Random(f"{self._seed}/places/{batch}")
        guards = min(round(count * self._settings.guard_share), len(self._standing))
        group = self._settings.group
        return draw_undecided(self._turning, count - guards, group, rng) + draw_undecided(
            self._standing, guards, group, rng
        )


def draw_undecided(places: Sequence[Place], count: int, group: int, rng: random.Random) -> list[Place]:
    """Drawn without replacement. A group whose members are all the same teaches nothing, so a state comes up as likely
    as the members of its group differ."""
    drawn = [(math.log(1 - rng.random()) / max(1 - place.likely**group, SURE), at) for at, place in enumerate(places)]
    return [places[at] for _, at in sorted(drawn, reverse=True)[:count]]


def places(talk: Talk, trail: Trail, roles: Sequence[str]) -> list[Place]:
    """The states of a played conversation in which one of these roles had something to decide."""
    found: list[Place] = []
    for at, step in enumerate(trail.steps):
        calls = [call for call in step.calls if call.role in roles]
        if not calls:
            continue
        asked = [one for one in talk.questions if one.holds(at + 1)]
        found.append(
            Place(
                talk,
                State(talk.script, at, step.before),
                tuple(one for one in asked if one.since == at + 1),
                tuple(one for one in asked if one.since <= at),
                _likely(calls),
                calls[0] if len(calls) == 1 else None,
            )
        )
    return found


def _likely(calls: Sequence[ModelCall]) -> float:
    """Of all of them together; 0 where the backbone does not tell."""
    replies = [call.reply for call in calls]
    told = [reply.logprobs for reply in replies if reply is not None and reply.logprobs is not None]
    return math.exp(sum(map(sum, told))) if len(told) == len(replies) else 0.0
