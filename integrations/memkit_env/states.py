"""A state's prompt and questions; a reply → what it earns.

    states = States.load(StateSettings(world="closed,count=8,seed=1"))
    asked = states["closed-train-1-0@3"]
    asked.system, asked.user                    what the runtime would show there
    states.score(asked.key, "UPDATE 1").total   what memkit's own engine gives for this reply

A reply is read by the runtime's parser, checked, and applied to the bank of that moment; the frozen answerer answers
from what retrieval serves of the changed bank. Every reply to a state is asked the same questions, so that those of a
group can be compared although each is scored by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from memkit.errors import MemkitError
from memkit.models import Op
from memkit.roles import Prompt
from memkit.seams.backbone import Backbone, GenReply
from memkit_env.settings import StateSettings
from memkit_env.sources import SaidReply, open_states
from memkit_train.errors import NoRows
from memkit_train.lab.worlds import OracleBackbone
from memkit_train.replay.env import Env, Policy, State, Trail, beside
from memkit_train.rewards import Answers
from memkit_train.rewards.base import Probed
from memkit_train.rewards.trial import describe_op
from memkit_train.rl.algorithms.values import ScoredStep, share_earned
from memkit_train.rl.pool import Place, places
from memkit_train.rl.scoring import Scoring
from memkit_train.rl.talks import Talk

_LOADING, _LOADED = Lock(), dict[str, "States"]()
_NOTHING = {"manager": "NOOP", "fused": "NOOP", "extractor": "NONE"}


@dataclass(frozen=True, slots=True)
class AskedState:
    key: str
    """Opaque subject, and the number of the scene."""
    place: Place
    prompt: Prompt
    questions: tuple[Probed, ...]

    @property
    def system(self) -> str:
        return "\n\n".join(one.content for one in self.prompt.messages if one.role == "system")

    @property
    def user(self) -> str:
        return "\n\n".join(one.content for one in self.prompt.messages if one.role != "system")


@dataclass(frozen=True, slots=True)
class ReplyScore:
    total: float
    parts: Mapping[str, float]
    """By name, unweighted, and how many operations of each kind were applied."""
    refused: MemkitError | None
    """Why it could not be used. What was applied is nothing."""
    ops: tuple[Op, ...]

    @property
    def told(self) -> list[str]:
        return [describe_op(op.action, op.before, op.after) for op in self.ops]


class States(Mapping[str, AskedState]):
    def __init__(
        self,
        settings: StateSettings,
        env: Env,
        asked: Sequence[AskedState],
        others: Backbone,
        scoring: Scoring,
        oracle: OracleBackbone | None = None,
    ) -> None:
        self.role, self.env, self.others, self.scoring, self._oracle = settings.role, env, others, scoring, oracle
        self._asked = {one.key: one for one in asked}

    @classmethod
    def load(cls, settings: StateSettings) -> States:
        source = open_states(settings)
        env, role = source.env, settings.role
        silent = Policy(beside(SaidReply(GenReply(_NOTHING[role])), source.others, (role,)), roles=(role,))
        looked = iter(env.run([(state, silent) for _, states in source.talks for state in states]))
        found: list[Place] = []
        for talk, states in source.talks:
            found += _places(talk, states, [next(looked) for _ in states], role)
        asked = [_ask(place, settings) for place in _choose(found, settings)]
        if not asked:
            raise NoRows(
                f"no state of {settings.log or settings.spoken or 'this world'} can be asked about ({settings.split})",
                why=f"no question holds right after a scene in which the {role} decides once",
                fix="use conversations with more questions, or of more users",
            )
        scoring = Scoring.by(Answers(source.answerer, env.embedder, env.served), settings.reward_settings)
        return cls(settings, env, asked, source.others, scoring, source.oracle)

    def __getitem__(self, key: str) -> AskedState:
        return self._asked[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._asked)

    def __len__(self) -> int:
        return len(self._asked)

    def score(self, key: str, reply: str, *, cut: bool = False) -> ReplyScore:
        """`cut`: it ended at its length limit."""
        asked = self._asked[key]
        said = SaidReply(GenReply(reply, finish="length" if cut else "stop"))
        policy = Policy(beside(said, self.others, (self.role,)), roles=(self.role,))
        (trail,) = self.env.run([(asked.place.state, policy)])
        (scored,) = self.scoring.score(self.env, policy, [(trail, asked.questions)])
        (call,) = (one for one in trail.calls if one.role == self.role)
        refused = call.attempts[0].error
        earned = share_earned(scored.total, [ScoredStep((), (), role=self.role, refused=refused is not None)])
        return ReplyScore(earned, {**scored.parts, **_count(trail)}, refused, tuple(trail.ops))

    def score_nothing(self, key: str) -> ReplyScore:
        return self.score(key, _NOTHING[self.role])

    def close(self) -> None:
        """Lets go of the models that answer over a network."""
        for backbone in (self.others, self.scoring.answers.backbone):
            backbone.close()

    def write_right_reply(self, key: str) -> str | None:
        """What the world's oracle says there; None where nobody knows."""
        call = self._asked[key].place.call
        if self._oracle is None or call is None or self.role == "fused":
            return None
        return self._oracle.reply(call.request)


def load_states(settings: StateSettings) -> States:
    """Once in a process, however many ask at the same time."""
    named = settings.model_dump_json(include=set(StateSettings.model_fields))
    with _LOADING:
        if named not in _LOADED:
            _LOADED[named] = States.load(settings)
        return _LOADED[named]


def _places(talk: Talk, states: Sequence[State], looked: Sequence[Trail], role: str) -> list[Place]:
    steps = tuple(trail.steps[0] for trail in looked)
    return [one for one in places(talk, Trail(states[0], steps, looked[-1].end), (role,)) if one.call] if states else []


def _choose(found: Sequence[Place], settings: StateSettings) -> list[Place]:
    """All in which something turns on the decision, and guards, in their order."""
    turning = [one for one in found if one.turning]
    guards = [one for one in found if not one.turning and one.standing]
    count = round(len(turning) * settings.guard_share / (1 - settings.guard_share))
    drawn = random.Random(f"{settings.seed}/guards").sample(guards, min(count, len(guards)))
    chosen = {id(one) for one in (*turning, *drawn)}
    return [one for one in found if id(one) in chosen]


def _ask(place: Place, settings: StateSettings) -> AskedState:
    """What a reply can spoil is what rests on the memories that it is shown."""
    assert place.call is not None
    shown = frozenset(turn for one in place.call.candidates for turn in one.record.source_turns)
    questions = place.ask(settings.questions, random.Random(f"{settings.seed}/{place.key}"), rewritten=shown)
    return AskedState(place.key, place, place.call.prompt, questions)


def _count(trail: Trail) -> dict[str, float]:
    return {action: float(sum(op.action == action for op in trail.ops)) for action in ("add", "update", "delete")}
