"""Each part of a reward says one thing, by name, and only of what a deployed system could see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from memkit.embedders import make_embedder
from memkit_train.lab.worlds import OracleBackbone, Truth
from memkit_train.replay import Env, Policy, script_of
from memkit_train.rewards import (
    AnswerReward,
    Answers,
    BudgetReward,
    CachedBackbone,
    Mix,
    Probed,
    Rollout,
    ValidityReward,
)
from memkit_train.rewards.base import metrics
from memkit_train.rewards.fidelity import support
from tests.train.policies import Breaks, OnlyAdds, turns_of
from tests.train.stores import world

EPISODES = world(2, seed=3)
TRUTH = Truth(EPISODES)
EMBEDDER = make_embedder("hash")
ENV = Env(EMBEDDER)


def rollout(backbone: OracleBackbone, index: int = 0) -> Rollout:
    episode = EPISODES[index]
    script = script_of(episode.user_id, turns_of(episode))
    (trail,) = ENV.run([(ENV.start(script), Policy(backbone))], upto=None)
    probes = tuple(Probed(q.text, q.expected, q.asked_at, q.evidence) for q in episode.questions if q.as_of is None)
    return Rollout(trail, probes)


@pytest.fixture(scope="module")
def good() -> Rollout:
    return rollout(OracleBackbone(TRUTH))


@pytest.fixture(scope="module")
def bloated() -> Rollout:
    return rollout(OnlyAdds(TRUTH))


def test_a_mix_adds_weighted_parts_and_logs_each_by_name(good: Rollout, bloated: Rollout) -> None:
    answers = Answers(OracleBackbone(TRUTH), EMBEDDER)
    mix = Mix(((AnswerReward(answers, "em"), 1.0), (BudgetReward(), 0.5)))
    scored = mix([good, bloated])
    assert scored[0].parts == {"answer_em": 1.0, "budget": 0.0}
    assert scored[0].total == 1.0
    assert scored[1].total == pytest.approx(scored[1].parts["answer_em"] + 0.5 * scored[1].parts["budget"])
    logged = metrics(scored, ["a", "a"])
    assert {"reward", "reward_std", "rewards/answer_em/mean", "rewards/budget/std"} <= set(logged)
    assert logged["frac_reward_zero_std"] in (0.0, 1.0)


def test_the_frozen_answerer_is_asked_each_prompt_once_even_in_another_run(good: Rollout, tmp_path: Path) -> None:
    class Counting(OracleBackbone):
        asked = 0

        def generate(self, requests):
            Counting.asked += len(requests)
            return super().generate(requests)

    first = AnswerReward(Answers(CachedBackbone(Counting(TRUTH), tmp_path / "answers.jsonl"), EMBEDDER), "f1")
    values = first([good, good])
    asked = Counting.asked
    assert asked <= len(good.probes)
    with (tmp_path / "answers.jsonl").open("a") as file:
        file.write('["torn')
    again = AnswerReward(Answers(CachedBackbone(Counting(TRUTH), tmp_path / "answers.jsonl"), EMBEDDER), "f1")
    assert again([good, good]) == values
    assert Counting.asked == asked


def test_a_judge_is_asked_about_an_answer_once(good: Rollout) -> None:
    calls: list[str] = []

    def ask(messages):
        calls.append(messages[-1]["content"])
        return '{"label": "CORRECT"}'

    reward = AnswerReward(Answers(OracleBackbone(TRUTH), EMBEDDER), "judge", judged_by=ask)
    assert reward([good]) == reward([good]) == [1.0]
    assert len(calls) == len({(p.question, p.expected) for p in good.probes if p.expected != "unknown"})


def test_the_budget_is_linear_in_the_excess_alone(good: Rollout, bloated: Rollout) -> None:
    free, tight = BudgetReward(0.7), BudgetReward(0.2)
    assert free([good]) == [0.0]
    small, large = tight([good])[0], tight([bloated])[0]
    assert large < small <= 0.0
    assert BudgetReward(0.1)([bloated])[0] == pytest.approx(large - 0.1)


def test_validity_counts_first_replies(good: Rollout) -> None:
    assert ValidityReward()([good]) == [1.0]
    (broken,) = ValidityReward()([rollout(Breaks(TRUTH))])
    assert 0.2 < (broken or 0.0) < 0.8


def test_names_and_numbers_of_what_is_written_come_from_the_source_turns(good: Rollout) -> None:
    step = next(one for one in good.trail.steps if one.ops and one.ops[0].after is not None)
    turns, op = (*step.scene.context_turns, *step.scene.turns), step.ops[0]
    assert op.after is not None
    assert support(op, turns) == 1.0
    assert support(replace(op, after=replace(op.after, text=f"{op.after.text} PIN 90210")), turns) < 1.0
