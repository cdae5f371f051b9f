"""Options that several commands share, and how they open what they read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Store = Annotated[Path, typer.Option("--store", "-s", envvar="MEMKIT_STORE", help="Folder of the store, or a bundle.")]
DEFAULT_STORE = Path("./memory")
REFUSED, NOTHING = 3, 4
"""Exit codes."""


def open_source(path: Path) -> Any:
    from memkit_train.log.bundle import MANIFEST, BundleSource
    from memkit_train.log.source import StoreSource

    return BundleSource(path) if (path / MANIFEST).is_file() else StoreSource(path)
