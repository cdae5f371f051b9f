"""Retraining as a habit, stage by stage.

    config.py      what a run is told; gone.py: what it can no longer be told
    collect.py     rows of the users to learn from; gather.py: conversations for reinforcement learning
    plan.py        what a run would do; doctor.py: whether it can
    amends.py      better replies for blamed decisions
    stages.py      imitation from a configuration; reinforce.py: reinforcement learning from one
    exam.py        candidate and parent on held-out users
    ancestry.py    what an adapter's forebears were taught
    publish.py     into the registry, with everything a promotion needs to know
    run.py         all of it, in order: `retrain`

Each finished stage is on record in the run's folder: an interrupted run goes on from there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_train.retrain.config import TrainConfig, load
    from memkit_train.retrain.run import RunOutcome, retrain

__all__ = ["RunOutcome", "TrainConfig", "load", "retrain"]

_HOMES = {"Outcome": "run", "retrain": "run", "TrainConfig": "config", "load": "config"}


def __getattr__(name: str) -> Any:
    """On demand: a configuration is read without loading what a run needs."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"memkit_train.retrain.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
