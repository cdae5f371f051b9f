"""One stage of a run, whichever engine trains it: what it is to do, and what every engine writes about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import TrainerCallback

from memkit.models import JSON
from memkit_train.errors import NoRows
from memkit_train.files.run_folder import RunFolder, Tick
from memkit_train.lab.worlds import Episode
from memkit_train.learn import lora
from memkit_train.replay.env import Env
from memkit_train.rl.judge import Judge, Marks
from memkit_train.rl.settings import OnlineSettings, Stage, StopSettings
from memkit_train.rl.talks import Talk

Status = Literal["trained", "stopped early", "not ready", "collapsed"]
"""not ready: the gate before the next stage stayed shut."""


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


@dataclass(slots=True)
class StageRun(ABC):
    settings: OnlineSettings
    stage: Stage
    spec: lora.LoraSpec
    machine: Machine
    seed: int
    folder: Path
    run: RunFolder
    tick: Tick | None
    offset: int

    @abstractmethod
    def go(
        self,
        base: Path | str,
        parent: Path | None,
        env: Env,
        talks: Sequence[Talk],
        heldout: Sequence[Talk],
        episodes: Sequence[Episode],
    ) -> JSON:
        """Train from `parent` on; what is best ends up in `folder/best`."""

    def conclude(self, judge: Judge, status: Status, why: str, *, steps: int, generated: int) -> JSON:
        """The best there was is kept, and whether longer conversations may follow is decided."""
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
            "generated": generated,
        }

    def note(self, step: int, marks: Marks) -> None:
        found = {f"eval/{name}": value for name, value in marks.means.items()}
        self.run.log({"step": self.offset + step + 0.5, "stage": self.folder.name, "eval/score": marks.score, **found})
        if self.tick is not None:
            self.tick(f"{self.folder.name}", step, self.stage.steps, {"held out": marks.score})

    def tell(self, step: int, numbers: dict[str, float]) -> None:
        """Of a step that was taken: into the run's folder, one count of steps over all stages."""
        self.run.log({"step": self.offset + step, "stage": self.folder.name, **numbers})
        if self.tick is not None:
            self.tick(self.folder.name, step, self.stage.steps, numbers)


class Writer(TrainerCallback):
    """What the trainer logs, the stage tells."""

    def __init__(self, stage: StageRun) -> None:
        self._stage = stage

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, int | float)}
        if "train_runtime" in numbers:
            return  # the summary at the end would stand in for the last step
        self._stage.tell(state.global_step, numbers)


def cut(talks: Sequence[Talk], stage: Stage) -> list[Talk]:
    cut = [talk if stage.sessions is None else talk.first(stage.sessions) for talk in talks]
    return [talk for talk in cut if talk.questions]


def pick_judged(heldout: Sequence[Talk], limits: StopSettings) -> list[Talk]:
    """By whom checkpoints are chosen."""
    if not heldout:
        raise NoRows(
            "nobody is left to choose a checkpoint by",
            why="no held-out conversation can be asked about",
            fix="hold out more users (data.heldout_share, data.validation_share), or begin with longer sessions",
        )
    return list(heldout)[: limits.users]
