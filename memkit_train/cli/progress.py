"""How far a run is: a bar with its expected end on a terminal, a line now and then elsewhere, nothing with --json."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from memkit.cli import show
from memkit_train.files.run_folder import Tick

_EVERY_S = 10.0
_TELLING = 0.05
"""Share of a stage from which its end can be guessed."""
_SHARES = ("time/generation", "time/optimiser", "time/environment")


def pick_metrics(metrics: Mapping[str, float]) -> str:
    """What is worth a glance: loss, reward, the held-out score, and where an online step spent its time."""
    parts = [f"{name} {metrics[name]:.4f}" for name in ("loss", "reward", "held out") if name in metrics]
    if all(name in metrics for name in _SHARES):
        shares = " : ".join(f"{metrics[name]:.0%}" for name in _SHARES)
        parts.append(f"{metrics.get('step_time', 0.0):.1f} s = {shares} (generation : optimiser : environment)")
    return ", ".join(parts)


@contextmanager
def progress(quiet: bool) -> Generator[Tick | None]:
    if not sys.warnoptions:  # what libraries will rename in their next major version is no news to who trains
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"(transformers|peft|trl)\b")
    if quiet:
        yield None
    elif show.err.is_terminal:
        with _bars() as tick:
            yield tick
    else:
        yield _lines()


@contextmanager
def _bars() -> Generator[Tick]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[note]}[/]"),
    )
    with Progress(*columns, console=show.err) as bars:
        tasks: dict[str, int] = {}
        reached: dict[str, int] = {}

        def tick(stage: str, done: int, total: int, metrics: dict[str, float]) -> None:
            task = tasks.setdefault(stage, -1)
            if task < 0:
                task = tasks[stage] = bars.add_task(stage, total=total, note="")
            elif done < reached[stage]:
                bars.reset(task)  # type: ignore[arg-type]
            reached[stage] = done
            note = pick_metrics(metrics)
            bars.update(task, completed=done, total=total, **({"note": note} if note else {}))  # type: ignore[arg-type]

        yield tick


def _lines() -> Tick:
    began: dict[str, tuple[float, int]] = {}
    said: dict[str, float] = {}
    reached: dict[str, int] = {}

    def tick(stage: str, done: int, total: int, metrics: dict[str, float]) -> None:
        now = time.monotonic()
        if done < reached.get(stage, 0):  # the same again, from the start
            del began[stage], said[stage]
        reached[stage] = done
        start, first = began.setdefault(stage, (now, done))
        due = stage not in said or (done and now - said[stage] >= _EVERY_S)
        if not due and done < total and _SHARES[0] not in metrics:
            return
        said[stage] = now
        tells = max(first + 1, _TELLING * total) <= done < total
        left = f", about {(now - start) / (done - first) * (total - done):.0f} s left" if tells else ""
        note = pick_metrics(metrics)
        show.err.print(f"{stage} {done}/{total}{f', {note}' if note else ''}{left}")

    return tick
