"""The tokenizer of a checkpoint, without its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_train.learn.texts import TokenReader


def tokenizer_of(base: str) -> Any:
    from transformers import AutoTokenizer

    from memkit.backbones.hf import checkpoint

    return AutoTokenizer.from_pretrained(checkpoint.find(base), local_files_only=True)


def reader_of(base: str) -> TokenReader:
    """Of rows of any length."""
    from memkit.backbones.hf import checkpoint
    from memkit_train.learn.texts import TokenReader

    tokenizer = tokenizer_of(base)
    return TokenReader.of(tokenizer, 1 << 30, 1 << 30, checkpoint.read_stop_ids(checkpoint.find(base), tokenizer))
