"""Blamed decisions are taken again: what is learned instead mends the answer, and never what was right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from memkit.backbones.base import GenReply, GenRequest
from memkit.embedders import make_embedder
from memkit_train import rowfile
from memkit_train.amends import Case, Found, amend, blamed, pair
from memkit_train.replay import Env, Policy
from memkit_train.report.folder import RunFolder
from memkit_train.rewards import Answers
from memkit_train.rows import TokenRow
from memkit_train.rung import AMENDS, material
from memkit_train.shapes import shaped
from memkit_train.trajectories import StoreSource
from memkit_train.trajectories.credit import learn_topics
from memkit_train.worlds import Manners, OracleBackbone, Truth
from memkit_train.worlds.policies import kind_of
from tests.train.stores import lived, world

EPISODES = world(10, seed=3)


class Forgetful(OracleBackbone):
    """Passes over every retraction; sampled with an odd seed it heeds them, and with one divisible by three it adds
    everything. Reports its letters as tokens."""

    def generate(self, requests: Sequence[GenRequest]) -> list[GenReply]:
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


def cases_of(folder: Path, env: Env, manners: Manners) -> list[Case]:
    store = lived(folder / "store", EPISODES, Forgetful(Truth(EPISODES)), manners=manners)
    with StoreSource(store) as source:
        return list(blamed(source, source.users(), learn_topics(source), env))


def taken_again(cases: Sequence[Case], env: Env) -> Found:
    found, oracle = Found([]), OracleBackbone(Truth(EPISODES))
    policy = Policy(Forgetful(Truth(EPISODES)), roles=("manager",))
    amend(env, cases, policy, Answers(oracle, env.embedder), 6, found)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, env: Env) -> Found:
    return taken_again(cases_of(tmp_path_factory.mktemp("right"), env, Manners(rated=1.0, wrong_ratings=0.0)), env)


def test_what_mends_the_answer_is_what_an_oracle_would_have_done(found: Found) -> None:
    assert found.amends, "some retraction was asked about"
    for one in found.amends:
        fault, reply = one.case.fault, one.reply
        assert "no longer" in fault.moment.text
        assert reply.text.startswith(("DELETE", "UPDATE"))
        assert one.times > 1, "the most frequent one of those that mend"
        bad, good = pair(one)
        assert bad.prompt_ids == good.prompt_ids == fault.decision.prompt_ids
        assert (bad.reward, good.reward) == (0.0, 1.0)
        assert bad.completion_ids == fault.decision.token_ids != good.completion_ids == reply.token_ids


def test_every_method_takes_them_as_replayed_decisions(found: Found, tmp_path: Path) -> None:
    rows = [row for one in found.amends for row in pair(one)]
    good = [row.completion_ids for row in shaped([], "sft", rows) if isinstance(row, TokenRow)]
    assert good == [one.reply.token_ids for one in found.amends]
    assert len(shaped([], "kto", rows)) == 2 * len(shaped([], "dpo", rows)) == len(rows)
    rowfile.save(tmp_path / AMENDS, rows)
    assert material(RunFolder(tmp_path))["replayed"] == rows


def test_a_right_decision_that_is_blamed_by_mistake_is_not_replaced(tmp_path: Path, env: Env) -> None:
    """Every rating is wrong here, so most of what is disliked is right."""
    cases = cases_of(tmp_path, env, Manners(rated=1.0, wrong_ratings=1.0))
    assert any("no longer" not in one.fault.moment.text for one in cases)
    assert all("no longer" in one.case.fault.moment.text for one in taken_again(cases, env).amends)
