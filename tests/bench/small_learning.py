"""What the small manager learns from the log of an app whose field it does not know (`memkit_train.lab.field`): beside
the same field's full labels, beside imitating itself, beside shuffled labels, with few labels.

Right answers are those of other users than the log's, as the app reads them from five facts. One seed with 80 users;
`--full` has three seeds with 120.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from memkit.backbones.small.backbone import SHIPPED
from memkit.embedders import make_embedder
from memkit_train.chooser.learn import ChooserSettings, learn
from memkit_train.lab.demo.panel import visits
from memkit_train.lab.field import generate_field
from memkit_train.log.records import Trajectory
from memkit_train.log.source import StoreSource
from memkit_train.metrics.stats import Estimate, difference_by_cluster
from memkit_train.retrain.collect import collect, sides
from memkit_train.retrain.config import TrainConfig, load
from memkit_train.rows import ChoiceRow, list_chosen
from tests.bench._small_field import label_fully, log_field, open_desk
from tests.bench._table import Row

SEEDS, FIRST = 3, 11
PANEL = 24
Rights = dict[str, list[float]]
"""User → which of the questions were answered rightly."""
Change = Callable[[Trajectory], Trajectory]


def run(*, full: bool = False) -> list[Row]:
    found = [_seed(FIRST + number, 120 if full else 80) for number in range(SEEDS if full else 1)]
    return _rows(found)


@dataclass(frozen=True, slots=True)
class Learned:
    """Right answers of one seed's panel, by what was learned from."""

    rights: dict[str, Rights]
    cpu_s: float
    taught: int

    def share(self, name: str) -> float:
        values = [one for row in self.rights[name].values() for one in row]
        return 100 * sum(values) / len(values)


def _seed(seed: int, users: int) -> Learned:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        now = log_field(folder / "store", users, seed)
        config = load(None, sets(folder, seed))
        begun = time.process_time()
        rows, rest = collect_changed(config, now, lambda one: one)
        folders = {"shipped": SHIPPED, "log": train(folder / "log", rows, rest, seed)}
        cpu = time.process_time() - begun
        itself = [replace(row, label=row.taken, target=()) for row in rows]
        folders["itself"] = train(folder / "itself", itself, rest, seed)
        folders["full"] = train(folder / "full", _full(config), [], seed)
        for name, change in (("shuffled", _Shuffling(seed)), ("few", _Fewer(seed))):
            folders[name] = train(folder / name, *collect_changed(config, now, change), seed)
        rights = {name: ask(one, folder / f"panel-{name}", seed) for name, one in folders.items()}
    return Learned(rights, cpu, len(rows))


def sets(folder: Path, seed: int) -> list[str]:
    sets = {"data.store": folder / "store", "data.embedder": "minilm", "data.heldout_share": 0, "model.base": "small"}
    return [f"{name}={value}" for name, value in {**sets, "method.seed": seed, "output": folder / "runs"}.items()]


def ask(weights: Path, store: Path, seed: int) -> Rights:
    with open_desk(store, weights) as chatbot:
        found = chatbot.serve(visits(generate_field(PANEL, seed=seed, side="panel"), "panel"))
    rights: Rights = {}
    for one in found:
        rights.setdefault(one.user_id, []).append(float(one.right))
    return rights


# ---- what is learned from --------------------------------------------------------------------------------------------


class _Changed(StoreSource):
    """A log of which something is otherwise."""

    def __init__(self, path: Path, change: Change) -> None:
        super().__init__(path)
        self._change = change

    def trajectories(self, users: Sequence[str] | None = None) -> Iterator[Trajectory]:
        return map(self._change, super().trajectories(users))


def collect_changed(config: TrainConfig, now: datetime, change: Change) -> tuple[list[ChoiceRow], list[ChoiceRow]]:
    with _Changed(config.data.path, change) as source:
        found = collect(source, config, make_embedder("minilm"), now=now)
    return list_chosen(found.rows), list_chosen(found.replay)


def train(folder: Path, rows: Sequence[ChoiceRow], rest: Sequence[ChoiceRow], seed: int) -> Path:
    return learn(rows, rest, None, ChooserSettings(folder, seed)).path


def _full(config: TrainConfig) -> list[ChoiceRow]:
    with StoreSource(config.data.path) as source:
        return label_fully(sides(source, config)[0])


class _Shuffling:
    """The labels of each user's answers, dealt anew among them."""

    def __init__(self, seed: int) -> None:
        self._order = random.Random(seed)

    def __call__(self, episode: Trajectory) -> Trajectory:
        asked = [one.trace_id for one in episode.answers]
        given = [episode.feedback.get(one, ()) for one in asked]
        self._order.shuffle(given)
        dealt = {one: found for one, found in zip(asked, given, strict=True) if found}
        return replace(episode, feedback={**labels_of_turns(episode), **dealt})


class _Fewer:
    """A third of the labels: one answer in ten is rated."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, episode: Trajectory) -> Trajectory:
        order = random.Random(f"{self._seed}/{episode.user_id}")
        kept = {one: found for one, found in episode.feedback.items() if order.random() < 1 / 3}
        return replace(episode, feedback={**labels_of_turns(episode), **kept})


def labels_of_turns(episode: Trajectory) -> dict[str, tuple[object, ...]]:
    asked = {one.trace_id for one in episode.answers}
    return {name: found for name, found in episode.feedback.items() if name not in asked}


# ---- rows ------------------------------------------------------------------------------------------------------------


def _rows(found: Sequence[Learned]) -> list[Row]:
    mean = {name: sum(one.share(name) for one in found) / len(found) for name in found[0].rights}
    gap = (mean["log"] - mean["shipped"]) / max(mean["full"] - mean["shipped"], 1e-9)
    users = f"{len(found)} seeds" if len(found) > 1 else "one seed; three with --full"
    shares = ", ".join(f"{name} {value:.1f}" for name, value in mean.items())
    rows = [
        Row("right answers after learning from the log", mean["log"], "%", "", True, f"{shares}; {users}"),
        Row("share of the gap to the same field's full labels", gap, "", ">= 0.6", gap >= 0.6, users),
    ]
    for name, what in (("itself", "imitating itself"), ("shuffled", "shuffled labels")):
        above = gain(found, "log", name)
        ok = 100 * above.value >= 8 and above.low > 0
        rows.append(
            Row(f"points above {what}, same epochs", 100 * above.value, "", ">= 8, interval above 0", ok, told(above))
        )
    few = gain(found, "few", "shipped")
    rows.append(Row("one answer in ten rated: points gained", 100 * few.value, "", "> 0", few.value > 0, told(few)))
    cpu = max(one.cpu_s for one in found) / 60
    return [*rows, Row("CPU of collecting and training", cpu, "min", "<= 5", cpu <= 5, f"{found[0].taught} rows")]


def gain(found: Sequence[Learned], ours: str, theirs: str) -> Estimate:
    sides = [
        {f"{number}/{user}": row for number, one in enumerate(found) for user, row in one.rights[name].items()}
        for name in (ours, theirs)
    ]
    return difference_by_cluster(*sides)


def told(one: Estimate) -> str:
    return f"[{100 * one.low:+.1f}, {100 * one.high:+.1f}], {one.clusters} users"
