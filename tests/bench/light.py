"""What one `add` costs: files it passes, calls, SQL statements, CPU. Counts are exact; times are CPU seconds of this
process, and bars on them are ratios to a control in the same run."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import memkit
from memkit import Memory
from tests.bench._table import Row
from tests.bench.manager import throughput

KNOWN, ADDS = 100, 200
_HOME = str(Path(memkit.__file__).parent)
_READING = ("roles/reading.py", "roles/grammar.py", "roles/loose_json.py")


def run(*, full: bool = False) -> list[Row]:
    files, calls, reading = _passed()
    rows = [
        Row("an add without a model: files of memkit that it passes", files, "", "<= 36", files <= 36),
        Row("… calls of its functions", calls, "", "", True),
        Row("… calls into reading the reply", reading, "", "<= 60", reading <= 60),
    ]
    with tempfile.TemporaryDirectory() as folder, _counted() as statements, _memory(folder, model=_Model()) as memory:
        before = len(statements)
        memory.add("I adopted a dog named Buddy.", user_id="ana")
        count = len(statements) - before
    rows.append(Row("a decided add, bank of 100: SQL statements", count, "", "<= 15", count <= 15))
    with tempfile.TemporaryDirectory() as folder, _memory(folder, model=_Model()) as memory:
        ms = _cpu(lambda n: memory.add(f"I like tea number {n}.", user_id="ana"))
    rows.append(Row("… CPU, a model of 0 ms", ms, "ms", "<= 2", ms <= 2))
    spent, size = dict[str, float](), dict[str, int]()
    for keep in ("logged", "all", "logged", "all"):  # the first of each warms what both use
        with tempfile.TemporaryDirectory() as folder:
            with _memory(folder, keep_turns=keep) as memory:
                spent[keep] = min(spent.get(keep, 1e9), _cpu(_accept(memory)))
            size[keep] = _size(Path(folder))
    ratio = spent["all"] / spent["logged"]
    rows.append(Row("add(wait=False): CPU with the words over without", ratio, "×", "<= 1.15", ratio <= 1.15))
    each = (size["all"] - size["logged"]) / (KNOWN + ADDS + 20) / 1000
    rows.append(Row("bytes of the journal per turn that is kept", each, "kB", "<= 2.5", each <= 2.5))
    return rows + throughput()


class _Model:
    """Answers at once, each time another fact."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, messages: Any) -> str:
        self.count += 1
        return f'{{"operations":[{{"op":"ADD","turn":1,"text":"User likes tea number {self.count}."}}]}}'


@contextmanager
def _memory(folder: str, **options: Any) -> Iterator[Memory]:
    with Memory(Path(folder) / "m", **options) as memory:
        for number in range(KNOWN):
            memory.add(f"My friend number{number} lives in Town{number}.", user_id="ana")
        memory.flush()
        yield memory


def _passed() -> tuple[int, int, int]:
    seen: list[str] = []

    def look(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_HOME):
            seen.append(frame.f_code.co_filename[len(_HOME) + 1 :])

    with tempfile.TemporaryDirectory() as folder, _memory(folder) as memory:
        sys.setprofile(look)
        try:
            memory.add("I adopted a dog named Buddy.", user_id="ana")
        finally:
            sys.setprofile(None)
    return len(set(seen)), len(seen), sum(name in _READING for name in seen)


@contextmanager
def _counted() -> Iterator[list[str]]:
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.set_trace_callback(statements.append)
        return connection

    with mock.patch.object(sqlite3, "connect", traced):
        yield statements


def _cpu(act: Callable[[int], object]) -> float:
    """Milliseconds of this thread for one of many."""
    for number in range(20):
        act(-number - 1)
    began = time.thread_time()
    for number in range(ADDS):
        act(number)
    return (time.thread_time() - began) * 1e3 / ADDS


def _accept(memory: Memory) -> Callable[[int], object]:
    return lambda n: memory.add(f"I like tea number {n}.", user_id="ana", wait=False)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("journal*") if path.is_file())
