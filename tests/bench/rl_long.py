"""LoGo-GRPO against trajectory GRPO on long conversations of several people, at equal generations.

Equal: trajectory GRPO plays 8 episodes of a conversation where LoGo plays 6 and rerolls half of the sessions 4 times
(4 against 3 and 2 rerolls in the short version). The curve is the held-out score of the people that no policy saw.
`--full` is the claim: 16 and 32 sessions, three seeds, curves. It takes hours, so each run is kept as it ends (see
`_kept`). The short version only shows that it runs as it should.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import fmean
from typing import Any

import torch

from memkit.embedders import make_embedder
from memkit_train.lab import tiny
from memkit_train.lab.tiny.measure import measure
from memkit_train.lab.worlds import Knobs, OracleBackbone, Truth
from tests.bench import _rl_lab as lab
from tests.bench._kept import Found, kept
from tests.bench._results import record
from tests.bench._table import Row

WORKERS = 2
"""Runs at a time: as many as the cores that the figures are promised for."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long the conversations are, and how much is learned from them."""

    sessions: int
    steps: int
    looks: int
    """Steps between two looks at the held-out people."""
    held: int
    group: int
    rerolls: int
    talks: int

    @property
    def knobs(self) -> Knobs:
        return Knobs(sessions=self.sessions, turns=4, people=3, probes=4, questions=40)

    @property
    def kinds(self) -> Mapping[str, Mapping[str, Any]]:
        """At equal generations."""
        return {
            "trajectory": {"algorithm": "grpo", "learn": "episodes", "group": self.group},
            "logo": {"algorithm": "logo", "group": self.group - round(0.5 * self.rerolls)},
        }

    def people(self) -> lab.World:
        return lab.World.of(self.held, lab.HELD, self.knobs, split="heldout")


SHORT = (Size(16, steps=6, looks=3, held=6, group=4, rerolls=2, talks=2),)
FULL = (
    Size(16, steps=16, looks=4, held=16, group=8, rerolls=4, talks=3),
    Size(32, steps=12, looks=3, held=8, group=8, rerolls=4, talks=2),
)


def run(full: bool = False) -> list[Row]:
    rows: list[Row] = []
    for size in FULL if full else SHORT:
        rows += _guarded(size)
        if full:
            record("python -m tests.bench rl-long --full", rows)
    return rows


def _guarded(size: Size) -> list[Row]:
    try:
        return _compared(size)
    except Exception as error:
        return [Row(f"{size.sessions} sessions", None, "", "runs", False, f"{type(error).__name__}: {error}"[:200])]


def _compared(size: Size) -> list[Row]:
    jobs = [(size, kind, seed) for seed in lab.SEEDS for kind in size.kinds]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"), initializer=_single) as pool:
        found = list(pool.map(_learned, jobs))
    runs = {kind: [one for one, job in zip(found, jobs, strict=True) if job[1] == kind] for kind in size.kinds}
    named = f"{size.sessions} sessions, 3 people"
    held = size.people()
    oracle = measure(held.episodes, OracleBackbone(Truth(held.episodes)), make_embedder("hash"))
    biased = lab.measured(tiny.checkpoint("biased"), None, held)
    head_room = lab.mean(oracle.answers["all"]) - lab.mean(biased.answers["all"])
    spent = {kind: fmean(one["generated"] for one in of) for kind, of in runs.items()}
    equal = spent["logo"] / spent["trajectory"]
    collapsed = sum(one["status"] == "collapsed" for one in found)
    return [
        Row(f"{named}: an oracle's answers above the start's", head_room, "", "≥ 0.25", head_room >= 0.25),
        Row(f"{named}: generations, LoGo to trajectory GRPO", equal, "", "0.9–1.1", 0.9 <= equal <= 1.1),
        Row(f"{named}: seeds that collapsed", collapsed, f"of {len(found)}", "0", collapsed == 0),
        *_curves(named, runs),
    ]


def _curves(named: str, runs: Mapping[str, Sequence[Found]]) -> list[Row]:
    """LoGo's lead at every look that all runs came to, and what either had then."""
    start = runs["logo"][0]["looks"][0][1]
    rows: list[Row] = []
    for at in range(1, min(len(one["looks"]) for of in runs.values() for one in of)):
        step = runs["logo"][0]["looks"][at][0]
        ours, theirs = ([one["looks"][at][1] for one in runs[kind]] for kind in ("logo", "trajectory"))
        lead = [a - b for a, b in zip(ours, theirs, strict=True)]
        rows.append(
            Row(
                f"{named}: LoGo's lead after {step} steps",
                fmean(lead),
                "",
                "reported",
                True,
                f"[{min(lead):+.3f}, {max(lead):+.3f}] over seeds; LoGo {lab.listed(ours)}, "
                f"trajectory {lab.listed(theirs)}, start {start:.3f}",
            )
        )
    return rows


def _learned(job: tuple[Size, str, int]) -> Found:
    size, kind, seed = job
    chosen: dict[str, Any] = {
        "talks": size.talks,
        "questions": 4,
        "p_local": 0.5,
        "rerolls": size.rerolls,
        "stages": [{"steps": size.steps}],
        "stop": {"every": size.looks, "users": size.held, "patience": 99},
        **size.kinds[kind],
    }
    settings = lab.settings(**chosen)

    def learn() -> Found:
        train = lab.World.of(24, lab.TRAIN + seed, size.knobs)
        done, cpu, _ = lab.run(settings, seed, train=train, choose=size.people())
        return {
            "looks": [[step, score] for step, score in done.stages[0]["looks"]],
            "generated": done.generated,
            "status": done.status,
            "cpu_s": round(cpu),
        }

    told = {
        "bench": "rl-long",
        "sessions": size.sessions,
        "kind": kind,
        "seed": seed,
        "knobs": str(size.knobs),
        "settings": settings.model_dump(mode="json"),
    }
    return kept(told, learn)


def _single() -> None:
    torch.set_num_threads(1)
