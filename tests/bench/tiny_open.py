"""The open level: models made from nothing whose names are syllables, one shown memory, three seeds.

Trains what it measures (a quarter of an hour of CPU time a seed), so it is a benchmark of its own. `--full` writes
RESULTS.md.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from memkit.backbones.hf import HFBackbone
from memkit.embedders import make_embedder
from memkit_train.lab.tiny.build import build_open, manifest
from memkit_train.lab.tiny.measure import Measured, measure
from memkit_train.lab.worlds import Knobs, generate
from memkit_train.metrics.stats import mean_by_cluster
from tests.bench._results import record
from tests.bench._table import Row

SEEDS = (5, 6, 7)
HELD = 7000
FLOOR = 0.85
LEVELS = (("unseen names", False), ("unseen names and templates", True))


def run(full: bool = False) -> list[Row]:
    found: dict[str, list[Measured]] = {label: [] for label, _ in LEVELS}
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        for seed in SEEDS:
            folder = Path(name) / str(seed)
            build_open(folder, seed=seed, log=lambda step: print(json.dumps(step), flush=True))
            seconds.append(manifest(folder)["cpu_s"])
            for label, unseen in LEVELS:
                found[label].append(_measured(folder, unseen, 40 if full else 20))
    rows = [_row(label, what, of) for label, of in found.items() for what in ("operations", "whole", "answers")]
    rows.append(Row("CPU time of one build", max(seconds), "s", "reported", True, f"{len(SEEDS)} seeds"))
    if full:
        record("python -m tests.bench tiny-open --full", rows)
    return rows


def _measured(folder: Path, unseen: bool, episodes: int) -> Measured:
    held = generate(episodes, seed=HELD, split="heldout", knobs=Knobs(level="open", unseen_templates=unseen))
    backbone = HFBackbone(folder, threads=1, max_batch=64)
    try:
        return measure(held, backbone, make_embedder("hash"), candidates=1, k=1)
    finally:
        backbone.close()


def _row(label: str, what: str, of: list[Measured]) -> Row:
    tables = [getattr(one, what)["all"] for one in of]
    pooled = {f"{seed}/{user}": values for seed, table in enumerate(tables) for user, values in table.items()}
    one = mean_by_cluster(pooled)
    by_seed = " ".join(f"{mean_by_cluster(table).value:.3f}" for table in tables)
    judged = what == "operations" and label == "unseen names"
    return Row(
        f"open level, one shown memory, {label}: {what}",
        one.value,
        "",
        f"≥ {FLOOR} (aim .95)" if judged else "reported",
        not judged or one.value >= FLOOR,
        f"[{one.low:.3f}, {one.high:.3f}], seeds {by_seed}",
    )
