"""`memkit-train ranker`: from what answers used to weights that would serve."""

from __future__ import annotations

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from memkit import Memory
from memkit.adapters import Registry
from memkit.adapters.plan import with_stable
from memkit.retrieval import RANKINGS, RankerWeights
from memkit_train.log.source import StoreSource
from memkit_train.log.splits import Split
from memkit_train.ranker.learn import learn
from tests.adapters._make import ranker

USERS, WEEKS, QUESTIONS = 8, 6, 4


def write_fact(messages: list[dict[str, str]]) -> str:
    said = messages[-1]["content"].rsplit('"', 2)[-2]
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": said, "turn": 1}]})


def test_a_ranker_is_fitted_from_the_weights_that_serve(tmp_path: Path) -> None:
    with Memory(tmp_path / "s", model=write_fact, mode="fused") as memory:
        for user in (f"u{number}" for number in range(USERS)):
            for week in range(WEEKS):
                memory.add(f"In week {week} the hive gave {week * 7 + 3} jars of honey.", user_id=user)
            for week in range(QUESTIONS):
                found = memory.search(f"how much honey in week {week}?", user_id=user, k=WEEKS)
                memory.observe(found.trace_id, f"In week {week} it gave {week * 7 + 3} jars.", user_id=user)
                memory.feedback(found.trace_id, label="up", user_id=user)
    (tmp_path / "registry").mkdir()
    with StoreSource(tmp_path / "s") as source, closing(Registry(tmp_path / "registry")) as registry:
        now = datetime(2026, 1, 1, tzinfo=UTC)
        learned = learn(source, registry, split=Split(0, 0.0), now=now)
        assert learned.fit.report["prior"] == RANKINGS[max(RANKINGS)][1].digest
        assert learned.fit.weights.behind
        digest = registry.publish(ranker(tmp_path / "learned"))
        registry.move("production", lambda routes: with_stable(routes, digest, ("ranker",)), roles=("ranker",))
        again = learn(source, registry, split=Split(0, 0.0), now=now)
        assert again.fit.report["prior"] == RankerWeights.load(registry.path(digest) / "ranker.json").digest
