"""A random tiny model under a LoRA that differs from it, and three hand-made rows."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from memkit_train.learn import lora
from memkit_train.rows import Row
from tests.tiny_models import tiny_adapter, tiny_checkpoint

SPEC = lora.LoraSpec(r=4, alpha=8)
THREE = (
    Row((5, 6, 7, 8), (9, 10, 11), (-3.0, -5.0, -4.0), 0.7),
    Row((12, 13), (14, 15, 16, 17, 18), (-6.0, -2.0, -5.5, -4.0, -7.0), -1.1, role="extractor"),
    Row((20, 21, 22, 23, 24, 25), (26,), (-4.5,), 0.4),
)


@functools.cache
def base() -> Path:
    return tiny_checkpoint(Path(tempfile.mkdtemp()) / "base", hidden=32, layers=1, spread=0.3)


@functools.cache
def adapter(seed: int = 1) -> Path:
    return tiny_adapter(Path(tempfile.mkdtemp()) / "adapter", base=base(), seed=seed, scale=0.2)


def model(parent: Path | None = None, seed: int = 0) -> Any:
    torch.set_num_threads(1)
    return lora.attach(AutoModelForCausalLM.from_pretrained(base()), SPEC, parent=parent, seed=seed)


def gradients(of: Any) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in of.parameters() if p.requires_grad and p.grad is not None])
