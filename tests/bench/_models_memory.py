"""Rows of `models`: what a step takes of memory, measured on architectures with random weights, against the plan.

Measured is what torch's allocator hands out and gets back while `RowTrainer` takes two steps, on top of the weights.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM

from memkit_train.learn import lora, sft
from memkit_train.learn.footprint import measure_steps
from memkit_train.learn.objective import Objective
from memkit_train.learn.steps import FixedSteps
from memkit_train.learn.trainer import RowTrainer, training_arguments
from memkit_train.rl.algorithms import grpo, ppo
from memkit_train.rows import Row as TrainedRow
from tests.bench._table import Row
from tests.zoo import ZOO, build

WITHIN = 0.25
LAYERS, HIDDEN, INNER, VOCABULARY = 4, 320, 900, 8000
SHAPE: Mapping[str, Any] = {
    "num_hidden_layers": LAYERS,
    "intermediate_size": INNER,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 40,
    "vocab_size": VOCABULARY,
}
WINDOWS: Mapping[str, Any] = {"layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2)}


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    objective: Objective
    group: int = 1
    """Replies to one prompt."""
    checkpointing: bool = False

    @property
    def head(self) -> bool:
        return self.objective is ppo.OBJECTIVE


SFT = Method("sft", sft.OBJECTIVE)
METHODS: Sequence[tuple[str, Method]] = (
    ("qwen2", SFT),
    ("llama3", SFT),
    ("gemma3", SFT),
    ("phi3", SFT),
    ("qwen2", Method("sft, gradient checkpointing", sft.OBJECTIVE, checkpointing=True)),
    ("llama3", Method("grpo", grpo.OBJECTIVE, group=4)),
    ("gemma3", Method("ppo", ppo.OBJECTIVE)),
)


def memory(full: bool) -> list[Row]:
    torch.set_num_threads(1)
    rows: list[Row] = []
    for animal, method in METHODS:
        with tempfile.TemporaryDirectory() as room:
            shape = {**ZOO[animal].shape, **SHAPE, **(WINDOWS if animal == "gemma3" else {})}
            base = build(replace(ZOO[animal], shape=shape), Path(room) / "base", hidden=HIDDEN, talkative=True)
            step = step_of(method.group)
            measured = measure(base, step, method, Path(room))
            planned = measure_steps(
                base,
                [step],
                dtype=torch.float32,
                spec=lora.LoraSpec(),
                gradient_checkpointing=method.checkpointing,
                value_head=method.head,
            )
        off = planned / measured - 1
        told = f"planned {planned / 1e6:.0f} MB, measured {measured / 1e6:.0f} MB"
        name = f"memory of {animal}, {method.name}: plan against measured"
        rows.append(Row(name, 100 * off, "%", f"± {100 * WITHIN:.0f}", abs(off) <= WITHIN, told))
    return rows


def step_of(group: int, rows: int = 8) -> list[TrainedRow]:
    """Prompts of 900 tokens that begin alike, replies of 40."""
    drawn = torch.Generator().manual_seed(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(0, VOCABULARY, (count,), generator=drawn).tolist())

    shared = ids(600)
    prompts = [(*shared, *ids(300)) for _ in range(rows // group)]
    return [TrainedRow(prompt, ids(40), None, 1.0 - number) for prompt in prompts for number in range(group)]


def measure(base: Path, step: Sequence[TrainedRow], method: Method, folder: Path) -> int:
    loaded: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    model: Any = lora.attach(loaded.requires_grad_(False), lora.LoraSpec())
    arguments = training_arguments(
        folder, steps=2, learning_rate=1e-4, use_cpu=True, gradient_checkpointing=method.checkpointing
    )
    if method.checkpointing:
        model.enable_input_require_grads()
    weights = sum(one.numel() * one.element_size() for one in model.parameters())
    gc.collect()
    gc.freeze()  # what was held before is not given back in between
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        RowTrainer(model, FixedSteps([step] * 2), method.objective, arguments, value_head=method.head).train()
    gc.unfreeze()
    live = peak = 0
    events: Any = seen.profiler.kineto_results.events()  # type: ignore[union-attr]
    for event in sorted((one for one in events if one.name() == "[memory]"), key=lambda one: one.start_ns()):
        live = max(0, live + event.nbytes())
        peak = max(peak, live)
    return weights + peak
