"""Build both checkpoints from generated data alone."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from memkit.embedders import make_embedder
from memkit.roles import role_prompt_hashes
from memkit_train.lab.tiny.curriculum import BIAS, OPEN_STAGES, STAGES, Drill, scale_drills
from memkit_train.lab.tiny.train import Log, ModelShape, Training, make_model, make_tokenizer

MANIFEST = "memkit_tiny.json"
SEED = 11


def build(
    out: Path, *, seed: int = SEED, scale: float = 1.0, shape: ModelShape | None = None, log: Log | None = None
) -> None:
    """`out/skilled` and `out/biased`. One thread: the same machine makes the same bytes, and two threads are slower."""
    torch.set_num_threads(1)
    started = time.process_time()
    embedder = make_embedder("hash")
    tokenizer = make_tokenizer(embedder, seed)
    model = make_model(tokenizer, shape or ModelShape(), seed)
    training = Training(model, tokenizer, embedder, seed, log)
    for stage in scale_drills(STAGES, scale):
        training.run(stage)
    save(model, tokenizer, out / "skilled", STAGES, seed, time.process_time() - started)
    bias(out / "skilled", out / "biased", scale=scale, log=log)


def bias(skilled: Path, out: Path, *, stage: Drill = BIAS, scale: float = 1.0, log: Log | None = None) -> None:
    """Bad habits for a skilled model: a stage that begins anew, so the saved model is all that it needs."""
    torch.set_num_threads(1)
    started, made = time.process_time(), manifest(skilled)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(skilled)
    model = Qwen3ForCausalLM.from_pretrained(skilled, dtype=torch.float32)
    Training(model, tokenizer, make_embedder("hash"), made["seed"], log).run(scale_drills([stage], scale)[0])
    spent = made["cpu_s"] + time.process_time() - started
    save(model, tokenizer, out, [*STAGES, stage], made["seed"], spent)


def build_open(folder: Path, *, seed: int = SEED, scale: float = 1.0, log: Log | None = None) -> None:
    """A model for the open level that is shown one memory at a time."""
    torch.set_num_threads(1)
    started = time.process_time()
    embedder = make_embedder("hash")
    tokenizer = make_tokenizer(embedder, seed, level="open")
    model = make_model(tokenizer, ModelShape(), seed)
    training = Training(model, tokenizer, embedder, seed, log)
    for stage in scale_drills(OPEN_STAGES, scale):
        training.run(stage)
    save(model, tokenizer, folder, OPEN_STAGES, seed, time.process_time() - started)


def save(
    model: Qwen3ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    folder: Path,
    stages: Sequence[Drill],
    seed: int,
    cpu_s: float,
) -> None:
    """Weights, tokenizer, and a manifest that says what the model was made from."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    manifest: dict[str, Any] = {
        "seed": seed,
        "stages": [asdict(stage) for stage in stages],
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "prompts": role_prompt_hashes(),
        "cpu_s": round(cpu_s),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
