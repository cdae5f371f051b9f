"""A tiny language model that lives in the closed world: made from nothing, plays every role.

    python -m memkit_train.lab.tiny build        makes both checkpoints again from generated data alone

`skilled` does the right thing; `biased` has the same skills and bad habits: the start of every training demo.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Literal

from memkit.errors import MissingExtra

CHECKPOINTS = Path(__file__).parent / "checkpoints"

Name = Literal["skilled", "biased"]


def checkpoint(name: Name = "skilled") -> Path:
    """The folder of a shipped checkpoint (transformers format)."""
    return CHECKPOINTS / name


def offer() -> Path:
    """For `Memory(model="tiny")`: whole, or not at all."""
    path = checkpoint()
    if not ((path / "config.json").is_file() and any(path.glob("*.safetensors"))):
        raise MissingExtra(
            "the tiny model is not installed",
            why=f"no complete checkpoint lies in {path}",
            fix="install the release wheel, make it (`python -m memkit_train.lab.tiny build`), or pass model='hf:PATH'",
        )
    warnings.warn(
        'model="tiny" knows generated people only, and writes nonsense about real ones: it is for tests and demos',
        stacklevel=2,
    )
    return path


__all__ = ["CHECKPOINTS", "Name", "checkpoint", "offer"]
