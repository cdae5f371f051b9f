"""An open loop: 32 sessions speak and look when it is their time, whether or not the last call has come back, to models
that answer at once and after half a second. And a store of many users beside one of a hundredth of them.

`--full` talks for ten minutes to each model, and has 1,000,000 memories of 10,000 users."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import quantiles
from typing import Any

from memkit import Memory
from tests.bench._table import Row

SESSIONS, PERIOD_S = 32, 4.0
"""Each session speaks once in this time."""
WORKERS = 8
"""So many turns are decided at once: twice what the slow model needs."""
FLAT, LEVEL = 1.5, 1.3
"""The bars: a p99 under load, and what a hundred times the memories may cost."""
FEW, EACH = 100, 100
"""Users of the small store, each of whom is called for once, and memories of each user."""
ROOT = Path(__file__).parents[2]


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    for wait_s in (0.0, 0.5):
        rows += _open_loop(wait_s, 600.0 if full else 90.0)
    return [*rows, *_many_users(10_000 if full else 500)]


# ---- an open loop ------------------------------------------------------------------------------------------------


def _open_loop(wait_s: float, seconds: float) -> Iterator[Row]:
    took, missed = list[tuple[float, float, float]](), list[str]()

    def session(number: int) -> None:
        for turn in range(int(seconds / PERIOD_S)):
            due = began + (turn + number / SESSIONS) * PERIOD_S
            time.sleep(max(0.0, due - time.monotonic()))
            user = f"u{number}-{turn // 10}"
            memory.add(f"In week {turn} I fed {turn % 97} bees in hive {number}.", user_id=user, wait=False)
            added = time.monotonic()
            found = memory.search(f"which hive did I feed in week {turn}?", user_id=user, k=20)
            if not any(f"week {turn} " in hit.text for hit in found):
                missed.append(user)
            took.append((due - began, added - due, time.monotonic() - added))

    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder) / "s", model=_model(wait_s), mode="fused", config={"workers": WORKERS}) as memory,
    ):
        memory.search("warm", user_id="u")
        began = time.monotonic()
        with ThreadPoolExecutor(SESSIONS) as pool:
            list(pool.map(session, range(SESSIONS)))
        waiting = memory._runtime.journal.pending_count()
        memory.flush()
        left, problems = memory._runtime.journal.pending_count(), len(memory.doctor())
    name = f"model of {wait_s * 1e3:g} ms"
    # The first fifth warms up; of the rest, the second half beside the first.
    first = [one for one in took if 0.2 <= one[0] / seconds < 0.6]
    second = [one for one in took if one[0] / seconds >= 0.6]
    for place, what in ((1, "add"), (2, "search")):
        before, after = (_p99([one[place] for one in part]) for part in (first, second))
        note = f"{len(took)} of each, {1e3 * before:.1f} and {1e3 * after:.1f} ms"
        yield Row(
            f"{name}: p99 of {what}, late beside early", after / before, "x", f"<= {FLAT}", after <= FLAT * before, note
        )
    yield Row(f"{name}: searches that did not find what was just said", len(missed), "", "0", not missed)
    note = f"{waiting} waited for a decision when the last had spoken"
    yield Row(
        f"{name}: undecided after a flush; found by the doctor", left + problems, "", "0", not left + problems, note
    )


def _model(wait_s: float) -> Callable[[list[dict[str, str]]], str]:
    def answer(messages: list[dict[str, str]]) -> str:
        time.sleep(wait_s)
        text = messages[-1]["content"].rsplit('"', 2)[-2]
        return json.dumps({"operations": [{"op": "ADD", "id": None, "text": text, "turn": 1}]})

    return answer


def _p99(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=100)[98]


# ---- many users --------------------------------------------------------------------------------------------------

# getrusage would tell the most that the parent ever took, too
_CALLS = r"""
import json, random, re, sys, time
from memkit import Memory
path, users, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, told = random.Random(1), {}
with Memory(path, config={"workers": 0}) as memory:
    memory.search("warm", user_id="u0")
    for name in ("search", "add"):
        cpu, took = [], []
        for number, user in enumerate(rng.sample(range(users), calls)):
            user = f"u{user}"
            began, spent = time.perf_counter(), time.process_time()
            if name == "add":
                memory.add(f"My late ticket is {number}.", user_id=user, infer=False)
            else:
                memory.search(f"which ticket is {number}?", user_id=user)
            cpu.append(time.process_time() - spent); took.append(time.perf_counter() - began)
        if name == "add":
            memory.flush()
        most = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024
        told[name] = [sorted(cpu)[calls // 2], sorted(took)[calls * 99 // 100], most]
print(json.dumps(told))
"""


def _many_users(users: int) -> Iterator[Row]:
    """Each process of its own looks at banks that it has not read before, and writes to some."""
    with tempfile.TemporaryDirectory() as folder:
        told = [_called(Path(folder) / str(number), count) for number, count in enumerate((FEW, users))]
    few, many = told
    name = f"{users * EACH:,} memories of {users:,} users over {FEW * EACH:,}"
    for what in ("search", "add"):
        ratio = many[what][0] / few[what][0]
        note = f"CPU p50 {1e3 * few[what][0]:.2f} and {1e3 * many[what][0]:.2f} ms; p99 by the clock " + (
            f"{1e3 * few[what][1]:.1f} and {1e3 * many[what][1]:.1f} ms"
        )
        yield Row(f"{name}: {what}, in banks not read before", ratio, "x", f"<= {LEVEL}", ratio <= LEVEL, note)
    for what, does in (("search", "reads"), ("add", "writes, too")):
        ratio = many[what][2] / few[what][2]
        note = f"{few[what][2]:.0f} and {many[what][2]:.0f} MB"
        yield Row(f"{name}: memory of one that {does}", ratio, "x", f"<= {LEVEL}", ratio <= LEVEL, note)
    yield Row(f"{name}: disk for a memory", many["disk"] / users / EACH / 1024, "kB", "reported", True)


def _called(path: Path, users: int) -> dict[str, Any]:
    with Memory(path, config={"workers": 0, "cache_bytes": 4_000_000}) as memory:
        for user in range(users):
            said = [
                {"role": "user", "content": f"My ticket number {n} of {user} is for hall {n % 7}."} for n in range(EACH)
            ]
            memory.add(said, user_id=f"u{user}", infer=False)
            if user % 100 == 99:
                memory.flush()
    disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    done = subprocess.run(
        [sys.executable, "-c", _CALLS, str(path), str(users), str(FEW)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {**json.loads(done.stdout), "disk": disk}
