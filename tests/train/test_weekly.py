"""Retraining as a habit: each run goes on from what serves, reads the log that it served, and is judged against it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from memkit.adapters import Registry
from memkit.adapters.promotion import promote
from memkit.adapters.verify import read_manifest
from memkit.backbones.hf import HFBackbone
from memkit_train.files.run_folder import RunFolder
from memkit_train.log import StoreSource
from memkit_train.retrain import run as command
from tests.train.test_retrain import outcome_of
from tests.train.test_zoo import live, settings
from tests.zoo import ZOO, build


@pytest.mark.slow
def test_each_week_starts_from_what_the_week_before_promoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better, better, worse: what is worse is not published, so the second week's adapter serves on."""
    torch.set_num_threads(1)
    base, store = build(ZOO["qwen2"], tmp_path / "base"), tmp_path / "store"
    config, serving = None, list[str | None]([None])
    for week, (ours, theirs) in enumerate([(0.7, 0.5), (0.9, 0.7), (0.4, 0.9)]):
        with HFBackbone(base, threads=1, device="cpu") as model:
            live(store, model, week=week)
        with StoreSource(store) as source:
            decided = {
                one.adapter
                for user in source.users()
                if user.startswith(f"week-{week}")
                for one in source.decisions(user_id=user)
                if one.role == "manager"
            }
        assert decided == {serving[-1]}, "everybody of this week was served by what was promoted"
        outcome_of(monkeypatch, ours, theirs)
        if not week:  # a user's side of the split stays what it is
            more = {"model.parent": "production", "gate.canaries": 0}
            config = settings(base, store, tmp_path / "runs", **more)
        assert config is not None
        done = command.retrain(config, force=True)
        assert done.run is not None
        assert RunFolder(done.run).record["parent"] == serving[-1]
        if ours < theirs:
            assert (done.status, done.digest) == ("refused", None)
            continue
        assert done.digest is not None, done.why
        registry = Registry(store / "adapters")
        try:
            assert read_manifest(registry.path(done.digest)).training.parent == serving[-1]
            promote(registry, "production", done.digest)
        finally:
            registry.close()
        serving.append(done.digest)
    registry = Registry(store / "adapters")
    assert registry.alias("production").route("manager").stable == serving[2]
    registry.close()
