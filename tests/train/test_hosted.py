"""What a hosted model decided, asked in one call and in JSON as by default, is what a local adapter learns from: in its
own prompts, roles and style."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memkit.embedders import make_embedder
from memkit.seams.clock import RandomIds
from memkit_train.errors import NoSignal
from memkit_train.lab.worlds import Manners
from memkit_train.lab.worlds.policies import HABITS
from memkit_train.log import StoreSource
from memkit_train.retrain import collect
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.plan import plan
from memkit_train.retrain.rendered import UNRATED, list_imitated
from memkit_train.rows import TextRow, list_written
from tests.train.hosted import HostedTeacher
from tests.train.stores import lived, world
from tests.train.test_retrain import config as of_retrain

EPISODES = world(8, seed=7)
ADDS = {**dict.fromkeys(HABITS, 0.0), "new": 1.0, "plan": 1.0}
"""It adds whatever it hears, so that what was true once is served beside what is."""


def store(folder: Path, **options: Any) -> Path:
    model: Any = HostedTeacher(EPISODES, habits=ADDS)
    return lived(folder / "store", EPISODES, model, **options)


@pytest.fixture(scope="module")
def by_default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store(tmp_path_factory.mktemp("default"))


def config(log: Path, folder: Path, **more: Any) -> TrainConfig:
    return of_retrain(log, folder, **{"data.heldout_share": 0.0, **more})


def collected(chosen: TrainConfig) -> collect.Collected:
    with StoreSource(chosen.data.path) as source:
        return collect.collect(source, chosen, make_embedder("hash"), now=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("roles", ["[extractor, manager]", "[fused]"])
@pytest.mark.parametrize("method", ["sft", "distil"])
def test_a_log_of_default_options_is_learned_from_whole(
    by_default: Path, tmp_path: Path, roles: str, method: str
) -> None:
    found = collected(config(by_default, tmp_path, **{"data.roles": roles, "method.name": method}))
    assert not found.left_out
    assert {row.role for row in list_written(found.rows)} == set(roles[1:-1].split(", "))
    assert all(isinstance(row, TextRow) and "{" not in row.completion for row in found.rows)


def test_a_teacher_needs_no_labels_and_what_turned_out_well_counts_more(tmp_path: Path) -> None:
    silent = store(tmp_path, manners=Manners(rated=0.0, corrects=0.0, asks_again=0.0))
    with pytest.raises(NoSignal):
        collected(config(silent, tmp_path))
    found = list_written(collected(config(silent, tmp_path, **{"method.name": "distil"})).rows)
    assert {(row.reward, row.weight) for row in found} == {(None, UNRATED)}


def test_what_turned_out_badly_is_not_imitated(by_default: Path, tmp_path: Path) -> None:
    rows = list_written(collected(config(by_default, tmp_path, **{"method.name": "distil"})).rows)
    taken = list_imitated(rows, every=True)
    bad = [row for row in rows if row.reward is not None and row.reward < 0.5]
    assert bad
    assert len(taken) == len(rows) - len(bad)
    weights = [row.weight for row in taken if row.reward is not None]
    assert UNRATED < max(weights) <= 1.0


def test_a_log_that_began_in_json_goes_on_in_compact_and_both_teach(tmp_path: Path) -> None:
    model: Any = HostedTeacher(EPISODES, habits=ADDS)
    log = lived(tmp_path / "store", EPISODES[:4], model, mode="split")
    with StoreSource(log) as source:
        before = {one.decision_id for one in source.decisions()}
    lived(log, EPISODES[4:], model, mode="split", style="compact", ids=RandomIds())
    chosen = config(log, tmp_path, **{"method.name": "distil"})
    found = collected(chosen)
    refs = {row.ref for row in (*found.rows, *found.replay)}
    assert refs & before
    assert refs - before
    assert not [one for one in plan(chosen).findings if one.level == "error"]


def test_the_style_that_is_served_is_that_of_the_local_backbone() -> None:
    from memkit.backbones.hf import HFBackbone

    assert HFBackbone.style == collect.SERVED
