"""Conversations for a run, from its configuration: a generated world, or the log of a store.

Of a log, the users that `memkit-train gate` judges by are left alone: an adapter whose checkpoint they had chosen would
come to them with the luck of that choice. So others are set aside for it, the same that a polish decides on.
"""

from __future__ import annotations

from dataclasses import dataclass

from memkit.embedders import make_embedder
from memkit.engine.served_with import ServedWith
from memkit_train.credit.assign import learn_topics
from memkit_train.lab.worlds import Episode, dataset
from memkit_train.log.source import StoreSource
from memkit_train.replay.served_with import served_with
from memkit_train.retrain.collect import open_source, sides, validation
from memkit_train.retrain.config import TrainConfig
from memkit_train.rl.talks import Talk, of_log, of_world


@dataclass(frozen=True, slots=True)
class Gathered:
    talks: list[Talk]
    heldout: list[Talk]
    """They choose the checkpoint."""
    episodes: list[Episode]
    """The world behind them; empty for a log."""
    subjects: list[str]
    """Opaque ids of the users to learn from; empty for a world."""
    served: ServedWith
    """What their banks are decided and asked with."""


def gather(config: TrainConfig) -> Gathered:
    spec = config.data.world
    if spec is not None:
        train = [one.info["episode"] for one in dataset.load(f"{spec},split=train").conversations]
        most = config.online.stop.users
        held = [one.info["episode"] for one in dataset.load(f"{spec},split=heldout,count={most}").conversations]
        chunks = config.online.chunks
        served = served_with(None, config.data, config.online.roles)
        return Gathered(of_world(train, chunks=chunks), of_world(held, chunks=chunks), [*train, *held], [], served)
    embedder = make_embedder(config.data.embedder)
    with open_source(config) as source:
        train_users, judges = _divided(source, config)
        topics = learn_topics(source, train_users)
        talks = list(of_log(source, train_users, topics, embedder))
        heldout = list(of_log(source, judges, topics, embedder))
        served = served_with(source, config.data, config.online.roles)
    return Gathered(talks, heldout, [], list(dict.fromkeys(talk.user for talk in talks)), served)


def _divided(source: StoreSource, config: TrainConfig) -> tuple[list[str], list[str]]:
    """User ids to learn from, and to choose the checkpoint by. Whatever `method` says: that section is about imitation,
    which sets nobody aside unless it must."""
    asks = config.model_copy(update={"method": config.method.model_copy(update={"polish": True})})
    return sides(source, asks)[0], validation(source, asks)
