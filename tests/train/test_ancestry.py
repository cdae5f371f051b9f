"""Whom an adapter learned from counts for every adapter that begins from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit import Memory
from memkit.adapters import Registry
from memkit.adapters.verify import read_manifest
from memkit.models import Bank
from memkit_train.errors import Leakage
from memkit_train.log import StoreSource
from memkit_train.log.splits import Split
from memkit_train.retrain import run as retrain
from memkit_train.retrain.ancestry import check_unseen, list_taught
from tests.train.stores import dividing_seed, lived, teacher, world
from tests.train.test_retrain import config, outcome_of

EPISODES = world(8, seed=9)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return lived(tmp_path / "store", EPISODES, teacher(EPISODES))


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    found = Registry(tmp_path / "out" / "registry")
    yield found
    found.close()


def test_an_adapter_is_not_judged_by_users_whom_its_parent_learned_from(
    store: Path, tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    first = retrain.retrain(config(store, tmp_path / "out"))
    with StoreSource(store) as source:
        users, learned = (
            map(source.subject, source.users()),
            list_taught(registry, first.digest, source.journal.store_id),
        )
        everybody = list(users)
    other = next(
        seed
        for seed in range(1000)
        if 0 < sum(map(Split(seed, 0.3).is_heldout, learned)) < len(learned)
        and not all(map(Split(seed, 0.3).is_heldout, everybody))
    )
    with pytest.raises(Leakage, match=f"adapter {first.digest[:12]} learned from"):  # type: ignore[index]
        retrain.retrain(
            config(store, tmp_path / "out", **{"model.parent": first.digest, "data.split_seed": other}), force=True
        )
    check_unseen(config(store, tmp_path / "out"), registry, first.digest, None)


@pytest.mark.parametrize("whole", [True, False], ids=["all of them", "a turn"])
def test_who_is_erased_taints_what_begins_from_an_adapter_that_learned_from_them(
    store: Path, tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    outcome_of(monkeypatch, 0.9, 0.5)
    seed = dividing_seed(store)
    first = retrain.retrain(config(store, tmp_path / "out", **{"data.split_seed": seed}))
    parents = set(read_manifest(registry.path(first.digest)).data.subjects)  # type: ignore[arg-type]
    with StoreSource(store) as source:
        user = next(one for one in source.users() if source.subject(one) in parents)
        gone = source.subject(user)
        turn = source.journal.turns(bank=Bank(user))[0].turn_id
    with Memory(store, adapters=registry.root) as memory:
        receipt = memory.erase(user_id=user, turn_id=None if whole else turn)
    assert receipt.tainted_adapters == (first.digest,)
    later = config(store, tmp_path / "out", **{"data.split_seed": seed, "model.parent": first.digest, "method.seed": 1})
    second = retrain.retrain(later, force=True)
    assert second.digest is not None
    assert set(read_manifest(registry.path(second.digest)).data.subjects) == parents
    assert registry.taints(second.digest) == [gone]
