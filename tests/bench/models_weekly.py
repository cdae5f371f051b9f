"""Four weeks at one app. Each week other people talk to whatever serves; then `retrain` reads the log that has grown,
goes on from what serves, and what passes the gate is promoted.

The app is the support desk of `make demo`, with the small manager. What serves after each week is asked by a panel whom
nobody learned from. `--full` takes three seeds, and writes RESULTS.md.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from memkit_train.lab.demo import panel
from memkit_train.lab.demo.chatbot import Chatbot, Visit
from memkit_train.lab.demo.story import ALIAS, ROLES, make_config, open_desk
from memkit_train.lab.field import generate_field
from memkit_train.lab.worlds import Manners
from memkit_train.metrics.stats import difference_by_cluster, mean_by_cluster
from memkit_train.retrain.run import retrain
from tests.bench._results import record
from tests.bench._table import Row

WEEKS, PEOPLE, PANEL = 4, 60, 40
MANNERS = Manners(0.3, 0.1, corrects=0.35)
SEEDS = (71, 72, 73)

Scores = Mapping[str, Sequence[float]]
"""User → 1.0 for every question that was answered rightly."""


@dataclass
class Weeks:
    """What served after each week, the start first, and what became of each retrain."""

    scores: list[Scores] = field(default_factory=list[Scores])
    said: list[str] = field(default_factory=list[str])


def run(full: bool = False) -> list[Row]:
    rows: list[Row] = []
    for seed in SEEDS if full else SEEDS[:1]:
        with tempfile.TemporaryDirectory() as room:
            found = spend_weeks(Path(room), seed)
        means = " → ".join(f"{mean_by_cluster(one).value:.3f}" for one in found.scores)
        steps = [difference_by_cluster(b, a) for a, b in zip(found.scores, found.scores[1:], strict=False)]
        worse = sum(step.high < 0 for step in steps)
        end = difference_by_cluster(found.scores[-1], found.scores[0])
        told = f"{means}; {'; '.join(found.said)}"
        rows += [
            Row(f"weekly, seed {seed}: weeks after which less is answered", float(worse), "", "0", not worse, told),
            Row("… last week against the start, points", 100 * end.value, "", "interval > 0", end.low > 0, f"{end}"),
        ]
    if full:
        record("python -m tests.bench models-weekly --full", rows)
    return rows


def spend_weeks(folder: Path, seed: int) -> Weeks:
    store, found = folder / "memory", Weeks()
    with open_desk(store) as chatbot:
        found.scores.append(_ask(chatbot, seed, "start"))
        for week in range(WEEKS):
            talk = generate_field(PEOPLE, seed=seed, side=f"week{week}")
            log = chatbot.serve([Visit(one, one.user_id, MANNERS, seed=seed) for one in talk])
            tonight = max(one.question.asked_at for one in log) + timedelta(days=1)
            # Forced: everybody's months begin on one day, so no week's labels are newer than those of the one before.
            done = retrain(make_config(store, folder / "runs", seed + 10 * week), force=True, now=tonight)
            found.said.append(done.status if done.digest else f"{done.status} ({done.why[:200]})")
            if done.digest:
                chatbot.memory.adapters.promote(ALIAS, done.digest, roles=ROLES)
            found.scores.append(_ask(chatbot, seed, f"after{week}") if done.digest else found.scores[-1])
    return found


def _ask(chatbot: Chatbot, seed: int, when: str) -> Scores:
    rights: dict[str, list[float]] = {}
    for one in chatbot.serve(panel.visits(generate_field(PANEL, seed=seed, side="panel"), when)):
        rights.setdefault(one.user_id.removeprefix(f"{when}-"), []).append(float(one.right))
    return rights
