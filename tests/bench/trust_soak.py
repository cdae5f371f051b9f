"""A long day of one server: 32 sessions that add and look without a pause. Its memory and the number of the store's
files level off. By turns, not by minutes: 12,000 of 600 users at a time; `--full` has 300,000 of 10,000.

The process frees memory as `memkit serve` does, and is looked at right after LanceDB was put in order: between two such
passes the files go up and down, whatever was said. Users come and go, so that what is read is as large at the end as
after warming up: who has more memories takes more of them.
"""

from __future__ import annotations

import gc
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from memkit import Memory
from memkit.store.files import measure
from memkit.store.lance import bound_heap
from tests.bench._table import Row

SESSIONS, SAMPLES, DRIFT = 32, 10, 1.05
WARM = 4
"""Samples before it counts."""


def run(*, full: bool = False) -> list[Row]:
    turns, users = (300_000, 10_000) if full else (12_000, 600)
    bound_heap()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        config = {"workers": 4, "cache_bytes": 4_000_000, "maintain_commits": 20}
        with Memory(path, model=_model, mode="fused", config=config) as memory:
            found = [_part(memory, path, number, turns // SAMPLES, users) for number in range(SAMPLES)]
            problems = len(memory.doctor())
    rss, objects, files = ([one[place] for one in found] for place in range(3))
    note = f"{turns:,} turns of {users:,} users at a time, {SESSIONS} sessions"
    return [
        _row("resident memory, last beside warm", rss, "MB", note),
        _row("Python's blocks in use, last beside warm", objects, "thousand", note),
        _row("files of the store, last beside warm", files, "", note),
        Row("what the doctor finds", problems, "", "0", problems == 0),
    ]


def _part(memory: Memory, path: Path, number: int, turns: int, users: int) -> tuple[float, float, float]:
    """(MB, thousands of blocks, files) after it, put in order."""

    def turn(at: int) -> None:
        user = f"u{number * users // 2 + random.Random(f'{number}/{at}').randrange(users)}"
        memory.add(f"In week {number}-{at} I fed {at % 97} bees in hive {at % 13}.", user_id=user)
        memory.search(f"which hive did I feed in week {number}?", user_id=user)

    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(turn, range(turns)))
    memory.flush()
    memory._runtime.projector.project(maintain=True)
    memory._runtime.trajectories.maintain(force=True)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    gc.collect()
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, sys.getallocatedblocks() / 1e3, float(measure(path)[0])


def _model(messages: list[dict[str, str]]) -> str:
    text = messages[-1]["content"].rsplit('"', 2)[-2]
    return json.dumps({"operations": [{"op": "ADD", "id": None, "text": text, "turn": 1}]})


def _row(name: str, values: Sequence[float], unit: str, note: str) -> Row:
    """Of the samples after warming up, the mean of the last third beside that of the first."""
    warm = values[WARM:]
    third = len(warm) // 3
    ratio = sum(warm[-third:]) / sum(warm[:third])
    told = f"{note}; {', '.join(f'{one:.0f}' for one in values)} {unit}".rstrip()
    return Row(name, ratio, "x", f"<= {DRIFT:g}", ratio <= DRIFT, told)
