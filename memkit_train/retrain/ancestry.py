"""Whom an adapter learned from: its own run's users, and those of every adapter that training began from. An erasure
must find all of them, and nobody among them may be held out to judge it."""

from __future__ import annotations

from contextlib import suppress

from memkit.adapters import Registry
from memkit.errors import AdapterRejected, NotFound
from memkit_train.errors import Leakage
from memkit_train.retrain.collect import open_source, sides
from memkit_train.retrain.config import TrainConfig


def list_taught(registry: Registry, digest: str | None, store_id: str) -> set[str]:
    """Opaque ids of one store's users. An ancestor that was collected as garbage ends the search."""
    found, seen = set[str](), set[str]()
    with suppress(NotFound, AdapterRejected):
        while digest is not None and digest not in seen:
            seen.add(digest)
            manifest = registry.manifest(digest)
            if manifest.data is not None and manifest.data.store_id == store_id:
                found.update(manifest.data.subjects)
            digest = manifest.training.parent
    return found


def check_unseen(config: TrainConfig, registry: Registry, *adapters: str | None) -> None:
    """Refuse to judge by users whom one of these adapters learned from."""
    named = [digest for digest in adapters if digest is not None]
    if not named:
        return
    with open_source(config) as source:
        heldout = {source.subject(user) for user in sides(source, config)[1]}
        for digest in named:
            seen = heldout & list_taught(registry, digest, source.store_id)
            if seen:
                raise Leakage(
                    f"adapter {digest[:12]} learned from {len(seen)} of the {len(heldout)} users that are held out",
                    why="it, or one that it began from, was made with another data.split_seed or data.heldout_share",
                    fix="set both as they were then, or train from the base with model.parent: base",
                )
