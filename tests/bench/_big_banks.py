"""One bank of 1,000 to 100,000 turns: a search, warm and the first after a write, beside a numpy scan (the product of
matrix and vector, and the ten best of it) of as many vectors in the same run.

Figures are CPU time of the whole process, medians; scans and searches alternate, so that both find the processor's
caches as the other left them. Vectors are looked up: what a model costs is no matter of banks."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from memkit import Memory
from tests.bench._table import Row
from tests.bench._vectors import DIM, Known

SIZES = (1_000, 5_000, 20_000)
MOST = 100_000
"""With `--full`."""
K = 10
T = TypeVar("T")
ROUNDS = 31
FIXED_MS, SCANS = 1.5, 4
"""The bar: so many milliseconds, and so many scans."""
START = datetime(2026, 1, 1, tzinfo=UTC)

_WHO = ("Ana", "Ben", "Mia", "Joe")
_WORDS = (
    "adopted", "painted", "bought", "repaired", "lost", "found", "moved", "started", "forgot", "dog", "cat", "guitar",
    "piano", "bicycle", "kitchen", "garden", "lake", "harbour", "bakery", "office", "school", "museum", "station",
    "Lisbon", "Oslo", "Kyoto", "Turin", "Bergen", "sister", "brother", "neighbour", "doctor", "teacher",
)  # fmt: skip
QUESTIONS = (
    "When did Ana lose the bicycle in Oslo?",
    "Which instrument did my sister buy?",
    "What happened at the harbour museum in January?",
    "Who repaired the kitchen of the neighbour?",
    "guitar lessons with the new teacher",
)


def rows(full: bool) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return list(_rows(Path(folder), (*SIZES, MOST) if full else SIZES))


def _rows(folder: Path, sizes: Sequence[int]) -> Iterator[Row]:
    embedder, rng, held = Known(), random.Random(7), 0
    with Memory(folder / "s", embedder=embedder) as memory:
        for size in sizes:
            _fill(memory, rng, held, size)
            held = size
            memory.search(QUESTIONS[0], user_id="ana", k=K)
            yield from _measured(memory, embedder, rng, size)
        memory.flush()
    with Memory(folder / "s", embedder=embedder) as memory:
        _, cold = cpu_ms(lambda: memory.search(QUESTIONS[0], user_id="ana", k=K))
        yield Row(f"{held:,} turns: first search of a process", cold, "ms", "reported", True)


def _measured(memory: Memory, embedder: Known, rng: random.Random, size: int) -> Iterator[Row]:
    matrix = np.random.default_rng(size).standard_normal((size, DIM)).astype(np.float32)
    asked = embedder.embed([QUESTIONS[0]])[0]
    scans: list[float] = []

    def scan() -> Any:
        return np.argpartition(matrix @ asked, -K)[-K:]

    def search(number: int) -> float:
        scans.append(cpu_ms(scan)[1])
        return cpu_ms(lambda: memory.search(QUESTIONS[number % len(QUESTIONS)], user_id="ana", k=K))[1]

    def after(write: Callable[[int], Any]) -> float:
        spent: list[float] = []
        for number in range(ROUNDS):
            write(number)
            spent.append(search(number))
        return median(spent)

    written: list[str] = []

    def tell(number: int) -> None:
        written.append(memory.add(_said(rng), user_id="ana", at=_at(size)).turns[0].turn_id)

    def end(number: int) -> None:
        memory.delete(written.pop(), user_id="ana")

    warm = median(search(number) for number in range(ROUNDS))
    told, ended = after(tell), after(end)
    least = median(scans)
    bar = FIXED_MS + SCANS * least
    yield Row(f"{size:,} turns: numpy scan", least, "ms", "", True)
    for name, value in (("search, warm", warm), ("…first after an add", told), ("…first after a delete", ended)):
        note = f"{value / bar:.2f} of the bar"
        yield Row(f"{size:,} turns: {name}", value, "ms", f"<= {bar:.2f}", value <= bar, note)


def _fill(memory: Memory, rng: random.Random, start: int, end: int) -> None:
    for first in range(start, end, 200):
        said = [_said(rng) for _ in range(first, min(first + 200, end))]
        memory.add(said, user_id="ana", session_id=f"s{first // 40}", at=_at(first), wait=False)
    memory.flush()


def _said(rng: random.Random) -> dict[str, str]:
    text = f"{' '.join(rng.choices(_WORDS, k=9))} {rng.randrange(10**6)}"
    return {"role": "user", "name": rng.choice(_WHO), "content": text}


def _at(number: int) -> datetime:
    return START + timedelta(minutes=number)


def cpu_ms(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the CPU time that it took."""
    begun = time.process_time()
    found = work()
    return found, (time.process_time() - begun) * 1e3
