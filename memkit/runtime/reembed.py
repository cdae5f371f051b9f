"""Making a store one of another embedder.

The journal names the embedder; LanceDB says whose vectors it holds. Every memory is embedded first, then LanceDB is
replaced in one commit, and only then does the journal name the new one. Whatever ends this half-way leaves a store that
opens as before: where LanceDB is ahead of the journal, it is built anew from the journal.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from memkit.embedders.deferred import DEFAULT_IDENTITY
from memkit.embedders.recorded import name_of
from memkit.errors import InvalidInput
from memkit.inputs import store_of
from memkit.journal import Journal
from memkit.results import Problem
from memkit.runtime import care, erasure
from memkit.runtime.runtime import Runtime
from memkit.runtime.store_embedder import read_recorded
from memkit.seams.clock import RandomIds, SystemClock


def adopt_embedder(store: str | Path, embedder: Any) -> list[Problem]:
    """Embed every memory of a store anew, and make it a store of this embedder. Where that fails it stays as it was.
    Processes that have it open with the former are refused from then on."""
    Journal.open(store_of(store), clock=SystemClock(), ids=RandomIds(), read_only=True).close()  # or there is none
    runtime = Runtime(store, embedder=embedder, config={"workers": 0}, adopting=True)
    try:
        erasure.finish_erasures(runtime)
        return care.doctor(runtime, repair=False, reembed=True)
    finally:
        runtime.close()


def to_adopt(store: str | Path, given: str | None) -> str | None:
    """`--embedder` of `--reembed`. Left out, it is the built-in one, which no store of another becomes by chance."""
    stored = read_recorded(store)
    if given is None and stored is not None and stored.identity != DEFAULT_IDENTITY:
        name = name_of(stored.identity) or "NAME"
        raise InvalidInput(
            f"with which embedder? This store's is {stored.identity}",
            why="the one that it is embedded with refuses every other, so it is not guessed",
            fix=f"memkit doctor {shlex.quote(str(store))} --reembed --embedder {name}",
        )
    return given
