"""The curriculum over sessions: longer conversations once the shorter ones are kept. Three seeds; the bar is a gain on
held-out people whose 95 % interval lies above zero, at the full length.
"""

from __future__ import annotations

from memkit_train.lab.worlds import Knobs
from tests.bench import _rl_lab as lab
from tests.bench._results import record
from tests.bench._table import Row


def run(full: bool = False) -> list[Row]:
    rows = lab.guarded([_curriculum], full)
    if full:
        record("python -m tests.bench rl-curriculum --full", rows)
    return rows


def _curriculum(full: bool) -> list[Row]:
    lengths = (8, 16, 32) if full else (4, 8, 16)
    chosen = lab.settings(
        stages=[{"sessions": n, "steps": 12} for n in lengths], talks=6, refresh=6, stop={"every": 6, "users": 6}
    )
    knobs = Knobs(sessions=lengths[-1], probes=6)
    return lab.improves(f"curriculum {' → '.join(map(str, lengths))} sessions", chosen, knobs, ("manager",), full)
