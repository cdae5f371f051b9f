"""Conversations with questions: a question is only put to a bank while its answer is right, and conversations of one
user with several agents are several."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from memkit.embedders import make_embedder
from memkit.models import Bank
from memkit_train.credit.assign import learn_topics
from memkit_train.lab.worlds import Knobs, OracleBackbone, Truth, generate, language, matches, policies
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy
from memkit_train.rewards import AnswerReward, Answers, Mix
from memkit_train.rl.decisions import Decisions
from memkit_train.rl.pool import Pool
from memkit_train.rl.scoring import Scoring
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.talks import Talk, of_log, of_world
from memkit_train.rl.whole import Whole
from tests.online import model
from tests.train.policies import Spelled
from tests.train.stores import lived, teacher, world

KNOBS = Knobs(sessions=6, probes=5, people=2)
EPISODES = generate(3, seed=4, knobs=KNOBS)
TALKS = of_world(EPISODES)


def added(meaning: language.Meaning) -> language.Meaning:
    """Another pet is no other pet instead."""
    many = meaning.attribute in language.MANY and meaning.mode == "plain"
    return replace(meaning, mode="also") if many else meaning


@pytest.mark.parametrize("number", range(3))
def test_an_answer_holds_exactly_where_what_was_said_gives_it(number: int) -> None:
    episode, talk = EPISODES[number], TALKS[number]
    truth = Truth([episode])
    history = [[added(one) for one in truth.meanings(turn.speaker, turn.text)] for turn in episode.turns]
    asked = {q.question_id: q for session in episode.sessions for q in session.probes}
    asked |= {q.question_id: q for q in episode.questions}
    for one in random.Random(0).sample(talk.questions, 20):
        question = asked[one.probe.key]

        def right(decided: int, question=question) -> bool:  # type: ignore[no-untyped-def]
            return matches(question, policies.answer(question.text, list(enumerate(history[:decided])))[0])

        assert one.since <= (one.probe.after or 0) <= one.until
        assert all(right(decided) for decided in range(one.since, one.until + 1))
        assert one.since == 0 or not right(one.since - 1)
        assert one.until == len(history) or not right(one.until + 1)


def test_the_beginning_of_a_conversation_is_a_conversation() -> None:
    cut = TALKS[0].first(2)
    end = list(TALKS[0].sessions.values())[1].stop
    assert len(cut.script) == end
    assert len(cut.sessions) == 2
    assert cut.questions
    assert all(one.since <= one.until <= end for one in cut.questions)
    assert all((one.probe.after or 0) <= end for one in cut.questions)
    assert TALKS[0].first(99) is TALKS[0]


def test_a_session_in_parts_holds_the_same_turns() -> None:
    (talk,) = of_world(EPISODES[:1], chunks=2)

    def turns(one: Talk) -> list[str]:
        return [turn.text for scene in one.script.scenes for turn in scene.turns]

    assert turns(talk) == turns(TALKS[0])
    assert all(len(span) == 2 for span in talk.sessions.values())
    assert len(talk.questions) == len(TALKS[0].questions)


def test_questions_of_a_log_are_asked_where_they_were_asked(tmp_path: Path) -> None:
    episodes = world(4)
    store = lived(tmp_path / "store", episodes, teacher(episodes))
    embedder = make_embedder("hash")
    with StoreSource(store) as source:
        users = source.users()
        talks = list(of_log(source, users, learn_topics(source, users), embedder))
    questions = [(talk, one) for talk in talks for one in talk.questions]
    assert len(questions) > 5
    for talk, one in questions:
        assert one.until == one.probe.after
        told = {turn.turn_id for scene in talk.script.scenes[one.since : one.until] for turn in scene.turns}
        assert not told & set(one.probe.source_turns), "what it rests on was said before its answer held"


def two_agents() -> list[Talk]:
    """The same words to two agents: two banks, that nothing but the agent tells apart."""
    (talk,) = model.world(1)[1]
    return [replace(talk, script=replace(talk.script, bank=Bank(talk.user, agent))) for agent in ("work", "home")]


def test_a_conversation_is_named_by_its_bank() -> None:
    assert TALKS[0].name == TALKS[0].user
    work, home = two_agents()
    assert work.user == home.user
    assert len({work.name, home.name, work.user}) == 3


@pytest.mark.parametrize("algorithm", ["episodes", "logo", "decisions"])
def test_banks_of_two_agents_are_never_one_group(algorithm: str) -> None:
    episodes, _ = model.world(1)
    truth, env = Truth(episodes), Env(make_embedder("hash"))
    right = Mix(((AnswerReward(Answers(OracleBackbone(truth), env.embedder)), 1.0),))
    scores = Scoring(right.rewards[0][0].answers, right, right, played=False)  # type: ignore[attr-defined]
    chosen = {"logo": {"algorithm": "logo", "p_local": 1.0}, "episodes": {"learn": "episodes"}}.get(algorithm, {})
    settings = OnlineSettings.model_validate({"group": 4, "rerolls": 4, "talks": 2, "states": 99, **chosen})
    policy, trained = Policy(Spelled(truth), temperature=1.0), frozenset({"manager"})
    talks = two_agents()
    if algorithm == "decisions":
        batch = Decisions(env, Pool(env, talks, settings, 0), scores, settings, 0).sample(0, policy, trained)
    else:
        batch = Whole(env, talks, scores, settings, 0).sample(0, policy, trained)
    groups = {row.group for row in batch.rows}
    assert all(any(one.startswith(talk.name) for talk in talks) for one in groups)
    assert {sum(one.startswith(talk.name) for one in groups) > 0 for talk in talks} == {True}
