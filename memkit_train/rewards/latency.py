"""How long the one who waits for a decision waits, for information: no verdict reads a clock. Some scenes are sent
again, alone, the policies in turn.

Replies of a batch wait for each other, so in a batched trial their times tell who else was in it, not who is slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from memkit.seams.backbone import GenReply
from memkit_train.replay.env import Policy, Trail
from memkit_train.replay.generate import generate

SCENES = 48
ROUNDS = 3
"""Of each scene; the quickest counts, since what else the machine does only ever adds."""


def alone(
    policies: Sequence[Policy], users: Sequence[str], trails: Sequence[Sequence[Trail]]
) -> list[Mapping[str, list[float]]]:
    """Per policy: user → milliseconds of a scene from the middle of each of their talks. `trails`: per policy, in the
    order of the users."""
    tables: list[dict[str, list[float]]] = [{} for _ in policies]
    for number, talk in enumerate(range(min(len(users), SCENES))):
        played = [own[talk] for own in trails]
        if not all(trail.steps for trail in played):
            continue
        took: list[list[float]] = [[] for _ in policies]
        for again in range(ROUNDS + (number == 0)):  # the very first round warms up
            turn = range(len(policies)) if (number + again) % 2 else reversed(range(len(policies)))
            for at in turn:
                took[at].append(_scene(policies[at], played[at]))
        for table, times in zip(tables, took, strict=True):
            table.setdefault(users[talk], []).append(min(times[-ROUNDS:]))
    return list(tables)


def _scene(policy: Policy, trail: Trail) -> float:
    step = trail.steps[len(trail.steps) // 2]
    replies = [generate(policy.backbone, [call.request])[0] for call in step.calls]
    return sum(reply.latency_ms for reply in replies if isinstance(reply, GenReply))
