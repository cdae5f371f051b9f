"""From played scenes to the steps that algorithms take, and from their rows to the least work for the same gradient."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from memkit.seams.backbone import GenReply
from memkit_train.replay.env import Trail
from memkit_train.rl.algorithms.values import ScoredStep
from memkit_train.rows import Row


@dataclass(frozen=True, slots=True)
class Batch:
    """What one round of sampling gave."""

    rows: Sequence[Row]
    metrics: dict[str, float]
    trails: Sequence[Trail] = field(default_factory=list[Trail])
    """What was decided, for signs of collapse."""
    replies: Sequence[GenReply] = field(default_factory=list[GenReply])


def steps_of(trail: Trail, roles: Collection[str], sessions: dict[str, int] | None = None) -> tuple[ScoredStep, ...]:
    """The first reply to each prompt of these roles, refused ones included. What answers a re-ask is left out: its
    prompt quotes what was refused, so no other reply is its peer."""
    found: list[ScoredStep] = []
    for step in trail.steps:
        session = (sessions or {}).get(step.scene.session_id, 0)
        for call in step.calls:
            if call.role not in roles or not call.attempts:
                continue
            first = call.attempts[0]
            reply = first.reply
            if reply is not None and reply.prompt_ids and reply.token_ids:
                ids, refused = (reply.prompt_ids, reply.token_ids), first.error is not None
                found.append(ScoredStep(*ids, reply.logprobs, call.role, session, refused=refused))
    return tuple(found)


def replies_of(trails: Sequence[Trail], roles: Collection[str]) -> list[GenReply]:
    return [
        attempt.reply
        for trail in trails
        for call in trail.calls
        if call.role in roles
        for attempt in call.attempts
        if attempt.reply is not None
    ]


def merge_equal(rows: Sequence[Row]) -> list[Row]:
    """Equal rows as one of their weights' sum: the same gradient. In a group of a small policy most rows are equal."""
    found: dict[tuple[object, ...], Row] = {}
    for row in rows:
        key = (row.prompt_ids, row.completion_ids, row.behaviour_logprobs, row.advantage, row.group, row.role, row.ret)
        known = found.get(key)
        found[key] = row if known is None else replace(known, weight=known.weight + row.weight)
    return list(found.values())
