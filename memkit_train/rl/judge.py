"""Held-out conversations decide which checkpoint is kept and when to stop: the training reward does not.

With a constant rate a tiny model peaked after 15 steps and then lost points for as long as anybody watched, while its
training reward stayed flat. So every few steps the policy plays held-out conversations greedily, the frozen answerer
answers their questions, and the best adapter so far (the parent included) is the run's result.

A dozen people cannot tell a lucky early checkpoint from a good one: the highest of several noisy scores is mostly luck.
So a later checkpoint replaces the best one unless it is worse beyond one standard error over people, and better than
the parent it must be in any case.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Protocol

from transformers import TrainerCallback

from memkit.engine.call import Routing
from memkit.models import JSON
from memkit_train.replay.answer import AnswerTask, answer_all
from memkit_train.replay.env import Env, Policy, Trail
from memkit_train.rewards.answers import Answers, bank_for, exact, overlap
from memkit_train.rewards.trial import trials
from memkit_train.rl.answering import count_citations
from memkit_train.rl.settings import StopSettings
from memkit_train.rl.talks import Talk


@dataclass(frozen=True, slots=True)
class Marks:
    """How a policy did on held-out conversations."""

    score: float
    m_fail: float
    means: dict[str, float] = field(default_factory=dict[str, float])
    people: dict[str, float] = field(default_factory=dict[str, float])
    """Score by conversation."""

    def below(self, other: Marks) -> bool:
        """Worse than the other beyond noise: the same people, paired."""
        gaps = [other.people[one] - self.people[one] for one in self.people if one in other.people]
        if len(gaps) < 2:
            return self.score < other.score
        return fmean(gaps) > stdev(gaps) / math.sqrt(len(gaps))


class Exam(Protocol):
    def __call__(self, policy: Policy) -> Marks: ...


@dataclass(slots=True)
class DecisionExam:
    """Plays from the start; the frozen answerer answers."""

    env: Env
    talks: Sequence[Talk]
    answers: Answers
    metric: str

    def __call__(self, policy: Policy) -> Marks:
        greedy = replace(policy, temperature=0.0)
        named = f"answer_{self.metric}"
        (found,) = trials(self.env, [greedy], [talk.held_out() for talk in self.talks], self.answers, metric=named)
        means = found.means()
        total = sum(found.actions.values()) or 1
        means |= {f"ops/{name}": count / total for name, count in found.actions.items()}
        people = {user: fmean(values) for user, values in found.tables[named].items() if values}
        return Marks(means[named], means.get("m_fail", 0.0), means, people)


@dataclass(slots=True)
class AnswerExam:
    """The policy answers from banks that the frozen manager made: they are played once."""

    env: Env
    talks: Sequence[Talk]
    metric: str
    _played: list[Trail] = field(default_factory=list[Trail])

    def __call__(self, policy: Policy) -> Marks:
        greedy = replace(policy, temperature=0.0)
        if not self._played:
            self._played = self.env.run([(self.env.start(talk.script), greedy) for talk in self.talks], upto=None)
        asked = [
            (one.probe, bank_for(one.probe, trail))
            for talk, trail in zip(self.talks, self._played, strict=True)
            for one in talk.questions
        ]
        tasks = [AnswerTask(probe.question, bank, probe.now, probe.key) for probe, bank in asked]
        found = answer_all(
            tasks,
            greedy.backbone,
            self.env.embedder,
            self.env.served,
            weights=self.env.weights,
            routing=Routing(greedy.adapter),
        )
        pairs = [(one, probe) for one, (probe, _) in zip(found, asked, strict=True)]
        scores = {
            name: [measure(one.text, probe.expected) for one, probe in pairs]
            for name, measure in (("em", exact), ("f1", overlap))
        }
        counts = [counted for one, probe in pairs if (counted := count_citations(one, probe))]
        right, named, wanted = (sum(one[at] for one in counts) for at in range(3))
        means = {f"answer_{name}": fmean(values) for name, values in scores.items()} | {
            "citation_precision": right / max(1, named),
            "citation_recall": right / max(1, wanted),
        }
        people: dict[str, list[float]] = {}
        owners = [talk.user for talk in self.talks for _ in talk.questions]
        for user, value in zip(owners, scores[self.metric], strict=True):
            people.setdefault(user, []).append(value)
        averaged = {user: fmean(values) for user, values in people.items()}
        return Marks(means[f"answer_{self.metric}"], 0.0, means, averaged)


class Judge(TrainerCallback):
    """Looks every few steps, keeps the best adapter, and ends the run when nothing gets better any more. What a resumed
    run goes back to is what its checkpoint calls the best, so the best of the last two checkpoints are kept, too.
    `keep` writes the adapter that was just looked at."""

    def __init__(
        self,
        exam: Callable[[], Marks],
        keep: Callable[[Path], object],
        best: Path,
        limits: StopSettings,
        note: Callable[[int, Marks], None] = lambda step, marks: None,
    ) -> None:
        self._exam, self._keep, self.folder, self._limits, self._note = exam, keep, best, limits, note
        self.looks: list[tuple[int, Marks]] = []
        self._chosen = 0
        self._kept: list[int] = []
        self.stopped = False

    @property
    def first(self) -> Marks:
        return self.looks[0][1]

    @property
    def best(self) -> tuple[int, Marks]:
        return self.looks[self._chosen]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not state.global_step:
            self.look(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        if step % self._limits.every == 0 or step >= state.max_steps:
            control.should_training_stop |= self.look_on(step)

    def look_on(self, step: int) -> bool:
        """Look, and say whether that is enough."""
        self.look(step)
        since = sum(step_ > self.best[0] for step_, _ in self.looks)
        self.stopped = self.stopped or since >= self._limits.patience
        return self.stopped

    def look(self, step: int) -> None:
        marks = self._exam()
        self.looks.append((step, marks))
        top = max((one for _, one in self.looks), key=lambda one: one.score)
        if len(self.looks) == 1 or (marks.score > self.first.score and not marks.below(top)):
            self._chosen = len(self.looks) - 1
            self._keep(self._at(step))
        self._note(step, marks)

    def settle(self) -> None:
        """The best there was is the result."""
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._at(self.best[0]), self.folder)

    def _at(self, step: int) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{step}")

    def state(self) -> JSON:
        self._kept = [*self._kept[-1:], self.best[0]]
        for folder in self.folder.parent.glob(f"{self.folder.name}-*"):
            if folder not in map(self._at, self._kept):
                shutil.rmtree(folder)
        return {"looks": [[step, asdict(marks)] for step, marks in self.looks], "chosen": self._chosen}

    def restore(self, state: JSON) -> None:
        self.looks = [(step, Marks(**marks)) for step, marks in state["looks"]]
        self._chosen = state["chosen"]
        self._kept = [self.best[0]]
