"""Conversations for a run, from its configuration: a generated world, or the log of a store."""

from __future__ import annotations

from dataclasses import dataclass

from memkit.embedders import make_embedder
from memkit_train.collect import open_source, sides
from memkit_train.config import TrainConfig
from memkit_train.evaluate.loaders import world
from memkit_train.online.talks import Talk, of_log, of_world
from memkit_train.trajectories.credit import learn_topics
from memkit_train.worlds import Episode


@dataclass(frozen=True, slots=True)
class Gathered:
    talks: list[Talk]
    heldout: list[Talk]
    episodes: list[Episode]
    """The world behind them; empty for a log."""
    subjects: list[str]
    """Opaque ids of the users to learn from; empty for a world."""


def gather(config: TrainConfig) -> Gathered:
    spec = config.data.world
    if spec is not None:
        train = [one.info["episode"] for one in world.load(f"{spec},split=train").conversations]
        most = config.online.stop.users
        held = [one.info["episode"] for one in world.load(f"{spec},split=heldout,count={most}").conversations]
        chunks = config.online.chunks
        return Gathered(of_world(train, chunks=chunks), of_world(held, chunks=chunks), [*train, *held], [])
    embedder = make_embedder(config.data.embedder)
    with open_source(config) as source:
        train_users, held_users = sides(source, config)
        topics = learn_topics(source, train_users)
        talks = list(of_log(source, train_users, topics, embedder))
        heldout = list(of_log(source, held_users, topics, embedder))
    return Gathered(talks, heldout, [], [talk.user for talk in talks])
