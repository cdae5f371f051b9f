"""The ladder: SFT, then KTO, then DPO with an SFT term, then the off-policy gradient. Each rung starts from the best so
far and is kept only where it beats it on validation users, who are neither learned from nor among the gate's.

"Beats" is the gate's own test: the lower bound of the paired gain in answers is above zero, and replies are readable as
often as before. A rung that the log cannot feed (no log-probs, no pairs, labels of one kind) is passed over, and the
record says why. The gate judges what is left at the top, as it judges any adapter.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from memkit.models import JSON
from memkit.seams.backbone import Backbone
from memkit_train.config import TrainConfig
from memkit_train.errors import DataError, Diverged, StaleLog
from memkit_train.gate import gate
from memkit_train.report.folder import RunFolder, Tick
from memkit_train.rung import material, train, trained
from memkit_train.shapes import RUNGS
from memkit_train.tryout import tried

FOLDER = "ladder"


def climb(
    config: TrainConfig, run: RunFolder, parent: Path | None, *, most: int | None = None, tick: Tick | None = None,
    others: Backbone | None = None,
) -> JSON:  # fmt: skip
    """What `retrain` records of its training: the adapter at the top (None: no rung was kept) and every rung's figures.
    `most`: validation users at most. `others`: see `tried`."""
    best, below = parent, "parent"
    rungs: list[JSON] = []
    for name in RUNGS:
        found = run.done(f"rung/{name}")
        if found is None:
            found = run.mark(f"rung/{name}", _rung(config, run, name, best, below, most, tick, others))
        rungs.append(found)
        if found["kept"]:
            best, below = run.path / found["adapter"], name
    kept = [one for one in rungs if one["kept"]]
    run.record["canaries"] = max((one["canaries"] for one in kept), default=0)  # fewer are the beginning of more
    run.write()
    top = {name: kept[-1][name] for name in ("adapter", "weights")} if kept else {"adapter": None, "weights": None}
    return {
        **top, "rungs": rungs, "algorithm": "+".join(one["name"] for one in kept),
        "steps": sum(one.get("steps", 0) for one in rungs), "seconds": sum(one.get("seconds", 0.0) for one in rungs),
    }  # fmt: skip


def _rung(
    config: TrainConfig, run: RunFolder, name: str, best: Path | None, below: str, most: int | None, tick: Tick | None,
    others: Backbone | None,
) -> JSON:  # fmt: skip
    own = RunFolder(run.path / FOLDER / name)
    own.path.mkdir(parents=True, exist_ok=True)
    record: JSON = {"name": name, "below": below, "kept": False}
    try:
        result = train(config.rung(name), own.path, parent=best, run=own, tick=tick, **material(run))
    except (DataError, StaleLog, Diverged) as error:
        return record | {"why": f"passed over: {error.what}"}
    ours, theirs = tried(config, result.path, best, None, tick, most, on_validation=True, others=others)
    verdict = gate(ours.tables, theirs.tables, limits=replace(config.gate.limits(), min_probes=0, min_users=0))
    target, readable = verdict.check("target"), verdict.check("format")
    return record | trained(run, result) | {
        "canaries": own.record.get("canaries", 0),
        "kept": bool(target.passed) and readable.passed is not False, "gain": target.value, "low": target.low,
        "high": target.high, "why": target.why if readable.passed is not False else readable.why,
        "users": verdict.users, "probes": verdict.probes,
    }  # fmt: skip
