"""Data sets by path. `load("locomo", path)`; the formats are the published ones, their dirt is repaired and counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from memkit.errors import InvalidConfig, InvalidInput
from memkit_train.evaluate.data import Dataset
from memkit_train.evaluate.loaders import jsonl, locomo, longmemeval, msc, world

LOADERS: Mapping[str, Callable[[Path, int | None], Dataset]] = {
    "locomo": locomo.load,
    "longmemeval": longmemeval.load,
    "msc": msc.load,
    "jsonl": jsonl.load,
}


def load(spec: str, limit: int | None = None) -> Dataset:
    """`locomo:PATH`, `longmemeval:PATH`, `msc:PATH`, `jsonl:PATH`, or `world:closed,count=20,seed=7,…`."""
    found = _load(spec, limit)
    if not found.conversations:
        raise InvalidInput(
            f"{spec} holds no conversations", why="there is nothing to evaluate", fix="name data that has some"
        )
    return found


def _load(spec: str, limit: int | None) -> Dataset:
    kind, _, rest = spec.partition(":")
    if kind == "world":
        return world.load(rest, limit)
    if kind not in LOADERS or not rest:
        raise InvalidConfig(
            f"no data set {spec!r}",
            why="a data set is named KIND:PATH",
            fix=f"use one of {', '.join(sorted(LOADERS))} with a path, or world:closed",
        )
    path = Path(rest).expanduser()
    if not path.is_file():
        raise InvalidConfig(f"no file {path}", why=f"{kind} is read from a local path", fix="check the path")
    return LOADERS[kind](path, limit)


__all__ = ["LOADERS", "load"]
