"""`make demo` with other users and other luck each time: how often what was learned is passed, swapped in and better.

Ten seeds, three minutes of CPU each; `--runs` says how many."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from memkit_train.lab.demo.command import seeds
from tests.bench._table import Row


def run(*, full: bool = False, runs: int = 10) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        seeds(Path(folder), runs, json=False)
        told = [json.loads((Path(folder) / f"seed-{seed}" / "figures.json").read_text()) for seed in range(runs)]
    true = sum(one["true"] for one in told)
    most = max(one["cpu_s"] for one in told) / 60
    return [
        Row("seeds that come true", true, f"of {runs}", f"{runs}", true == runs),
        Row("… CPU of the dearest", most, "min", "<= 6", most <= 6),
    ]
