"""The trainer's log, kept and shown as it comes. Apart from the folder, because it needs transformers."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from memkit_train.files.run_folder import RunFolder, Tick


class MetricsWriter(TrainerCallback):
    """Every log line of the trainer, into the run's folder and to whoever shows progress."""

    def __init__(self, run: RunFolder, tick: Tick | None = None) -> None:
        self._run, self._tick = run, tick

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        numbers = {name: float(value) for name, value in (logs or {}).items() if isinstance(value, int | float)}
        self._run.log({"step": state.global_step, **numbers})
        if self._tick is not None:
            self._tick("train", state.global_step, state.max_steps, numbers)
