"""The folder of one run. `run.json` says what it was and how far it came; a stage that is marked done is not done
again, so an interrupted run goes on where it stopped.

    run.json        configuration, environment, data, stages, outcome
    metrics.jsonl   one line per log step, TRL's names
    rows.jsonl      what it trains on
    train/adapter/  the adapter;  README.md  its model card;  report.html
"""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeGuard

from memkit.models import JSON, to_json
from memkit_train.errors import TrainError

Tick = Callable[[str, int, int, dict[str, float]], None]
"""(stage, done, of, last metrics)."""
_MOVE = "move that folder out of `runs`; nothing else needs it"
PACKAGES = ("memkit", "torch", "transformers", "peft", "trl")


log = logging.getLogger("memkit_train")


class RunFolder:
    def __init__(self, path: Path, record: JSON | None = None) -> None:
        """`record`: what it is to hold, whatever its file says."""
        self.path = path
        if record is None:
            record = read_json(self.file, _MOVE) if self.file.is_file() else {}
            stages = record.get("stages", {})
            if not isinstance(stages, dict) or not all(isinstance(one, dict) for one in stages.values()):
                raise damage_error(self.file, "its stages are no objects", _MOVE)
        self.record: JSON = record

    @classmethod
    def readable(cls, path: Path) -> RunFolder | None:
        """For whoever looks through runs: a damaged one is passed over with a warning, so that it stops no other."""
        try:
            return cls(path)
        except TrainError as error:
            log.warning("%s", error)
            return None

    @classmethod
    def begin(cls, path: Path, config: JSON, *, now: datetime) -> RunFolder:
        path.mkdir(parents=True, exist_ok=True)
        run = cls(
            path,
            {
                "started_at": now.isoformat(),
                "config": config,
                "environment": environment(),
                "stages": {},
                "outcome": "",
            },
        )
        run.write()
        return run

    @property
    def file(self) -> Path:
        return self.path / "run.json"

    @property
    def finished(self) -> bool:
        return bool(self.record.get("outcome"))

    def result_of(self, stage: str) -> JSON | None:
        return self.record.get("stages", {}).get(stage)

    def mark(self, stage: str, facts: JSON) -> JSON:
        self.record.setdefault("stages", {})[stage] = facts
        self.write()
        return facts

    def forget(self, *stages: str) -> None:
        """They have to be done again."""
        for stage in stages:
            self.record.get("stages", {}).pop(stage, None)
        self.write()

    def finish(self, outcome: str, **facts: Any) -> None:
        self.record |= {"outcome": outcome, **facts}
        self.write()

    def write(self) -> None:
        write_json(self.file, self.record)

    def log(self, metrics: JSON) -> None:
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as out:
            out.write(to_json(metrics) + "\n")

    def metrics(self) -> list[JSON]:
        """What was logged on every step, together: a step may have several lines, and a resumed run says some again."""
        file = self.path / "metrics.jsonl"
        by_step: dict[Any, JSON] = {}
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else ():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and (row.get("step") is None or is_number(row["step"])):
                by_step.setdefault(row.get("step"), {}).update(row)
        return [by_step[step] for step in sorted(by_step, key=lambda one: (one is None, one or 0))]


def runs(output: Path) -> list[Path]:
    """Folders of runs, oldest first."""
    home = output / "runs"
    return sorted(one for one in home.iterdir() if (one / "run.json").is_file()) if home.is_dir() else []


def next_run(output: Path) -> Path:
    known = [int(one.name) for one in runs(output) if one.name.isdigit()]
    return output / "runs" / f"{max(known, default=0) + 1:04d}"


def environment() -> JSON:
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "command": Path(sys.argv[0]).name,
        "git": _commit(),
    }


def versions() -> dict[str, str]:
    out: dict[str, str] = {}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "source"
    return out


def read_json(path: Path, fix: str) -> JSON:
    """A file that `write_json` wrote; `fix` is what to do where it was damaged since."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damage_error(path, f"{type(error).__name__}: {error}", fix) from error
    if not isinstance(found, dict):
        raise damage_error(path, f"it holds a {type(found).__name__}, no object", fix)
    return found


def damage_error(path: Path, why: str, fix: str) -> TrainError:
    return TrainError(f"{path.name} in {path.parent} cannot be read", why=why[:300], fix=fix)


def write_json(path: Path, value: JSON) -> None:
    """Appears whole or not at all."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as out:
        out.write(json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n")
        out.flush()
        os.fsync(out.fileno())
    part.replace(path)


def _commit() -> str:
    """Of the folder that the command runs in: where the user keeps configurations."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def series(rows: Iterable[JSON], name: str) -> list[tuple[float, float]]:
    """(step, value) where both are numbers."""
    found = ((row.get("step"), row.get(name)) for row in rows)
    return [(float(step), float(value)) for step, value in found if is_number(step) and is_number(value)]


def is_number(value: Any) -> TypeGuard[float]:
    """Finite, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
