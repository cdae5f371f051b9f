"""`make demo` on a busy machine: a loop on every core takes half of it away, and no verdict may change for that.

A run is good that tells its whole story: to the end (exit code 0), or to a gate that refuses and says in plain words
which check did and by how much (exit code 3). `--runs` says how many; each takes a quarter of an hour on two cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.bench._table import Row

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "memkit", "demo", "--keep")
_LOOP = (sys.executable, "-c", "while True: pass")


def run(full: bool = False, runs: int = 5) -> list[Row]:
    with busy(os.cpu_count() or 2), tempfile.TemporaryDirectory() as folder:
        ends = Counter(_told(Path(folder) / f"{number}") for number in range(runs))
    good = sum(count for end, count in ends.items() if is_good(*end))
    note = "; ".join(f"{count}× exit {code}, {last}" for (code, last, _), count in ends.items())
    name = "no verdict by the clock: runs under load that end with exit 0, or a plain story and exit 3"
    return [Row(name, float(good), f"of {runs}", str(runs), good == runs, note)]


def is_good(code: int, last: str, reasons: tuple[str, ...]) -> bool:
    return code == 0 or (code == 3 and bool(reasons))


@contextmanager
def busy(cores: int) -> Generator[None]:
    loops = [subprocess.Popen(_LOOP) for _ in range(cores)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _told(keep: Path) -> tuple[int, str, tuple[str, ...]]:
    """Exit code, the last thing that was told, and the reasons of a refusal."""
    env = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "1000"}
    done = subprocess.run([*COMMAND, str(keep)], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines() if line.strip()]
    told = next((line for line in reversed(lines) if line.startswith(("panel", "gate's users"))), "no story")
    if done.returncode not in (0, 3):
        told = " ".join(done.stderr.split())[-300:]
    return done.returncode, told, tuple(line for line in lines if "The bar:" in line)
