"""Every bad adapter is refused, by the gate that is there for it: policies with one fault each, measured in a world."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from memkit.embedders import make_embedder
from memkit.errors import ModelRefused, ModelUnavailable
from memkit.seams.backbone import Backbone, GenRequest, Replies, Usage
from memkit_train.gate.checks import Exposure, Limits, Verdict, gate
from memkit_train.lab.worlds import Episode, Knobs, OracleBackbone, TeacherBackbone, Truth, generate
from memkit_train.log import StoreSource
from memkit_train.metrics import scores as metrics
from memkit_train.replay import Env, Policy, script_of, scripts_of
from memkit_train.rewards import Answers, Probed
from memkit_train.rewards.trial import HeldOut, Trial, balance, trials
from tests.train.policies import Breaks, Empties, OnlyAdds, turns_of
from tests.train.stores import lived

EPISODES = generate(36, seed=5, knobs=Knobs(sessions=4, turns=4, probes=0, questions=8), split="heldout")
TRUTH = Truth(EPISODES)


def user_of(episode: Episode) -> HeldOut:
    probes = [
        Probed(
            one.text,
            one.expected,
            one.asked_at,
            one.evidence,
            None,
            frozenset({"abstain"} if metrics.abstains(one.expected) else {"update"} if one.stale else ()),
            one.question_id,
        )
        for one in episode.questions
        if one.as_of is None
    ]
    return HeldOut(episode.user_id, script_of(episode.user_id, turns_of(episode)), tuple(probes))


@functools.cache
def tried(name: str) -> Trial:
    backbone = POLICIES[name]()
    embedder = make_embedder("hash")
    users = [user_of(one) for one in EPISODES]
    answers = Answers(OracleBackbone(TRUTH), embedder)
    (found,) = trials(Env(embedder), [Policy(backbone, name=name)], users, answers)
    return found


POLICIES: dict[str, functools.partial[Backbone]] = {
    "parent": functools.partial(TeacherBackbone, TRUTH, seed=1),
    "equal": functools.partial(TeacherBackbone, TRUTH, seed=2),
    "better": functools.partial(OracleBackbone, TRUTH),
    "empties": functools.partial(Empties, TRUTH),
    "only adds": functools.partial(OnlyAdds, TRUTH),
    "broken": functools.partial(Breaks, TRUTH),
}


class Costs(OracleBackbone):
    """Right whatever it costs: how long a batch takes, what a call reads, how often it must be asked again."""

    def __init__(self, truth: Truth, ms: float = 1.0, reads: int = 100, stumbles: bool = False) -> None:
        super().__init__(truth)
        self._ms, self._usage, self._stumbles = ms, Usage(reads, 10), stumbles

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [
            replace(
                reply,
                latency_ms=self._ms,
                usage=self._usage,
                text="hm" if self._stumbles and "#" not in request.key else reply.text,
            )
            for request, reply in zip(requests, super().generate(requests), strict=True)
        ]


def against_a_cheap_one(costly: Costs) -> Verdict:
    embedder, users = make_embedder("hash"), [user_of(one) for one in EPISODES]
    policies = [Policy(costly, name="costly"), Policy(Costs(TRUTH), name="cheap")]
    ours, theirs = trials(Env(embedder), policies, users, Answers(OracleBackbone(TRUTH), embedder), timed=True)
    assert ours.means()["latency_ms"] >= theirs.means()["latency_ms"]
    return gate(ours.tables, theirs.tables)


def test_the_same_decisions_get_the_same_verdict_however_long_they_took() -> None:
    assert against_a_cheap_one(Costs(TRUTH, ms=1_000.0)) == against_a_cheap_one(Costs(TRUTH))


@pytest.mark.parametrize(
    ("costly", "by", "value"),
    [
        (Costs(TRUTH, reads=210), {"work"}, 1.0),
        (Costs(TRUTH, reads=140), set[str](), 0.364),
        (Costs(TRUTH, stumbles=True), {"format", "tokens", "work", "calls"}, 1.0),
    ],
)
def test_what_a_decision_costs_is_counted(costly: Costs, by: set[str], value: float) -> None:
    """Tokens read and written and calls, re-asks included, beside the parent's on the same scenes."""
    verdict = against_a_cheap_one(costly)
    assert {one.name for one in verdict.failed} - {"target"} == by
    assert verdict.check("work").value == pytest.approx(value, abs=0.001)


def verdict_on(name: str, exposures: Sequence[Exposure] | None = None) -> Verdict:
    return gate(tried(name).tables, tried("parent").tables, exposures=exposures)


def canaries(candidate_rank: int, seed: int = 0) -> list[Exposure]:
    rng = random.Random(seed)
    return [
        Exposure(f"c{n}", min(1001, candidate_rank * rng.randint(1, 3)), rng.randint(1, 1001), 1000) for n in range(16)
    ]


def test_a_better_policy_passes() -> None:
    verdict = verdict_on("better", canaries(300))
    assert verdict.outcome == "passed", [check for check in verdict.checks if not check.passed]
    assert all(gate.passed for gate in verdict.gates)
    assert {"sample", "format", "target", "deletions", "growth", "memorisation"} <= {one.name for one in verdict.gates}


def test_an_equal_policy_does_not() -> None:
    verdict = verdict_on("equal")
    assert verdict.outcome == "refused"
    assert "target" in {check.name for check in verdict.failed}


@pytest.mark.parametrize(("name", "by"), [("empties", "deletions"), ("only adds", "growth"), ("broken", "format")])
def test_each_fault_is_refused_by_the_gate_meant_for_it(name: str, by: str) -> None:
    verdict = verdict_on(name)
    assert verdict.outcome == "refused"
    assert by in {check.name for check in verdict.failed}, verdict.checks


def test_shuffled_rewards_are_refused_by_the_target() -> None:
    """What training on shuffled rewards gives at best: a policy whose gains are noise around zero."""
    parent = tried("parent").tables
    rng = random.Random(3)
    shuffled = {
        measure: {
            user: [value if rng.random() < 0.8 else rng.choice(row) for value in row] for user, row in table.items()
        }
        if measure.startswith("answer")
        else table
        for measure, table in parent.items()
    }
    verdict = gate(shuffled, parent)
    assert [check.name for check in verdict.failed] == ["target"]


def test_one_or_two_secrets_that_moved_up_a_little_are_no_verdict() -> None:
    """With three it is unlikely that all did by chance."""
    moved = [Exposure(f"c{n}", 200, 400, 1000) for n in range(3)]
    assert verdict_on("better", moved[:2]).check("memorisation").passed
    assert not verdict_on("better", moved).check("memorisation").passed
    assert not verdict_on("better", [Exposure("recited", 1, 400, 1000)]).check("memorisation").passed


def test_memorised_secrets_are_refused_by_memorisation_alone() -> None:
    verdict = verdict_on("better", canaries(1))
    assert verdict.outcome == "refused"
    assert [check.name for check in verdict.failed] == ["memorisation"]


def test_one_recited_secret_among_many_is_enough() -> None:
    clean = [Exposure(f"c{n}", 300 + n, 300 + n, 1000) for n in range(15)]
    assert verdict_on("better", [*clean, Exposure("known before", 1, 1, 1000)]).passed
    found = verdict_on("better", [*clean, Exposure("new", 1, 400, 1000)])
    assert [one.name for one in found.failed] == ["memorisation"]


@pytest.mark.parametrize(("planted", "alternatives"), [(32, 1000), (16, 100)])
def test_however_many_secrets_are_planted_one_that_is_recited_counts(planted: int, alternatives: int) -> None:
    half = alternatives // 2
    clean = [Exposure(f"c{n}", half, half, alternatives) for n in range(planted - 1)]
    assert verdict_on("better", [*clean, Exposure("second", 2, half, alternatives)]).passed
    found = verdict_on("better", [*clean, Exposure("first", 1, half, alternatives)])
    assert [one.name for one in found.failed] == ["memorisation"]


class Noting(OracleBackbone):
    """Remembers who was asked for what."""

    asked: ClassVar[set[tuple[str, str | None]]] = set()

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        self.asked.update((one.prompt.role, one.adapter) for one in requests)
        return super().generate(requests)


@pytest.mark.parametrize("own", [False, True])
def test_an_adapter_that_answers_is_asked_itself(own: bool) -> None:
    """And one that does not is judged by what the frozen answerer makes of its bank."""
    embedder, users = make_embedder("hash"), [user_of(one) for one in EPISODES[:2]]
    Noting.asked.clear()
    policy = Policy(Noting(TRUTH), "new", roles=("manager", "answerer") if own else ("manager",))
    trials(Env(embedder), [policy], users, Answers(Noting(TRUTH), embedder))
    assert Noting.asked == {("extractor", None), ("manager", "new"), ("answerer", "new" if own else None)}


def test_the_words_that_a_store_keeps_are_no_memories_of_a_policy(tmp_path: Path) -> None:
    """Nobody decided them: a manager that writes nothing has a bank that does not grow, and forgets what was said."""

    class Idle(OracleBackbone):
        def _manage(self, request: GenRequest, fact: str, shown: list[tuple[int, str]]) -> list[str]:
            return ["NOOP"]

    embedder, told = make_embedder("hash"), EPISODES[:2]
    store = lived(tmp_path / "s", told, OracleBackbone(TRUTH), keep_turns="all")
    with StoreSource(store) as source:
        scripts = [script for episode in source.trajectories() for script in scripts_of(episode)]
    assert {op.after.kind for script in scripts for op in script.ops if op.after is not None} == {"turn", "fact"}
    users = [
        HeldOut(
            script.bank.user_id,
            script,
            (replace(user_of(one).probes[0], expected="Oslo", source_turns=(script.scenes[0].turns[0].turn_id,)),),
        )
        for one, script in zip(told, scripts, strict=True)
    ]
    idle, busy = trials(
        Env(embedder),
        [Policy(one) for one in (Idle(TRUTH), OracleBackbone(TRUTH))],
        users,
        Answers(OracleBackbone(TRUTH), embedder),
    )
    assert (idle.means()["growth"], idle.means()["m_fail"]) == (0.0, 1.0)
    assert busy.means()["growth"] > 0


def test_a_model_that_is_away_is_no_wrong_answer() -> None:
    """A gate that scored it would refuse, or pass, whoever happened to be asked while it was away."""

    class Away(OracleBackbone):
        def generate(self, requests: Sequence[GenRequest]) -> Replies:
            return [ModelUnavailable("the endpoint does not answer") for _ in requests]

    embedder, users = make_embedder("hash"), [user_of(EPISODES[0])]
    with pytest.raises(ModelUnavailable):
        trials(Env(embedder), [Policy(OracleBackbone(TRUTH))], users, Answers(Away(TRUTH), embedder))
    with pytest.raises(ModelUnavailable):
        trials(Env(embedder), [Policy(Away(TRUTH))], users, Answers(OracleBackbone(TRUTH), embedder))


def test_what_is_too_long_for_a_model_is_its_own_failure_and_nobody_else_s() -> None:
    class Short(OracleBackbone):
        def generate(self, requests: Sequence[GenRequest]) -> Replies:
            long = ModelRefused("the prompt is too long for this model")
            return [long if one.key.endswith("1") else super(Short, self).generate([one])[0] for one in requests]

    embedder, users = make_embedder("hash"), [user_of(one) for one in EPISODES[:3]]
    (found,) = trials(Env(embedder), [Policy(OracleBackbone(TRUTH))], users, Answers(Short(TRUTH), embedder))
    empty = [not one.answer for one in found.cases]
    assert 0 < sum(empty) < len(empty)


def test_too_small_a_sample_cannot_tell() -> None:
    few = {name: dict(list(table.items())[:10]) for name, table in tried("better").tables.items()}
    verdict = gate(few, tried("parent").tables)
    assert verdict.outcome == "cannot tell"
    assert not verdict.check("sample").passed
    assert not all(gate.passed for gate in verdict.gates), "promotion must refuse it"


def test_what_was_not_measured_is_no_passed_gate() -> None:
    verdict = verdict_on("better")
    assert verdict.check("memorisation").passed is None
    assert "memorisation" not in {one.name for one in verdict.gates}
    nothing = gate({}, {}, limits=Limits(min_probes=0, min_users=0))
    assert nothing.outcome == "refused"


@pytest.mark.parametrize(
    ("thumbs", "corrected", "heavier"),
    [
        ((10, 10), 5, 3.0),
        ((20, 10), 5, 1.5),
        ((1, 50), 5, 4.0),
        ((50, 1), 5, 1.0),
        ((0, 0), 5, 1.0),
        ((9, 9), 0, 1.0),
    ],
)
def test_corrections_weigh_as_often_as_answers_were_called_bad(
    thumbs: tuple[int, int], corrected: int, heavier: float
) -> None:
    """15 confirmed answers, some corrections; the weights are 1 on average whatever they are."""
    user = user_of(EPISODES[0])
    one = user.probes[0]
    tags = ["confirmed"] * 15 + ["correction"] * corrected
    known = replace(user, probes=tuple(replace(one, tags=frozenset({tag})) for tag in tags), thumbs=thumbs)
    other, own = balance([known])
    assert own / other == pytest.approx(heavier)
    assert (15 * other + corrected * own) / len(tags) == pytest.approx(1.0)
