"""What many threads have freed does not stay with a process that is ours."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HELD = """
import sys, threading
from pathlib import Path
from memkit.store.lance import bound_heap

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6

def work():
    bytearray(20_000_000)
    blocks = [bytearray(2_000_000) for _ in range(10)]
    together.wait()
    kept.append(bytearray(1_000))
    blocks.clear()

if sys.argv[1] == "bound":
    bound_heap()
kept, together, before = [], threading.Barrier(4), resident()
threads = [threading.Thread(target=work) for _ in range(4)]
[one.start() for one in threads], [one.join() for one in threads]
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux with glibc")
def test_what_threads_have_freed_goes_back_to_the_system() -> None:
    freed = {how: _left(how) for how in ("bound", "as it is")}
    if freed["as it is"] < 20:
        pytest.skip("this C library gives back by itself")
    assert freed["bound"] < freed["as it is"] / 4, freed


def _left(how: str) -> float:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    ran = subprocess.run([sys.executable, "-c", HELD, how], capture_output=True, text=True, env=env, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return float(ran.stdout)
