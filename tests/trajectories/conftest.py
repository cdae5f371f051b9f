from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit_train.lab.worlds import Knobs, Manners, generate
from memkit_train.log import StoreSource
from tests.trajectories._logs import talk


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "store"
    episodes = generate(8, seed=11, knobs=Knobs(sessions=6), split="train")
    talk(path, episodes, manners=Manners(rated=0.5, corrects=0.5, asks_again=0.3))
    return path


@pytest.fixture
def source(log: Path) -> Iterator[StoreSource]:
    with StoreSource(log) as opened:
        yield opened
