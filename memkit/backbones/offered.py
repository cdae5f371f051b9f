"""Models that installed packages offer by a name of their own, as entry points `memkit.models`: NAME is a function that
gives the folder of a checkpoint; the NAME in "NAME:MODEL" is a provider, the class of a backbone."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from memkit.errors import MissingExtra


@cache
def is_offered(name: str) -> bool:
    return _find(name) is not None


def offered_path(name: str) -> Path:
    """The folder of the model. `MissingExtra` where the package lacks something that it needs."""
    return _load(name)()


def offered_class(provider: str) -> Any:
    return _load(provider)


def _load(name: str) -> Any:
    found = _find(name)
    if found is None:
        raise MissingExtra(
            f"no installed package offers the model {name!r}", fix="install one, or pass model='hf:PATH'"
        )
    try:
        return found.load()
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the model {name!r} cannot be used",
            why=f"it comes from {found.value.partition(':')[0]}, and that needs the package {error.name}",
            fix='pip install "memkit[train]"' if found.value.startswith("memkit_train") else "install it",
        ) from None


def _find(name: str) -> EntryPoint | None:
    return next(iter(entry_points(group="memkit.models", name=name)), None)
