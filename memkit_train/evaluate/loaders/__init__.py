"""Data sets by path. `load("locomo", path)`; the formats are the published ones, their dirt is repaired and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from memkit.errors import InvalidConfig, InvalidInput
from memkit_train.evaluate.conversations import Conversation, Dataset
from memkit_train.evaluate.loaders import jsonl, locomo, longmemeval, msc
from memkit_train.lab.worlds import dataset

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
    return _apart(found)


def _apart(data: Dataset) -> Dataset:
    """Conversations of one name apart: intervals redraw whole conversations, and two would be taken for one."""
    seen: Counter[str] = Counter()
    taken = {one.conversation_id for one in data.conversations}
    repairs = Counter(data.repairs)
    out: list[Conversation] = []
    for one in data.conversations:
        name = one.conversation_id
        seen[name] += 1
        if seen[name] > 1:
            repairs["repeated conversation id renamed"] += 1
            while (name := f"{one.conversation_id}#{seen[one.conversation_id]}") in taken:
                seen[one.conversation_id] += 1
            taken.add(name)
        out.append(replace(one, conversation_id=name))
    return replace(data, conversations=tuple(out), repairs=dict(repairs))


def _load(spec: str, limit: int | None) -> Dataset:
    kind, _, rest = spec.partition(":")
    if kind == "world":
        return dataset.load(rest, limit)
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
