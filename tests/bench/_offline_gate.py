"""Rows of `offline` about judging: the gate refuses what it is there to refuse, and an erased user taints exactly the
adapters that learned from them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from memkit import Memory
from memkit.adapters import Registry
from memkit.embedders import make_embedder
from memkit.seams.backbone import Backbone
from memkit_train.gate import canaries
from memkit_train.gate.checks import Exposure, Verdict, gate
from memkit_train.lab.worlds import Episode, Knobs, OracleBackbone, TeacherBackbone, Truth, generate
from memkit_train.lab.worlds.policies import HABITS
from memkit_train.learn import sft
from memkit_train.learn.tokenizing import reader_of
from memkit_train.replay import Env, Policy, script_of
from memkit_train.retrain.publish import Lineage
from memkit_train.rewards import Answers
from memkit_train.rewards.trial import HeldOut, Trial, trials
from tests.bench._offline_learning import probes
from tests.bench._table import Row
from tests.train import tiny
from tests.train.policies import Breaks, Empties, OnlyAdds, turns_of
from tests.train.test_publish import published

SEEDS = range(10)
USERS = 60
BETTER = {kind: right + 0.5 * (1 - right) for kind, right in HABITS.items()}
"""Half of the parent's bad habits are gone: better, and far from perfect."""
FAULTS: Mapping[str, tuple[Callable[[Truth], Backbone], str]] = {
    "empties the bank": (Empties, "deletions"),
    "only adds": (OnlyAdds, "growth"),
    "broken format": (Breaks, "format"),
}


def run() -> list[Row]:
    return [*_gate(), _memorised(), *_tainting()]


def _gate() -> list[Row]:
    """Policies measured in a world of their own per seed, each on the same users as its parent."""
    passed = {"better": 0, "equal": 0}
    missed: Counter[str] = Counter()
    refused = dict.fromkeys(FAULTS, 0)
    for seed in SEEDS:
        episodes = generate(USERS, seed=200 + seed, knobs=Knobs(sessions=4, turns=4, probes=0, questions=8))
        known = Truth(episodes)
        parent = _tried(episodes, TeacherBackbone(known, seed=seed))
        for name, habits in (("better", BETTER), ("equal", HABITS)):
            other = TeacherBackbone(known, seed=100 + seed, habits=habits)
            verdict = _verdict(_tried(episodes, other), parent)
            passed[name] += verdict.passed
            missed.update(check.name for check in verdict.failed if name == "better")
        for name, (make, by) in FAULTS.items():
            verdict = _verdict(_tried(episodes, make(known)), parent)
            refused[name] += verdict.outcome == "refused" and by in {one.name for one in verdict.failed}
    count = len(SEEDS)
    rows = [
        Row(f"gate refuses: {name}, by {FAULTS[name][1]}", float(found), f"of {count}", str(count), found == count)
        for name, found in refused.items()
    ]
    note = f"{USERS} held-out users each; better: half of the parent's bad habits gone"
    lost = ", ".join(f"{name} {times}×" for name, times in missed.items())
    return [
        *rows,
        Row(
            "gate passes a truly better policy",
            float(passed["better"]),
            f"of {count}",
            "≥ 8",
            passed["better"] >= 8,
            f"{note}; refused by {lost or 'none'}",
        ),
        Row("gate passes an equal one", float(passed["equal"]), f"of {count}", "≤ 1", passed["equal"] <= 1, note),
    ]


def _tried(episodes: list[Episode], backbone: Backbone) -> Trial:
    embedder = make_embedder("hash")
    users = [HeldOut(one.user_id, script_of(one.user_id, turns_of(one)), probes(one)) for one in episodes]
    answers = Answers(OracleBackbone(Truth(episodes)), embedder)
    (found,) = trials(Env(embedder), [Policy(backbone)], users, answers)
    return found


def _verdict(candidate: Trial, parent: Trial, exposures: list[Exposure] | None = None) -> Verdict:
    return gate(candidate.tables, parent.tables, exposures=exposures)


def _memorised() -> Row:
    """A real adapter that was trained on its canaries until it recites them, in place of the better policy's."""
    planned = canaries.plan(4, seed=1)
    rows = canaries.plant(planned, reader_of(str(tiny.base())))
    with tempfile.TemporaryDirectory() as folder:
        settings = sft.SftConfig(
            output=folder, lora=tiny.SPEC, epochs=30, batch=4, micro_batch=4, lr=2e-2, device="cpu"
        )
        adapter = sft.train(rows, tiny.base(), None, settings).path
        exposures = canaries.exposures(planned, tiny.base(), adapter, None)
    episodes = generate(USERS, seed=200, knobs=Knobs(sessions=4, turns=4, probes=0, questions=8))
    known = Truth(episodes)
    better, parent = (
        _tried(episodes, TeacherBackbone(known, seed=seed, habits=habits))
        for seed, habits in ((100, BETTER), (0, HABITS))
    )
    verdict = _verdict(better, parent, exposures)
    failed = [one.name for one in verdict.failed]
    return Row(
        "gate refuses: memorised, by memorisation alone",
        float(failed == ["memorisation"]),
        "",
        "1",
        failed == ["memorisation"],
        verdict.check("memorisation").why,
    )


def _tainting() -> list[Row]:
    """50 users, adapters that learned from some of them; 3 users are erased."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        with Memory(store) as memory:
            for number in range(50):
                memory.add(f"I live in city {number}.", user_id=f"user{number}")
            subjects = {n: memory._runtime.journal.subject(f"user{n}") for n in range(50)}
        learned = {n: set(range(n * 10, n * 10 + 10)) for n in range(5)} | {5: set(range(0, 50, 7)), 6: set[int]()}
        registry = Registry(store / "adapters")
        adapters = {
            published(registry, lineage=Lineage("sft", subjects=[subjects[u] for u in users], seed=n)).digest: users
            for n, users in learned.items()
        }
        registry.close()
        erased = {3, 21, 22}
        with Memory(store) as memory:
            for number in erased:
                memory.erase(user_id=f"user{number}")
        registry = Registry(store / "adapters")
        marked = {digest for digest in adapters if registry.taints(digest)}
        registry.close()
    saw = {digest for digest, users in adapters.items() if users & erased}
    wrong = len(marked ^ saw)
    return [
        Row(
            "adapters marked wrongly after erasing 3 of 50 users",
            float(wrong),
            "",
            "0",
            wrong == 0,
            f"{len(marked)} of {len(adapters)} marked",
        )
    ]
