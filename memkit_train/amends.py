"""What should have been decided instead: of blamed decisions, another reply of the parent that mends the answer.
An option of every method (`method.amends`).

Imitation only knows what turned out well, and a habit that is nearly always wrong leaves next to nothing of that: of a
hundred retractions that were passed over, a dozen were heeded. So each blamed decision is taken again K times, as it
was: same bank, same turn, another sample. What stands for right is another reply

    that credit could not blame as it blames the logged one (trajectories/faults.py),
    after which the frozen answerer, asked the disliked answer's question, says something else,

and of several the one that was sampled most often. A decision after which the frozen answerer does not say the disliked
thing is acquitted: the answer went wrong later, or elsewhere. Nothing here knows what is true; thumbs, the log and the
runtime's own replay are all there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memkit.backbones.base import Backbone, GenReply
from memkit.models import JSON, MemoryRecord, Op, digest
from memkit.pipeline.bank import LiveBank
from memkit_train.collect import open_source, sides
from memkit_train.config import TrainConfig
from memkit_train.counterfactuals import deciding, environment
from memkit_train.replay.env import Env, Policy, State, Trail
from memkit_train.replay.forks import forks
from memkit_train.replay.script import scripts_of
from memkit_train.report.folder import Tick
from memkit_train.rewards import Answers, Probed
from memkit_train.rewards.answers import exact
from memkit_train.rows import TokenRow
from memkit_train.trajectories.credit import learn_topics
from memkit_train.trajectories.faults import Fault, faults
from memkit_train.trajectories.source import StoreSource
from memkit_train.trajectories.topics import Topics
from memkit_train.trajectories.values import AnswerEvent

USERS = 32
"""Whose blamed decisions are taken again together."""


@dataclass(frozen=True, slots=True)
class Case:
    """A blamed decision as it can be taken again."""

    fault: Fault
    state: State
    after: LiveBank
    """The bank that the logged decision led to."""


@dataclass(frozen=True, slots=True)
class Amend:
    case: Case
    reply: GenReply
    times: int
    """Of all samples."""


@dataclass(slots=True)
class Found:
    """What came of the blamed decisions."""

    amends: list[Amend]
    acquitted: int = 0
    blamed: int = 0


def amended(
    config: TrainConfig, parent: Path | None, *, most: int | None = None, tick: Tick | None = None,
    others: Backbone | None = None,
) -> tuple[list[TokenRow], JSON]:  # fmt: skip
    """Pairs of rows, the blamed reply and the one that mends it, and what was found. `most`: no further users once so
    many decisions were taken again. `others`: as in `counterfactuals.replayed`."""
    env, found = environment(config), Found([])
    if "manager" not in config.data.roles:
        return [], _told(found)
    with open_source(config) as source, deciding(config, parent, others, env) as (policy, answers):
        users = sides(source, config)[0]
        topics = learn_topics(source, users)
        for start in range(0, len(users), USERS):
            if most is not None and found.blamed >= most:
                break
            cases = list(blamed(source, users[start : start + USERS], topics, env))
            amend(env, cases, policy, answers, config.method.amends, found)
            if tick is not None:
                tick("amends", min(len(users), start + USERS), len(users), {})
    return [row for one in found.amends for row in pair(one)], _told(found)


def blamed(source: StoreSource, users: Sequence[str], topics: Topics, env: Env) -> Iterator[Case]:
    """Of decisions whose token ids are in the log: what a hosted model wrote has no twin among local samples."""
    for episode in source.episodes(users):
        known = {one.decision.decision_id: one for one in faults(episode, topics, env.embedder)}
        for script in scripts_of(episode) if known else ():
            states = env.logged(script)
            for at, scene in enumerate(script.scenes):
                here = [known[one] for one in scene.decision_ids if one in known]
                for fault in here:
                    if scene.ops and fault.decision.prompt_ids and fault.decision.token_ids:
                        yield Case(fault, states[at], states[at].live.after(scene.ops, env.embedder))


def amend(env: Env, cases: Sequence[Case], policy: Policy, answers: Answers, count: int, found: Found) -> None:
    """Each case's best reply goes to `found`."""
    found.blamed += len(cases)
    said = _say(answers, [(one.after, event) for one in cases for _, event in one.fault.blames])
    again = iter(said)
    standing: list[Case] = []
    for one in cases:
        kept = tuple(blame for blame in one.fault.blames if exact(next(again), blame[1].answer))
        if kept:
            standing.append(replace(one, fault=replace(one.fault, blames=kept)))
    found.acquitted += len(cases) - len(standing)
    sampled = [replace(policy, temperature=1.0, seed=number) for number in range(count)]
    trails = forks(env, [one.state for one in standing], sampled, frozenset(policy.roles))
    tries = [(one, *other) for one, members in zip(standing, trails, strict=True) for other in _others(one, members)]
    said = _say(answers, [(bank, event) for one, _, _, bank in tries for _, event in one.fault.blames])
    again = iter(said)
    best: dict[int, Amend] = {}
    for one, reply, times, _ in tries:
        answered = [exact(next(again), event.answer) for _, event in one.fault.blames]
        before = best.get(id(one))
        if not any(answered) and (before is None or times > before.times):
            best[id(one)] = Amend(one, reply, times)
    found.amends += best.values()


def _others(case: Case, trails: Sequence[Trail]) -> Iterator[tuple[GenReply, int, LiveBank]]:
    """Other replies to the very prompt that was blamed, that credit would not blame: how often each was sampled, and
    the bank that it leads to."""
    logged = case.fault.decision
    times: Counter[tuple[int, ...]] = Counter()
    first: dict[tuple[int, ...], tuple[GenReply, Trail, list[Op]]] = {}
    for trail in trails:
        for call in trail.calls:
            reply = call.reply
            if reply is not None and reply.token_ids and reply.prompt_ids == logged.prompt_ids:
                times[reply.token_ids] += 1
                ops = [op for op in trail.ops if op.decision_id == call.decision_id]
                first.setdefault(reply.token_ids, (reply, trail, ops))
    for ids, (reply, trail, ops) in first.items():
        bank: list[MemoryRecord] = list(trail.end.live.state)
        if ids != logged.token_ids and trail.steps[-1].error is None and case.fault.mended(ops, bank):
            yield reply, times[ids], trail.end.live


def _say(answers: Answers, asked: Sequence[tuple[LiveBank, AnswerEvent]]) -> list[str]:
    """The disliked answers' questions, asked again of other banks."""
    found = answers.ask([(Probed(event.question, "", event.at, key=event.trace_id), bank) for bank, event in asked])
    return [one.text for one in found]


def pair(one: Amend) -> list[TokenRow]:
    """The blamed reply as bad, the other as good: what `extremes` and `pairs` make of replayed alternatives."""
    decision, user = one.case.fault.decision, one.case.fault.reading.episode.subject
    assert decision.prompt_ids
    assert decision.token_ids
    assert one.reply.token_ids
    shared = TokenRow(
        decision.prompt_ids, decision.token_ids, one.case.fault.weight, decision.role, 0.0, decision.logprobs,
        digest([user, decision.decision_id]), vocabulary=str(one.reply.extra.get("vocabulary", "")), user=user,
        ref=decision.decision_id,
    )  # fmt: skip
    return [shared, replace(shared, completion_ids=one.reply.token_ids, logprobs=one.reply.logprobs, reward=1.0)]


def _told(found: Found) -> JSON:
    return {"blamed": found.blamed, "acquitted": found.acquitted, "amended": len(found.amends)}
