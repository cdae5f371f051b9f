"""Real architectures, and what a vocabulary of 151,936 tokens and a shared prompt cost."""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from memkit.backbones.hf.choose import Tables, Wish, choose
from memkit.seams.backbone import Sampling
from memkit_train.learn import lora
from memkit_train.rows import Row as TrainedRow
from tests.bench._table import Row
from tests.online import test_served, test_trl
from tests.train import test_processes, test_trainer, test_zoo, tiny
from tests.zoo import WIDE, ZOO, build

VOCABULARY = 151_936
HOST_MS, SHARE, GAP = 0.02, 0.2, 1e-6


def architectures(full: bool) -> list[Row]:
    """add, answer, replay on another day, plan, retrain with its gate, grpo, publish, promote, serve."""
    failed: list[str] = []
    for animal in (*ZOO.values(), WIDE):
        with tempfile.TemporaryDirectory() as room, pytest.MonkeyPatch.context() as patched:
            try:
                test_zoo.go(animal, Path(room), patched)
            except Exception as error:
                failed.append(f"{animal.name}: {type(error).__name__}: {str(error)[:120]}")
    count = len(ZOO) + 1
    told = "; ".join(failed) or "log-probs to 1e-4, tokens the same a day later, one of them with 151,936 tokens"
    return [
        Row("zoo: models that go the whole way", float(count - len(failed)), f"of {count}", "all", not failed, told)
    ]


def sampling(full: bool) -> list[Row]:
    """Whatever is as wide as the vocabulary runs on the device; a vocabulary of 64 leaves what the host does."""
    torch.set_num_threads(1)
    host = _cost(64, rows=256)
    whole, noise = _cost(VOCABULARY, rows=16), _gumbel()
    told = f"noise on the host took {noise:.2f} ms in this run; with the kernels on this CPU {whole:.2f} ms"
    return [Row("sampling: host time of a row and token", host, "ms CPU", f"<= {HOST_MS}", host <= HOST_MS, told)]


def _cost(vocabulary: int, rows: int) -> float:
    """Milliseconds of CPU for a row; the best of five."""
    logits = torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(0))
    allowed, tables = np.arange(vocabulary) % 3 > 0, Tables()
    spent: list[float] = []
    for position in range(5):
        wishes = [Wish(Sampling(1.0, seed=1), f"row {row}", position, allowed) for row in range(rows)]
        began = time.process_time()
        choose(logits, wishes, near_tie=0, tables=tables)
        spent.append(time.process_time() - began)
    return 1000 * min(spent) / rows


def _gumbel() -> float:
    """What every row and token cost on the host before: noise for each token of the vocabulary."""
    spent: list[float] = []
    for position in range(5):
        began = time.process_time()
        key = int.from_bytes(hashlib.sha256(b"seed and key").digest()[:16], "little")
        source = np.random.Philox(key=key, counter=[0, 0, position, 0])
        uniform = (source.random_raw(VOCABULARY) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
        (-np.log(-np.log(uniform))).astype(np.float32)
        spent.append(time.process_time() - began)
    return 1000 * min(spent)


def shared_prompts(full: bool) -> list[Row]:
    """One prompt of 900 tokens and its eight replies of 32, as a group of reinforcement learning has them."""
    from transformers import AutoModelForCausalLM

    rows: list[Row] = []
    for name in ("qwen2", "llama3", "gemma3"):
        with tempfile.TemporaryDirectory() as room:
            base = build(ZOO[name], Path(room) / "base", talkative=True)
            models = [lora.attach(AutoModelForCausalLM.from_pretrained(base), tiny.SPEC) for _ in range(3)]
            drawn = torch.Generator().manual_seed(3)
            for one in zip(*(lora.trainable(model).values() for model in models[:2]), strict=True):
                values = torch.randn(one[0].shape, generator=drawn) * 0.05
                for tensor in one:
                    tensor.data.copy_(values)
            group = _group(drawn)
            trainer = test_trainer.row_trainer(Path(room), test_trainer.WIDE, model=models[0])
            _, shared = test_trainer.step_of(trainer, group)
            read = trainer._sums["sheet_tokens"][0] / sum(row.tokens for row in group)
            test_trainer.twenty_lines(models[1], models[2].requires_grad_(False), group, test_trainer.WIDE).backward()
            gap = (shared - tiny.gradients(models[1])).abs().max().item()
        rows.append(Row(f"{name}: tokens read, of those in the rows", read, "", f"<= {SHARE}", read <= SHARE))
        rows.append(Row(f"{name}: gradient against rows one by one", gap, "", f"<= {GAP:g}", gap <= GAP))
    return rows


def _group(drawn: torch.Generator) -> Sequence[TrainedRow]:
    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(300, 800, (count,), generator=drawn).tolist())

    prompt = ids(900)
    return [TrainedRow(prompt, ids(32), None, 1.0 - number / 4) for number in range(8)]


def processes(full: bool) -> list[Row]:
    """`torchrun --nproc-per-node 2 -m memkit_train sft | grpo`, on CPU by gloo, against one process."""
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room)
        for command, config in (("sft", test_processes.imitation(folder)), ("grpo", test_processes.reinforcement())):
            gap = test_processes.measure_gap(command, config, folder)
            found.append(Row(f"{command} by two processes: adapter against one", gap, "", "<= 1e-5", gap <= 1e-5))
    return found


def by_trl(full: bool) -> list[Row]:
    """Two steps of TRL's trainer, and of memkit's own engine on what TRL sampled."""
    rows: list[Row] = []
    for name in ("qwen2", "llama3", "gemma3"):
        with tempfile.TemporaryDirectory() as room:
            far, gap, moved = test_trl.compare(test_trl.speaking(name, Path(room) / "base"), Path(room))
        told = f"the adapter moved by {moved:.3g}"
        rows.append(Row(f"engine trl on {name}: advantages against memkit's", far, "", "<= 1e-5", far <= 1e-5))
        rows.append(Row("… adapter, from the same samples", gap, "", "<= 1e-4", gap <= 1e-4 < moved, told))
    return rows


def by_tinker(full: bool) -> list[Row]:
    """Two steps of a service that speaks Tinker's API, and of memkit's own engine on what it sampled."""
    if importlib.util.find_spec("tinker") is None:
        return [Row("engine tinker", None, "", "runs", False, "Tinker's SDK is not installed: `memkit[tinker]`")]
    from tests.online import test_tinker

    rows: list[Row] = []
    for name in ("qwen2", "llama3", "gemma3"):
        with tempfile.TemporaryDirectory() as room:
            far, gap, moved = test_tinker.compare(test_trl.speaking(name, Path(room) / "base"), Path(room))
        told = f"the adapter moved by {moved:.3g}; its service is the stand-in of the tests"
        rows.append(Row(f"engine tinker on {name}: advantages against memkit's", far, "", "<= 1e-5", far <= 1e-5))
        rows.append(Row("… adapter, from the same samples", gap, "", "<= 1e-4", gap <= 1e-4 < moved, told))
    return rows


def served(full: bool) -> list[Row]:
    """Two steps of grpo, sampled by a server over HTTP and by the process itself from the same noise."""
    with tempfile.TemporaryDirectory() as room:
        gap, moved = test_served.compare(Path(room))
    told = f"the adapter moved by {moved:.3g}; tokens, log-probs and advantages come from the server"
    return [Row("rollouts over HTTP: adapter against in process", gap, "", "<= 1e-4", gap <= 1e-4 < moved, told)]
