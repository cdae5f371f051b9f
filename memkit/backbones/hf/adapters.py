"""A LoRA directory becomes a module tree of its own that shares every base tensor.

Switching adapters inside one tree while it generates mixes weights silently. A tree per adapter costs the adapter's
own tensors and some milliseconds, is built by the thread that asks for it, and reaches the inference worker complete;
it can be merged, which PEFT's mixed batches rule out. The price: requests for several adapters at once run one
sub-batch each (`adapter_throughput` in tests/bench/_engine.py prints it beside PEFT's mixed batch).

Anything that would write into the shared base tensors, or import code that a configuration names, is refused first.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, LoraModel, set_peft_model_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file

from memkit.backbones.hf.lanes import Tree
from memkit.errors import AdapterRejected, HostFull

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
SERVED_FIELDS: Mapping[str, Any] = {
    "peft_type": "LORA",
    "r": ...,
    "lora_alpha": ...,
    "target_modules": ...,
    "exclude_modules": ...,
    "layers_to_transform": ...,
    "layers_pattern": ...,
    "rank_pattern": ...,
    "alpha_pattern": ...,
    "use_rslora": ...,
    "use_dora": ...,
    "fan_in_fan_out": ...,
    "lora_bias": ...,
    "bias": "none",
}
"""Fields of adapter_config.json that shape an adapter. An ellipsis: any value; else the only one that is served."""
IGNORED_FIELDS = frozenset(
    {
        "base_model_name_or_path",
        "revision",
        "task_type",
        "peft_version",
        "inference_mode",
        "auto_mapping",
        "lora_dropout",
        "init_lora_weights",
        "megatron_core",
        "qalora_group_size",
        "ensure_weight_tying",
    }
)
"""Fields without effect on a trained adapter that is only run."""
_NAME = "served"


def read(folder: Path) -> tuple[LoraConfig, dict[str, Any]]:
    """Configuration and tensors of an adapter, or the reason why it cannot be served."""
    config = _read_config(folder / CONFIG)
    try:
        tensors = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise AdapterRejected(
            f"cannot read {folder / WEIGHTS}",
            why=f"{type(error).__name__}: {error}",
            fix="publish the adapter again; only safetensors files are read",
        ) from error
    for key, tensor in tensors.items():
        if ".lora_" not in key:
            raise HostFull("this adapter replaces base tensors", why=f"it holds {key}", fix="train LoRA matrices only")
        if not bool(torch.isfinite(tensor).all()):
            raise AdapterRejected(
                "the adapter holds NaN or infinite values", why=f"in {key}", fix="train and publish it again"
            )
    return config, tensors


def twin(model: Any) -> Any:
    """A second module tree over the same parameters and buffers."""
    shared: dict[int, Any] = {id(tensor): tensor for tensor in model.parameters()}
    shared.update({id(tensor): tensor for tensor in model.buffers()})
    return copy.deepcopy(model, shared)


def build(base: Any, folder: Path, *, merged: bool) -> Tree:
    """The base under the adapter. `merged` folds it into copies of the layers it touches: full speed, more memory."""
    config, tensors = read(folder)
    tree = twin(base)
    try:
        tuner = LoraModel(tree, config, _NAME, low_cpu_mem_usage=True)
        device_tensors = {key: tensor.to(base.device) for key, tensor in tensors.items()}
        report = set_peft_model_state_dict(tree, device_tensors, adapter_name=_NAME, low_cpu_mem_usage=True)
    except (ValueError, RuntimeError, KeyError, TypeError) as error:
        raise AdapterRejected(
            f"the adapter in {folder} does not fit this base model",
            why=f"{type(error).__name__}: {str(error)[:300]}",
            fix="train it on the base model that is served, or serve the base that it was trained on",
        ) from error
    absent = [name for name, parameter in tree.named_parameters() if parameter.is_meta]
    if absent or report.unexpected_keys:
        raise AdapterRejected(
            f"the tensors of the adapter in {folder} do not match its configuration",
            why=f"missing: {absent[:3]}, not expected: {list(report.unexpected_keys)[:3]}",
            fix="publish the adapter again from the trainer's output",
        )
    if merged:
        for module in tree.modules():
            layer = getattr(module, "base_layer", None)
            if layer is not None:
                layer.weight = torch.nn.Parameter(layer.weight.detach().clone(), requires_grad=False)
        tree = tuner.merge_and_unload()
    return Tree(tree.eval().requires_grad_(False))


def _read_config(file: Path) -> LoraConfig:
    try:
        stored: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AdapterRejected(f"cannot read {file}", why=str(error), fix="publish the adapter again") from error
    if not isinstance(stored, dict):
        raise AdapterRejected(f"{file} is not a JSON object", fix="publish the adapter again")
    kept: dict[str, Any] = {}
    for field, value in stored.items():
        if field in SERVED_FIELDS:
            if SERVED_FIELDS[field] is not ... and value != SERVED_FIELDS[field]:
                raise HostFull(
                    f"adapters with {field}={value!r} are not served in process",
                    why=f"only {SERVED_FIELDS[field]!r} leaves the shared base untouched",
                    fix="train a plain LoRA",
                )
            kept[field] = value
        elif field not in IGNORED_FIELDS and value not in (None, False, {}, []):
            raise HostFull(
                f"adapters with {field}={value!r} are not served in process",
                why="this option of PEFT changes more than low-rank matrices beside linear layers",
                fix="train a plain LoRA",
            )
    try:
        return LoraConfig(**kept, init_lora_weights=False, inference_mode=True, task_type="CAUSAL_LM")
    except (TypeError, ValueError) as error:
        raise AdapterRejected(f"{file} is not a LoRA configuration", why=str(error), fix="publish it again") from error
