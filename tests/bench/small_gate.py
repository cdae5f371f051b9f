"""The gate on adapters of the small manager: what is planted to be refused, what is good, and the same verdict twice.

The bad ones are the shipped weights with spoiled heads. The good ones learned from the full labels of half of an app's
users; both are judged on the other half, by `memkit-train`'s own `judge`. One good one; `--full` has ten, of ten logs.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from memkit.backbones.small.backbone import SHIPPED
from memkit.backbones.small.shape import CLAUSE, HEADS, RELATION
from memkit_train.chooser.learn import ChooserSettings, learn
from memkit_train.gate.checks import Verdict
from memkit_train.lab.worlds import Manners
from memkit_train.log.source import StoreSource
from memkit_train.retrain.collect import sides
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.retrain.run import judge
from tests.bench._small_field import label_fully, log_field
from tests.bench._table import Row

GOOD, USERS = 10, 76
MANNERS = Manners(0.3, 0.1, corrects=0.7)
"""Users who say oftener what would have been right: a gate needs questions, and so fewer users have them."""
Heads = dict[str, NDArray[np.float32]]
Spoiler = Callable[[Heads], Heads]


def run(*, full: bool = False) -> list[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        config = _app(folder / "0", 0)
        bad = {name: _judge_twice(config, _spoil(folder / name, how)) for name, how in _SPOILED.items()}
        first = _judge_twice(config, _teach(folder / "good-0", config, 0))
        good = [first[0]]
        for seed in range(1, GOOD if full else 1):
            other = _app(folder / f"{seed}", seed)
            good.append(judge(other, str(_teach(folder / f"good-{seed}", other, seed))))
    rows = [
        Row(f"gate refuses: {name}", float(_refused(one)), "", "1", _refused(one), _why(one))
        for name, (one, _) in bad.items()
    ]
    passed, least = sum(one.passed for one in good), round(0.9 * len(good))
    note = "; ".join(f"{one.outcome}, {_gain(one)}{_failed(one)}" for one in good)
    rows.append(Row("gate passes good ones", passed, f"of {len(good)}", f">= {least}", passed >= least, note))
    twice = [one.to_json() == again.to_json() for one, again in [*bad.values(), first]]
    return [*rows, Row("same verdict twice", sum(twice), f"of {len(twice)}", f"{len(twice)}", all(twice))]


def _app(folder: Path, seed: int) -> TrainConfig:
    """Its log; the gate's limits are those of `make demo`: users of this field want more kept than others."""
    log_field(folder / "store", USERS, seed, MANNERS)
    sets = {
        "data.store": folder / "store",
        "data.embedder": "minilm",
        "data.heldout_share": 0.5,
        "model.base": "small",
        "gate.growth": 0.3,
        "output": folder / "runs",
    }
    return load(None, [f"{name}={value}" for name, value in sets.items()])


def _teach(folder: Path, config: TrainConfig, seed: int) -> Path:
    with StoreSource(config.data.path) as source:
        rows = label_fully(sides(source, config)[0])
    return learn(rows, [], None, ChooserSettings(folder, seed)).path


def _judge_twice(config: TrainConfig, adapter: Path) -> tuple[Verdict, Verdict]:
    return judge(config, str(adapter)), judge(config, str(adapter))


def _refused(found: Verdict) -> bool:
    return found.outcome == "refused"


def _why(found: Verdict) -> str:
    return f"{found.outcome}, {found.probes} probes of {found.users}; {_gain(found)}{_failed(found)}"


def _gain(found: Verdict) -> str:
    return found.check("target").why.removesuffix(" against the parent")


def _failed(found: Verdict) -> str:
    """What refused it, and by how much."""
    return "".join(f"; {one.name} missed by {one.missed or 0:.2g}" for one in found.failed)


# ---- what is planted -------------------------------------------------------------------------------------------------


def _spoil(folder: Path, how: Spoiler) -> Path:
    shutil.copytree(SHIPPED, folder)
    heads = load_file(folder / HEADS)
    changed = {name: value.astype(np.float32) for name, value in how(heads).items()}
    save_file({**heads, **changed}, folder / HEADS)
    return folder


def _always(task: str, options: tuple[str, ...], option: str) -> Spoiler:
    name = f"{task}.outer.bias"
    return lambda heads: {name: heads[name] + 30 * (np.arange(len(options)) == options.index(option))}


def _by_chance(heads: Heads) -> Heads:
    order = np.random.default_rng(0)
    names = [f"{task}.outer.weight" for task in ("clause", "relation")]
    return {name: 3 * order.permuted(heads[name], axis=1) for name in names}


_SPOILED: Mapping[str, Spoiler] = {
    "leaves everything": _always("clause", CLAUSE, "leave"),
    "keeps everything": _always("clause", CLAUSE, "keep"),
    "replaces whatever it is shown": _always("relation", RELATION, "replaces"),
    "knows everything already": _always("relation", RELATION, "same"),
    "chooses by chance": _by_chance,
}
