"""`torchrun … -m memkit_train`: one run, several processes, the adapter of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from memkit_train.files.run_folder import runs
from tests.online import model
from tests.train.stores import dividing_seed, lived, teacher, world


def adapter_of(command: str, config: dict[str, Any], folder: Path, processes: int) -> dict[str, Any]:
    output = folder / f"{command}-{processes}"
    file = folder / f"{command}-{processes}.json"
    file.write_text(json.dumps({**config, "output": str(output)}))
    start = [sys.executable, "-m", "memkit_train"]
    if processes > 1:
        start[1:] = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={processes}",
            "-m",
            "memkit_train",
        ]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*start, command, str(file), "--json"], capture_output=True, text=True, env=environment, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (run,) = runs(output)
    ends = {"sft": "train/adapter", "grpo": "stage-1/checkpoints/checkpoint-1"}  # the best one may be the first
    return load_file(run / ends[command] / "adapter_model.safetensors")


def measure_gap(command: str, config: dict[str, Any], folder: Path) -> float:
    """The largest difference of a number, where something was learned."""
    one, two = (adapter_of(command, config, folder, processes) for processes in (1, 2))
    assert any(tensor.abs().max() > 1e-4 for name, tensor in one.items() if "lora_B" in name)
    return max((one[name] - two[name]).abs().max().item() for name in one)


def imitation(folder: Path) -> dict[str, Any]:
    people = world(6, seed=7)
    store = lived(folder / "store", people, teacher(people))
    return {
        "data": {"store": str(store), "heldout_share": 0.3, "split_seed": dividing_seed(store), "min_labels": 1},
        "model": {"base": str(model.base()), "device": "cpu"},
        "method": {"lr": 1e-3, "epochs": 1, "batch": 8, "micro_batch": 2, "lora_r": 4, "lora_alpha": 8},
        "gate": {"canaries": 0},
    }


def reinforcement() -> dict[str, Any]:
    settings = model.settings(roles=["manager"], stages=[{"steps": 1}], token_budget=500, lr=1e-3)
    return {
        "data": {"world": "closed,count=4,seed=1,sessions=2,probes=3"},
        "model": {"base": str(model.base()), "parent": "base", "device": "cpu"},
        "method": {"lora_r": 4, "lora_alpha": 8, "save_steps": 1},
        "online": settings.model_dump(mode="json", exclude={"algorithm"}),
    }


@pytest.mark.slow
def test_imitation_by_two_processes_gives_the_adapter_of_one(tmp_path: Path) -> None:
    assert measure_gap("sft", imitation(tmp_path), tmp_path) <= 1e-5


@pytest.mark.slow
def test_a_step_of_reinforcement_by_two_processes_gives_the_adapter_of_one(tmp_path: Path) -> None:
    """One step: the next is sampled from weights that differ in their last bits, and may draw another token."""
    assert measure_gap("grpo", reinforcement(), tmp_path) <= 1e-5
