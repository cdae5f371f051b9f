"""One hostile user of 41: what 3,000 inverted labels cost the others once the small manager has learned from the log.

The app, its field and the questions to other users are those of `small-learning`.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from memkit_train.log.records import Trajectory
from memkit_train.retrain.config import load
from tests.bench._small_field import log_field
from tests.bench._table import Row
from tests.bench.small_learning import (
    Learned,
    ask,
    collect_changed,
    gain,
    labels_of_turns,
    sets,
    told,
    train,
)

USERS, LABELS, SEED = 41, 3_000, 25


def run(*, full: bool = False) -> list[Row]:
    found = [_seed(SEED + number) for number in range(3 if full else 1)]
    lost = 100 * (cost := gain(found, "honest", "hostile")).value
    shares = ", ".join(f"{name} {found[0].share(name):.1f} %" for name in found[0].rights)
    note = f"{told(cost)}; right answers: {shares}; {'three seeds' if full else 'one seed; three with --full'}"
    name = f"points lost to one user of {USERS} with {LABELS:,} inverted labels"
    return [Row(name, lost, "", "<= 2", lost <= 2, note)]


def _seed(seed: int) -> Learned:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        now = log_field(folder / "store", USERS, seed)
        config = load(None, sets(folder, seed))
        rights = {}
        for name, change in (("honest", lambda one: one), ("hostile", _Hostile())):
            rows, rest = collect_changed(config, now, change)
            rights[name] = ask(train(folder / name, rows, rest, seed), folder / f"panel-{name}", seed)
    return Learned(rights, 0.0, len(rows))


class _Hostile:
    """The first user calls every good answer bad and every bad one good, in all `LABELS` times."""

    def __init__(self) -> None:
        self._user = ""

    def __call__(self, episode: Trajectory) -> Trajectory:
        self._user = self._user or episode.user_id
        if episode.user_id != self._user or not episode.answers:
            return episode
        told = next(found for found in episode.feedback.values() if found)[0]
        answers, feedback = list(episode.answers), dict(labels_of_turns(episode))
        for number in range(LABELS):
            event = episode.answers[number % len(episode.answers)]
            answers.append(replace(event, trace_id=f"{event.trace_id}/{number}"))
            payload = {"reward": 0.0 if event.cited else 1.0}
            feedback[answers[-1].trace_id] = (replace(told, trace_id=answers[-1].trace_id, payload=payload),)
        return replace(episode, answers=tuple(answers), feedback=feedback)
