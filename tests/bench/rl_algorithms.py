"""PPO, and co-learning of extractor and manager: does each improve its own target on held-out people?

Three seeds each; the bar is a gain whose 95 % interval (people redrawn, seeds averaged) lies above zero. The curriculum
and the answer agent have benchmarks of their own, `rl-curriculum` and `rl-answers`.
"""

from __future__ import annotations

from tests.bench import _rl_lab as lab
from tests.bench._results import record
from tests.bench._table import Row


def run(full: bool = False) -> list[Row]:
    rows = lab.guarded([_ppo, _together], full)
    if full:
        record("python -m tests.bench rl-algorithms --full", rows)
    return rows


def _ppo(full: bool) -> list[Row]:
    chosen = lab.settings(algorithm="ppo", group=8, stages=[{"steps": 40}])
    return lab.improves("PPO", chosen, lab.KNOBS, ("manager",), full)


def _together(full: bool) -> list[Row]:
    """One adapter, two role prompts: the manager first, then both. Replies are the model's own in both roles."""
    chosen = lab.settings(
        roles=["extractor", "manager"],
        stages=[{"steps": 20, "trained": ["manager"]}, {"steps": 20}],
        group=6,
        stop={"every": 10, "users": 10, "m_fail": 0.5},
    )
    return lab.improves("co-learning of extractor and manager", chosen, lab.KNOBS, ("extractor", "manager"), full)
