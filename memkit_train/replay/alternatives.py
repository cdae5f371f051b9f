"""Counterfactual groups from probes: at the state that decided a question, K other decisions, each played on to the
question and scored by the frozen answerer. The log has one decision per state; this is where comparisons come from.

    groups = alternatives(env, asked, policy, reward, count=8)
    rows = graded(groups)

Nothing but the runtime's own decisions is compared: same bank, same turn, same question, another sample. Decisions that
came to the same operations have the same future, which is played once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from memkit.models import digest
from memkit_train.replay.env import Env, Policy, State, Trail
from memkit_train.rows import TokenRow

if TYPE_CHECKING:
    from memkit.engine.call import ModelCall
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
    futures: dict[tuple[int, object], int] = {}
    place = [futures.setdefault((n // count, _done(first)), n) for n, first in enumerate(firsts)]
    greedy = replace(policy, temperature=0.0)
    played = list(futures.values())
    onward = dict(zip(played, env.run_each([
        (firsts[n].end, greedy, _ahead(firsts[n].end, asked[n // count][2])) for n in played
    ]), strict=True))  # fmt: skip
    rollouts = [
        Rollout(Trail(firsts[n].start, (*firsts[n].steps, *onward[n].steps), onward[n].end), (asked[n // count][2],),
                group=str(n // count))
        for n in played
    ]  # fmt: skip
    worth = dict(zip(played, (one.total for one in reward(rollouts)), strict=True))
    return [
        Group(user, state, tuple(firsts[n * count : (n + 1) * count]),
              tuple(worth[place[m]] for m in range(n * count, (n + 1) * count)))
        for n, (user, state, _) in enumerate(asked)
    ]  # fmt: skip


def graded(groups: Sequence[Group]) -> list[TokenRow]:
    """Every distinct reply with the mean of what came of it, where replies to the same prompt fared differently."""
    out: list[TokenRow] = []
    for group in groups:
        prompts: dict[tuple[int, ...], dict[tuple[int, ...], list[tuple[float, ModelCall]]]] = {}
        for trail, reward in zip(group.trails, group.rewards, strict=True):
            for call in trail.calls:
                reply = call.reply
                if reply is not None and reply.prompt_ids and reply.token_ids:
                    replies = prompts.setdefault(reply.prompt_ids, {})
                    replies.setdefault(reply.token_ids, []).append((reward, call))
        for prompt, replies in prompts.items():
            means = [fmean(reward for reward, _ in found) for found in replies.values()]
            if max(means) > min(means):
                key = digest([group.user, group.state.scene.intake_id, list(prompt)])
                out += [_row(prompt, call, mean, key, group.user)
                        for mean, ((_, call), *_) in zip(means, replies.values(), strict=True)]  # fmt: skip
    return out


def _row(prompt: tuple[int, ...], call: ModelCall, reward: float, key: str, user: str) -> TokenRow:
    assert call.reply is not None
    assert call.reply.token_ids is not None
    return TokenRow(
        prompt, call.reply.token_ids, role=call.role, reward=reward, logprobs=call.reply.logprobs, state_key=key,
        vocabulary=str(call.reply.extra.get("vocabulary", "")), user=user, ref=call.decision_id,
    )  # fmt: skip


def _done(trail: Trail) -> tuple[object, ...]:
    """What decides how it goes on: the operations, and whether the turn was lost."""
    return tuple(
        (step.error is None, tuple((op.action, op.memory_id if op.before else "", op.text) for op in step.ops))
        for step in trail.steps
    )


def _ahead(state: State, probe: Probed) -> int:
    upto = len(state.script) if probe.after is None else probe.after
    return max(0, upto - state.at)
