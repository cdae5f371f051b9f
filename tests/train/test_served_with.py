"""A store is replayed as it is served: with the settings of the runtime that decided its turns, not with defaults."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memkit import Memory
from memkit.adapters.verify import read_manifest
from memkit.embedders import make_embedder
from memkit.engine.decide import Task
from memkit.engine.record import prompt_text
from memkit.engine.served_with import ROLES, ServedWith
from memkit.models import digest
from memkit.ops import EDITION, Context
from memkit.retrieval import RANKINGS
from memkit.roles import role_prompt_hashes
from memkit.runtime import on_record
from memkit.seams.clock import RandomIds
from memkit_train.credit.assign import learn_topics
from memkit_train.errors import BadBundle
from memkit_train.gate.compare import states_of
from memkit_train.lab.worlds import Knobs, OracleBackbone, Truth
from memkit_train.log import StoreSource
from memkit_train.log.bundle import MANIFEST, BundleSource, bundle
from memkit_train.replay import Env, Policy, scripts_of
from memkit_train.replay.served_with import served_with
from memkit_train.retrain import amends
from memkit_train.retrain import run as retrain
from memkit_train.retrain.amends import find_blamed
from memkit_train.retrain.config import load
from memkit_train.retrain.gather import gather
from tests.train import test_retrain
from tests.train.stores import lived, teacher, world
from tests.train.test_amends import Forgetful

EPISODES = world(3, seed=5, knobs=Knobs(sessions=2, turns=6, extra_turns=2, probes=2, questions=4))
SERVED = {
    "context_turns": 1,
    "candidates": 2,
    "fused_candidates": 3,
    "reasks": 0,
    "answer_candidates": 4,
    "guard": {"max_ops": 7},
}
COMPACT = tuple((role, "compact") for role in ROLES)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lived")
    return lived(folder / "store", EPISODES, teacher(EPISODES), config=SERVED, instructions="Remember pets.")


@pytest.fixture(scope="module")
def carried(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("carried") / "bundle"
    with StoreSource(store) as source:
        bundle(source, path)
    return path


def config(path: Path, *more: str) -> Any:
    kind = "bundle" if (path / MANIFEST).is_file() else "store"
    return load(None, [f"data.{kind}={path}", "model.base=x", "data.heldout_share=0", "data.validation_share=0", *more])


def prompts(source: StoreSource, env: Env) -> tuple[list[str], list[str]]:
    """Of every call: the logged prompt, and the one that a replay of the same policy renders."""
    logged: list[str] = []
    replayed: list[str] = []
    for episode in source.trajectories():
        known = {one.decision_id: one.blobs[one.prompt_hash or ""] for one in episode.decisions}
        for script in scripts_of(episode):
            (trail,) = env.run([(env.start(script), Policy(teacher(EPISODES)))], upto=None)
            logged += [known[call.decision_id] for call in trail.calls]
            replayed += [prompt_text(call.prompt) for call in trail.calls]
    return logged, replayed


@pytest.mark.parametrize("where", ["store", "carried"])
def test_a_replay_renders_the_logged_prompts_byte_for_byte(where: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(where)
    with BundleSource(path) if where == "carried" else StoreSource(path) as source:
        env = Env(make_embedder("hash"), served_with(source, config(path).data))
        logged, replayed = prompts(source, env)
        assert len(logged) > 50
        assert replayed == logged


@pytest.mark.parametrize("where", ["store", "carried"])
def test_everything_that_decides_again_decides_as_the_store_does(where: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(where)
    chosen = config(path)
    with BundleSource(path) if where == "carried" else StoreSource(path) as source:
        env = amends.environment(chosen, source)
        found = env.served
        assert (found.candidates, found.fused_candidates, found.reasks, found.guard.max_ops) == (2, 3, 0, 7)
        assert found.answer_candidates == 4
        assert found.instructions == "Remember pets."
        shown = [state.scene.context_turns for _, state in states_of(source, env)]
        assert {len(turns) for turns in shown} == {0, 1}
    assert gather(chosen).served == found


def test_decisions_of_the_first_edition_are_replayed_by_its_rules_beside_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said again moved its memory's date then, and nothing of the EARLIER turns was looked up."""
    people = world(2, seed=6, knobs=Knobs(sessions=3, turns=8, extra_turns=8, probes=0, questions=2))
    policy, serving = teacher(people), {"config": {"candidates": 2, "context_turns": 4}}
    with monkeypatch.context() as then:
        then.setattr("memkit.runtime.turns.Task", partial(Task, edition=1))
        then.setattr("memkit.ops.Context", partial(Context, edition=1))
        path = lived(tmp_path / "store", people[:1], policy, **serving)
    lived(path, people[1:], policy, ids=RandomIds(), **serving)
    with StoreSource(path) as source:
        editions = [{scene.edition for scene in scripts_of(one)[0].scenes} for one in source.trajectories()]
        assert sorted(editions) == [{1}, {EDITION}]
        env = Env(make_embedder("hash"), served_with(source, config(path).data))
        for episode in source.trajectories():
            known = {one.decision_id: one.prompt_hash for one in episode.decisions}
            for script in scripts_of(episode):
                (trail,) = env.run([(env.start(script), Policy(policy))], upto=None)
                assert [digest(prompt_text(call.prompt)) for call in trail.calls] == [
                    known[call.decision_id] for call in trail.calls
                ]
                assert trail.end.live.state.hash() == env.list_states(script)[-1].live.state.hash()


def test_blamed_decisions_are_found_again_where_fewer_turns_are_shown(tmp_path: Path) -> None:
    episodes = world(8, seed=3, knobs=Knobs(sessions=4, turns=5, extra_turns=0, probes=3, questions=8))
    path = lived(tmp_path / "store", episodes, Forgetful(Truth(episodes)), config={"context_turns": 1, "candidates": 2})
    with StoreSource(path) as source:
        env = amends.environment(config(path), source)
        cases = list(find_blamed(source, source.users(), learn_topics(source), env))
    trails = env.run([(case.state, Policy(Forgetful(Truth(episodes)))) for case in cases])
    assert cases
    for case, trail in zip(cases, trails, strict=True):
        made = {call.decision_id: digest(prompt_text(call.prompt)) for call in trail.calls}
        assert made[case.fault.decision.decision_id] == case.fault.decision.prompt_hash


def test_what_the_configuration_names_goes_before_the_log(store: Path, tmp_path: Path) -> None:
    with StoreSource(store) as source:

        def of(*more: str) -> Any:
            return served_with(source, config(store, *more).data)

        assert (of().mode, of("data.mode=fused").mode, of("data.roles=[fused]").mode) == ("split", "fused", "fused")
        assert (of("data.roles=[answerer]").mode, of("data.instructions=''").instructions) == ("split", "")
        assert of("data.instructions=Remember all.").candidates == 2
    path = lived(tmp_path / "fused", EPISODES[:1], OracleBackbone(Truth(EPISODES)), mode="fused")
    with StoreSource(path) as source:
        modes = [of(f"data.roles=[{roles}]").mode for roles in ("answerer", "fused", "manager", "manager,fused")]
    assert modes == ["fused", "fused", "split", "fused"]


def test_what_is_published_is_promised_for_the_instructions_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = world(8, seed=8)
    path = lived(tmp_path / "store", people, teacher(people), instructions="Remember pets.")
    test_retrain.outcome_of(monkeypatch, 0.9, 0.5)
    done = retrain.retrain(test_retrain.config(path, tmp_path))
    assert done.digest is not None, done.why
    hashes = read_manifest(tmp_path / "registry" / done.digest).text
    assert hashes is not None
    expected = role_prompt_hashes("Remember pets.", "compact")
    assert hashes.prompt_hashes == {role: expected[role] for role in ("extractor", "manager")}


def test_looking_and_rules_leave_what_the_app_recorded(tmp_path: Path) -> None:
    path = lived(tmp_path / "store", EPISODES[:1], teacher(EPISODES), config=SERVED)
    mine = recorded(path)
    assert mine is not None
    assert mine.context_turns == 1
    user = EPISODES[0].user_id
    with Memory(path) as memory:
        memory.search("pets", user_id=user)
        memory.add("A cat.", user_id=user)
    with Memory(path, model=teacher(EPISODES), config={"context_turns": 3}) as memory:
        memory.add("A note.", user_id=user, infer=False)
        memory.search("pets", user_id=user)
    StoreSource(path).close()
    assert recorded(path) == mine
    with Memory(path, model=teacher(EPISODES), config={"context_turns": 3}) as memory:
        memory.add("A dog.", user_id=user)
    assert recorded(path) == ServedWith(context_turns=3, styles=COMPACT, ranking=max(RANKINGS))


def recorded(path: Path) -> ServedWith | None:
    with StoreSource(path) as source:
        return on_record.served_with(source.journal)


def test_rules_are_on_record_until_a_model_decides(tmp_path: Path) -> None:
    with Memory(tmp_path / "store", config={"context_turns": 2}) as memory:
        memory.search("pets", user_id="ana")
        assert on_record.served_with(memory._runtime.journal) is None, "nothing was decided"
        memory.add("I adopted a dog named Buddy.", user_id="ana")
    assert recorded(tmp_path / "store") == ServedWith(context_turns=2, styles=COMPACT, ranking=max(RANKINGS))


def test_logs_of_earlier_versions_had_the_defaults(store: Path, carried: Path, tmp_path: Path) -> None:
    with StoreSource(lived(tmp_path / "old", EPISODES[:1], teacher(EPISODES))) as source:
        with_it = source.served_with
    assert with_it == ServedWith(styles=COMPACT, ranking=max(RANKINGS))
    manifest = json.loads((carried / MANIFEST).read_text())
    for told in (None, ...):
        older = tmp_path / ("none" if told is None else "absent")
        with StoreSource(store) as source:
            bundle(source, older)
        raw = {name: value for name, value in manifest.items() if name != "practice"}
        raw["files"] = json.loads((older / MANIFEST).read_text())["files"]
        (older / MANIFEST).write_text(json.dumps(raw | ({} if told is ... else {"practice": None})))
        with BundleSource(older) as source:
            assert source.served_with == ServedWith()


def test_a_redacted_bundle_redacts_the_instructions_too(store: Path, tmp_path: Path) -> None:
    with StoreSource(store) as source:
        manifest = bundle(source, tmp_path / "bundle", redact=lambda text: text.replace("pets", "…"))
    assert manifest["practice"]["instructions"] == "Remember …."


@pytest.mark.parametrize(
    "served",
    [
        5,
        {"mode": "x"},
        {"instructions": 5},
        {"candidates": -1},
        {"guard": {"x": 1}},
        {"guard": 5},
        {"styles": {"a": 1}},
    ],
)
def test_a_damaged_record_is_refused(served: Any, store: Path, tmp_path: Path) -> None:
    with StoreSource(store) as source:
        manifest = bundle(source, tmp_path / "bundle")
    (tmp_path / "bundle" / MANIFEST).write_text(json.dumps(manifest | {"practice": served}))
    with pytest.raises(BadBundle, match="served with"):
        BundleSource(tmp_path / "bundle")
