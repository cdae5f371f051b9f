"""Rows that are sampled from the weights of the moment: the loop of reinforcement learning, with a crash in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from memkit.models import JSON
from memkit_train.learn import lora
from memkit_train.learn.objective import Objective
from memkit_train.learn.seeding import reproducible
from memkit_train.learn.steps import FixedSteps
from memkit_train.learn.trainer import RowTrainer, training_arguments
from memkit_train.rl.algorithms import grpo
from memkit_train.rl.algorithms.values import ScoredStep, StateGroup
from memkit_train.rows import Row
from tests.train import tiny

PROMPTS = ((5, 6, 7), (8, 9))


class Bandit:
    """One-token replies to two prompts; an even token is worth 1. Remembers how many it drew, as a sampler would."""

    def __init__(self, steps: int) -> None:
        self.model: Any = None
        self.steps, self.drawn, self.asked = steps, 0, []  # type: ignore[var-annotated]

    def __len__(self) -> int:
        return self.steps

    def rows(self, step: int) -> list[Row]:
        self.asked.append(step)
        groups = []
        for prompt in PROMPTS:
            noise = torch.Generator().manual_seed(self.drawn)
            self.drawn += 1
            with torch.no_grad():
                chances = torch.softmax(self.model(torch.tensor([prompt])).logits[0, -1], -1)
            tokens = torch.multinomial(chances, 16, replacement=True, generator=noise).tolist()
            steps = tuple(ScoredStep(prompt, (token,)) for token in tokens)
            groups.append(StateGroup(str(prompt), steps, tuple(float(token % 2 == 0) for token in tokens)))
        made, _ = grpo.state_rows(groups)
        return made

    def worth(self) -> float:
        with torch.no_grad():
            logits = torch.stack([self.model(torch.tensor([prompt])).logits[0, -1] for prompt in PROMPTS])
        return torch.softmax(logits, -1)[:, ::2].sum(-1).mean().item()

    def state(self) -> JSON:
        return {"drawn": self.drawn}

    def restore(self, state: JSON) -> None:
        self.drawn = state["drawn"]


def play(folder: Path, *, crash: int = -1, resume: bool = False) -> tuple[Bandit, float, str]:
    with reproducible(0):
        source = Bandit(steps=12)
        source.model = tiny.model()
        if crash >= 0:
            real = source.rows
            source.rows = lambda step: real(step) if step != crash else _crash()  # type: ignore[method-assign]
        trainer = RowTrainer(
            source.model,
            source,
            grpo.OBJECTIVE,
            training_arguments(folder, steps=12, learning_rate=2e-2, save_strategy="steps", save_steps=3),
        )
        before = source.worth()
        trainer.train(resume_from_checkpoint=resume)
        return source, source.worth() - before, lora.save(trainer.model, folder / "adapter")


def _crash() -> Any:
    raise RuntimeError("power cut")


def test_sampled_rows_teach_and_a_crash_changes_nothing(tmp_path: Path) -> None:
    source, gain, whole = play(tmp_path / "whole")
    assert gain > 0.2
    assert source.asked == list(range(12))  # once each, none ahead of its time
    with pytest.raises(RuntimeError, match="power cut"):
        play(tmp_path / "cut", crash=8)
    again, _, digest = play(tmp_path / "cut", resume=True)
    assert again.asked == list(range(6, 12))
    assert digest == whole


def test_gradient_checkpointing_gives_the_same_gradient(tmp_path: Path) -> None:
    found = []
    for on in (False, True):
        model = tiny.model(tiny.adapter(1))
        if on:
            model.enable_input_require_grads()
            model.gradient_checkpointing_enable()
        trainer = RowTrainer(
            model,
            FixedSteps([tiny.THREE]),
            Objective(kl=0.1),
            training_arguments(tmp_path, steps=1, learning_rate=1e-2),
        )
        trainer.training_step(trainer.model, {"rows": tiny.THREE})
        found.append(tiny.gradients(trainer.model))
    assert torch.allclose(*found, atol=1e-6)


SHARED = """
import sys
from memkit_train.learn import lora, processes
from memkit_train.learn.objective import Objective
from memkit_train.learn.steps import FixedSteps
from memkit_train.learn.trainer import RowTrainer, training_arguments
from transformers import AutoModelForCausalLM
from tests.train.tiny import SPEC, THREE
import torch
torch.set_num_threads(1)
model = lora.attach(AutoModelForCausalLM.from_pretrained(sys.argv[1]), SPEC, parent=sys.argv[2])
arguments = training_arguments(sys.argv[3], steps=2, learning_rate=1.0, optim="sgd")
trainer = RowTrainer(model, FixedSteps([THREE] * 2), Objective(kl=0.1), arguments, token_budget=12)
trainer.train()
if trainer.accelerator.is_main_process:
    lora.save(trainer.accelerator.unwrap_model(trainer.model), sys.argv[3] + "/adapter")
processes.dismiss()
"""


@pytest.mark.slow
def test_two_processes_take_the_same_steps_as_one(tmp_path: Path) -> None:
    """Three micro-batches over two processes: one of them gets a weightless spare."""
    from safetensors.torch import load_file

    script = tmp_path / "shared.py"
    script.write_text(SHARED)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}
    found = []
    for processes in (1, 2):
        out = tmp_path / str(processes)
        ran = subprocess.run(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={processes}",
                str(script),
                str(tiny.base()),
                str(tiny.adapter(1)),
                str(out),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            env=environment,
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
        found.append(load_file(out / "adapter" / "adapter_model.safetensors"))
    assert all(torch.allclose(found[0][name], found[1][name], atol=1e-6) for name in found[0])
    start = load_file(tiny.adapter(1) / "adapter_model.safetensors")
    assert any(not torch.allclose(found[0][name], start[name], atol=1e-4) for name in start)
