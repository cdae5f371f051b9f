"""No work is done twice, and nothing is lost by it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from memkit.embedders import make_embedder
from memkit.seams.backbone import GenReply, GenRequest
from memkit_train.lab.worlds import Truth
from memkit_train.learn.steps import FixedSteps
from memkit_train.learn.trainer import RowTrainer, training_arguments
from memkit_train.replay import Env, Policy
from memkit_train.replay.forks import forks
from memkit_train.rl.algorithms import grpo
from memkit_train.rl.pool import draw_undecided, places
from memkit_train.rl.rollouts import merge_equal, steps_of
from memkit_train.rl.talks import of_world
from tests.online import model
from tests.train import tiny
from tests.train.policies import Spelled

EPISODES, TALKS = model.world()
ENV = Env(make_embedder("hash"))


def spelled(seed: int = 0) -> Policy:
    return Policy(Spelled(Truth(EPISODES)), temperature=1.0, seed=seed)


@pytest.mark.parametrize("sampled", [frozenset({"manager"}), frozenset({"manager", "extractor"})])
def test_forks_are_what_independent_samples_would_have_been(sampled: frozenset[str]) -> None:
    talk = TALKS[0]
    (trail,) = ENV.run([(ENV.start(talk.script), replace(spelled(), temperature=0.0))], upto=None)
    states = [place.state for place in places(talk, trail, ("manager",))]
    policies = [spelled(seed) for seed in range(4)]
    found = forks(ENV, states, policies, sampled)
    plain = ENV.run([(state, policy) for state in states for policy in policies])
    assert [one.end.live.state.hash() for members in found for one in members] == [
        one.end.live.state.hash() for one in plain
    ]
    ids = [[steps_of(one, {"manager"}) for one in members] for members in found]
    assert ids == [[steps_of(one, {"manager"}) for one in plain[n * 4 : n * 4 + 4]] for n in range(len(states))]
    kept = sum(len({id(one) for one in members}) for members in found)
    if sampled == {"manager"}:
        assert kept < len(plain) / 1.5, "equal decisions are one trail"


class Stumbles(Spelled):
    """The manager's first reply is not in the format; asked again, it is right."""

    def _spelled(self, request: GenRequest) -> GenReply:
        reply = super()._spelled(request)
        if request.prompt.role != "manager" or "#" in request.key:
            return reply
        return replace(reply, text="THIS IS NOT THE FORMAT", token_ids=(0,))


def test_a_refused_reply_is_a_step_and_what_its_re_ask_wrote_is_none() -> None:
    script = TALKS[0].script
    clean, mended = (
        ENV.run([(ENV.start(script), Policy(backbone(Truth(EPISODES))))], upto=None)[0]
        for backbone in (Spelled, Stumbles)
    )
    assert mended.end.live.state.hash() == clean.end.live.state.hash(), "the re-asks mend it"
    steps = steps_of(mended, {"manager"})
    assert len(steps) == len(steps_of(clean, {"manager"})) > 0
    assert all(step.refused and step.completion_ids == (0,) for step in steps)
    assert not any(step.refused for step in steps_of(clean, {"manager"}))


def test_questions_go_first_to_what_a_decision_may_spoil() -> None:
    talk = max(TALKS, key=lambda one: len(one.questions))
    (trail,) = ENV.run([(ENV.start(talk.script), replace(spelled(), temperature=0.0))], upto=None)
    found = [place for place in places(talk, trail, ("manager",)) if len(place.standing) > 6 and not place.turning]
    assert found
    for place in found:
        risked = next(one.probe for one in place.standing if one.probe.source_turns)
        rewritten = frozenset(risked.source_turns)
        resting = sum(not rewritten.isdisjoint(one.probe.source_turns) for one in place.standing)
        for seed in range(5):
            asked = place.ask(3, random.Random(seed), rewritten=rewritten)
            assert len({id(one) for one in asked}) == len(asked) == 3
            touched = sum(not rewritten.isdisjoint(one.source_turns) for one in asked)
            assert touched == min(3, resting)


def test_a_state_that_is_settled_seldom_comes_up() -> None:
    trails = ENV.run([(ENV.start(talk.script), replace(spelled(), temperature=0.0)) for talk in TALKS], upto=None)
    every = [place for talk, trail in zip(TALKS, trails, strict=True) for place in places(talk, trail, ("manager",))]
    known = [replace(one, likely=0.5 if n < 4 else 1.0) for n, one in enumerate(every)]
    assert len(known) > 12
    drawn = [one.likely < 1 for seed in range(50) for one in draw_undecided(known, 4, 8, random.Random(seed))]
    assert sum(drawn) > 0.75 * len(drawn)
    assert not all(drawn), "the policy may be wrong about what is settled"


def test_equal_rows_weigh_together_and_pull_alike(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rows = [*tiny.THREE, tiny.THREE[0], tiny.THREE[0], replace(tiny.THREE[1], advantage=0.5)]
    few = merge_equal(rows)
    assert sorted(row.weight for row in few) == [1.0, 1.0, 1.0, 3.0]
    found = []
    for given in (rows, few):
        trainer = RowTrainer(
            tiny.model(tiny.adapter(1)),
            FixedSteps([given]),
            grpo.OBJECTIVE,
            training_arguments(tmp_path, steps=1, learning_rate=1e-2),
        )
        trainer.training_step(trainer.model, {"rows": given})
        found.append(tiny.gradients(trainer.model))
    assert torch.allclose(*found, atol=1e-6)


def test_states_know_what_turns_on_them() -> None:
    talk = of_world(EPISODES[:1])[0]
    (trail,) = ENV.run([(ENV.start(talk.script), replace(spelled(), temperature=0.0))], upto=None)
    for place in places(talk, trail, ("manager",)):
        after = place.state.at + 1
        assert all(one.since == after for one in place.turning)
        assert all(one.since < after <= one.until for one in place.standing)
        step = trail.steps[place.state.at]
        assert place.state.live is step.before
