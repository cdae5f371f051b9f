"""Whether a machine is fit to train, in findings that each name the next step."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from memkit.errors import MemkitError
from memkit.inputs import is_url

if TYPE_CHECKING:
    from memkit_train.log.source import StoreSource

NEEDED = ("torch", "transformers", "peft", "trl", "accelerate", "datasets", "safetensors")
TRL = (1, 16)


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    ok: bool | None
    """None: worth knowing, no fault."""
    what: str
    fix: str = ""


def examine(store: str | None, opened: Callable[[str], StoreSource]) -> list[Finding]:
    """`opened`: how a store or a bundle is read."""
    found = [_package(name) for name in NEEDED]
    if importlib.util.find_spec("torch") is not None:
        found.append(_device())
    found += [_threads(), _disk(Path("." if store is None or is_url(store) else store))]
    return [*found, _store(store, opened)] if store is not None else found


def _package(name: str) -> Finding:
    try:
        known = version(name)
    except PackageNotFoundError:
        return Finding(name, False, "not installed", "pip install 'memkit[train]'")
    if name == "trl" and tuple(int(part) for part in known.split(".")[:2]) != TRL:
        return Finding(name, False, f"{known}, tested with {TRL[0]}.{TRL[1]}", "pip install 'trl>=1.16,<1.17'")
    return Finding(name, True, known)


def _device() -> Finding:
    import torch

    if not torch.cuda.is_available():
        return Finding("GPU", None, "none: fine for tiny models and for tests", "bundle the log to a machine with one")
    free, total = torch.cuda.mem_get_info()
    return Finding("GPU", True, f"{torch.cuda.get_device_name()}, {free / 1e9:.0f} of {total / 1e9:.0f} GB free")


def _threads() -> Finding:
    return Finding("CPU", True, f"{os.cpu_count()} cores")


def _disk(path: Path) -> Finding:
    free = shutil.disk_usage(path if path.exists() else ".").free
    return Finding("disk", free > 1 << 30, f"{free / 1e9:.1f} GB free", "" if free > 1 << 30 else "make room first")


def _store(store: str, opened: Callable[[str], StoreSource]) -> Finding:
    try:
        with opened(store) as source:
            mark, users = source.watermark(), len(source.users())
    except MemkitError as error:
        return Finding("store", False, error.what, error.fix)
    return Finding("store", True, f"{users} users to learn from, {mark.decision} decisions, {mark.seq} operations")
