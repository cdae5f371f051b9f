"""memkit's own engine: `RowTrainer` and the runtime's backbone over the same tensors, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from memkit.backbones.hf import checkpoint
from memkit.models import JSON
from memkit_train.errors import Collapsed, Diverged
from memkit_train.files.run_folder import RunFolder
from memkit_train.lab.worlds import Episode
from memkit_train.learn import lora
from memkit_train.learn.objective import Objective
from memkit_train.learn.processes import FollowingSteps, LeadingSteps, ask
from memkit_train.learn.rates import rate_for
from memkit_train.learn.seeding import reproducible
from memkit_train.learn.steps import StepSource
from memkit_train.learn.trainer import RowTrainer, training_arguments
from memkit_train.replay.env import Env
from memkit_train.rl.acting import Acting, Stopwatch
from memkit_train.rl.algorithms import grpo, logo, ppo
from memkit_train.rl.answering import Answering
from memkit_train.rl.decisions import Decisions
from memkit_train.rl.engines.stage import StageRun, Status, Writer, cut, pick_judged
from memkit_train.rl.judge import AnswerExam, DecisionExam, Exam, Judge, Marks
from memkit_train.rl.learner import Learner, learner
from memkit_train.rl.pool import Pool
from memkit_train.rl.scoring import others, scoring
from memkit_train.rl.served import ServedLearner, served_learner
from memkit_train.rl.source import OnlineSource, Sampler, Timekeeper
from memkit_train.rl.talks import Talk
from memkit_train.rl.whole import Whole, askable

OBJECTIVES: dict[str, Objective] = {"grpo": grpo.OBJECTIVE, "ppo": ppo.OBJECTIVE, "logo": logo.OBJECTIVE}


@dataclass(slots=True)
class OwnEngine(StageRun):
    def go(
        self,
        base: Path | str,
        parent: Path | None,
        env: Env,
        talks: Sequence[Talk],
        heldout: Sequence[Talk],
        episodes: Sequence[Episode],
    ) -> JSON:
        with self._acts(base, parent) as one:
            frozen = others(self.settings.others, episodes)
            acting = Acting(one.engine, self.stage.trained or self.settings.roles, Stopwatch(), frozen)
            sampler, exam = self._makes(env, acting, cut(talks, self.stage), cut(heldout, self.stage), episodes)
            source = OnlineSource(one, acting, sampler, self.settings, steps=self.stage.steps)
            keep = partial(lora.save, one.model)
            judge = Judge(_examined(exam, source), keep, self.folder / "best", self.settings.stop, self.note)
            source.judge = judge
            leading = LeadingSteps(source)
            writer = Writer(self)
            trainer = self._trainer(one.model, leading, [Timekeeper(source), judge, writer])
            source.trainer = trainer
            if isinstance(sampler, Decisions):
                sampler.values = trainer.predict_values
            status: Status = "trained"
            why = f"{self.stage.steps} steps"
            ask(_train_along, replace(self, run=RunFolder(self.folder, {}), tick=None), str(base), parent)
            try:
                trainer.train(resume_from_checkpoint=self._last)
            except (Collapsed, Diverged) as error:
                status, why = "collapsed", str(error)
            leading.finish()
            return self.conclude(judge, status, why, steps=trainer.state.global_step, generated=source.generated)

    def _acts(self, base: Path | str, parent: Path | None) -> AbstractContextManager[Learner | ServedLearner]:
        machine, url = self.machine, self.settings.rollouts
        held: dict[str, Any] = {
            "seed": self.seed,
            "dtype": machine.dtype,
            "device": machine.device,
            "batch": machine.batch,
            "gradient_checkpointing": machine.gradient_checkpointing,
        }
        if url is None:
            return learner(base, parent, self.spec, **held)
        return served_learner(base, parent, self.spec, url, self.folder / "served", **held)

    def train_along(self, base: str, parent: Path | None) -> None:
        """In another process: its share of every step that the first one samples."""
        machine = self.machine
        with reproducible(self.seed):
            loaded = checkpoint.load(checkpoint.find(base), dtype=machine.dtype, device=machine.device)
            model = lora.attach(loaded.model, self.spec, parent=parent, seed=self.seed)
            if machine.gradient_checkpointing:
                model.enable_input_require_grads()
            self._trainer(model, FollowingSteps(self.stage.steps), []).train(resume_from_checkpoint=self._last)

    @property
    def _checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def _last(self) -> str | None:
        return get_last_checkpoint(str(self._checkpoints)) if self._checkpoints.is_dir() else None

    def _makes(
        self, env: Env, acting: Acting, talks: Sequence[Talk], heldout: Sequence[Talk], episodes: Sequence[Episode]
    ) -> tuple[Sampler, Exam]:
        chosen, reward = self.settings, self.settings.reward
        judged = pick_judged(heldout, chosen.stop)
        if chosen.learn == "answers":
            pool = Pool(env, talks, chosen, self.seed)
            return Answering(env, pool, chosen, self.seed), AnswerExam(env, judged, reward.metric)
        scores = scoring(reward, env, acting, episodes)
        exam = DecisionExam(env, judged, scores.answers, reward.metric)
        if chosen.learn == "episodes":
            return Whole(env, askable(talks), scores, chosen, self.seed), exam
        return Decisions(env, Pool(env, talks, chosen, self.seed), scores, chosen, self.seed), exam

    def _trainer(self, model: Any, source: StepSource, callbacks: Sequence[TrainerCallback]) -> RowTrainer:
        machine, period = self.machine, self.settings.period
        every = -(-machine.save_steps // period) * period
        cuda = torch.cuda.is_available() and machine.device != "cpu"
        usual = rate_for(model.num_parameters(), "reinforcement")
        arguments = training_arguments(
            self._checkpoints,
            steps=self.stage.steps,
            learning_rate=usual.lr if self.settings.lr is None else self.settings.lr,
            warmup_steps=round(usual.warmup * self.stage.steps),
            seed=self.seed,
            lr_scheduler_type=self.settings.schedule,
            report_to=machine.report_to,
            bf16=cuda,
            use_cpu=not cuda,
            gradient_checkpointing=machine.gradient_checkpointing,
            save_strategy="steps" if every else "no",
            save_steps=every or 500,
        )
        return RowTrainer(
            model,
            source,
            self._objective,
            arguments,
            token_budget=self.settings.token_budget,
            value_head=self.settings.algorithm == "ppo",
            callbacks=callbacks,
        )

    @property
    def _objective(self) -> Objective:
        """Another engine rounds otherwise: what it sampled teaches within a bound, and no more."""
        found = OBJECTIVES[self.settings.algorithm]
        return found if self.settings.rollouts is None else replace(found, surrogate="truncated")


def _train_along(stage: OwnEngine, base: str, parent: Path | None) -> None:
    stage.train_along(base, parent)


def _examined(exam: Exam, source: OnlineSource) -> Any:
    def examine() -> Marks:
        marks = exam(source.policy(temperature=0.0))
        source.acting.clock.take()  # no part of any step
        return marks

    return examine
