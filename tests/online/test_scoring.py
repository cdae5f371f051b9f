"""What a decision is worth, also where it is played on to the question."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from memkit.embedders import make_embedder
from memkit_train.lab.worlds import OracleBackbone, Truth
from memkit_train.replay import Env, Policy
from memkit_train.rewards import AnswerReward, Answers, GrowthReward, Rollout, ValidityReward
from memkit_train.rl.acting import Stopwatch
from memkit_train.rl.scoring import scoring
from memkit_train.rl.settings import RewardSettings
from tests.online import model
from tests.train.policies import Breaks

EPISODES, TALKS = model.world(1)
TRUTH = Truth(EPISODES)
ENV = Env(make_embedder("hash"))


def test_growth_is_that_of_the_decisions_whatever_others_put_in() -> None:
    (talk,) = TALKS
    policy = Policy(OracleBackbone(TRUTH))
    (first,) = ENV.run([(ENV.start(talk.script), policy)])
    theirs = [
        replace(op, memory_id=f"m_{n}", after=replace(op.after, id=f"m_{n}", content_hash=f"{n}"))
        for n, op in enumerate(first.ops * 3)
        if op.after is not None
    ]
    first_scene, second, *rest = talk.script.scenes
    busy = replace(talk.script, scenes=(first_scene, replace(second, given=tuple(theirs)), *rest))
    (beside,) = ENV.run([(ENV.start(busy), policy)])
    assert len(beside.end.live) > len(first.end.live)
    assert GrowthReward()([Rollout(beside)]) == GrowthReward()([Rollout(first)])


def test_a_decision_that_is_played_on_costs_what_it_cost_itself() -> None:
    """Later scenes add memories and break the format, and the answer comes from them; none of it is its growth."""
    (talk,) = TALKS
    (whole,) = ENV.run([(ENV.start(talk.script), Policy(OracleBackbone(TRUTH)))], upto=None)
    (first,) = ENV.run([(ENV.start(talk.script), Policy(OracleBackbone(TRUTH)))])
    probes = tuple(one.probe for one in talk.questions if one.probe.after == len(talk.script))
    assert len(whole.end.live) > len(first.end.live)
    settings = RewardSettings(answerer="exact", horizon="played")
    timed: Any = SimpleNamespace(clock=Stopwatch())
    scores = scoring(settings, ENV, timed, EPISODES)
    later = Policy(Breaks(TRUTH))
    (found,) = scores.score(ENV, later, [(first, probes)])
    (onward,) = ENV.run_each([(first.end, later, len(talk.script) - first.end.at)])
    played = Rollout(replace(first, steps=(*first.steps, *onward.steps), end=onward.end), probes)
    own = Rollout(first, probes)
    answers = AnswerReward(Answers(OracleBackbone(TRUTH), ENV.embedder))
    assert ValidityReward()([played]) != ValidityReward()([own]) == [1.0]
    assert GrowthReward()([played]) != GrowthReward()([own])
    assert answers([played]) != answers([own])
    assert [found.parts["growth"]] == GrowthReward()([own])
    assert [found.parts["validity"]] == [1.0]
    assert [found.parts["answer_f1"]] == answers([played])
