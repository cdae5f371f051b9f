"""Whom a run from a log learns from, and who chooses its checkpoint."""

from __future__ import annotations

import contextlib
from pathlib import Path

from memkit_train.errors import NoRows
from memkit_train.log import StoreSource
from memkit_train.retrain import collect
from memkit_train.retrain.config import load
from memkit_train.retrain.gather import gather
from tests.train.stores import SMALL, lived, teacher, world


def test_the_gates_users_choose_no_checkpoint(tmp_path: Path) -> None:
    episodes = world(8, knobs=SMALL)
    store = lived(tmp_path / "store", episodes, teacher(episodes))
    found, config = None, load(None, [f"data.store={store}", "model.base=none"])
    for seed in range(50):  # opaque ids are salted anew in every store, and its few users may all fall on one side
        share = ["data.heldout_share=0.4", "data.validation_share=0.4", f"data.split_seed={seed}"]
        config = load(None, [f"data.store={store}", "model.base=none", *share])
        with contextlib.suppress(NoRows):
            found = gather(config)
            break
    assert found is not None
    with StoreSource(store) as source:
        gate = {source.subject(user) for user in collect.sides(source, config)[1]}
    learned, choosing = {talk.user for talk in found.talks}, {talk.user for talk in found.heldout}
    assert learned
    assert choosing
    assert not choosing & gate, "the gate would judge by the users that chose what it judges"
    assert not learned & (choosing | gate)
    assert set(found.subjects) == learned
