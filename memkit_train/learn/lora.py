"""LoRA: attach a fresh one or continue the parent's, and save it the way the runtime serves it.

All linear layers but the output head, because the runtime's adapters touch nothing else; deterministic: the same seed
gives the same matrices, whatever was drawn before.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

from memkit.backbones.hf import adapters
from memkit.errors import AdapterError
from memkit_train.errors import WrongParent

NAME = "default"


@dataclass(frozen=True, slots=True)
class LoraSpec:
    r: int = 16
    alpha: int = 32
    dropout: float = 0.0
    """Dropout makes the log-probs of training differ from those of serving; keep it at 0 for anything but imitation."""
    target_modules: str | tuple[str, ...] = "all-linear"


def attach(model: Any, spec: LoraSpec | None = None, *, parent: Path | str | None = None, seed: int = 0) -> Any:
    """The model under a trainable LoRA. With a parent, its matrices and shape are taken over and trained further."""
    spec = spec or LoraSpec()
    targets = spec.target_modules if isinstance(spec.target_modules, str) else list(spec.target_modules)
    config = LoraConfig(
        r=spec.r, lora_alpha=spec.alpha, lora_dropout=spec.dropout, target_modules=targets, task_type="CAUSAL_LM"
    )
    tensors: dict[str, torch.Tensor] = {}
    if parent is not None:
        try:
            config, tensors = adapters.read(Path(parent))
        except AdapterError as error:
            raise WrongParent(
                f"cannot continue from the adapter {parent}", why=str(error), fix="name another parent, or none"
            ) from error
        config.inference_mode, config.init_lora_weights = False, True
        config.lora_dropout = spec.dropout
    config.base_model_name_or_path = model.name_or_path  # a bare name would be looked up on the hub at every checkpoint
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        wrapped = get_peft_model(model, config)
    if parent is not None:
        _fill(wrapped, tensors, Path(parent))
    for name, parameter in wrapped.named_parameters():
        parameter.requires_grad_(".lora_" in name)
    return wrapped


def save(model: Any, folder: Path | str) -> str:
    """Write adapter_model.safetensors and adapter_config.json; returns the sha256 of the weights."""
    folder = Path(folder)
    config = model.peft_config[NAME]
    loaded_from = config.base_model_name_or_path
    config.base_model_name_or_path = Path(str(loaded_from or "")).name  # no machine path in an adapter
    try:
        model.save_pretrained(folder, safe_serialization=True, selected_adapters=[NAME], save_embedding_layers=False)
    finally:
        config.base_model_name_or_path = loaded_from
    return digest_of(folder)


def digest_of(folder: Path | str) -> str:
    return hashlib.sha256((Path(folder) / adapters.WEIGHTS).read_bytes()).hexdigest()


def trainable(model: Any) -> dict[str, torch.nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _fill(model: Any, tensors: dict[str, torch.Tensor], parent: Path) -> None:
    try:
        report = set_peft_model_state_dict(model, tensors, adapter_name=NAME)
    except (RuntimeError, KeyError, ValueError) as error:
        raise WrongParent(
            f"the adapter {parent} does not fit this base model",
            why=f"{type(error).__name__}: {str(error)[:300]}",
            fix="train from the base that the parent was trained on",
        ) from error
    own = {key for key, _ in model.named_parameters() if ".lora_" in key}
    if report.unexpected_keys or len(own) != len(tensors):
        raise WrongParent(
            f"the adapter {parent} does not cover the same layers as this base model",
            why=f"{len(tensors)} tensors for {len(own)}; not expected: {list(report.unexpected_keys)[:3]}",
            fix="train from the base that the parent was trained on",
        )
