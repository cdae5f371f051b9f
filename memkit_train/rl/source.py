"""What `RowTrainer` asks for rows: sample with the weights of this moment, watch for collapse, account for the time.

Everything random hangs on the seed and the number of the batch, so all that a checkpoint must remember is what the run
looked like at its start, and how it was judged. Checkpoints are written where states are played anew
(`OnlineSettings.period`): a run that goes on from one plays them with the same weights and samples what the
uninterrupted run would have.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol

from transformers import TrainerCallback

from memkit.models import JSON
from memkit_train.errors import Collapsed
from memkit_train.replay.env import Policy
from memkit_train.rl.acting import Acting
from memkit_train.rl.learner import Learner
from memkit_train.rl.rollouts import Batch, merge_equal
from memkit_train.rl.served import ServedLearner
from memkit_train.rl.settings import OnlineSettings
from memkit_train.rl.vitals import Vitals, alarms, vitals
from memkit_train.rows import Row

PATIENCE = 2
"""Times in a row that an alarm must sound, of those that its vital was measured: one may be chance."""


class Sampler(Protocol):
    def sample(self, batch: int, policy: Policy, trained: frozenset[str]) -> Batch: ...


class OnlineSource:
    """`state` is part of every checkpoint."""

    def __init__(
        self,
        learner: Learner | ServedLearner,
        acting: Acting,
        sampler: Sampler,
        settings: OnlineSettings,
        *,
        steps: int,
    ) -> None:
        self.learner, self.acting, self.sampler, self.settings = learner, acting, sampler, settings
        self.trainer: Any = None
        self.judge: Any = None
        self._steps = steps
        self._rows: list[Row] = []
        self._start: Vitals | None = None
        self._sounded: dict[str, int] = {}
        """Alarm → how often in a row."""
        self.generated = 0

    def __len__(self) -> int:
        return self._steps

    def policy(self, *, temperature: float = 1.0) -> Policy:
        """The weights of this moment."""
        return Policy(self.acting, self.learner.publish(), temperature, roles=self.settings.roles, name="policy")

    def rows(self, step: int) -> Sequence[Row]:
        if step % self.settings.iterations:
            self.trainer.record("rows", float(len(self._rows)))
            return self._rows
        with self.acting.clock("environment"):
            policy = self.policy()
            batch = self.sampler.sample(step // self.settings.iterations, policy, self.acting.sampled)
            self._rows = merge_equal(batch.rows)
            seen = vitals(batch.trails, batch.replies)
        self.generated += len(batch.replies)
        for name, value in (batch.metrics | seen.metrics | {"rows": float(len(self._rows))}).items():
            self.trainer.record(name, value)
        self._watch(seen, step)
        return self._rows

    def state(self) -> JSON:
        return {
            "start": None if self._start is None else self._start.to_json(),
            "sounded": self._sounded,
            "generated": self.generated,
            "judge": self.judge.state(),
        }

    def restore(self, state: JSON) -> None:
        self._start = None if state["start"] is None else Vitals.of_json(state["start"])
        known = state["sounded"]
        self._sounded = dict(known) if isinstance(known, dict) else {}  # a number in checkpoints of before
        self.generated = state["generated"]
        self.judge.restore(state["judge"])

    def _watch(self, seen: Vitals, step: int) -> None:
        if self._start is None:
            self._start = seen
            return
        found = alarms(seen, self._start, self.settings.stop)
        for name, told in found.items():
            self._sounded[name] = self._sounded.get(name, 0) + 1 if told else 0
        lasting = [told for name, told in found.items() if self._sounded[name] >= PATIENCE]
        if lasting:
            raise Collapsed(
                f"the policy collapsed by step {step}",
                why="; ".join(lasting),
                fix="use the best checkpoint (it is kept); lower the learning rate, or raise std_floor",
            )


class Timekeeper(TrainerCallback):
    """Each step's generation : optimiser : environment, in the trainer's log."""

    def __init__(self, source: OnlineSource) -> None:
        self._source, self._began = source, 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        spent = self._source.acting.clock.take()
        spent["optimiser"] = time.perf_counter() - self._began
        total = sum(spent.values())
        for name in ("generation", "optimiser", "environment"):
            self._source.trainer.record(f"time/{name}", spent.get(name, 0.0) / total)
        self._source.trainer.record("step_time", total)
