"""The tokenizer of a checkpoint, without its weights."""

from __future__ import annotations

from typing import Any


def tokenizer_of(base: str) -> Any:
    from transformers import AutoTokenizer

    from memkit.backbones.hf import checkpoint

    return AutoTokenizer.from_pretrained(checkpoint.find(base), local_files_only=True)
