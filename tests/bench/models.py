"""From a hosted model's log to an adapter of one's own, and what real architectures ask of the trainer.

Each part is a function of `full` that returns its rows; one that cannot run counts as missed. `--full` adds seeds and
writes RESULTS.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.bench import _models_data as data
from tests.bench import _models_distil as distil
from tests.bench import _models_memory as footprint
from tests.bench import _models_zoo as zoo
from tests.bench._results import record
from tests.bench._rl_lab import guarded
from tests.bench._table import Row

PARTS: Sequence[Callable[[bool], list[Row]]] = (
    data.refused_replies,
    data.label_rule,
    data.out_and_back,
    data.doctor,
    distil.json_log,
    distil.distilled,
    zoo.architectures,
    zoo.sampling,
    zoo.shared_prompts,
    zoo.processes,
    zoo.served,
    zoo.by_trl,
    zoo.by_tinker,
    footprint.memory,
)


def run(full: bool = False) -> list[Row]:
    rows = guarded(PARTS, full)
    if full:
        record("python -m tests.bench models --full", rows)
    return rows
