"""A policy tried on held-out users: their logged talk from an empty bank, decided by it to the end, and their questions
asked where they asked them. What comes out are tables, measure → user → values, that the gate compares.

Candidate and parent are tried in step, on the same users, with the same frozen answerer, so every value has its twin.
Adapters that answer themselves are asked themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING

from memkit.engine.bank import LiveBank
from memkit.engine.call import Attempt
from memkit.models import JSON, MemoryRecord
from memkit.retrieval.context import estimate_tokens
from memkit.seams.backbone import GenReply
from memkit.text.words import terms
from memkit_train.credit.labels import labels
from memkit_train.metrics import scores as dialects
from memkit_train.metrics.right import rate
from memkit_train.replay.env import Env, Policy, Step, Trail
from memkit_train.replay.script import Script, scripts_of
from memkit_train.rewards.answers import Answers, bank_for, exact, overlap
from memkit_train.rewards.base import Probed
from memkit_train.rewards.fidelity import support
from memkit_train.rewards.found import Lookups, found_early
from memkit_train.rewards.latency import alone
from memkit_train.rewards.validity import readable

if TYPE_CHECKING:
    from memkit_train.log.records import LoggedQuestion, Trajectory

Table = Mapping[str, Mapping[str, Sequence[float]]]
"""Measure → user → values."""
TARGETS = {"answer_f1": overlap, "answer_em": exact, "answer_right": rate, "found": found_early}
ALIKE = 0.8
"""Share of two memories' words in common from which one is a duplicate."""
_COSTS = ("valid", "parked", "tokens", "work", "calls")
HEAVIEST = 4.0
"""A handful of corrections must not outvote everything else."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One bank of a user that no row of the training data comes from."""

    user: str
    """Opaque subject id."""
    script: Script
    probes: tuple[Probed, ...] = ()
    thumbs: tuple[int, int] = (0, 0)
    """Answers that this user called good, and bad."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question as one policy fared with it: for reports."""

    user: str
    question: str
    expected: str
    answer: str
    score: float
    served: tuple[str, ...]
    ops: tuple[str, ...]
    """What was done with the scene before the question."""


@dataclass(frozen=True, slots=True)
class Trial:
    """How one policy did."""

    name: str
    tables: Table
    cases: tuple[Case, ...] = ()
    actions: Mapping[str, int] = field(default_factory=dict[str, int])
    parked: int = 0
    scenes: int = 0

    def means(self) -> dict[str, float]:
        flat = {name: [v for row in table.values() for v in row] for name, table in self.tables.items()}
        return {name: fmean(values) for name, values in flat.items() if values}

    def to_json(self) -> JSON:
        return {
            "name": self.name,
            "tables": {m: {u: list(v) for u, v in t.items()} for m, t in self.tables.items()},
            "actions": dict(self.actions),
            "parked": self.parked,
            "scenes": self.scenes,
        }


def held_out(episode: Trajectory, probes: Sequence[LoggedQuestion]) -> list[HeldOut]:
    """The banks of one user with what may be asked of each. A question over several banks is left out: a policy decides
    one bank at a time."""
    out: list[HeldOut] = []
    asked = {event.trace_id: event.bank for event in episode.answers}
    rated = [(asked[one.trace_id], one.y) for one in labels(episode) if one.source in ("reward", "thumb")]
    for script in scripts_of(episode):
        own = [one for one in probes if one.user_id == episode.user_id and one.bank == script.bank]
        if len(script):
            here = [y for bank, y in rated if bank == script.bank]
            thumbs = (sum(y >= 0.5 for y in here), sum(y < 0.5 for y in here))
            out.append(HeldOut(episode.subject, script, tuple(_probed(one, script) for one in own), thumbs))
    return out


def _probed(probe: LoggedQuestion, script: Script) -> Probed:
    after = script.scene_after(probe.as_of)
    tags = {"abstain"} if dialects.abstains(probe.expected) else set[str]()
    told = set(probe.source_turns)
    changed = any(
        op.action in ("update", "delete") and told & {turn.turn_id for turn in scene.turns}
        for scene in script.scenes[:after]
        for op in scene.ops
    )
    if changed or probe.source == "correction":
        tags.add("update")
    tags.add(probe.source)
    return Probed(
        probe.question,
        probe.expected,
        probe.at,
        probe.source_turns,
        after,
        frozenset(tags),
        probe.trace_id,
        probe.weight,
        probe.kinds,
    )


def trials(
    env: Env,
    policies: Sequence[Policy],
    users: Sequence[HeldOut],
    answers: Answers | Lookups,
    *,
    metric: str = "answer_f1",
    timed: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Trial]:
    """One per policy, in their order. Everything that can be generated together is. `timed`: how long one who waits for
    a decision waits is measured, too, for information: no verdict reads it."""
    starts = [(env.start(one.script), policy) for policy in policies for one in users]
    trails = env.run(starts, upto=None, progress=progress)
    size, out = len(users), list[Trial]()
    for n, policy in enumerate(policies):
        asked = answers
        if policy.answers and isinstance(answers, Answers):
            asked = replace(answers, backbone=policy.backbone, adapter=policy.adapter)
        out.append(measure(policy.name, users, trails[n * size : (n + 1) * size], asked, metric))
    if timed:
        played = [trails[n * size : (n + 1) * size] for n in range(len(policies))]
        waits = alone(policies, [one.user for one in users], played)
        return [replace(one, tables={**one.tables, "latency_ms": wait}) for one, wait in zip(out, waits, strict=True)]
    return out


def try_log(env: Env, users: Sequence[HeldOut], answers: Answers | Lookups, metric: str) -> Trial:
    """How the logged decisions themselves do, with the same questions and answerer. What they cost says nothing of
    another model, and is left out."""
    trails: list[Trail] = []
    for one in users:
        states = env.list_states(one.script)
        steps = [
            Step(state.scene, state.live, (), state.scene.ops, state.live.after(state.scene.ops, env.embedder))
            for state in states[:-1]
        ]
        trails.append(Trail(env.start(one.script), tuple(steps), states[-1]))
    found = measure("logged", users, trails, answers, metric)
    return replace(found, tables={name: table for name, table in found.tables.items() if name not in _COSTS})


def measure(
    name: str, users: Sequence[HeldOut], trails: Sequence[Trail], answers: Answers | Lookups, metric: str
) -> Trial:
    tables: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    actions: dict[str, int] = defaultdict(int)
    for one, trail in zip(users, trails, strict=True):
        for step in trail.steps:
            for name, value in _of_step(step).items():
                tables[name][one.user].append(value)
            for op in step.ops:
                actions[op.action] += 1
        start, end, scenes = trail.start.live, trail.end.live, max(1, len(trail.steps))
        tables["growth"][one.user].append((end.memories - start.memories) / scenes)
        tables["junk"][one.user].append(junk_share(end, trail))
    asked = [(one, trail, probe) for one, trail in zip(users, trails, strict=True) for probe in one.probes]
    cases: list[Case] = []
    scale = balance(users)
    found = answers.ask([(probe, bank_for(probe, trail)) for _, trail, probe in asked])
    for (one, trail, probe), answered in zip(asked, found, strict=True):
        if metric == "answer_right":  # what the app once answered was worded by another model
            score = rate(answered.text, probe.expected, worded="confirmed" in probe.tags)
        else:
            score = TARGETS[metric](answered.text, probe.expected)
        if probe.source_turns and not dialects.abstains(probe.expected):
            tables["m_fail"][one.user].append(forgotten_share(probe, bank_for(probe, trail)))
        tables[metric][one.user].append(score * scale["correction" in probe.tags])
        for tag in sorted(probe.tags):
            tables[f"{metric}/{tag}"][one.user].append(score)
        cases.append(
            Case(
                one.user,
                probe.question,
                probe.expected,
                answered.text,
                score,
                tuple(scored.record.text for scored in answered.served),
                _done(trail, probe),
            )
        )
    return Trial(
        name,
        {of: dict(table) for of, table in tables.items()},
        tuple(cases),
        dict(actions),
        sum(step.error is not None for trail in trails for step in trail.steps),
        sum(len(trail.steps) for trail in trails),
    )


def _of_step(step: Step) -> dict[str, float]:
    """What one scene cost, re-asks included, and whether its replies were in the format."""
    asked = [attempt for call in step.calls for attempt in call.attempts]
    written = sum(_written(attempt.reply) for attempt in asked if attempt.reply is not None)
    return {
        "valid": fmean(float(readable(call)) for call in step.calls) if step.calls else 1.0,
        "parked": float(step.error is not None),
        "deletions": float(sum(op.action == "delete" for op in step.ops)),
        "tokens": float(written),
        "work": float(written + sum(map(_read, asked))),
        "calls": float(len(asked)),
    }


def _written(reply: GenReply) -> int:
    counted = reply.usage.completion_tokens
    return estimate_tokens(reply.text) if counted is None else counted


def _read(asked: Attempt) -> int:
    counted = None if asked.reply is None else asked.reply.usage.prompt_tokens
    if counted is not None:
        return counted
    return sum(estimate_tokens(message.content) for message in asked.prompt.messages)


def balance(users: Sequence[HeldOut]) -> tuple[float, float]:
    """What a question counts for in the target: (any other, one known from a correction); 1 on average.

    Most of what a log can be asked is what its policy got right, because users seldom say what the right answer would
    have been. How often they call an answer bad, they do say. So corrections stand for the bad answers and confirmed
    ones for the good, in the proportion of the thumbs: a candidate is judged on questions as they come, not on those
    that happen to favour the parent. Corrections are never counted less, and at most `HEAVIEST` times as much."""
    tags = [probe.tags for one in users for probe in one.probes]
    corrected, confirmed = (sum(tag in own for own in tags) for tag in ("correction", "confirmed"))
    good, bad = (sum(one.thumbs[at] for one in users) for at in (0, 1))
    if not (corrected and confirmed and good and bad):
        return 1.0, 1.0
    heavier = min(max(bad / good * confirmed / corrected, 1.0), HEAVIEST)
    mean = (len(tags) - corrected + heavier * corrected) / len(tags)
    return 1 / mean, heavier / mean


def forgotten_share(probe: Probed, bank: LiveBank) -> float:
    """M-Fail: share of the turns that an answer rests on which no memory names as its source."""
    kept = {turn for record in bank.state if record.kind != "turn" for turn in record.source_turns}
    return fmean(float(turn not in kept) for turn in probe.source_turns)


def junk_share(bank: LiveBank, trail: Trail) -> float:
    """Share of the memories that say again what another one says, or what nobody said."""
    facts = [record for record in bank.state if record.kind == "fact"]
    if not facts:
        return 0.0
    written = {op.after.id: op for op in trail.ops if op.after is not None and op.action in ("add", "update")}
    turns = [turn for scene in trail.end.script.scenes[: trail.end.at] for turn in scene.turns]
    words = [(record, frozenset(terms(record.text))) for record in facts]
    junk = 0
    for n, (record, own) in enumerate(words):
        again = any(_alike(own, other) for _, other in words[:n])
        op = written.get(record.id)
        junk += again or (op is not None and support(op, turns) == 0.0)
    return junk / len(facts)


def _alike(left: frozenset[str], right: frozenset[str]) -> bool:
    return bool(left) and len(left & right) >= ALIKE * max(len(left), len(right))


def _done(trail: Trail, probe: Probed) -> tuple[str, ...]:
    after = trail.end.at if probe.after is None else probe.after
    place = after - trail.start.at - 1
    if not 0 <= place < len(trail.steps):
        return ()
    return tuple(describe_op(op.action, op.before, op.after) for op in trail.steps[place].ops)


def describe_op(action: str, before: MemoryRecord | None, after: MemoryRecord | None) -> str:
    """An operation in one line."""
    match action:
        case "update" if before is not None and after is not None:
            return f"UPDATE {before.text} → {after.text}"
        case "delete" if before is not None:
            return f"DELETE {before.text}"
        case "add" if after is not None:
            return f"ADD {after.text}"
        case _:
            return f"NOOP{f' ({after.text})' if after is not None else ''}"
