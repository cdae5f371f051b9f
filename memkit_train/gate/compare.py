"""What would this adapter have decided here? Logged states are entered again and both policies asked, in step; what
they say differently is shown side by side with what was done then."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from memkit.models import JSON
from memkit_train.log.source import TrajectorySource
from memkit_train.replay.env import Env, Policy, State, Step, Trail
from memkit_train.replay.script import scripts_of
from memkit_train.rewards.trial import describe_op


@dataclass(frozen=True, slots=True)
class SideDecision:
    """What one side did at one state."""

    ops: tuple[str, ...]
    replies: tuple[tuple[str, str], ...]
    """(role, reply) of every call."""
    error: str = ""

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        return self.ops, self.error


@dataclass(frozen=True, slots=True)
class StatePair:
    intake_id: str
    user: str
    """Opaque subject id."""
    said: tuple[str, ...]
    shown: tuple[str, ...]
    """Memories that any of the calls was shown."""
    logged: tuple[str, ...]
    a: SideDecision
    b: SideDecision

    @property
    def same(self) -> bool:
        return self.a.key == self.b.key


@dataclass(frozen=True, slots=True)
class Comparison:
    names: tuple[str, str]
    cases: tuple[StatePair, ...]

    @property
    def different(self) -> tuple[StatePair, ...]:
        return tuple(one for one in self.cases if not one.same)

    @property
    def agreement(self) -> float:
        return 1 - len(self.different) / len(self.cases) if self.cases else 1.0

    def as_logged(self, side: str) -> float:
        """Share of the states at which a side does what was done then."""
        hits = sum((one.a if side == "a" else one.b).ops == one.logged for one in self.cases)
        return hits / len(self.cases) if self.cases else 1.0

    def to_json(self) -> JSON:
        return {
            "a": self.names[0],
            "b": self.names[1],
            "states": len(self.cases),
            "agreement": round(self.agreement, 4),
            "a_as_logged": round(self.as_logged("a"), 4),
            "b_as_logged": round(self.as_logged("b"), 4),
            "different": [asdict(one) for one in self.different],
        }


def states_of(
    source: TrajectorySource, env: Env, *, users: Sequence[str] | None = None, limit: int | None = None, seed: int = 0
) -> list[tuple[str, State]]:
    """Logged states with their subjects: all, or a sample of `limit` that depends on the seed alone."""
    found = [
        (episode.subject, state)
        for episode in source.trajectories(users)
        for script in scripts_of(episode)
        for state in env.list_states(script)
        if not state.over
    ]
    if limit is not None and len(found) > limit:
        chosen = sorted(random.Random(seed).sample(range(len(found)), limit))
        found = [found[index] for index in chosen]
    return found


def compare(
    states: Sequence[tuple[str, State]],
    a: Policy,
    b: Policy,
    env: Env,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """One scene per state and side, all generated together."""
    trails = env.run([(state, policy) for policy in (a, b) for _, state in states], progress=progress)
    half = len(states)
    cases = [
        _case(user, ours, theirs) for (user, _), ours, theirs in zip(states, trails[:half], trails[half:], strict=True)
    ]
    return Comparison((a.name or "a", b.name or "b"), tuple(cases))


def _case(user: str, ours: Trail, theirs: Trail) -> StatePair:
    step, other = ours.steps[0], theirs.steps[0]
    shown = {one.record.id: one.record.text for call in (*step.calls, *other.calls) for one in call.candidates}
    return StatePair(
        step.scene.intake_id,
        user,
        tuple(f"{turn.speaker or turn.role}: {turn.text}" for turn in step.scene.turns),
        tuple(shown.values()),
        tuple(describe_op(op.action, op.before, op.after) for op in step.scene.ops),
        _decided(step),
        _decided(other),
    )


def _decided(step: Step) -> SideDecision:
    return SideDecision(
        tuple(describe_op(op.action, op.before, op.after) for op in step.ops),
        tuple((call.role, call.reply.text if call.reply else "") for call in step.calls),
        f"{type(step.error).__name__}: {step.error.what}" if step.error else "",
    )


def diff(found: Comparison, *, limit: int = 20) -> list[str]:
    """Plain lines: what was said, what was shown, then - for the first side and + for the second."""
    a, b = found.names
    lines = [
        f"{len(found.cases)} states: {found.agreement:.1%} decided alike; as logged: {a} {found.as_logged('a'):.1%}, "
        f"{b} {found.as_logged('b'):.1%}"
    ]
    for one in found.different[:limit]:
        lines += ["", f"@ {one.intake_id} of {one.user[:12]}"]
        lines += [f"  {line}" for line in one.said]
        lines += [f"    shown  {text}" for text in one.shown]
        lines += [f"    logged {text}" for text in one.logged or ("nothing",)]
        lines += _side("-", a, one.a) + _side("+", b, one.b)
    if len(found.different) > limit:
        lines += ["", f"… and {len(found.different) - limit} more"]
    return lines


def _side(mark: str, name: str, side: SideDecision) -> list[str]:
    done = [side.error] if side.error else list(side.ops) or ["nothing"]
    return [f"  {mark} {name}: {line}" for line in done]
