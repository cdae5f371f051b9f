"""Options that several commands share, and how they open what they read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memkit.adapters import Registry
from memkit.inputs import store_of

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Store = Annotated[
    str,
    typer.Option("--store", "-s", envvar="MEMKIT_STORE", help="Folder of the store, postgresql://…, or a bundle."),
]
DEFAULT_STORE = "./memory"
REFUSED, NOTHING = 3, 4
"""Exit codes."""


def open_source(store: str | Path) -> Any:
    from memkit_train.log.bundle import MANIFEST, BundleSource
    from memkit_train.log.source import StoreSource

    path = store_of(store)
    return BundleSource(path) if isinstance(path, Path) and (path / MANIFEST).is_file() else StoreSource(path)


def open_registry(named: Path | None, store: str) -> Registry:
    """The folder that is named, else the store's own."""
    from memkit.adapters.opening import open_registry as of_store

    return of_store(store) if named is None else Registry(named)
