"""Blamed decisions are taken again: what is learned instead mends the answer, and never what was right."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from memkit.embedders import make_embedder
from memkit.errors import InvalidConfig
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit_train.credit.assign import learn_topics
from memkit_train.errors import NoRows
from memkit_train.files import rowfile
from memkit_train.files.run_folder import RunFolder
from memkit_train.lab.worlds import Manners, OracleBackbone, Truth
from memkit_train.lab.worlds.policies import kind_of
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy
from memkit_train.retrain import amends
from memkit_train.retrain.amends import Amend, BlamedDecision, amend, find_blamed, row_of, to_blame
from memkit_train.retrain.collect import sides
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.stages import AMENDS, ROWS, material
from memkit_train.rewards import Answers
from memkit_train.rows import TextRow
from tests.train.stores import lived, world

EPISODES = world(10, seed=3)


class Forgetful(OracleBackbone):
    """Passes over every retraction; sampled with an odd seed it heeds them, and with one divisible by three it adds
    everything. Reports its letters as tokens."""

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [self._spelled(request) for request in requests]

    def _spelled(self, request: GenRequest) -> GenReply:
        text = self.reply(request)
        prompt = tuple(request.prompt.messages[-1].content.encode())
        return GenReply(text, model="letters", prompt_ids=prompt, token_ids=(*text.encode(), 0))

    def _manage(self, request: GenRequest, fact: str, shown: list[tuple[int, str]]) -> list[str]:
        seed = request.sampling.seed if request.sampling.temperature > 0 else 0
        if seed and seed % 3 == 0:
            return ["ADD"]
        right = super()._manage(request, fact, shown)
        return right if seed % 2 else ["NOOP"] if kind_of(fact, shown) == "retract" else right


@pytest.fixture(scope="module")
def env() -> Env:
    return Env(make_embedder("hash"))


def cases_in(store: Path, env: Env) -> list[BlamedDecision]:
    with StoreSource(store) as source:
        return list(find_blamed(source, source.users(), learn_topics(source), env))


def taken_again(
    cases: Sequence[BlamedDecision], env: Env, answerer: type[OracleBackbone] = OracleBackbone
) -> list[Amend]:
    answers = Answers(answerer(Truth(EPISODES)), env.embedder)
    standing = to_blame(cases, Answers(OracleBackbone(Truth(EPISODES)), env.embedder))
    return amend(env, standing, Policy(Forgetful(Truth(EPISODES))), answers, 6)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("right")
    return lived(folder / "store", EPISODES, Forgetful(Truth(EPISODES)), manners=Manners(rated=1.0, wrong_ratings=0.0))


@pytest.fixture(scope="module")
def cases(store: Path, env: Env) -> list[BlamedDecision]:
    return cases_in(store, env)


@pytest.fixture(scope="module")
def found(cases: list[BlamedDecision], env: Env) -> list[Amend]:
    return taken_again(cases, env)


def test_what_mends_the_answer_is_what_an_oracle_would_have_done(found: list[Amend]) -> None:
    assert found, "some retraction was asked about"
    for one in found:
        fault, reply = one.case.fault, one.reply
        assert "no longer" in fault.moment.text
        assert reply.text.startswith(("DELETE", "UPDATE"))
        assert one.times > 1, "the most frequent one of those that mend"
        row = row_of(one)
        assert (row.prompt_ids, row.reward) == (fault.decision.prompt_ids, 1.0)
        assert fault.decision.token_ids != row.completion_ids == reply.token_ids


def test_a_run_keeps_them_beside_its_rows(found: list[Amend], tmp_path: Path) -> None:
    run, rows = RunFolder(tmp_path), list(map(row_of, found))
    rowfile.save(tmp_path / ROWS, [TextRow((), "ADD", reward=1.0)])
    assert {name: len(kept) for name, kept in material(run).items()} == {"rows": 1, "replay": 0, "amended": 0}
    rowfile.save(tmp_path / AMENDS, rows)
    assert material(run)["amended"] == rows


@pytest.mark.parametrize(
    ("said", "mends"),
    [
        ("DELETE 1", True),
        ("ADD", False),  # the older memory would stand beside it
        ("UPDATE 1 {fact} and a zeppelin.", False),  # nobody spoke of that
        ("NOOP", False),
    ],
)
def test_credit_asks_of_other_operations_what_it_asked_of_the_logged_ones(
    cases: list[BlamedDecision], env: Env, said: str, mends: bool
) -> None:
    class Says(Forgetful):
        def _manage(self, request: GenRequest, fact: str, shown: list[tuple[int, str]]) -> list[str]:
            return [said.format(fact=fact.rstrip("."))]

    one = next(one for one in cases if len(one.fault.shown) and "no longer" in one.fault.moment.text)
    (trail,) = env.run([(one.state, Policy(Says(Truth(EPISODES))))])
    ops = [op for op in trail.ops if op.decision_id == one.fault.decision.decision_id]
    assert ops
    assert one.fault.mends(ops, list(trail.end.live.state)) is mends


def test_an_answerer_that_does_not_answer_mends_nothing(cases: list[BlamedDecision], env: Env) -> None:
    class Mute(OracleBackbone):
        def generate(self, requests: Sequence[GenRequest]) -> Replies:
            return [GenReply("", model="mute") for _ in requests]

    assert taken_again(cases, env, Mute) == []
    assert to_blame(cases, Answers(Mute(Truth(EPISODES)), env.embedder)) == []


def test_only_those_whom_the_run_learns_from_are_taken_again(
    store: Path, env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def deciding(*_: object) -> Generator[tuple[Policy, Answers]]:
        yield Policy(Forgetful(Truth(EPISODES))), Answers(OracleBackbone(Truth(EPISODES)), env.embedder)

    monkeypatch.setattr(amends, "deciding", deciding)

    def configured(share: float, seed: int = 0) -> TrainConfig:
        sets = {"data.store": store, "model.base": "x", "method.amends": 6, "data.heldout_share": share}
        return load(None, [f"{name}={value}" for name, value in (sets | {"data.split_seed": seed}).items()])

    everybody = configured(0.0)
    rows, told = amends.find_amends(everybody, None)
    users = {row.user for row in rows}
    assert len(users) > 1
    assert len(rows) == told["amended"]
    with StoreSource(store) as source:  # opaque ids are salted anew in every store: a split that parts these users
        sided: dict[int, set[str]] = {}
        for seed in range(50):
            with suppress(NoRows):  # all on one side
                sided[seed] = {source.subject(user) for user in sides(source, configured(0.5, seed))[0]}
    seed = next(seed for seed, learned in sided.items() if users & learned and users - learned)
    some, _ = amends.find_amends(configured(0.5, seed), None)
    assert {row.user for row in some} <= sided[seed]
    one = min(users)
    assert {row.user for row in amends.find_amends(everybody, None, users=[one])[0]} == {one}
    assert amends.find_amends(everybody, None, most=2)[1]["blamed"] == 2


def test_amends_want_a_manager_of_its_own() -> None:
    for wrong in ("data.roles=[extractor]", "data.mode=fused"):
        with pytest.raises(InvalidConfig, match="manager"):
            load(None, ["data.store=s", "model.base=x", "method.amends=6", wrong])


def test_a_right_decision_that_is_blamed_by_mistake_is_not_replaced(tmp_path: Path, env: Env) -> None:
    """Every rating is wrong here, so most of what is disliked is right."""
    wrong = Manners(rated=1.0, wrong_ratings=1.0)
    cases = cases_in(lived(tmp_path / "store", EPISODES, Forgetful(Truth(EPISODES)), manners=wrong), env)
    assert any("no longer" not in one.fault.moment.text for one in cases)
    assert all("no longer" in one.case.fault.moment.text for one in taken_again(cases, env))
