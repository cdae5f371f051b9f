"""A better manager from simulated users' logs alone, over three seeds, beside its controls.

The users talk to the biased checkpoint and rate 30 % of its answers, one rating in ten wrong; nothing else reaches the
trainer. Adapters are the first rung's. Controls, trained alike: as many decisions taken blindly (self-SFT); the same
log with each other's feedback on the answers (shuffled labels), which leaves what credit finds out by itself; and what
credit says of a user's decisions dealt out anew among them (shuffled rewards), which leaves that they were credited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memkit_train import tiny
from memkit_train.gate import Verdict, gate
from tests.bench._offline_learning import (
    OverSeeds,
    World,
    checkpoints,
    each_seed,
    mean,
    scores,
    tried,
    unfiltered,
)
from tests.bench._table import Row

FILTERED, BLIND, SHUFFLED, REWARDS, FEW = "labels", "self-SFT", "shuffled labels", "shuffled rewards", "10 % rated"


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
        return [*rows, Row("the rest", None, "", "", False, "make the checkpoints: python -m memkit_train.tiny build")]
    found: list[Found] = each_seed(one_seed)
    return [*rows, *table(found)]


def one_seed(world: World) -> Found:
    adapters: dict[str, Any] = {"start": None}
    config = world.config(world.log(), "sft")
    rated = world.collected(config)
    for name, data in (
        (FILTERED, rated), (BLIND, unfiltered(config, rated, world.seed)),
        (SHUFFLED, world.collected(config, shuffled="labels")),
        (REWARDS, world.collected(config, shuffled="rewards")),
    ):  # fmt: skip
        adapters[name] = world.adapter(name, config, data)
    few = world.config(world.log(rated=0.1, name="few"), "sft")
    adapters[FEW] = world.adapter(FEW, few, world.collected(few))
    trials = tried(world, adapters)
    found = scores(world, trials)
    return Found(
        {name: mean(table) for name, table in found.items()},
        sum(row.reward is not None and row.reward >= 0.5 for row in rated.rows),
        {
            name: gate(trials[name].tables, trials["start"].tables, limits=_limits())
            for name in (FILTERED, SHUFFLED, REWARDS)
        },
        {name: trial.means()["junk"] for name, trial in trials.items()},
    )


def _limits() -> Any:
    from memkit_train.gate import Limits

    return Limits(target="answer_em")


def table(found: list[Found]) -> list[Row]:
    def over(name: str) -> OverSeeds:
        return OverSeeds.of(one.score[name] for one in found)

    def gain(name: str, than: str) -> OverSeeds:
        return OverSeeds.of(one.score[name] - one.score[than] for one in found)

    share = OverSeeds.of(
        (one.score[FILTERED] - one.score["start"]) / max(1e-9, one.score["ceiling"] - one.score["start"])
        for one in found
    )
    rows = [Row(f"answers right: {name}", over(name).mean, "", "", True, str(over(name)))
            for name in ("start", "ceiling", FILTERED, BLIND, SHUFFLED, REWARDS, FEW)]  # fmt: skip
    gap = OverSeeds.of(one.score["ceiling"] - one.score["start"] for one in found)
    rows.append(Row("points between start and ceiling", 100 * gap.mean, "", "", True,
                    f"{gap}: no gain over the start can be larger"))  # fmt: skip
    rows.append(Row("share of the gap closed", share.mean, "", "≥ 0.7", share.mean >= 0.7, str(share)))
    for name in (BLIND, SHUFFLED, REWARDS):
        more = gain(FILTERED, name)
        rows.append(Row(f"points above {name}", 100 * more.mean, "", "≥ 12", more.mean >= 0.12, str(more)))
    few = gain(FEW, "start")
    rows.append(Row("points above the start with 10 % rated", 100 * few.mean, "", "≥ 15", few.mean >= 0.15, str(few)))
    junk = OverSeeds.of(one.junk[FILTERED] - one.junk["start"] for one in found)
    rows.append(Row("junk: share of the memories, against the start", junk.mean, "", "≤ 0.05", junk.mean <= 0.05,
                    str(junk)))  # fmt: skip
    refused = [not one.verdicts[REWARDS].passed for one in found]
    by = sorted({check.name for one in found for check in one.verdicts[REWARDS].failed})
    rows.append(Row("gate refuses: shuffled rewards", float(sum(refused)), f"of {len(found)}", str(len(found)),
                    all(refused), f"by {', '.join(by)}; of shuffled labels, which may teach something, "
                    f"{sum(not one.verdicts[SHUFFLED].passed for one in found)}"))  # fmt: skip
    passed = [one.verdicts[FILTERED].outcome for one in found]
    rows.append(Row("gate passes what learned from labels", float(passed.count("passed")), f"of {len(found)}",
                    str(len(found)), passed.count("passed") == len(found),
                    f"{', '.join(passed)}; {found[0].rows} good decisions in the first seed"))  # fmt: skip
    return rows
