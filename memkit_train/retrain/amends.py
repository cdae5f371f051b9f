"""What should have been decided instead: of blamed decisions, another reply of the parent that mends the answer.
An option of imitation (`method.amends`).

Imitation only knows what turned out well, and a habit that is nearly always wrong leaves next to nothing of that. So
each blamed decision is taken again K times, as it was: same bank, same turn, another sample. What stands for right is
another reply

    that credit could not blame as it blames the logged one (credit/blame.py),
    after which the frozen answerer, asked the disliked answer's question, says something else,

and of several the one that was sampled most often. A decision after which the frozen answerer does not say the disliked
thing is acquitted: the answer went wrong later, or elsewhere. Nothing here knows what is true; thumbs, the log and the
runtime's own replay are all there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from memkit.embedders import make_embedder
from memkit.engine.bank import LiveBank
from memkit.models import JSON, Op, micros
from memkit.seams.backbone import Backbone, GenReply
from memkit_train.credit.assign import learn_topics
from memkit_train.credit.blame import Fault, faults
from memkit_train.credit.topics import Topics
from memkit_train.files.run_folder import Tick
from memkit_train.log.records import AnswerEvent
from memkit_train.log.source import StoreSource
from memkit_train.replay.env import Env, Policy, State, Trail, beside
from memkit_train.replay.forks import forks
from memkit_train.replay.script import scripts_of
from memkit_train.replay.served_with import served_with
from memkit_train.retrain.collect import open_source, sides
from memkit_train.retrain.config import TrainConfig
from memkit_train.rewards import Answers, CachedBackbone, Probed
from memkit_train.rewards.answers import exact
from memkit_train.rows import TokenRow

ROLE = ("manager",)
USERS = 32
"""Whose blamed decisions are taken again together."""


@dataclass(frozen=True, slots=True)
class BlamedDecision:
    """A blamed decision as it can be taken again."""

    fault: Fault
    state: State
    after: LiveBank
    """The bank that the logged decision led to."""

    def as_logged(self, decision_id: str, reply: GenReply | None) -> bool:
        known = self.fault.reading.by_id.get(decision_id)
        return known is not None and reply is not None and reply.token_ids == known.token_ids


@dataclass(frozen=True, slots=True)
class Amend:
    case: BlamedDecision
    reply: GenReply
    times: int
    """Of all samples."""


def find_amends(
    config: TrainConfig,
    parent: Path | None,
    *,
    users: Collection[str] | None = None,
    most: int | None = None,
    tick: Tick | None = None,
    others: Backbone | None = None,
) -> tuple[list[TokenRow], JSON]:
    """Rows that mend what was blamed, and what was found. `users`: opaque ids of those whom the run learns from; None:
    the log's side to learn from. `most`: decisions at most. `others` answers in the roles that are not trained; None:
    the base does."""
    rows, found = list[TokenRow](), {"blamed": 0, "acquitted": 0, "amended": 0}
    with (
        open_source(config) as source,
        deciding(config, parent, others, env := environment(config, source)) as (policy, answers),
    ):
        everybody = sides(source, config)[0]
        learned = [one for one in everybody if users is None or source.subject(one) in users]
        topics = learn_topics(source, everybody)
        for done in range(0, len(learned), USERS):
            left = None if most is None else max(0, most - found["blamed"])
            cases = list(find_blamed(source, learned[done : done + USERS], topics, env))[:left]
            standing = to_blame(cases, answers)
            made = amend(env, standing, policy, answers, config.method.amends)
            rows += map(row_of, made)
            found["blamed"] += len(cases)
            found["acquitted"] += len(cases) - len(standing)
            found["amended"] += len(made)
            if tick is not None:
                tick("amends", min(len(learned), done + USERS), len(learned), {})
    return rows, found


def environment(config: TrainConfig, source: StoreSource) -> Env:
    return Env(make_embedder(config.data.embedder), served_with(source, config.data))


@contextmanager
def deciding(
    config: TrainConfig, parent: Path | None, others: Backbone | None, env: Env
) -> Generator[tuple[Policy, Answers]]:
    """Who decides again, the parent adapter, and the frozen answerer."""
    from memkit.backbones import make_backbone
    from memkit.backbones.hf import HFBackbone

    with HFBackbone(config.model.base, threads=1, dtype=config.model.dtype, device=config.model.device) as backbone:
        if parent is not None:
            backbone.load_adapter("parent", parent)
        cast = beside(backbone, CachedBackbone(others or backbone), config.data.roles)
        policy = Policy(cast, "parent" if parent is not None else None, roles=config.data.roles)
        frozen = cast if config.model.answerer is None else make_backbone(config.model.answerer)
        try:
            yield policy, Answers(CachedBackbone(frozen), env.embedder, served=env.served)
        finally:
            if frozen is not cast:
                frozen.close()


def find_blamed(source: StoreSource, users: Sequence[str], topics: Topics, env: Env) -> Iterator[BlamedDecision]:
    """Of decisions whose token ids are in the log: what a hosted model wrote has no twin among local samples."""
    for episode in source.trajectories(users):
        known = {one.decision.decision_id: one for one in faults(episode, topics, env.embedder)}
        for script in scripts_of(episode) if known else ():
            states = env.list_states(script)
            for at, scene in enumerate(script.scenes):
                here = [known[one] for one in scene.decision_ids if one in known]
                for fault in here:
                    if scene.ops and fault.decision.prompt_ids and fault.decision.token_ids:
                        yield BlamedDecision(fault, states[at], states[at].live.after(scene.ops, env.embedder))


def to_blame(cases: Sequence[BlamedDecision], answers: Answers) -> list[BlamedDecision]:
    """Without the acquitted, and without answers that were right after the decision."""
    said = iter(_say(answers, [(one.after, event) for one in cases for _, event in one.fault.blames]))
    standing: list[BlamedDecision] = []
    for one in cases:
        kept = tuple(blame for blame in one.fault.blames if _same(next(said), blame[1].answer))
        if kept:
            standing.append(replace(one, fault=replace(one.fault, blames=kept)))
    return standing


def amend(env: Env, cases: Sequence[BlamedDecision], policy: Policy, answers: Answers, count: int) -> list[Amend]:
    """The best other reply of each case that has one."""
    sampled = [replace(policy, temperature=1.0, seed=number, sampled=ROLE) for number in range(count)]
    trails = forks(env, [one.state for one in cases], sampled, frozenset(ROLE))
    tries = [(one, *other) for one, members in zip(cases, trails, strict=True) for other in _others(one, members)]
    said = iter(_say(answers, [(bank, event) for one, _, _, bank in tries for _, event in one.fault.blames]))
    best: dict[int, Amend] = {}
    for one, reply, times, _ in tries:
        told = [(next(said), event.answer) for _, event in one.fault.blames]
        before = best.get(id(one))
        mends = all(text is not None and not _same(text, disliked) for text, disliked in told)
        if mends and (before is None or times > before.times):
            best[id(one)] = Amend(one, reply, times)
    return list(best.values())


def _others(case: BlamedDecision, trails: Sequence[Trail]) -> Iterator[tuple[GenReply, int, LiveBank]]:
    """Other replies to the very prompt that was blamed, that credit would not blame: how often each was sampled, and
    the bank that it leads to. What else is decided in the scene must be as it was."""
    logged = case.fault.decision
    times: Counter[tuple[int, ...]] = Counter()
    first: dict[tuple[int, ...], tuple[GenReply, Trail, list[Op]]] = {}
    for trail in trails:
        replies = {call.decision_id: call.reply for call in trail.calls if call.role in ROLE}
        reply = replies.pop(logged.decision_id, None)
        if reply is None or not reply.token_ids or reply.prompt_ids != logged.prompt_ids:
            continue
        if trail.steps[-1].error is None and all(case.as_logged(key, other) for key, other in replies.items()):
            times[reply.token_ids] += 1
            ops = [op for op in trail.ops if op.decision_id == logged.decision_id]
            first.setdefault(reply.token_ids, (reply, trail, ops))
    for ids, (reply, trail, ops) in first.items():
        if ids != logged.token_ids and case.fault.mends(ops, list(trail.end.live.state)):
            yield reply, times[ids], trail.end.live


def _say(answers: Answers, asked: Sequence[tuple[LiveBank, AnswerEvent]]) -> list[str | None]:
    """The disliked answers' questions, asked again of other banks; None where there was no answer."""
    found = answers.ask([(Probed(event.question, "", event.at, key=event.trace_id), bank) for bank, event in asked])
    return [None if one.error is not None else one.text for one in found]


def _same(text: str | None, answer: str) -> bool:
    return text is not None and exact(text, answer) > 0


def row_of(one: Amend) -> TokenRow:
    fault = one.case.fault
    decision = fault.decision
    assert decision.prompt_ids
    assert one.reply.token_ids
    return TokenRow(
        decision.prompt_ids,
        one.reply.token_ids,
        fault.weight,
        decision.role,
        1.0,
        decision.age_days(micros(datetime.now(UTC))),
        str(one.reply.extra.get("vocabulary", "")),
        fault.reading.episode.subject,
        decision.decision_id,
    )
