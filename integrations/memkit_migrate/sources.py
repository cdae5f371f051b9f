"""The sources by name, for command lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from memkit import Memory
from memkit.errors import InvalidInput
from memkit.inputs import store_of
from memkit.runtime.store_embedder import embedder_for
from memkit_migrate.langgraph import from_langgraph
from memkit_migrate.lines import from_jsonl
from memkit_migrate.mem0 import from_mem0
from memkit_migrate.moving import Foreign, MoveReport, Unreadable, migrate

SOURCES = ("mem0", "langgraph", "jsonl")


def read(source: str, path: str, user_id: str | None, user_label: int) -> Iterator[Foreign | Unreadable]:
    if source == "mem0":
        return from_mem0(path, user_id=user_id)
    if source == "langgraph":
        return from_langgraph(path, user_id=user_id, user_label=user_label)
    if source == "jsonl":
        return from_jsonl(path, user_id=user_id)
    raise InvalidInput(f"nothing is known of {source!r}", fix=f"use one of {', '.join(SOURCES)}")


def run(
    source: str,
    path: str,
    store: str,
    *,
    user_id: str | None,
    user_label: int,
    dry_run: bool,
    embedder: str | None = None,
) -> MoveReport:
    """A source that cannot be read, or has nothing to move, begins no store. embedder: by name, of a new store, or to
    embed at once; else what is moved is embedded when the store's app next opens it."""
    found = read(source, path, user_id, user_label)
    if dry_run:
        return migrate(None, found, dry_run=True)
    head: list[Foreign | Unreadable] = []
    for one in found:
        head.append(one)
        if isinstance(one, Foreign):
            break
    else:
        return migrate(None, head)
    chosen = embedder_for(store_of(store), embedder, embeds=False)
    with Memory(store, embedder=chosen, config={"workers": 0}) as memory:  # turns that wait are the app's to decide
        return migrate(memory, itertools.chain(head, found))
