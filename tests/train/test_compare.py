"""Two policies at the same logged states: what they agree on, and a diff that a person can read."""

from __future__ import annotations

from pathlib import Path

import pytest

from memkit.embedders import make_embedder
from memkit_train.gate.compare import compare, diff, states_of
from memkit_train.lab.worlds import OracleBackbone, Truth
from memkit_train.log import StoreSource
from memkit_train.replay import Env, Policy
from tests.train.policies import OnlyAdds
from tests.train.stores import lived, teacher, world

EPISODES = world(2, seed=11)
ENV = Env(make_embedder("hash"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lived(tmp_path_factory.mktemp("lived") / "store", EPISODES, teacher(EPISODES))


def test_the_policy_that_acted_agrees_with_its_own_log(store: Path) -> None:
    with StoreSource(store) as source:
        states = states_of(source, ENV)
    found = compare(states, Policy(teacher(EPISODES), name="then"), Policy(OnlyAdds(Truth(EPISODES)), name="now"), ENV)
    assert found.as_logged("a") == 1.0
    assert 0 < found.agreement < 1
    text = "\n".join(diff(found, limit=1))
    one = found.different[0]
    assert one.said[0] in text
    assert "- then: " in text
    assert "+ now: ADD " in text
    assert f"… and {len(found.different) - 1} more" in text


def test_equal_policies_differ_nowhere_and_samples_depend_on_the_seed(store: Path) -> None:
    with StoreSource(store) as source:
        few = states_of(source, ENV, limit=3, seed=4)
        again = states_of(source, ENV, limit=3, seed=4)
    assert [s.scene.intake_id for _, s in few] == [s.scene.intake_id for _, s in again]
    oracle = Policy(OracleBackbone(Truth(EPISODES)))
    found = compare(few, oracle, oracle, ENV)
    assert (found.agreement, len(found.cases), diff(found)[1:]) == (1.0, 3, [])
