"""LoGo-GRPO against trajectory GRPO on long conversations of several people, at equal generations.

Equal: trajectory GRPO plays 8 episodes of a conversation where LoGo plays 6 and rerolls half of the sessions 4 times
(4 against 3 and 2 rerolls in the short version). The curve is the held-out score of the people that no policy saw.
`--full` is the claim: 16 and 32 sessions, three seeds, curves; the short version only shows that it runs as it should.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from memkit.embedders import make_embedder
from memkit_train import tiny
from memkit_train.tiny.measure import measure
from memkit_train.worlds import Knobs, OracleBackbone, Truth
from tests.bench import _rl_lab as lab
from tests.bench._results import record
from tests.bench._table import Row

Curve = list[tuple[int, float]]


def run(full: bool = False) -> list[Row]:
    parts = [_sixteen, _thirty_two] if full else [_sixteen]
    rows = lab.guarded(parts, full)
    if full:
        record("python -m tests.bench rl-long --full", rows)
    return rows


def _sixteen(full: bool) -> list[Row]:
    return _compared(16, full)


def _thirty_two(full: bool) -> list[Row]:
    return _compared(32, full)


def _compared(sessions: int, full: bool) -> list[Row]:
    knobs = Knobs(sessions=sessions, turns=4, people=3, probes=4, questions=40)
    steps, looks = (16, 4) if full else (6, 3)
    group, rerolls, talks = (8, 4, 3) if full else (4, 2, 2)
    held = lab.World.of(16 if full else 6, lab.HELD, knobs, split="heldout")
    common: dict[str, Any] = {
        "talks": talks, "questions": 4, "p_local": 0.5, "rerolls": rerolls, "stages": [{"steps": steps}],
        "stop": {"every": looks, "users": len(held.talks), "patience": 99},
    }  # fmt: skip
    local = round(0.5 * rerolls)
    kinds: dict[str, Mapping[str, Any]] = {
        "trajectory": {"algorithm": "grpo", "learn": "episodes", "group": group},
        "logo": {"algorithm": "logo", "group": group - local},
    }
    curves: dict[str, list[Curve]] = {name: [] for name in kinds}
    spent: dict[str, list[float]] = {name: [] for name in kinds}
    collapsed = 0
    for name, kind in kinds.items():
        for seed in lab.SEEDS:
            train = lab.World.of(24, lab.TRAIN + seed, knobs)
            done, _, _ = lab.run(lab.settings(**common, **kind), seed, train=train, choose=held)
            curves[name].append([(step, score) for step, score in done.stages[0]["looks"]])
            spent[name].append(float(done.generated))
            collapsed += done.status == "collapsed"
    oracle = measure(held.episodes, OracleBackbone(Truth(held.episodes)), make_embedder("hash"))
    start, biased = curves["logo"][0][0][1], lab.measured(tiny.checkpoint("biased"), None, held)
    ceiling = lab.mean(oracle.answers["all"]) - lab.mean(biased.answers["all"])
    named = f"{sessions} sessions, 3 people"
    rows = [
        Row(f"{named}: an oracle's answers above the start's", ceiling, "", "≥ 0.25", ceiling >= 0.25),
        Row(f"{named}: generations, LoGo to trajectory GRPO", fmean(spent["logo"]) / fmean(spent["trajectory"]), "",
            "0.9–1.1", 0.9 <= fmean(spent["logo"]) / fmean(spent["trajectory"]) <= 1.1),
        Row(f"{named}: seeds that collapsed", collapsed, f"of {2 * len(lab.SEEDS)}", "0", collapsed == 0),
    ]  # fmt: skip
    for at in range(1, min(len(curve) for found in curves.values() for curve in found)):
        step = curves["logo"][0][at][0]
        ours, theirs = ([curve[at][1] for curve in curves[name]] for name in ("logo", "trajectory"))
        lead = [a - b for a, b in zip(ours, theirs, strict=True)]
        rows.append(
            Row(f"{named}: LoGo's lead after {step} steps", fmean(lead), "", "reported", True,
                f"[{min(lead):+.3f}, {max(lead):+.3f}] over seeds; LoGo {lab.listed(ours)}, "
                f"trajectory {lab.listed(theirs)}, start {start:.3f}")
        )  # fmt: skip
    return rows
