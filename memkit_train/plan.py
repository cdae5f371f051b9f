"""A run before it runs: what it would train on, how many steps and tokens, about how much memory and time, and whether
model, template and log fit each other. Reads configuration files, the tokenizer and tensor headers; loads no weights
and needs no GPU."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from memkit.embedders import make_embedder
from memkit.models import JSON
from memkit_train.collect import collect, open_source, sides
from memkit_train.config import TrainConfig
from memkit_train.errors import DataError
from memkit_train.online.sizing import size
from memkit_train.rowfile import AnyRow
from memkit_train.rows import PreferencePair, TextRow, TokenRow
from memkit_train.shapes import shaped
from memkit_train.trajectories.probes import ENOUGH, ENOUGH_USERS

FLOPS = {"cuda": 1.5e14, "cpu": 2e10}
"""Effective floating point operations per second of a LoRA update: a current data-centre GPU in half precision at about
40 % use, and one CPU thread."""
_EPOCHS = {"sft": 3}
_BATCH = {"sft": 64, "kto": 32, "dpo": 32, "offline": 128}
Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    config: JSON
    data: JSON
    steps: int
    tokens: int
    """Prompt and completion tokens over all epochs."""
    trained_tokens: int
    """Completion tokens: where the loss is."""
    longest: int
    parameters: int
    adapter_parameters: int
    memory_gb: float
    minutes: float
    device: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(one.level != "error" for one in self.findings)

    def to_json(self) -> JSON:
        return asdict(self)


def plan(config: TrainConfig) -> Plan:
    from memkit_train.tokenizing import tokenizer_of

    device = _device(config)
    folder, model, findings = _model(config)
    tokenizer: Any = tokenizer_of(str(folder))
    findings += _template(tokenizer)
    if "online" in config.model_fields_set:
        findings.append(_online(config, model, _parameters(folder), device))
    if config.data.world is not None:
        return _sized(config, device, folder, model, tokenizer, [], {"world": config.data.world}, findings)
    with open_source(config) as source:
        stored = source.journal.meta_get("embedder")
        embedder = make_embedder(config.data.embedder)
        if stored not in (None, embedder.identity):
            findings.append(Finding("error", f"the store was built with the embedder {stored}",
                                    f"set data.embedder, which makes {embedder.identity} now"))  # fmt: skip
        rows: list[AnyRow] = []
        data: JSON = {}
        try:
            found = collect(source, config, embedder, now=datetime.now(UTC))
            first = "sft" if config.method.name == "ladder" else config.method.name
            rows, data = [*shaped(found.rows, first), *found.replay], dict(found.counts)
            _, held = sides(source, config)
            answers = sum(1 for user in held for _ in source.answers(user_id=user))
            data |= {"heldout_users": len(held), "heldout_answers": answers}
            if len(held) < ENOUGH_USERS:
                findings.append(Finding("warning", f"{len(held)} held-out users: the gate needs {ENOUGH_USERS} of them "
                                        f"and {ENOUGH} probes, or it cannot tell", "collect more users, or raise "
                                        "data.heldout_share"))  # fmt: skip
        except DataError as error:
            findings.append(Finding("error", error.what + (f": {error.why}" if error.why else ""), error.fix))
    return _sized(config, device, folder, model, tokenizer, rows, data, findings)


def _online(config: TrainConfig, model: JSON, parameters: int, device: str) -> Finding:
    """What grpo, ppo or logo would take; `scenes` of a conversation are not known before they are read."""
    width = 4 if device == "cpu" or config.model.dtype == "float32" else 2
    found = size(config.online, model, parameters, flops=FLOPS[device], width=width)
    told = (
        f"online: {found.steps} steps of {found.per_step} sampled replies, {found.played} scenes played beside them, "
        f"about {found.cache_gb:g} GB of keys and values, at most {found.minutes:g} min on {device} with conversations "
        "of 36 turns"
    )
    return Finding("ok", told)


def _sized(
    config: TrainConfig, device: str, folder: Path, model: JSON, tokenizer: Any, rows: Sequence[AnyRow], data: JSON,
    findings: list[Finding],
) -> Plan:  # fmt: skip
    sizes = [_tokens(row, tokenizer) for row in rows]
    context = model.get("max_position_embeddings") or 1 << 30
    limit = min(config.method.max_tokens or context, context)
    long = sum(before + after > limit for before, after in sizes)
    if long:
        findings.append(Finding("warning", f"{long} of {len(sizes)} rows are longer than {limit} tokens and left out",
                                "raise method.max_tokens, or use a model with a longer context"))  # fmt: skip
    kept = [(before, after) for before, after in sizes if before + after <= limit]
    ids = [max(*row.prompt_ids, *row.completion_ids) for row in rows if isinstance(row, TokenRow)]
    if ids and max(ids) >= model.get("vocab_size", 1 << 30):
        findings.append(Finding("error", "logged token ids are beyond this model's vocabulary",
                                "train the model that served, or one with its tokenizer"))  # fmt: skip
    epochs = config.method.epochs or _EPOCHS.get(config.method.name, 1)
    batch = config.method.batch or _BATCH[config.method.name]
    tokens, trained = sum(a + b for a, b in kept) * epochs, sum(b for _, b in kept) * epochs
    parameters = _parameters(folder)
    extra = _adapter_parameters(model, config.method.lora_r)
    passes = 6 if config.method.name in ("kto", "dpo") else 4
    seconds = passes * parameters * tokens / FLOPS[device]
    return Plan(
        config.resolved(), data, math.ceil(len(kept) * epochs / batch), tokens, trained,
        max((a + b for a, b in sizes), default=0), parameters, extra,
        round(_memory(config, model, parameters, extra, kept, device) / 1e9, 2), round(seconds / 60, 1), device,
        tuple(findings),
    )  # fmt: skip


def _model(config: TrainConfig) -> tuple[Path, JSON, list[Finding]]:
    from memkit.backbones.hf import checkpoint

    folder = checkpoint.find(config.model.base)
    findings: list[Finding] = []
    if not list(folder.glob("*.safetensors")):
        findings.append(Finding("error", f"{folder.name} holds no *.safetensors", "convert it with save_pretrained()"))
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    findings += _parent(config, folder)
    return folder, {**raw, **(raw.get("text_config") or {})}, findings


def _parent(config: TrainConfig, folder: Path) -> list[Finding]:
    from memkit.adapters import Registry
    from memkit.adapters.verify import read_manifest
    from memkit.backbones.hf import checkpoint
    from memkit_train.rung import parent_of, registry_path

    if not registry_path(config).is_dir():
        return []
    registry = Registry(registry_path(config))
    try:
        named = parent_of(registry, config)
        if named is None:
            return []
        manifest = read_manifest(registry.path(named))
        if manifest.base is not None and manifest.base.digest != checkpoint.weight_digest(folder):
            return [Finding("error", f"the parent {named[:12]} was trained on another base model",
                            "set model.base to it, or model.parent to base")]  # fmt: skip
        if registry.taints(named):
            return [Finding("warning", f"the parent {named[:12]} learned from erased users",
                            "set model.parent to base, so that nothing of them is carried on")]  # fmt: skip
    finally:
        registry.close()
    return []


def _template(tokenizer: Any) -> list[Finding]:
    found: list[Finding] = []
    if not tokenizer.chat_template:
        found.append(Finding("warning", "the tokenizer has no chat template: a plain one is used",
                             "prefer a chat model; serving uses the same plain template"))  # fmt: skip
    if tokenizer.eos_token_id is None:
        found.append(Finding("error", "the tokenizer names no end token", "set eos_token in tokenizer_config.json"))
    return found


def _tokens(row: AnyRow, tokenizer: Any) -> tuple[int, int]:
    match row:
        case TextRow():
            prompt = "\n".join(message.content for message in row.messages)
            return len(tokenizer(prompt)["input_ids"]) + 16, len(tokenizer(row.completion)["input_ids"]) + 1
        case PreferencePair():
            return 2 * len(row.prompt_ids), len(row.chosen_ids) + len(row.rejected_ids)
        case _:
            return len(row.prompt_ids), len(row.completion_ids)


def _parameters(folder: Path) -> int:
    """From the headers of the tensor files."""
    total = 0
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        total += sum(math.prod(one["shape"]) for name, one in header.items() if name != "__metadata__")
    return total


def _adapter_parameters(model: JSON, rank: int) -> int:
    """Rank-r matrices beside the seven linear layers of a block."""
    hidden, inner = model.get("hidden_size", 0), model.get("intermediate_size", 0)
    heads = model.get("num_attention_heads") or 1
    head = model.get("head_dim") or hidden // heads
    queries, keys = heads * head, (model.get("num_key_value_heads") or heads) * head
    sides = [(hidden, queries), (hidden, keys), (hidden, keys), (queries, hidden)] + [(hidden, inner)] * 3
    return int(model.get("num_hidden_layers", 0)) * sum(rank * (a + b) for a, b in sides)


def _memory(
    config: TrainConfig, model: JSON, parameters: int, extra: int, sizes: Sequence[tuple[int, int]], device: str
) -> float:
    """Weights, the adapter with its optimiser, activations of one micro-batch, and its logits in full precision."""
    width = 4 if device == "cpu" or config.model.dtype == "float32" else 2
    longest = max((a + b for a, b in sizes), default=0)
    rows = config.method.micro_batch or 16
    per_token = model.get("num_hidden_layers", 0) * model.get("hidden_size", 0) * width
    activations = longest * rows * per_token * (2 if config.method.gradient_checkpointing else 17)
    logits = longest * rows * model.get("vocab_size", 0) * 8
    return parameters * width + extra * 16 + activations + logits


def _device(config: TrainConfig) -> str:
    if config.model.device != "auto":
        return "cuda" if config.model.device.startswith("cuda") else "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
