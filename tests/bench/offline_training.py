"""A better manager from simulated users' logs alone, over three seeds, beside its controls.

The users talk to the biased checkpoint and rate 30 % of its answers, one rating in ten wrong; nothing else reaches the
trainer. Adapters imitate the decisions that credit calls good. Controls, trained alike: as
many decisions taken blindly (self-SFT), the judged decisions with each other's reward (shuffled rewards), and the same
log with each other's feedback on the answers (shuffled labels). The last is the hardest to beat: it leaves what credit
finds out by itself, from what was cited and what a later turn says. The gate judges the adapter and two of them.

Beside it the same with blamed decisions taken again (`method.amends`), and with a polish from replayed states on top
(`method.polish`), each with its own control: shuffled labels all the way. `--full` writes
RESULTS.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memkit_train.gate.checks import Limits, Verdict, gate
from memkit_train.lab import tiny
from tests.bench._offline_learning import (
    OverSeeds,
    World,
    checkpoints,
    each_seed,
    mean,
    permuted,
    scores,
    tried,
    unfiltered,
)
from tests.bench._results import record
from tests.bench._table import Row

LABELS, BLIND, SHUFFLED, FEW = "labels", "self-SFT", "shuffled labels", "10 % rated"
PERMUTED = "shuffled rewards"
AMENDED, SHUFFLED_TOO = "labels, amended", "shuffled labels, amended"
POLISHED, SHUFFLED_ALL = "labels, amended, polished", "shuffled labels, amended, polished"


@dataclass(frozen=True, slots=True)
class Found:
    """One seed."""

    score: dict[str, float]
    """Policy → share of the final questions that its banks answer."""
    rows: int
    verdicts: dict[str, Verdict]
    junk: dict[str, float]


def run(full: bool = False) -> list[Row]:
    rows = checkpoints()
    if not (tiny.checkpoint("biased") / "config.json").is_file():
        return [
            *rows,
            Row("the rest", None, "", "", False, "make the checkpoints: python -m memkit_train.lab.tiny build"),
        ]
    rows += table(each_seed(one_seed))
    if full:
        record("python -m tests.bench offline-training --full", rows)
    return rows


def one_seed(world: World) -> Found:
    config = world.config(world.log())
    rated, shuffled = world.collected(config), world.collected(config, shuffled=True)
    few = world.config(world.log(rated=0.1, name="few"))
    adapters: dict[str, Any] = {
        "start": None,
        LABELS: world.adapter(LABELS, config, rated),
        BLIND: world.adapter(BLIND, config, unfiltered(config, rated, world.seed)),
        PERMUTED: world.adapter(PERMUTED, config, permuted(rated, world.seed)),
        SHUFFLED: world.adapter(SHUFFLED, config, shuffled),
        AMENDED: world.adapter(AMENDED, config, rated, amended=world.amended(config)),
        SHUFFLED_TOO: world.adapter(SHUFFLED_TOO, config, shuffled, amended=world.amended(config, shuffled=True)),
        FEW: world.adapter(FEW, few, world.collected(few)),
    }
    adapters[POLISHED] = world.polished(POLISHED, config, adapters[AMENDED])
    adapters[SHUFFLED_ALL] = world.polished(SHUFFLED_ALL, config, adapters[SHUFFLED_TOO], shuffled=True)
    trials = tried(world, adapters)
    found = scores(world, trials)
    return Found(
        {name: mean(table) for name, table in found.items()},
        sum(row.reward is not None and row.reward >= 0.5 for row in rated.rows),
        {
            name: gate(trials[name].tables, trials["start"].tables, limits=Limits(target="answer_em"))
            for name in (LABELS, BLIND, SHUFFLED)
        },
        {name: trial.means()["junk"] for name, trial in trials.items()},
    )


def table(found: list[Found]) -> list[Row]:
    def over(name: str) -> OverSeeds:
        return OverSeeds.of(one.score[name] for one in found)

    def gain(name: str, than: str) -> OverSeeds:
        return OverSeeds.of(one.score[name] - one.score[than] for one in found)

    def closed(name: str) -> OverSeeds:
        return OverSeeds.of(
            (one.score[name] - one.score["start"]) / max(1e-9, one.score["ceiling"] - one.score["start"])
            for one in found
        )

    shown = ("start", "ceiling", LABELS, AMENDED, POLISHED, BLIND, PERMUTED, SHUFFLED, SHUFFLED_TOO, SHUFFLED_ALL, FEW)
    rows = [Row(f"answers right: {name}", over(name).mean, "", "", True, str(over(name))) for name in shown]
    gap = gain("ceiling", "start")
    rows.append(
        Row(
            "points between start and ceiling",
            100 * gap.mean,
            "",
            "",
            True,
            f"{gap}: no gain over the start can be larger",
        )
    )
    for name, controls in (
        (LABELS, (BLIND, PERMUTED, SHUFFLED)),
        (AMENDED, (BLIND, PERMUTED, SHUFFLED_TOO)),
        (POLISHED, (BLIND, PERMUTED, SHUFFLED_ALL)),
    ):
        share = closed(name)
        rows.append(Row(f"{name}: share of the gap closed", share.mean, "", "≥ 0.7", share.mean >= 0.7, str(share)))
        for control in controls:
            more = gain(name, control)
            rows.append(
                Row(f"{name}: points above {control}", 100 * more.mean, "", "≥ 12", more.mean >= 0.12, str(more))
            )
    few = gain(FEW, "start")
    rows.append(Row("points above the start with 10 % rated", 100 * few.mean, "", "≥ 15", few.mean >= 0.15, str(few)))
    junk = OverSeeds.of(one.junk[LABELS] - one.junk["start"] for one in found)
    rows.append(
        Row("junk: share of the memories, against the start", junk.mean, "", "≤ 0.05", junk.mean <= 0.05, str(junk))
    )
    return [*rows, *_judged(found)]


def _judged(found: list[Found]) -> list[Row]:
    count = len(found)
    passed = sum(one.verdicts[LABELS].passed for one in found)
    refused = [not one.verdicts[BLIND].passed for one in found]
    by = sorted({check.name for one in found for check in one.verdicts[BLIND].failed})
    taught = sum(one.verdicts[SHUFFLED].passed for one in found)
    return [
        Row("gate passes what learned from labels", float(passed), f"of {count}", str(count), passed == count,
            f"{', '.join(one.verdicts[LABELS].outcome for one in found)}; {found[0].rows} good logged decisions in the "
            "first seed"),
        Row("gate refuses rewards shuffled over the whole log (self-SFT)", float(sum(refused)), f"of {count}",
            str(count), all(refused), f"by {', '.join(by)}"),
        Row("gate passes what learned from shuffled labels", float(taught), f"of {count}", "reported", True,
            "credit finds out some of it without them"),
    ]  # fmt: skip
