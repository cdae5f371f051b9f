"""The environment: enter any state of a log or a world, decide again with another policy, and go on from there.

    env = Env(embedder, served)
    states = env.logged(script)                      the bank as it was before every scene
    trails = env.run([(states[3], policy), …])       one decision each, generated together
    trails = env.run([(states[0], policy)], upto=None)   … or to the end of the script

Nothing is re-implemented: every decision is the runtime's own generator (memkit.engine.decide), and many of them run
in step, so that one `generate` serves a step of all. A bank is a value: a snapshot is a reference, forking costs
nothing, and every step of a trail keeps the bank before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from memkit.backbones.routed import RoutedBackbone
from memkit.embedders.cached import CachedEmbedder
from memkit.engine.bank import LiveBank
from memkit.engine.call import ModelCall, Routing
from memkit.engine.decide import Task, decide
from memkit.engine.drive import Steps, drive_in_step
from memkit.engine.served_with import ServedWith
from memkit.errors import Conflict, MemkitError, NotFound, OpRejected
from memkit.models import Op
from memkit.ops import BankState, Context, resolve
from memkit.retrieval import RankerWeights, embed_text
from memkit.seams.backbone import Backbone, Sampling
from memkit.seams.embedder import Embedder
from memkit_train.replay.generate import generate
from memkit_train.replay.script import Scene, Script

ROLES = ("extractor", "manager", "fused")


@dataclass(frozen=True, slots=True)
class Policy:
    """Who decides. Alternatives from one state differ in `seed` alone: the noise of a sample is keyed by it."""

    backbone: Backbone
    adapter: str | None = None
    """A name that the backbone has loaded; None is its base model."""
    temperature: float = 0.0
    seed: int = 0
    roles: tuple[str, ...] = ROLES
    """Roles that the adapter answers in; the base model answers in the others."""
    name: str = ""
    sampled: tuple[str, ...] | None = None
    """Roles that `temperature` is for; the others are greedy. None: the adapter's."""

    @property
    def answers(self) -> bool:
        """Whether the adapter answers questions, too."""
        return "answerer" in self.roles

    def routing(self) -> dict[str, Routing]:
        return {role: Routing(self.adapter if role in self.roles else None) for role in ROLES}

    def sampling(self, decision_id: str, role: str) -> Sampling:
        """Who is not asked about is greedy: alternatives to a decision begin with the same facts."""
        sampled = self.roles if self.sampled is None else self.sampled
        return Sampling(temperature=self.temperature, seed=self.seed) if role in sampled else Sampling()


def beside(trained: Backbone, others: Backbone | None, roles: Sequence[str]) -> Backbone:
    """`trained` in these roles and `others` (None: the same) in the rest."""
    return trained if others is None else RoutedBackbone(dict.fromkeys(roles, trained), others)


@dataclass(frozen=True, slots=True)
class State:
    """A bank right before a scene of its script. Holding one costs a reference."""

    script: Script
    at: int
    live: LiveBank

    @property
    def scene(self) -> Scene:
        return self.script.scenes[self.at]

    @property
    def over(self) -> bool:
        return self.at >= len(self.script)


@dataclass(frozen=True, slots=True)
class Step:
    """One scene as a policy decided it."""

    scene: Scene
    before: LiveBank
    calls: tuple[ModelCall, ...]
    ops: tuple[Op, ...]
    after: LiveBank
    error: MemkitError | None = None
    """The turn would have been parked with it; nothing was applied."""


@dataclass(frozen=True, slots=True)
class Trail:
    start: State
    steps: tuple[Step, ...]
    end: State

    @property
    def ops(self) -> list[Op]:
        return [op for step in self.steps for op in step.ops]

    @property
    def calls(self) -> list[ModelCall]:
        return [call for step in self.steps for call in step.calls]

    @property
    def parked(self) -> list[Step]:
        return [step for step in self.steps if step.error is not None]

    @property
    def sessions(self) -> dict[str, LiveBank]:
        """Session → the bank after its last scene."""
        return {step.scene.session_id: step.after for step in self.steps}

    def as_of(self, at: datetime, embedder: Embedder, *, until: int | None = None) -> LiveBank:
        """The bank as it stood at a conversation time, of the ops up to sequence number `until`."""
        state = BankState().fold([op for op in self.ops if op.at <= at and (until is None or op.seq <= until)])
        return LiveBank.of(list(state), embedder, state.seq)


@dataclass(slots=True)
class Env:
    """What stays the same: the embedder, what the store is served with, the ranker."""

    embedder: Embedder
    served: ServedWith = field(default_factory=ServedWith)
    weights: RankerWeights | None = None

    def __post_init__(self) -> None:
        if not self.embedder.cheap and not isinstance(self.embedder, CachedEmbedder):
            self.embedder = CachedEmbedder(self.embedder)

    # -- states --------------------------------------------------------------------------------------------------

    def start(self, script: Script) -> State:
        """Before the first scene, with what others had put into the bank by then."""
        live = LiveBank.empty(self.embedder)
        return State(script, 0, self._given(live, script, 0))

    def list_states(self, script: Script) -> list[State]:
        """The bank as the log had it, before every scene and at the end: one pass, each state a reference."""
        texts = [embed_text(op.after) for op in script.ops if op.after is not None]
        if texts and not self.embedder.cheap:
            self.embedder.embed(texts)  # one batch; the steps below find them cached
        live = LiveBank.empty(self.embedder)
        states: list[State] = []
        for index, scene in enumerate(script.scenes):
            live = live.after(scene.given, self.embedder)
            states.append(State(script, index, live))
            live = live.after(scene.ops, self.embedder)
        return [*states, State(script, len(script), live.after(script.given, self.embedder))]

    # -- deciding ------------------------------------------------------------------------------------------------

    def run(
        self,
        starts: Iterable[tuple[State, Policy]],
        *,
        upto: int | None = 1,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Trail]:
        """Decide the next `upto` scenes (None: all that are left) from every state, all in step."""
        pairs = list(starts)
        total = sum(len(_ahead(state, upto)) for state, _ in pairs)
        walks = [(policy.backbone, self.walk(state, policy, upto=upto)) for state, policy in pairs]
        told = None if progress is None else lambda share: progress(round(share * total), total)
        return drive_in_step(walks, generate, told)

    def run_each(self, starts: Iterable[tuple[State, Policy, int]]) -> list[Trail]:
        """`run` with a number of scenes for each."""
        walks = [(policy.backbone, self.walk(state, policy, upto=upto)) for state, policy, upto in starts]
        return drive_in_step(walks, generate)

    def walk(self, state: State, policy: Policy, *, upto: int | None = 1) -> Steps[Trail]:
        """`run` as a generator: for callers that drive several kinds of walks together."""
        start, steps = state, list[Step]()
        for index in _ahead(state, upto):
            step = yield from self._decide(state, policy)
            steps.append(step)
            state = State(state.script, index + 1, self._given(step.after, state.script, index + 1))
        return Trail(start, tuple(steps), state)

    def _decide(self, state: State, policy: Policy) -> Steps[Step]:
        scene, live = state.scene, state.live
        names = iter(scene.decision_ids)
        number = iter(range(1 << 30))
        task = Task(
            bank=state.script.bank,
            turns=scene.turns,
            context_turns=scene.context_turns,
            live=live,
            now=scene.now,
            new_id=lambda: next(names, None) or f"d_{scene.intake_id}_{next(number)}",
            routing=policy.routing(),
            sampling=policy.sampling,
            weights=self.weights,
            expires_at=scene.expires_at,
            was_kept=lambda turn: turn.turn_id in scene.kept,
            edition=scene.edition,
        )
        decided = yield from decide(task, self.served.to(policy.backbone), self.embedder)
        calls = tuple(decided.calls)
        if decided.error is not None:
            return Step(scene, live, calls, (), live, decided.error)
        at = max(turn.at for turn in scene.turns)
        context = Context(task.bank, f"d_{scene.intake_id}", live.seq + 1, scene.now, at, edition=scene.edition)
        try:
            ops = resolve(live.state, decided.drafts, context)
        except (Conflict, NotFound, OpRejected) as error:
            return Step(scene, live, calls, (), live, error)
        return Step(scene, live, calls, tuple(ops), live.after(ops, self.embedder))

    def _given(self, live: LiveBank, script: Script, index: int) -> LiveBank:
        """What others did before this scene, as far as it still applies: a bank that took another path may not hold
        what they changed, or may hold what they added."""
        given = script.scenes[index].given if index < len(script) else script.given
        for op in given:
            target = None if op.memory_id is None else live.state.get(op.memory_id)
            known = op.after is not None and live.state.find(op.after.content_hash) not in (None, op.memory_id)
            if op.memory_id is None or known or (op.before is not None and target is None):
                continue
            seq = max(live.seq + 1, op.seq)
            after = op.after and replace(op.after, seq=seq if op.after.seq == op.seq else op.after.seq)
            live = live.after([replace(op, seq=seq, before=target, after=after)], self.embedder)
        return live


def _ahead(state: State, upto: int | None) -> range:
    left = len(state.script) - state.at
    return range(state.at, state.at + (left if upto is None else min(upto, left)))
