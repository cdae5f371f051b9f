"""The rungs of the ladder in one table, each from the same logs and from the base, with and without K
replayed alternatives scored by probes; then the ladder that `retrain` climbs by itself.

Shuffled labels are the first rung's control (see `offline-training`), which every rung has to beat by 12 points.
`--full` writes RESULTS.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memkit.models import JSON
from memkit_train import rowfile, tiny
from memkit_train.errors import TrainError
from memkit_train.ladder import climb
from memkit_train.report.folder import RunFolder
from memkit_train.rung import ALTERNATIVES, REPLAY, ROWS
from memkit_train.shapes import RUNGS
from tests.bench._offline_learning import (
    COUNT,
    OverSeeds,
    World,
    checkpoints,
    each_seed,
    mean,
    others,
    scores,
    tried,
)
from tests.bench._results import record
from tests.bench._table import Row

NAMES = {"sft": "SFT", "kto": "KTO", "dpo": "DPO + SFT", "offline": "off-policy"}


@dataclass(frozen=True, slots=True)
class Found:
    """One seed."""

    score: dict[str, float]
    failed: dict[str, str]
    """Rung → why it could not be trained."""
    replay: JSON
    ladder: JSON


def run(full: bool = False) -> list[Row]:
    rows = checkpoints()
    if not (tiny.checkpoint("biased") / "config.json").is_file():
        return [*rows, Row("the rest", None, "", "", False, "make the checkpoints: python -m memkit_train.tiny build")]
    rows += table(each_seed(one_seed))
    if full:
        record("python -m tests.bench offline-rungs --full", rows)
    return rows


def one_seed(world: World) -> Found:
    store = world.log()
    adapters: dict[str, Path | None] = {"start": None}
    failed: dict[str, str] = {}
    config = world.config(store, "sft", **{"method.alternatives": COUNT})
    alternatives, replay = world.replayed(config)
    for method in RUNGS:
        config = world.config(store, method, **{"method.alternatives": COUNT})
        found = world.collected(config)
        for name, more in ((method, []), (f"{method}+", alternatives)):
            try:
                adapters[name] = world.adapter(name, config, found, replayed=more)
            except TrainError as error:
                failed[name] = f"{type(error).__name__}: {error.what}"
        if method == "sft":
            adapters["shuffled"] = world.adapter("shuffled", config, world.collected(config, shuffled=True))
    ladder = _climbed(world, store, alternatives)
    if ladder["adapter"] is not None:
        adapters["ladder"] = Path(ladder["adapter"])
    measured = scores(world, tried(world, adapters))
    return Found({name: mean(one) for name, one in measured.items()}, failed, replay, ladder)


def _climbed(world: World, store: Path, alternatives: list[Any]) -> JSON:
    """What `method.name=ladder` does between collecting and judging; its validation users are logged users too."""
    config = world.config(store, "ladder", **{"method.alternatives": COUNT, "data.validation_share": 0.3})
    found = world.collected(config)
    run = RunFolder(world.folder / "climb")
    run.path.mkdir()
    learned = set(found.subjects)
    rowfile.save(run.path / ROWS, found.rows)
    rowfile.save(run.path / REPLAY, found.replay)
    rowfile.save(run.path / ALTERNATIVES, [row for row in alternatives if row.user in learned])
    with others() as own:
        made = climb(config, run, None, others=own)
    return made | {"adapter": str(run.path / made["adapter"]) if made["adapter"] else None}


def table(found: list[Found]) -> list[Row]:
    rows = [_plain(name, found) for name in ("start", "ceiling", "shuffled")]
    for method, words in NAMES.items():
        for name, more in ((method, ""), (f"{method}+", f" + {COUNT} alternatives")):
            rows.append(_rung(name, words + more, found))
    replayed = found[0].replay
    share = replayed["states_with_a_choice"] / max(1, replayed["states"])
    rows.append(Row("replayed: states where alternatives differ", share,
                    "", "", True, f"first seed: reward of what is done now {replayed['reward_now']}, of the best "
                    f"{replayed['reward_best']}, {replayed['states']} states, {replayed['rows']} rows"))  # fmt: skip
    kept = ["+".join(one["name"] for one in seed.ladder["rungs"] if one["kept"]) or "none" for seed in found]
    name = "ladder: points above the start"
    if any("ladder" not in seed.score for seed in found):
        rows.append(Row(name, None, "", "> 0", False, f"rungs kept, by seed: {', '.join(kept)}"))
    else:
        gain = OverSeeds.of(seed.score["ladder"] - seed.score["start"] for seed in found)
        rows.append(Row(name, 100 * gain.mean, "", "> 0", gain.mean > 0,
                        f"{gain}; rungs kept, by seed: {', '.join(kept)}"))  # fmt: skip
    return rows


def _plain(name: str, found: list[Found]) -> Row:
    over = OverSeeds.of(seed.score[name] for seed in found)
    return Row(f"answers right: {name}", over.mean, "", "", True, str(over))


def _rung(name: str, words: str, found: list[Found]) -> Row:
    reasons = [seed.failed[name] for seed in found if name in seed.failed]
    if reasons:
        return Row(f"answers right: {words}", None, "", "+12 over shuffled", False, reasons[0])
    over = OverSeeds.of(seed.score[name] for seed in found)
    more = OverSeeds.of(seed.score[name] - seed.score["shuffled"] for seed in found)
    return Row(f"answers right: {words}", over.mean, "", "+12 over shuffled", more.mean >= 0.12,
               f"{over}; over shuffled {100 * more.mean:+.1f} ± {100 * more.half:.1f}")  # fmt: skip
