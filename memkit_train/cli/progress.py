"""How far a run is: a bar with its expected end on a terminal, a line now and then elsewhere, nothing with --json."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from memkit.cli import show
from memkit_train.report.folder import Tick

_EVERY_S = 10.0


@contextmanager
def progress(quiet: bool) -> Generator[Tick | None]:
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
        TextColumn("{task.description:<9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(), TextColumn("[dim]{task.fields[note]}[/]"),
    )  # fmt: skip
    with Progress(*columns, console=show.err) as bars:
        tasks: dict[str, int] = {}

        def tick(stage: str, done: int, total: int, metrics: dict[str, float]) -> None:
            task = tasks.setdefault(stage, -1)
            if task < 0:
                task = tasks[stage] = bars.add_task(stage, total=total, note="")
            loss = metrics.get("loss")
            note = {} if loss is None else {"note": f"loss {loss:.4f}"}
            bars.update(task, completed=done, total=total, **note)  # type: ignore[arg-type]

        yield tick


def _lines() -> Tick:
    began: dict[str, float] = {}
    said: dict[str, float] = {}

    def tick(stage: str, done: int, total: int, metrics: dict[str, float]) -> None:
        now = time.monotonic()
        start = began.setdefault(stage, now)
        if now - said.get(stage, 0.0) < _EVERY_S and done < total:
            return
        said[stage] = now
        left = f", about {(now - start) / done * (total - done):.0f} s left" if done and done < total else ""
        loss = f", loss {metrics['loss']:.4f}" if "loss" in metrics else ""
        show.err.print(f"{stage} {done}/{total}{loss}{left}")

    return tick
