"""G decisions from one state, each sampled by itself, and no work done twice.

A small policy says the same thing again and again. So the state's prompt is made once, the other replies are sampled
for that very prompt, and only different ones are parsed and applied. Scenes with several trained decisions (two facts
in a turn, or the extractor learning too) are decided as a whole G times, because later prompts hang on earlier replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memkit.engine.call import ModelCall
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Replies
from memkit_train.replay.delegating import DelegatingBackbone
from memkit_train.replay.env import Env, Policy, State, Trail
from memkit_train.replay.generate import generate

Decision = tuple[int, ...] | int
"""The sampled ids; or the policy's number, where a scene is decided as a whole."""


def forks(env: Env, states: Sequence[State], policies: Sequence[Policy], sampled: frozenset[str]) -> list[list[Trail]]:
    """One scene from every state by every policy; the policies differ in their seed alone. Equal decisions are one and
    the same `Trail`."""
    first, *rest = policies
    begun = env.run([(state, first) for state in states])
    single = [_only(trail, sampled) for trail in begun]
    asked = [
        (at, number, replace(call.request, sampling=replace(call.request.sampling, seed=policy.seed)))
        for at, call in enumerate(single)
        if call is not None
        for number, policy in enumerate(rest, 1)
    ]
    replies = generate(first.backbone, [request for _, _, request in asked])
    drawn = {(at, number): reply for (at, number, _), reply in zip(asked, replies, strict=True)}
    plan: list[list[Decision]] = []
    ahead: dict[tuple[int, Decision], tuple[State, Policy]] = {}
    for at, call in enumerate(single):
        plan.append([0 if call is None else _ids(call.reply)])
        for number, policy in enumerate(rest, 1):
            reply = drawn.get((at, number))
            told = isinstance(reply, GenReply)
            decision = _ids(reply) if told else number
            plan[at].append(decision)
            if decision != plan[at][0]:
                by = replace(policy, backbone=DrawnReply(policy.backbone, reply, sampled)) if told else policy
                ahead.setdefault((at, decision), (states[at], by))
    trails = dict(zip(ahead, env.run(ahead.values()), strict=True))
    trails |= {(at, plan[at][0]): trail for at, trail in enumerate(begun)}
    return [[trails[at, decision] for decision in decisions] for at, decisions in enumerate(plan)]


def _only(trail: Trail, sampled: frozenset[str]) -> ModelCall | None:
    """The one trained decision of the scene, where its first reply counted."""
    calls = [call for call in trail.calls if call.role in sampled]
    return calls[0] if len(calls) == 1 and len(calls[0].attempts) == 1 and calls[0].reply is not None else None


def _ids(reply: GenReply | None) -> tuple[int, ...]:
    return (reply and reply.token_ids) or ()


class DrawnReply(DelegatingBackbone):
    """Says the reply that was drawn beforehand; everything else goes on to the backbone."""

    def __init__(self, inner: Backbone, reply: GenReply, sampled: frozenset[str]) -> None:
        super().__init__(inner)
        self._reply, self._sampled = reply, sampled
        self._said = False

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        out: Replies = []
        for request in requests:
            if not self._said and request.prompt.role in self._sampled:
                self._said = True
                out.append(self._reply)
            else:
                out += self.inner.generate([request])
        return out

    def close(self) -> None:
        """Nothing of its own."""
