"""What only an installed trainer can tell: which decision a label blames, and what an adapter would have decided.

The runtime knows neither. With `memkit[train]` installed the pages ask it; without, they say so."""

from __future__ import annotations

import importlib.util
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from memkit.errors import InvalidInput, NotFound
from memkit.models import JSON


def is_there() -> bool:
    return importlib.util.find_spec("memkit_train") is not None


def find_credit(store: str | Path, user_id: str, trace_id: str) -> list[JSON]:
    """The decisions that the labels on this answer praise or blame, as training will see them: learned from this
    user's own log, where training learns what questions are about from everybody's."""
    from memkit.embedders import make_embedder
    from memkit_train.credit.assign import credit, learn_topics
    from memkit_train.log import StoreSource

    with StoreSource(store) as source:
        topics = learn_topics(source, [user_id])
        found = [
            asdict(one)
            for episode in source.trajectories([user_id])
            for one in credit(episode, topics, make_embedder("hash")).credits
            if one.trace_id == trace_id
        ]
    return sorted(found, key=lambda one: -one["weight"])


def compare_turn(store: str | Path, model: str | None, user_id: str, intake_id: str, digest: str) -> JSON:
    """What the model alone and the model with this adapter decide on one turn, on the bank as it was then. Nothing of
    it is applied."""
    from memkit.adapters.opening import open_registry, own_host
    from memkit.adapters.verify import inspect
    from memkit.backbones import make_backbone
    from memkit.embedders import make_embedder
    from memkit.runtime.store_embedder import embedder_for
    from memkit_train.gate.compare import compare, states_of
    from memkit_train.log import StoreSource
    from memkit_train.replay import Env, Policy

    if model is None:
        raise InvalidInput("no model was named that could be asked", fix="start it with memkit ui --model MODEL")
    with closing(open_registry(store)) as registry, closing(make_backbone(model)) as backbone:
        name = registry.find(digest)
        host, _ = own_host(backbone)
        if host is None:
            raise InvalidInput(
                f"{model} loads no adapters in this process", fix="name a local model: small, or hf:PATH"
            )
        checked = inspect(registry.path(name), expected=name)
        host.load(checked.artifact)
        with StoreSource(store) as source:
            own = embedder_for(store, None, embeds=True)
            env = Env(make_embedder("hash" if own is None else own), source.served_with)
            states = [one for one in states_of(source, env, users=[user_id]) if one[1].scene.intake_id == intake_id]
            if not states:
                raise NotFound("this turn cannot be decided again", why="it may not be learned from, or was erased")
            sides = Policy(backbone, name="without it"), Policy(backbone, name, name=f"with {name[:12]}")
            return asdict(compare(states, *sides, env))
