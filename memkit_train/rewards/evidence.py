"""Does the bank still lead to where an answer was said? No model is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memkit.engine.bank import LiveBank
from memkit.retrieval import Query, RankerWeights, rank
from memkit.seams.embedder import Embedder
from memkit_train.rewards.answers import bank_for, weighted
from memkit_train.rewards.base import Probed, Rollout


@dataclass(frozen=True, slots=True)
class EvidenceReward:
    """Share of a question's source turns that the memories served for it name. It can be gamed by memories that name
    everything and say nothing, so it belongs beside fidelity and a budget, never alone."""

    embedder: Embedder
    k: int = 8
    weights: RankerWeights | None = None
    name: str = "evidence_recall"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float | None]:
        return [
            weighted([(self._recall(probe, bank_for(probe, one.asked)), probe.weight) for probe in one.probes])
            for one in rollouts
        ]

    def _recall(self, probe: Probed, bank: LiveBank) -> float | None:
        if not probe.source_turns:
            return None
        if not len(bank):
            return 0.0
        (vector,) = self.embedder.embed([probe.question])
        query = Query(text=probe.question, vector=vector, k=self.k, now=probe.now)
        served = rank(bank.index, query, self.weights) if self.weights else rank(bank.index, query)
        named = {turn for one in served for turn in one.record.source_turns}
        return sum(turn in named for turn in probe.source_turns) / len(probe.source_turns)
