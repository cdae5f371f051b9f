"""`make demo` on a busy machine: a loop on every core takes half of it away, and no verdict may change for that.

A run is good that tells its whole story: to the end (exit code 0), or to a gate that refuses and says in plain words
of each check that did so what is wrong and by how much (exit code 3). One takes a quarter of an hour on two cores, so
there is one; `--full` has five, and `--runs` says how many.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench._table import Row

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "memkit", "demo", "--keep")
MOST, REFUSED = 5, 3
_LOOP = (sys.executable, "-c", "while True: pass")


@dataclass(frozen=True, slots=True)
class End:
    code: int
    last: str
    """What was told last."""
    told: tuple[str, ...] = ()
    """Names of the checks whose refusals the story tells."""
    refused: tuple[str, ...] = ()
    """Names of the checks that refused."""

    @property
    def is_good(self) -> bool:
        return self.code == 0 or (self.code == REFUSED and bool(self.refused) and self.told == self.refused)


def run(full: bool = False, runs: int | None = None) -> list[Row]:
    runs = runs or (MOST if full else 1)
    with busy(os.cpu_count() or 2), tempfile.TemporaryDirectory() as folder:
        ends = Counter(_run(Path(folder) / f"{number}") for number in range(runs))
    good = sum(count for end, count in ends.items() if end.is_good)
    note = "; ".join(f"{count}× exit {end.code}, {end.last}" for end, count in ends.items())
    if runs < MOST:
        note += f" ({MOST} with --full: each takes a quarter of an hour)"
    name = "no verdict by the clock: runs under load that end with exit 0, or a plain story and exit 3"
    return [Row(name, float(good), f"of {runs}", str(runs), good == runs, note)]


@contextmanager
def busy(cores: int) -> Generator[None]:
    loops = [subprocess.Popen(_LOOP) for _ in range(cores)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _run(keep: Path) -> End:
    env = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "1000"}
    done = subprocess.run([*COMMAND, str(keep)], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, REFUSED):
        return End(done.returncode, " ".join(done.stderr.split())[-300:])
    lines = [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]
    last = next((line for line in reversed(lines) if line.startswith(("panel", "gate's users"))), "no story")
    told = tuple(line.partition(":")[0] for line in lines if "The bar:" in line)
    if told:
        last += f"; refused by {', '.join(told)}"
    return End(done.returncode, last, told, _refused(keep))


def _refused(keep: Path) -> tuple[str, ...]:
    verdict = json.loads((keep / "figures.json").read_text("utf-8"))["outcome"]["verdict"]
    return tuple(check["name"] for check in verdict["checks"] if check["passed"] is False) if verdict else ()
