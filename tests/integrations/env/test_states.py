"""The half of memkit-env that needs no verifiers: what a reply earns there is what memkit's own engine gives for it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memkit.embedders import make_embedder
from memkit.errors import InvalidConfig
from memkit_env.settings import StateSettings
from memkit_env.sources import open_states
from memkit_env.states import ReplyScore, States
from memkit_train.errors import NoRows
from memkit_train.lab.worlds import Knobs, dataset
from memkit_train.log import StoreSource
from memkit_train.log.bundle import bundle
from memkit_train.log.splits import Split
from tests.integrations.env.engine import EVERY, Engine, list_replies
from tests.stub_server import StubServer
from tests.train.hosted import HostedTeacher
from tests.train.stores import dividing_seed, lived, teacher, world

WORLD = "closed,count=2,seed=4,sessions=3,turns=3,probes=4,questions=6"


def settings(**more: Any) -> StateSettings:
    return StateSettings.model_validate({"world": WORLD, **more})


@pytest.mark.parametrize("role", ["manager", "extractor"])
def test_a_reply_earns_what_memkits_own_engine_gives_for_it(role: str) -> None:
    states = States.load(settings(role=role, questions=EVERY, guard_share=0.5))
    episodes = [one.info["episode"] for one in dataset.load(f"{WORLD},split=train").conversations]
    engine = Engine.of(role, episodes)
    totals: list[float] = []
    for key, asked in states.items():
        assert asked.prompt == engine.places[key].call.prompt  # type: ignore[union-attr]
        right = states.write_right_reply(key)
        assert right is not None
        for reply, cut in list_replies(right, len(asked.prompt.view.shown)):
            score = states.score(key, reply, cut=cut)
            assert score.total == pytest.approx(engine.score(key, reply, cut), abs=1e-12), (key, reply)
            totals.append(score.total)
    assert len(states) > 12
    assert min(totals) <= 0 < 0.9 < max(totals)


def test_the_reward_tells_the_right_reply_from_others_and_pays_nothing_for_what_is_refused() -> None:
    states = States.load(settings())

    def mean(say: Callable[[str], str]) -> float:
        return sum(states.score(key, say(key)).total for key in states) / len(states)

    right = mean(lambda key: states.write_right_reply(key) or "")
    assert right > mean(lambda key: "ADD") + 0.02
    assert right > mean(lambda key: "NOOP") + 0.1
    assert right > mean(lambda key: "DELETE 1") + 0.1
    for key in states:
        score = states.score(key, "Sure, here is what I would do: ADD")
        assert score.refused is not None
        assert score.total <= 0
        assert (score.ops, score.parts["add"]) == ((), 0.0)


def test_every_process_finds_the_same_states_and_the_sides_share_nobody() -> None:
    first, again = States.load(settings()), States.load(settings())
    assert [(one.key, one.prompt, one.questions) for one in first.values()] == [
        (one.key, one.prompt, one.questions) for one in again.values()
    ]
    assert list(States.load(settings(seed=1))) != list(first)
    held = States.load(settings(split="heldout"))
    assert not set(held) & set(first)
    assert not {one.user for one in held.values()} & {one.user for one in first.values()}


def test_a_world_is_asked_in_one_call_too() -> None:
    states = States.load(settings(role="fused"))
    key, asked = next((key, one) for key, one in states.items() if one.place.turning)
    assert "NEW turns:" in asked.user
    written = states.score(key, "ADD 1 Ana lives in Oslo.")
    assert written.told == ["ADD Ana lives in Oslo."]
    assert states.score(key, "ADD").refused is not None
    assert states.write_right_reply(key) is None


# -- logs --------------------------------------------------------------------------------------------------------------

PEOPLE = world(6, knobs=Knobs(sessions=3, turns=3, extra_turns=0, probes=3, questions=6))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """In lines and in two calls; in JSON and in one."""
    folder = tmp_path_factory.mktemp("logs")
    return {
        "lines": lived(folder / "lines", PEOPLE, teacher(PEOPLE)),
        "json": lived(folder / "json", PEOPLE, HostedTeacher(PEOPLE, {"change": 0.5}), mode="fused"),  # type: ignore[arg-type]
    }


@pytest.fixture(scope="module")
def answerer() -> Iterator[StubServer]:
    oracle = HostedTeacher(PEOPLE)
    with StubServer(reply=lambda body: oracle(body["messages"])) as server:
        yield server


@pytest.mark.parametrize("kind", ["lines", "json"])
@pytest.mark.parametrize("role", ["manager", "fused"])
def test_the_states_of_a_log_are_entered_whatever_it_was_asked_in(
    kind: str, role: str, stores: dict[str, Path], answerer: StubServer
) -> None:
    store, seed = stores[kind], dividing_seed(stores[kind], 0.5)
    said = {"log": str(store), "role": role, "answerer": "openai:stub", "base_url": answerer.url, "split_seed": seed}
    states = States.load(StateSettings.model_validate({**said, "heldout_share": 0.5, "validation_share": 0.0}))
    with contextlib.closing(states):
        check_log(states, store, seed)


def check_log(states: States, store: Path, seed: int) -> None:
    with StoreSource(store) as source:
        users = {source.subject(one): one for one in source.users()}
        known = {op.after.text for episode in source.trajectories() for op in episode.ops if op.after is not None}
    sides = {key.partition("@")[0] for key in states}
    assert sides <= {one for one in users if not Split(seed, 0.5).is_heldout(one)}
    for asked in states.values():
        assert {one.record.text for one in asked.prompt.view.shown} <= known
        assert "JSON" not in asked.system
        assert not any(user in json.dumps([asked.key, asked.user]) for user in users.values())

    def mean(say: Callable[[str], str]) -> float:
        scores: list[ReplyScore] = [states.score(key, say(key)) for key in states]
        return sum(one.total for one in scores) / len(scores)

    fact = HostedTeacher(PEOPLE)
    right = mean(lambda key: fact([{"content": states[key].system}, {"content": states[key].user}]))
    assert right > mean(lambda key: "NOOP") + 0.1
    assert mean(lambda key: "Well, well.") <= 0


def test_a_bundle_has_the_states_of_its_store(stores: dict[str, Path], tmp_path: Path) -> None:
    with StoreSource(stores["json"]) as source:
        bundle(source, tmp_path / "bundle")
    answers = {"answerer": "openai:stub", "base_url": "http://127.0.0.1:9/v1"}
    said = {**answers, "split_seed": dividing_seed(stores["json"], 0.5), "heldout_share": 0.5}
    found: list[dict[str, tuple[str, Any]]] = []
    for log in (stores["json"], tmp_path / "bundle"):
        asked = StateSettings.model_validate({**said, "log": str(log), "validation_share": 0.0})
        with contextlib.closing(States.load(asked)) as states:
            found.append({key: (one.user, one.questions) for key, one in states.items()})
    assert found[0] == found[1] != {}


def embed(texts: list[str]) -> list[list[float]]:
    return [[1.0, float(len(text))] for text in texts]


def test_a_log_is_searched_with_its_own_embedder_and_no_other(tmp_path: Path) -> None:
    for name, embedder in {"short": make_embedder("hash", dim=64), "function": embed}.items():
        lived(tmp_path / name, PEOPLE[:1], teacher(PEOPLE), embedder=embedder)
    with StoreSource(tmp_path / "short") as source:
        bundle(source, tmp_path / "bundle")

    def identity(log: str, **more: Any) -> str:
        told = {"log": str(tmp_path / log), "answerer": "openai:stub", "base_url": "http://127.0.0.1:9/v1"}
        alone = {"heldout_share": 0.0, "validation_share": 0.0, **more}
        return open_states(StateSettings.model_validate({**told, **alone})).env.embedder.identity

    assert identity("short") == identity("bundle") == "hash/1:64"
    with pytest.raises(InvalidConfig, match=r"hash/1:64, and embedder=hash is hash/1:384(.|\n)*leave embedder out"):
        identity("short", embedder="hash")
    with pytest.raises(InvalidConfig, match=r"callable/.*(.|\n)*reembed"):
        identity("function")


FACTS = ("Ana lives in Oslo.", "Ben works as a cook.", "Ana lives in Bergen.", "Ben has a dog named Rex.")
ASKED = {"Where does Ana live?": "Bergen", "What does Ben work as?": "cook", "Where does Zoe live?": None}


def test_statements_of_a_file_are_states_and_the_last_one_counts(tmp_path: Path, answerer: StubServer) -> None:
    lines: list[dict[str, Any]] = [{"role": "user", "content": text} for text in FACTS]
    lines += [{"question": question, "answer": answer} for question, answer in ASKED.items()]
    (tmp_path / "facts.jsonl").write_text("\n".join(json.dumps({"conversation": "ana", **line}) for line in lines))
    told = {"spoken": f"jsonl:{tmp_path / 'facts.jsonl'}", "answerer": "openai:stub", "base_url": answerer.url}
    alone = {"heldout_share": 0.0, "validation_share": 0.0, "guard_share": 0.0}
    with contextlib.closing(States.load(StateSettings.model_validate({**told, **alone}))) as states:
        asked = {key.partition("@")[2]: [one.question for one in found.questions] for key, found in states.items()}
        assert asked["1"][0] == "What does Ben work as?"
        assert asked["2"][0] == "Where does Ana live?"
        assert not any("ana" in key for key in states)
        (key,) = (one for one in states if one.endswith("@2"))
        assert {one.record.text for one in states[key].prompt.view.shown} == set(FACTS[:2])
        earned = {reply: states.score(key, reply).total for reply in ("UPDATE 1", "ADD", "NOOP", "DELETE 1")}
    assert earned["UPDATE 1"] > earned["ADD"] > earned["NOOP"] >= earned["DELETE 1"]


def test_a_file_of_one_conversation_has_no_two_sides(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"conversation": "ana", "role": "user", "content": "Ana lives in Oslo."}')
    with pytest.raises(NoRows, match="cannot be divided"):
        States.load(StateSettings(spoken=f"jsonl:{tmp_path / 'one.jsonl'}", answerer="openai:stub"))


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"log": "x", "world": WORLD}, "World and log are named"),
        ({"log": "x"}, "only understands a generated world"),
        ({"log": "x", "role": "extractor", "answerer": "openai:m"}, "nobody manages"),
    ],
)
def test_what_cannot_be_is_refused_in_words(told: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        States.load(StateSettings.model_validate(told))


def test_a_world_that_asks_nothing_has_no_states() -> None:
    with pytest.raises(NoRows, match="can be asked about"):
        States.load(settings(world="closed,count=1,sessions=1,turns=1,extra_turns=0,probes=0,questions=0"))
