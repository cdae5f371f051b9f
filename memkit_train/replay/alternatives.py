"""Counterfactual groups from probes: at the state that decided a question, K other decisions, each played on to the
question and scored by the frozen answerer. The log has one decision per state; this is where comparisons come from.

    groups = alternatives(env, probed, policy, answers, count=8)
    pairs, rows = preferences(groups), graded(groups)

Nothing but the runtime's own decisions is compared: same bank, same turn, same question, another sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memkit.models import digest
from memkit_train.replay.env import Env, Policy, State, Trail
from memkit_train.rows import PreferencePair, TokenRow

if TYPE_CHECKING:
    from memkit.pipeline.decide import ModelCall
    from memkit_train.rewards.base import Mix, Probed


@dataclass(frozen=True, slots=True)
class Group:
    """Alternatives from one state, with what each was worth."""

    user: str
    state: State
    trails: tuple[Trail, ...]
    rewards: tuple[float, ...]

    @property
    def spread(self) -> float:
        return max(self.rewards) - min(self.rewards)


def alternatives(
    env: Env, asked: Sequence[tuple[str, State, Probed]], policy: Policy, reward: Mix, *, count: int = 8,
    temperature: float = 1.0,
) -> list[Group]:  # fmt: skip
    """For each (user, state, question): `count` samples of the policy at that scene, the rest of the way greedy. The
    first one is what the policy does of itself."""
    from memkit_train.rewards.base import Rollout

    def sampled(number: int) -> Policy:
        return replace(policy, temperature=temperature if number else 0.0, seed=number)

    firsts = env.run([(state, sampled(n)) for _, state, _ in asked for n in range(count)])
    greedy = replace(policy, temperature=0.0)
    walks = [
        (trail.end, greedy, _ahead(trail.end, probe))
        for trail, probe in zip(firsts, (probe for _, _, probe in asked for _ in range(count)), strict=True)
    ]
    onward = env.run_each(walks)
    whole = [
        Trail(first.start, (*first.steps, *rest.steps), rest.end)
        for first, rest in zip(firsts, onward, strict=True)
    ]
    rollouts = [
        Rollout(trail, (probe,), group=str(index))
        for index, (_, _, probe) in enumerate(asked) for trail in whole[index * count : (index + 1) * count]
    ]  # fmt: skip
    scored = [one.total for one in reward(rollouts)]
    return [
        Group(user, state, tuple(firsts[n * count : (n + 1) * count]), tuple(scored[n * count : (n + 1) * count]))
        for n, (user, state, _) in enumerate(asked)
    ]


def preferences(groups: Sequence[Group], *, margin: float = 0.2) -> list[PreferencePair]:
    """Best against worst of every group, for the first call in which they part."""
    out: list[PreferencePair] = []
    for group in groups:
        best, worst = (group.rewards.index(f(group.rewards)) for f in (max, min))
        if group.spread < margin:
            continue
        for good, bad in zip(group.trails[best].calls, group.trails[worst].calls, strict=False):
            ours, theirs = _ids(good), _ids(bad)
            if ours is None or theirs is None or ours[0] != theirs[0]:
                break
            if ours[1] != theirs[1]:
                out.append(
                    PreferencePair(ours[0], ours[1], theirs[1], role=good.role, margin=group.spread, user=group.user,
                                   ref=good.decision_id)
                )  # fmt: skip
                break
    return out


def graded(groups: Sequence[Group]) -> list[TokenRow]:
    """Every distinct completion of every group with its reward: for rejection SFT (take the best) and off-policy."""
    out: list[TokenRow] = []
    for group in groups:
        if group.spread == 0:
            continue
        seen: dict[tuple[tuple[int, ...], tuple[int, ...]], TokenRow] = {}
        for trail, reward in zip(group.trails, group.rewards, strict=True):
            for call in trail.calls:
                ids = _ids(call)
                if ids is not None:
                    logprobs = call.reply.logprobs if call.reply else None
                    key = digest([group.user, group.state.scene.intake_id, list(ids[0])])
                    seen.setdefault(ids, TokenRow(
                        *ids, role=call.role, reward=reward, logprobs=logprobs, state_key=key, user=group.user,
                        ref=call.decision_id,
                    ))  # fmt: skip
        out += seen.values()
    return out


def _ahead(state: State, probe: Probed) -> int:
    upto = len(state.script) if probe.after is None else probe.after
    return max(0, upto - state.at)


def _ids(call: ModelCall) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    reply = call.reply
    return (reply.prompt_ids, reply.token_ids) if reply and reply.prompt_ids and reply.token_ids else None
