"""How much memory a step of training takes, without taking it.

The model goes forward and back over its sheets with tensors that have shapes and no data, and what is allocated is
counted: whatever the architecture keeps of a token, this keeps. A 7B model takes seconds. Scratch space inside kernels,
and what an allocator leaves unused, is not seen.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from transformers import AutoConfig, AutoModelForCausalLM

from memkit.backbones.hf.attention import Attention
from memkit_train.learn.lora import LoraSpec, attach, trainable
from memkit_train.learn.sheets import Sheet, lay_out
from memkit_train.learn.trainer import LOGITS, TOKENS, entropy_of
from memkit_train.rows import Row

_OF_TRAINED = 12
"""Bytes of a trained number beside itself and its gradient: Adam's two moments, and the parent's."""


def measure_steps(
    folder: Path,
    steps: Sequence[Sequence[Row]],
    *,
    dtype: torch.dtype,
    spec: LoraSpec,
    token_budget: int = TOKENS,
    most_rows: int | None = None,
    gradient_checkpointing: bool = False,
    value_head: bool = False,
) -> int:
    """Bytes at the peak: weights, adapter, optimiser, and the largest sheet of these steps under way."""
    with torch.device("meta"):
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        bare: Any = AutoModelForCausalLM.from_config(config, dtype=dtype)
        model: Any = attach(bare.requires_grad_(False), spec)
    if gradient_checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
    scored = max(1, LOGITS // model.get_output_embeddings().weight.shape[0])
    laid = [lay_out(rows, tokens=token_budget, scored=scored, most=most_rows) for rows in steps]
    sheets = [sheet for step in laid for sheet in step]
    with FakeTensorMode(allow_non_fake_inputs=True), _Allocations() as seen:
        model.to_empty(device="cpu")
        bare.tie_weights()
        attention, beside, idle = Attention(model), 0, seen.live
        for sheet in _largest(sheets):
            masks = _masks(attention, sheet)
            of_one = (seen.live - idle) / len(sheet.ids) ** 2
            beside = max(beside, round(of_one * (_most_seen(laid) - len(sheet.ids) ** 2)))
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype != torch.float32):
                loss = _learn(model, sheet, masks, value_head=value_head)
            loss.backward()
            del loss, masks
            idle = seen.live
        return seen.peak + beside + _OF_TRAINED * sum(one.numel() for one in trainable(model).values())


def _largest(sheets: Sequence[Sheet]) -> list[Sheet]:
    """By what is read, and by what is scored."""
    if not sheets:
        return []
    most = (max(sheets, key=lambda one: len(one.ids)), max(sheets, key=lambda one: one.scored))
    return list({id(one): one for one in most}.values())


def _most_seen(steps: Sequence[Sequence[Sheet]]) -> int:
    """The masks of all sheets of a step are made before the first is learned from."""
    return max(sum(len(sheet.ids) ** 2 for sheet in step) for step in steps)


def _learn(model: Any, sheet: Sheet, masks: Any, *, value_head: bool) -> torch.Tensor:
    """As `RowTrainer` reads a sheet: log-probs with gradients, and entropies without."""
    pairs = zip(sheet.paths, sheet.rows, strict=True)
    read = len({place for path, row in pairs for place in path[len(row.prompt_ids) - 1 : -1]})
    output = model(
        input_ids=torch.empty(1, len(sheet.ids), dtype=torch.long),
        attention_mask=masks,
        position_ids=torch.empty(1, len(sheet.ids), dtype=torch.long),
        logits_to_keep=torch.empty(read, dtype=torch.long),
        use_cache=False,
        output_hidden_states=value_head,
    )
    logits = output.logits[0].float()
    total = logits.logsumexp(-1)
    with torch.no_grad():
        entropy_of(logits, total)
    at = torch.empty(sheet.scored, dtype=torch.long)
    return (logits[at, at] - total[at]).sum()


def _masks(attention: Attention, sheet: Sheet) -> Any:
    positions = torch.empty(1, len(sheet.ids), dtype=torch.long)
    visible = torch.empty(1, len(sheet.ids), len(sheet.ids), dtype=torch.bool)
    return attention.masks(visible, positions.unsqueeze(-1) - positions.unsqueeze(-2))


class _Allocations(TorchDispatchMode):
    """Bytes of the storages that are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in tree_iter(made):
            if isinstance(one, torch.Tensor):
                self._count(one.untyped_storage())
        return made

    def _count(self, storage: Any) -> None:
        if storage not in self._known:
            self._known[storage] = True
            self.live += storage.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(storage, self._drop, storage.nbytes())

    def _drop(self, size: int) -> None:
        self.live -= size
