"""Replay: what was logged comes out again, and from any state another policy can be asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memkit import Memory
from memkit.backbones.rules import RuleBackbone
from memkit.embedders import make_embedder
from memkit.engine.record import prompt_text
from memkit.models import digest
from memkit_train.lab.worlds import OracleBackbone, TeacherBackbone, Truth
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy, script_of, scripts_of
from tests.train.policies import turns_of
from tests.train.stores import lived, teacher, world

EPISODES = world(3)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


@pytest.fixture(scope="module")
def env() -> Env:
    return Env(make_embedder("hash"))


def test_every_logged_state_is_entered_and_the_same_policy_decides_the_same_to_the_end(store: Path, env: Env) -> None:
    with StoreSource(store) as source:
        for episode in source.trajectories():
            (script,) = scripts_of(episode)
            truth = source.journal.live(bank=script.bank)
            logged = env.list_states(script)
            assert len(script.ops) == len(episode.ops)
            assert {r.id: r.text for r in logged[-1].live.state} == {record.id: record.text for _, record in truth}
            prompts = {one.decision_id: one.prompt_hash for one in episode.decisions}
            (trail,) = env.run([(env.start(script), Policy(teacher(EPISODES)))], upto=None)
            assert [digest(prompt_text(call.prompt)) for call in trail.calls] == [
                prompts[call.decision_id] for call in trail.calls
            ]
            assert trail.end.live.state.hash() == logged[-1].live.state.hash()
            assert [step.before.state.hash() for step in trail.steps] == [s.live.state.hash() for s in logged[:-1]]


def test_runs_and_what_became_of_their_lessons_are_given_between_the_scenes(tmp_path: Path, env: Env) -> None:
    run = [{"role": "assistant", "content": "I call the restaurant."}]
    with Memory(tmp_path / "s") as memory:
        memory.add("I live in Oslo.", user_id="ana")
        memory.learn(run, task="book a table", outcome=False, user_id="ana")
        block = memory.context("book a table", user_id="ana", kinds=("lesson",))
        memory.learn(run, task="book a table", outcome=True, user_id="ana", trace_id=block.trace_id)
        memory.add("I moved to Bergen.", user_id="ana")
    with StoreSource(tmp_path / "s") as source:
        (script,) = scripts_of(next(iter(source.trajectories())))
        logged = env.list_states(script)
        assert list(logged[-1].live.state) == [record for _, record in source.journal.live(bank=script.bank)]
        assert len(script) == 2
        (trail,) = env.run([(env.start(script), Policy(RuleBackbone()))], upto=None)
        assert trail.end.live.state.hash() == logged[-1].live.state.hash()


def test_what_was_tidied_is_given_between_the_scenes(tmp_path: Path, env: Env) -> None:
    day = datetime(2026, 1, 5, tzinfo=UTC)
    with Memory(tmp_path / "s") as memory:
        for number, text in enumerate(["User lives in Ghent.", "User lives in Bruges."]):
            memory.import_([{"text": text, "user_id": "ana", "at": day + timedelta(days=number)}])
        for number in range(2):
            memory.add("The spare key is under the pot.", user_id="ana", at=day + timedelta(days=number))
        assert len(memory.tidy(user_id="ana").ops) == 4
        memory.add("I moved to Bergen.", user_id="ana")
    with StoreSource(tmp_path / "s") as source:
        (script,) = scripts_of(next(iter(source.trajectories())))
        logged = env.list_states(script)
        assert list(logged[-1].live.state) == [record for _, record in source.journal.live(bank=script.bank)]
        (trail,) = env.run([(env.start(script), Policy(RuleBackbone()))], upto=None)
        assert trail.end.live.state.hash() == logged[-1].live.state.hash()


def test_alternatives_from_one_state_share_it_and_differ_by_seed(env: Env) -> None:
    script = script_of(EPISODES[0].user_id, turns_of(EPISODES[0]))
    (prefix,) = env.run([(env.start(script), Policy(OracleBackbone(Truth(EPISODES))))], upto=6)
    state = prefix.end
    before = state.live.state.hash()
    starts = [(state, Policy(TeacherBackbone(Truth(EPISODES), seed=seed))) for seed in range(8)]
    trails = env.run(starts, upto=None)
    assert len({trail.end.live.state.hash() for trail in trails}) > 1
    assert all(trail.start.live is state.live for trail in trails), "a fork is a reference, not a copy"
    assert state.live.state.hash() == before


def test_lanes_in_step_are_what_they_are_alone(env: Env) -> None:
    policy = Policy(teacher(EPISODES))
    states = [env.start(script_of(one.user_id, turns_of(one))) for one in EPISODES]
    together = env.run([(state, policy) for state in states], upto=None)
    for state, trail in zip(states, together, strict=True):
        (alone,) = env.run([(state, policy)], upto=None)
        assert alone.end.live.state.hash() == trail.end.live.state.hash()


def test_requests_of_all_lanes_are_generated_together(env: Env) -> None:
    sizes: list[int] = []

    class Watching(OracleBackbone):
        def generate(self, requests):
            sizes.append(len(requests))
            return super().generate(requests)

    policy = Policy(Watching(Truth(EPISODES)))
    env.run([(env.start(script_of(one.user_id, turns_of(one))), policy) for one in EPISODES])
    assert max(sizes) == len(EPISODES)
    assert env.run([]) == []


def test_what_the_app_did_itself_is_done_again_where_it_still_applies(tmp_path: Path, env: Env) -> None:
    from memkit import Memory

    (one,) = EPISODES[:1]
    path = lived(tmp_path / "store", [one], teacher(EPISODES))
    with Memory(path, model=OracleBackbone(Truth(EPISODES))) as memory:
        first = memory.list(user_id=one.user_id)[0]
        memory.add("A note of the app.", user_id=one.user_id, infer=False)
        memory.delete(first.id, user_id=one.user_id)
    with StoreSource(path) as source:
        (script,) = scripts_of(next(iter(source.trajectories())))
    (same,) = env.run([(env.start(script), Policy(teacher(EPISODES)))], upto=None)
    assert same.end.live.state.hash() == env.list_states(script)[-1].live.state.hash()
    (other,) = env.run([(env.start(script), Policy(OracleBackbone(Truth(EPISODES))))], upto=None)
    assert any(record.text == "A note of the app." for record in other.end.live.state)


def test_others_answer_in_the_roles_that_are_not_trained(env: Env) -> None:
    from memkit.seams.backbone import GenReply
    from memkit_train.replay.env import beside

    class Deaf(OracleBackbone):
        """Hears nothing, manages well."""

        def generate(self, requests):  # type: ignore[no-untyped-def]
            return [
                GenReply("NONE") if one.prompt.role == "extractor" else super(Deaf, self).generate([one])[0]
                for one in requests
            ]

    (episode,) = EPISODES[:1]
    script, truth = script_of(episode.user_id, turns_of(episode)), Truth(EPISODES)
    deaf = Deaf(truth)
    assert beside(deaf, None, ["manager"]) is deaf
    both = (deaf, beside(deaf, OracleBackbone(truth), ["manager"]))
    alone, helped = env.run([(env.start(script), Policy(one)) for one in both], upto=None)
    assert (len(alone.end.live), len(helped.end.live) > 0) == (0, True)
