"""The plugs: memkit in the apps that people have. Needs the extras `plugs` and `train`, and a package index for the
clean environments and for LangGraph's own suites; a row whose SDK is not installed counts as missed.

Rows come from the modules `_plugs_*.py` beside this one, each with its own `rows(full)`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from tests.bench._table import Row


def run(full: bool = False) -> list[Row]:
    return [row for part in _parts() for row in importlib.import_module(part).rows(full)]


def _parts() -> Iterator[str]:
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("_plugs_"):
            yield f"tests.bench.{module.name}"
