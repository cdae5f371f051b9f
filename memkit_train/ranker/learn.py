"""From a store's log to a ranker in its registry: fitted on some users, judged on the others. No torch."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import numpy as np

from memkit.adapters import Registry
from memkit.adapters.manifest import (
    RANKER,
    DataWindow,
    Gate,
    Manifest,
    RetrievalContract,
    TrainingRecord,
    build_adapter,
)
from memkit.adapters.opening import STORE_SCHEMA
from memkit.embedders import make_embedder
from memkit.models import JSON
from memkit.retrieval import RANKINGS, SIGNALS, RankerWeights
from memkit_train.credit.assign import Credited, credit, learn_topics
from memkit_train.credit.fairness import thin
from memkit_train.errors import NoRows
from memkit_train.log.records import RankerRow
from memkit_train.log.source import StoreSource
from memkit_train.log.splits import Split
from memkit_train.ranker.fit import MIN_EXAMPLES, GateResult, RankerFit, RankExample, fit_ranker, gate_ranker


@dataclass(frozen=True, slots=True)
class LearnedRanker:
    fit: RankerFit
    judged: GateResult
    digest: str | None
    """None: not published, because it is not shown to be better."""

    def to_json(self) -> JSON:
        return {
            "digest": self.digest,
            "passed": self.judged.passed,
            "why": self.judged.reason,
            "weights": self.fit.weights.to_json(),
            "fit": self.fit.report,
            "gate": self.judged.report,
        }


def learn(
    source: StoreSource, registry: Registry, *, split: Split, now: datetime, seed: int = 0, embedder: str = "hash"
) -> LearnedRanker:
    by_subject = {source.subject(user): user for user in source.users()}
    train, held = split.divide(by_subject)
    topics = learn_topics(source, [by_subject[one] for one in train])
    made = make_embedder(embedder)
    found: dict[bool, Credited] = {True: Credited(), False: Credited()}
    for episode in source.trajectories():
        found[episode.subject in set(held)].extend(credit(episode, topics, made))
    examples = {side: thin(ranker_examples(credited.ranker)) for side, credited in found.items()}
    teaching = sum(one.teaches for one in examples[False])
    if teaching < MIN_EXAMPLES:
        raise NoRows(
            f"{teaching} answers cite some of what they were served and not the rest; a fit needs {MIN_EXAMPLES}",
            why="only such answers say which memory carried them",
            fix="collect more answers with citations",
        )
    in_use = _find_in_use(source, registry)
    fit = fit_ranker(examples[False], seed, prior=in_use)
    judged = gate_ranker(fit.weights, in_use, examples[True], seed)
    if not judged.passed:
        return LearnedRanker(fit, judged, None)
    subjects = tuple(sorted({row.user for row in found[False].ranker}))
    with tempfile.TemporaryDirectory(dir=registry.root, prefix=".incoming-train-") as room:
        home = Path(room) / "source"
        home.mkdir()
        fit.weights.save(home / RANKER)
        build_adapter(
            home,
            Path(room) / "ranker",
            Manifest(
                kind="ranker",
                created_at=now.isoformat(),
                roles=("ranker",),
                retrieval=RetrievalContract(embedder=made.identity, store_schema=STORE_SCHEMA),
                data=DataWindow(
                    store_id=source.store_id,
                    seq_last=source.watermark().seq,
                    counts={"examples": len(examples[False])},
                    subjects=subjects,
                ),
                training=TrainingRecord(algorithm="ranker", seed=seed),
                gates=(Gate(name="recall", passed=True, bar="lower bound > 0 on held-out users"),),
                notes=judged.reason,
            ),
        )
        return LearnedRanker(fit, judged, registry.publish(Path(room) / "ranker"))


def _find_in_use(source: StoreSource, registry: Registry) -> RankerWeights:
    """A ranker that was learned and promoted before; else the newest weights of such a store."""
    digest = registry.alias("production").route("ranker").stable
    if digest is not None:
        return RankerWeights.load(registry.path(digest) / RANKER)
    return replace(source.served_with, ranking=max(RANKINGS)).weights


def ranker_examples(found: Sequence[RankerRow]) -> list[RankExample]:
    """What `fit_ranker` fits. Rows without all signals (an older log's) cannot take part."""
    out: list[RankExample] = []
    for row in found:
        if not row.served or any(name not in one.signals for one in row.served for name in SIGNALS):
            continue
        table = np.array([[one.signals[name] for name in SIGNALS] for one in row.served], dtype=np.float64)
        relevant = np.array([one.memory_id in row.relevant for one in row.served])
        out.append(RankExample(row.user, table, relevant))
    return out
