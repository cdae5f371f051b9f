"""Reinforcement learning from conversations to an adapter: stages, the gate between them, checkpoints, resume.

    done = polish(base, talks, heldout, output, settings=OnlineSettings(stages=(Stage(steps=20),)), parent=adapter)
    done.adapter, done.digest, done.marks        the best adapter by held-out answers, and how it did

`output/adapter` is the result whatever happened: the best checkpoint of the last stage that was allowed to run, or the
parent where nothing was better. A stage seeds the next with its best checkpoint, and only when that one still carries
the evidence (M-Fail below the bar): long conversations teach nothing to a policy that loses what it heard. `run.json`
knows which stages are done; within a stage a run goes on from its last checkpoint, to the same bytes (on CPU).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from memkit.backbones.hf import checkpoint
from memkit.embedders import make_embedder
from memkit.engine.served_with import ServedWith
from memkit.models import JSON, digest
from memkit.seams.embedder import Embedder
from memkit_train.errors import Collapsed, Diverged, NoRows, OtherData
from memkit_train.files.run_folder import RunFolder, Tick
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
from memkit_train.rl.judge import AnswerExam, DecisionExam, Exam, Judge, Marks
from memkit_train.rl.learner import Learner, learner
from memkit_train.rl.pool import Pool
from memkit_train.rl.scoring import others, scoring
from memkit_train.rl.served import ServedLearner, served_learner
from memkit_train.rl.settings import OnlineSettings, Stage
from memkit_train.rl.source import OnlineSource, Sampler, Timekeeper
from memkit_train.rl.talks import Talk
from memkit_train.rl.whole import Whole, askable

Status = Literal["trained", "stopped early", "not ready", "collapsed"]
"""not ready: the gate before the next stage stayed shut."""
OBJECTIVES: dict[str, Objective] = {"grpo": grpo.OBJECTIVE, "ppo": ppo.OBJECTIVE, "logo": logo.OBJECTIVE}


@dataclass(frozen=True, slots=True)
class Machine:
    """How the model is held and saved; changes nothing of what is learned (but dtype and device change rounding)."""

    dtype: str = "auto"
    device: str = "auto"
    batch: int = 256
    """Rows decoded at once."""
    gradient_checkpointing: bool = False
    save_steps: int = 0
    """Checkpoint about every so many steps; 0: none."""
    report_to: str = "none"


@dataclass(frozen=True, slots=True)
class Polished:
    status: Status
    why: str
    adapter: Path
    digest: str
    """sha256 of the weights."""
    start: Marks
    """Where the last stage began."""
    marks: Marks
    """Of the adapter, on the held-out conversations that chose it; a stage has its own length of them."""
    steps: int
    generated: int
    """Sampled completions."""
    seconds: float
    stages: list[JSON] = field(default_factory=list[JSON])

    def to_json(self) -> JSON:
        return {**asdict(self), "adapter": str(self.adapter)}


def polish(
    base: Path | str,
    talks: Sequence[Talk],
    heldout: Sequence[Talk],
    output: Path,
    *,
    settings: OnlineSettings | None = None,
    parent: Path | None = None,
    episodes: Sequence[Episode] = (),
    spec: lora.LoraSpec | None = None,
    machine: Machine | None = None,
    embedder: Embedder | None = None,
    served: ServedWith | None = None,
    seed: int = 0,
    run: RunFolder | None = None,
    tick: Tick | None = None,
    resume: bool = True,
) -> Polished:
    """`talks` to learn from, `heldout` to choose the checkpoint by (of other users). `episodes`: the world behind them,
    where the exact answerer is asked for. `served`: what their banks are decided and asked with."""
    started = time.perf_counter()
    settings, spec, machine = settings or OnlineSettings(), spec or lora.LoraSpec(), machine or Machine()
    if not talks or not heldout:
        raise NoRows(
            f"{len(talks)} conversations to learn from, {len(heldout)} held out",
            why="both are needed, and each must have questions",
            fix="collect more feedback, or use a generated world",
        )
    run = _begun(run or RunFolder(output), settings, spec, seed, parent, base, talks, resume=resume)
    env = Env(embedder or make_embedder("hash"), served or ServedWith())
    done: list[JSON] = []
    for number, stage in enumerate(settings.stages):
        name = f"stage-{number + 1}"
        found = run.result_of(name)
        if found is None:
            with reproducible(seed):
                made = _Stage(
                    settings,
                    stage,
                    spec,
                    machine,
                    seed + number,
                    output / name,
                    run,
                    tick,
                    sum(one["of"] for one in done),
                )
                found = run.mark(name, made.go(base, parent, env, talks, heldout, episodes))
        done.append(found)
        parent = output / name / "best"
        if found["status"] in ("collapsed", "not ready"):
            break
    last = done[-1]
    adapter = output / "adapter"
    shutil.rmtree(adapter, ignore_errors=True)
    shutil.copytree(parent, adapter)  # type: ignore[arg-type]
    return Polished(
        last["status"],
        last["why"],
        adapter,
        lora.digest_of(adapter),
        Marks(**last["start"]),
        Marks(**last["best"]),
        sum(one["steps"] for one in done),
        sum(one["generated"] for one in done),
        time.perf_counter() - started,
        done,
    )


@dataclass(slots=True)
class _Stage:
    settings: OnlineSettings
    stage: Stage
    spec: lora.LoraSpec
    machine: Machine
    seed: int
    folder: Path
    run: RunFolder
    tick: Tick | None
    offset: int

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
            sampler, exam = self._makes(env, acting, _cut(talks, self.stage), _cut(heldout, self.stage), episodes)
            source = OnlineSource(one, acting, sampler, self.settings, steps=self.stage.steps)
            judge = Judge(_examined(exam, source), one.model, self.folder / "best", self.settings.stop, self._note)
            source.judge = judge
            leading = LeadingSteps(source)
            writer = _Writer(self.run, self.tick, self.offset, self.folder.name)
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
            steps = trainer.state.global_step
            if judge.stopped:
                status, why = "stopped early", f"nothing better since step {judge.best[0]}, at step {steps}"
            judge.settle()
            limit, marks = self.settings.stop.m_fail, judge.best[1]
            if status != "collapsed" and self.stage is not self.settings.stages[-1] and marks.m_fail >= limit:
                status = "not ready"
                why = f"M-Fail is {marks.m_fail:.3f} at the best checkpoint; the next stage needs less than {limit:g}"
            return {
                "status": status,
                "why": why,
                "steps": steps,
                "of": self.stage.steps,
                "best_step": judge.best[0],
                "start": asdict(judge.first),
                "best": asdict(marks),
                "last": asdict(judge.looks[-1][1]),
                "looks": [[step, marks.score] for step, marks in judge.looks],
                "generated": source.generated,
            }

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
        judged = list(heldout)[: chosen.stop.users]
        if not judged:
            raise NoRows(
                "nobody is left to choose a checkpoint by",
                why="no held-out conversation can be asked about",
                fix="hold out more users (data.heldout_share, data.validation_share), or begin with longer sessions",
            )
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

    def _note(self, step: int, marks: Marks) -> None:
        found = {f"eval/{name}": value for name, value in marks.means.items()}
        self.run.log({"step": self.offset + step + 0.5, "stage": self.folder.name, "eval/score": marks.score, **found})
        if self.tick is not None:
            self.tick(f"{self.folder.name}", step, self.stage.steps, {"held out": marks.score})


def _train_along(stage: _Stage, base: str, parent: Path | None) -> None:
    stage.train_along(base, parent)


class _Writer(TrainerCallback):
    """The trainer's log into the run's folder, one count of steps over all stages."""

    def __init__(self, run: RunFolder, tick: Tick | None, offset: int, stage: str) -> None:
        self._run, self._tick, self._offset, self._stage = run, tick, offset, stage

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, int | float)}
        if "train_runtime" in numbers:
            return  # the summary at the end would stand in for the last step
        self._run.log({"step": self._offset + state.global_step, "stage": self._stage, **numbers})
        if self._tick is not None:
            self._tick(self._stage, state.global_step, state.max_steps, numbers)


def _examined(exam: Exam, source: OnlineSource) -> Any:
    def examine() -> Marks:
        marks = exam(source.policy(temperature=0.0))
        source.acting.clock.take()  # no part of any step
        return marks

    return examine


def _cut(talks: Sequence[Talk], stage: Stage) -> list[Talk]:
    cut = [talk if stage.sessions is None else talk.first(stage.sessions) for talk in talks]
    return [talk for talk in cut if talk.questions]


def _begun(
    run: RunFolder,
    settings: OnlineSettings,
    spec: lora.LoraSpec,
    seed: int,
    parent: Path | None,
    base: Path | str,
    talks: Sequence[Talk],
    *,
    resume: bool,
) -> RunFolder:
    """The record says what the run learns from; another configuration or other data is another run."""
    mark = digest(
        [
            settings.model_dump(mode="json"),
            asdict(spec),
            seed,
            None if parent is None else lora.digest_of(parent),
            str(base),
            [[talk.name, len(talk.script), [one.probe.key for one in talk.questions]] for talk in talks],
        ]
    )
    known = run.record.get("online")
    if known is not None and resume:
        if known != mark:
            raise OtherData(
                f"{run.path} belongs to another run",
                why="its settings, data or parent were others",
                fix="choose an empty output folder, or start anew with --no-resume",
            )
        return run
    if known is not None:
        for old in run.path.glob("stage-*"):
            shutil.rmtree(old)
    if not run.record or known is not None:
        chosen = {"online": settings.model_dump(mode="json"), "seed": seed}
        run = RunFolder.begin(run.path, chosen, now=datetime.now(UTC))
    run.record["online"] = mark
    run.write()
    return run


__all__ = ["Machine", "Polished", "polish"]
