"""Models that installed packages offer by a name of their own: the entry points `memkit.models`, each a function that
gives the folder of a checkpoint."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from memkit.errors import MissingExtra


@cache
def is_offered(name: str) -> bool:
    return _find(name) is not None


def offered_path(name: str) -> Path:
    """The folder of the model. `MissingExtra` where the package lacks something that it needs."""
    found = _find(name)
    if found is None:
        raise MissingExtra(
            f"no installed package offers the model {name!r}", fix="install one, or pass model='hf:PATH'"
        )
    try:
        return found.load()()
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the model {name!r} cannot be used",
            why=f"it comes from {found.value.partition(':')[0]}, and that needs the package {error.name}",
            fix='pip install "memkit[train]"' if found.value.startswith("memkit_train") else "install it",
        ) from None


def _find(name: str) -> EntryPoint | None:
    return next(iter(entry_points(group="memkit.models", name=name)), None)
