"""A run before it runs: what it would train on, how many steps and tokens, about how much memory and time, and whether
model, template and log fit each other. Reads configuration files, the tokenizer and tensor headers; loads no weights
and needs no GPU."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from memkit.embedders import make_embedder
from memkit.errors import InvalidConfig
from memkit.models import JSON
from memkit_train.credit.questions import ENOUGH, ENOUGH_USERS
from memkit_train.errors import DataError
from memkit_train.learn.rates import FAR, Kind, rate_for
from memkit_train.retrain.collect import SERVED, Collected, collect, open_source, sides
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.rendered import list_imitated
from memkit_train.rl.sizing import list_typical, size
from memkit_train.rows import list_written

if TYPE_CHECKING:
    from memkit_train.learn.run import Prepared
    from memkit_train.learn.texts import TokenReader

FLOPS = {"cuda": 1.5e14, "cpu": 2e10}
"""Effective floating point operations per second of a LoRA update: a current data-centre GPU in half precision at about
40 % use, and one CPU thread."""
_PASSES = 4
"""Operations per token and parameter: forward, and backward through a frozen base."""
_LOOKED_AT = 16
"""Steps whose sheets are laid out."""
Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class PlanFinding:
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
    findings: tuple[PlanFinding, ...]

    @property
    def ok(self) -> bool:
        return all(one.level != "error" for one in self.findings)

    def to_json(self) -> JSON:
        return asdict(self)


def plan(config: TrainConfig) -> Plan:
    if config.model.is_small:
        return _of_small(config)
    from memkit_train.learn.tokenizing import tokenizer_of

    device = _device(config)
    folder, model, findings = _model(config)
    tokenizer: Any = tokenizer_of(str(folder))
    findings += _template(tokenizer)
    findings += _rates(config, _parameters(folder))
    if "online" in config.model_fields_set:
        findings.append(_online(config, folder, model, _parameters(folder), device))
    if config.data.world is not None:
        return _sized(config, device, folder, model, tokenizer, None, {"world": config.data.world}, findings)
    found, data, of_log = _log(config)
    return _sized(config, device, folder, model, tokenizer, found, data, [*findings, *of_log])


def _log(config: TrainConfig) -> tuple[Collected | None, JSON, list[PlanFinding]]:
    """What the log is good for."""
    findings: list[PlanFinding] = []
    with open_source(config) as source:
        stored = source.journal.meta_get("embedder")
        embedder = make_embedder(config.data.embedder)
        if stored not in (None, embedder.identity):
            findings.append(
                PlanFinding(
                    "error",
                    f"the store was built with the embedder {stored}",
                    f"set data.embedder, which makes {embedder.identity} now",
                )
            )
        found: Collected | None = None
        data: JSON = {}
        try:
            found = collect(source, config, embedder, now=datetime.now(UTC))
            data = dict(found.counts)
            if found.left_out:
                reasons = ", ".join(f"{reason} ({count})" for reason, count in found.left_out.most_common())
                told = f"{found.left_out.total()} decisions are left out, written as {SERVED} prompts: {reasons}"
                findings.append(PlanFinding("warning", told, "nothing, where they are few; else train another role"))
            _, held = sides(source, config)
            answers = sum(1 for user in held for _ in source.answers(user_id=user))
            data |= {"heldout_users": len(held), "heldout_answers": answers}
            if len(held) < ENOUGH_USERS:
                findings.append(
                    PlanFinding(
                        "warning",
                        f"{len(held)} held-out users: the gate needs {ENOUGH_USERS} of them "
                        f"and {ENOUGH} probes, or it cannot tell",
                        "collect more users, or raise data.heldout_share",
                    )
                )
        except DataError as error:
            findings.append(PlanFinding("error", error.what + (f": {error.why}" if error.why else ""), error.fix))
    return found, data, findings


def _of_small(config: TrainConfig) -> Plan:
    """The manager that chooses: no tokens, and about as much work for each row."""
    from memkit_train.chooser.fit import BATCH
    from memkit_train.chooser.learn import ANCHORS, EPOCHS, ROW_S, WEIGHTS_IN_ALL

    found, data, findings = _log(config)
    rows = 0 if found is None else len(found.rows) + min(len(found.replay), round(ANCHORS * len(found.rows)))
    drawn = rows * (config.method.epochs or EPOCHS)
    minutes = round(drawn * ROW_S / 60, 1)
    return Plan(config.resolve(), data, drawn // BATCH, 0, 0, 0, *WEIGHTS_IN_ALL, 0.5, minutes, "cpu", tuple(findings))


def _online(config: TrainConfig, folder: Path, model: JSON, parameters: int, device: str) -> PlanFinding:
    """What grpo, ppo or logo would take; `scenes` of a conversation are not known before they are read."""
    from memkit_train.learn.footprint import measure_steps

    width = 4 if device == "cpu" or config.model.dtype == "float32" else 2
    found = size(config.online, model, parameters, flops=FLOPS[device], width=width)
    step = measure_steps(
        folder,
        [list_typical(config.online)],
        token_budget=config.online.token_budget,
        gradient_checkpointing=config.method.gradient_checkpointing,
        value_head=config.online.algorithm == "ppo",
        **_held(config, device),
    )
    told = (
        f"online: {found.steps} steps of {found.per_step} sampled replies, {found.played} scenes played beside them, "
        f"about {step / 1e9:.2g} GB and {found.cache_gb:g} GB of keys and values, at most {found.minutes:g} min on "
        f"{device} with conversations of 36 turns"
    )
    if config.online.engine != "memkit":
        told += "; memory and time are those of memkit's own engine, not of another"
    if config.online.engine == "tinker":
        told += (
            f"; a Tinker service whose LoRA is not of rank {config.method.lora_r} and alpha {config.method.lora_alpha} "
            "is refused before anything is sampled"
        )
    return PlanFinding("ok", told)


def _sized(
    config: TrainConfig,
    device: str,
    folder: Path,
    model: JSON,
    tokenizer: Any,
    found: Collected | None,
    data: JSON,
    findings: list[PlanFinding],
) -> Plan:
    from memkit.backbones.hf import checkpoint
    from memkit_train.learn.texts import TokenReader, knows_tokens, short, token_rows

    context = model.get("max_position_embeddings") or 1 << 30
    readable = found is not None and tokenizer.eos_token_id is not None
    reader = TokenReader.of(
        tokenizer,
        model.get("vocab_size", 1 << 30),
        min(config.method.max_tokens or context, context),
        checkpoint.read_stop_ids(folder, tokenizer) if readable else frozenset(),
    )
    rows = token_rows(list_written((*found.rows, *found.replay)), reader) if found is not None and readable else []
    long = sum(not short(row, reader) for row in rows)
    if long:
        what = f"{long} of {len(rows)} rows are longer than {reader.max_tokens} tokens and left out"
        findings.append(PlanFinding("warning", what, "raise method.max_tokens, or use a model with a longer context"))
    if any(not knows_tokens(row, reader) for row in rows):
        findings.append(
            PlanFinding(
                "error",
                "logged token ids are beyond this model's vocabulary",
                "train the model that served, or one with its tokenizer",
            )
        )
    prepared = _prepared(config, found, reader, findings) if found is not None and readable else None
    seen = [] if prepared is None else [(len(row.prompt_ids), len(row.completion_ids)) for row in prepared.rows]
    tokens = sum(a + b for a, b in seen)
    parameters = _parameters(folder)
    extra = _adapter_parameters(model, config.method.lora_r)
    return Plan(
        config.resolve(),
        data,
        0 if prepared is None else prepared.steps,
        tokens,
        sum(b for _, b in seen),
        max((len(row.prompt_ids) + len(row.completion_ids) for row in rows), default=0),
        parameters,
        extra,
        round(_memory(config, folder, prepared, device) / 1e9, 2),
        round(_PASSES * tokens * parameters / FLOPS[device] / 60, 1),
        device,
        tuple(findings),
    )


def _prepared(
    config: TrainConfig, found: Collected, reader: TokenReader, findings: list[PlanFinding]
) -> Prepared | None:
    """The rows of the log as the run itself would pick, repeat and order them; short of what it makes beside them
    (planted secrets, amends)."""
    from memkit_train.learn import sft
    from memkit_train.retrain.stages import settings

    try:
        return sft.prepare(
            list_imitated(list_written(found.rows), every=config.method.imitates_all),
            reader,
            settings(config, ""),
            replay=list_written(found.replay),
        )
    except DataError as error:
        told = f"sft learns nothing of the log alone: {error.what}" + (f" ({error.why})" if error.why else "")
        findings.append(PlanFinding("warning" if config.method.amends else "error", told, error.fix))
    return None


def _model(config: TrainConfig) -> tuple[Path, JSON, list[PlanFinding]]:
    from memkit.backbones.hf import checkpoint

    folder = checkpoint.find(config.model.base)
    findings: list[PlanFinding] = []
    if not list(folder.glob("*.safetensors")):
        findings.append(
            PlanFinding("error", f"{folder.name} holds no *.safetensors", "convert it with save_pretrained()")
        )
    file = folder / "config.json"
    try:
        raw = json.loads(file.read_bytes())
        model = {**raw, **(raw.get("text_config") or {})}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(file, error) from error
    findings += _parent(config, folder)
    return folder, model, findings


def _damaged(file: Path, error: Exception) -> InvalidConfig:
    return InvalidConfig(
        f"{file.name} of the checkpoint {file.parent} cannot be read",
        why=f"{type(error).__name__}: {str(error)[:200]}",
        fix="copy or download the checkpoint again, or set model.base to a whole one",
    )


def _parent(config: TrainConfig, folder: Path) -> list[PlanFinding]:
    from memkit.backbones.hf import checkpoint
    from memkit_train.retrain.stages import has_registry, open_registry, parent_of

    if not has_registry(config):
        return []
    registry = open_registry(config)
    try:
        named = parent_of(registry, config)
        if named is None:
            return []
        manifest = registry.manifest(named)
        if manifest.base is not None and manifest.base.digest != checkpoint.weight_digest(folder):
            return [
                PlanFinding(
                    "error",
                    f"the parent {named[:12]} was trained on another base model",
                    "set model.base to it, or model.parent to base",
                )
            ]
        if registry.taints(named):
            return [
                PlanFinding(
                    "warning",
                    f"the parent {named[:12]} learned from erased users",
                    "set model.parent to base, so that nothing of them is carried on",
                )
            ]
    finally:
        registry.close()
    return []


def _template(tokenizer: Any) -> list[PlanFinding]:
    found: list[PlanFinding] = []
    if not tokenizer.chat_template:
        found.append(
            PlanFinding(
                "warning",
                "the tokenizer has no chat template: a plain one is used",
                "prefer a chat model; serving uses the same plain template",
            )
        )
    if tokenizer.eos_token_id is None:
        found.append(PlanFinding("error", "the tokenizer names no end token", "set eos_token in tokenizer_config.json"))
    return found


def _rates(config: TrainConfig, parameters: int) -> list[PlanFinding]:
    """The rates that the run would learn at, and whether one that was set is far from what such a model bears."""
    chosen: list[tuple[str, Kind, float | None]] = [("method.lr", "imitation", config.method.lr)]
    if "online" in config.model_fields_set:
        chosen.append(("online.lr", "reinforcement", config.online.lr))
    found: list[PlanFinding] = []
    for key, kind, lr in chosen:
        usual = rate_for(parameters, kind)
        if lr is None:
            found.append(PlanFinding("ok", f"{key}: {usual.lr:g}, warm-up {usual.warmup:.0%}, by the model's size"))
        elif not 1 / FAR <= lr / usual.lr <= FAR:
            told = f"{key} is {lr:g}, {lr / usual.lr:.2g} times what is usual for {parameters:,} parameters"
            found.append(
                PlanFinding("warning", told, f"leave it out, which takes {usual.lr:g}, or watch the first steps")
            )
    return found


def _parameters(folder: Path) -> int:
    """From the headers of the tensor files."""
    total = 0
    for file in folder.glob("*.safetensors"):
        try:
            with file.open("rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(min(size, file.stat().st_size)))
            total += sum(math.prod(one["shape"]) for name, one in header.items() if name != "__metadata__")
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise _damaged(file, error) from error
    return total


def _adapter_parameters(model: JSON, rank: int) -> int:
    """Rank-r matrices beside the seven linear layers of a block."""
    hidden, inner = model.get("hidden_size", 0), model.get("intermediate_size", 0)
    heads = model.get("num_attention_heads") or 1
    head = model.get("head_dim") or hidden // heads
    queries, keys = heads * head, (model.get("num_key_value_heads") or heads) * head
    sides = [(hidden, queries), (hidden, keys), (hidden, keys), (queries, hidden)] + [(hidden, inner)] * 3
    return int(model.get("num_hidden_layers", 0)) * sum(rank * (a + b) for a, b in sides)


def _memory(config: TrainConfig, folder: Path, prepared: Prepared | None, device: str) -> int:
    """Of the first steps, the one with the most to hold."""
    from memkit_train.learn.footprint import measure_steps
    from memkit_train.learn.sft import imitate

    method = config.method
    batch, most = method.batch or 16, method.micro_batch or 16
    rows = [] if prepared is None else [imitate(row) for row in prepared.rows[: _LOOKED_AT * batch]]
    return measure_steps(
        folder,
        [rows[at : at + batch] for at in range(0, len(rows), batch)],
        most_rows=most,
        gradient_checkpointing=method.gradient_checkpointing,
        **_held(config, device),
    )


def _held(config: TrainConfig, device: str) -> dict[str, Any]:
    """How the model is held, and what is trained of it."""
    import torch

    from memkit_train.learn.lora import LoraSpec

    named = config.model.dtype if config.model.dtype != "auto" else "float32" if device == "cpu" else "bfloat16"
    return {"dtype": getattr(torch, named), "spec": LoraSpec(r=config.method.lora_r, alpha=config.method.lora_alpha)}


def _device(config: TrainConfig) -> str:
    if config.model.device != "auto":
        return "cuda" if config.model.device.startswith("cuda") else "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
