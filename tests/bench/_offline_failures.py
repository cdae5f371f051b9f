"""Rows of `offline` about what goes wrong: each failure as a user meets it, through the command line in a process of
its own, with the cause and the next step in its message. And an interrupted run, killed without warning, that ends in
the weights it would have had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from memkit_train.lab import tiny
from memkit_train.lab.worlds import Manners
from tests.bench._table import Row
from tests.bench._users import live
from tests.train.stores import world as small_world

ROOT = Path(__file__).resolve().parents[2]
SPOKEN = Manners(rated=1.0, wrong_ratings=0.5)
SILENT = Manners(rated=0.0, corrects=0.0, asks_again=0.0)
USERS = 10
_RUN = "import sys; from memkit_train import cli; sys.argv[0] = 'memkit-train'; cli.main()"
_LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_{what}, ({size}, {size}));" + _RUN
_CRAMPED = """
import resource, sys
from memkit_train import cli
from memkit_train.learn import sft
fit = sft.fit
def cramped(*arguments, **more):
    held = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + 80 * 2**20,) * 2)
    return fit(*arguments, **more)
sft.fit = cramped
sys.argv[0] = 'memkit-train'
cli.main()
"""
"""The machine has 80 MiB left when training begins."""


def run() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        episodes = small_world(USERS, seed=7)
        for store, manners in (("store", SPOKEN), ("silent", SILENT)):
            live(folder / store, episodes, tiny.checkpoint("biased"), manners=manners)
        _other_template(folder / "other")
        return [
            _told("no feedback", folder, "sft", "silent", "no feedback", "memory.feedback"),
            _told("wrong template", folder, "sft", "store", "template", "memkit-train plan",
                  **{"model.base": folder / "other"}),
            _told("a method that is gone", folder, "plan", "store", "is gone", "memkit-train export",
                  **{"method.name": "kto"}),
            _told("out of memory", folder, "sft", "store", "did not fit into memory", "method.micro_batch",
                  code=_CRAMPED, **{"method.batch": 512, "method.micro_batch": 512}),
            _told("disk full", folder, "sft", "store", "disk is full", "same command again",
                  code=_LIMITED.format(what="FSIZE", size=60_000)),
            _interrupted(folder),
        ]  # fmt: skip


def _told(
    name: str, folder: Path, method: str, store: str, cause: str, step: str, *, code: str = _RUN, **sets: Any
) -> Row:
    done = _command(code, method, folder / store, folder / f"out-{name.replace(' ', '-')}", sets)
    said = " ".join(done.stderr.split())
    ok = done.returncode in (1, 2) and cause in said and step in said and "Traceback" not in said
    return Row(f"told: {name}", float(ok), "", "1", ok, said[-220:] if ok else f"exit {done.returncode}: {said[-300:]}")


def _command(
    code: str, method: str, store: Path, output: Path, sets: dict[str, Any]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _words(code, method, store, output, sets), capture_output=True, text=True, cwd=ROOT, check=False, timeout=300
    )


def _words(code: str, method: str, store: Path, output: Path, sets: dict[str, Any]) -> list[str]:
    values = {
        "data.store": store,
        "data.registry": output / "registry",
        "data.heldout_share": 0.0,
        "model.base": tiny.checkpoint("biased"),
        "model.device": "cpu",
        "method.batch": 4,
        "method.micro_batch": 4,
        "method.lora_r": 4,
        "method.lora_alpha": 8,
        "method.save_steps": 3,
        "gate.canaries": 0,
        "output": output,
        **sets,
    }
    more = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    return [sys.executable, "-c", code, method, *more, "--json"]


def _other_template(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny.checkpoint("biased"))
    tokenizer.chat_template = "Answer now. " + tokenizer.chat_template
    tokenizer.save_pretrained(folder)
    AutoModelForCausalLM.from_pretrained(tiny.checkpoint("biased")).save_pretrained(folder)


def _interrupted(folder: Path) -> Row:
    """Killed by the system between two checkpoints, run again, and compared with a run that nobody disturbed."""
    name = "interrupted: same final digest after a kill"
    whole = _command(_RUN, "sft", folder / "store", folder / "whole", {})
    torn = folder / "torn"
    process = subprocess.Popen(
        _words(_RUN, "sft", folder / "store", torn, {}), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    until = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < until:
        if list(torn.glob("runs/*/train/checkpoints/checkpoint-*/trainer_state.json")):
            os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.005)
    killed = process.wait() == -signal.SIGKILL
    kept = sorted(path.name for path in torn.glob("runs/*/train/checkpoints/checkpoint-*"))
    again = _command(_RUN, "sft", folder / "store", torn, {})
    if not killed or whole.returncode or again.returncode:
        return Row(name, None, "", "1", False, f"killed: {killed}; {(whole.stderr + again.stderr)[-200:]}")
    one, other = (json.loads(done.stdout) for done in (whole, again))
    same = one["weights"] == other["weights"]
    return Row(name, float(same), "", "1", same, f"{one['steps']} steps; killed with {', '.join(kept)} on disk")
