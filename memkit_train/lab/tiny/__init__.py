"""A tiny language model that lives in the closed world: made from nothing, plays every role.

    python -m memkit_train.lab.tiny build        makes both checkpoints again from generated data alone

`skilled` does the right thing; `biased` has the same skills and bad habits: the start of every training demo.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

CHECKPOINTS = Path(__file__).parent / "checkpoints"

Name = Literal["skilled", "biased"]


def checkpoint(name: Name = "skilled") -> Path:
    """The folder of a shipped checkpoint (transformers format)."""
    return CHECKPOINTS / name


__all__ = ["CHECKPOINTS", "Name", "checkpoint"]
