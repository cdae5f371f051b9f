"""One bank of 1,000 to 100,000 memories: a search, warm and the first after a write, beside a numpy scan of the same
vectors in the same run.

Figures are CPU time of the calling thread, medians; scans and searches alternate, so that both find the processor's
caches as the other left them. Vectors are made beforehand: what a model costs is in nobody's hand here."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from memkit import Memory
from tests.bench._table import Row
from tests.bench._vectors import DIM, Known

SIZES = (1_000, 5_000, 20_000, 100_000)
ROUNDS = 15
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


def run(full: bool = False) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return list(_rows(Path(folder)))


def _rows(folder: Path) -> Iterator[Row]:
    embedder, rng, held = Known(), random.Random(7), 0
    embedder.embed(list(QUESTIONS))
    with Memory(folder / "s", embedder=embedder) as memory:
        for size in SIZES:
            _fill(memory, rng, held, size)
            held = size
            memory.search(QUESTIONS[0], user_id="ana")
            yield from _measured(memory, embedder, rng, size)
        memory.flush()
    with Memory(folder / "s", embedder=embedder) as memory:
        cold = _cpu_ms(lambda: memory.search(QUESTIONS[0], user_id="ana"))
        yield Row(f"{held:,} memories: first search of a process", cold, "ms", "reported", True)


def _measured(memory: Memory, embedder: Known, rng: random.Random, size: int) -> Iterator[Row]:
    matrix = np.random.default_rng(size).standard_normal((size, DIM)).astype(np.float32)
    asked = embedder.embed([QUESTIONS[0]])[0]
    scans: list[float] = []

    def search(number: int) -> float:
        scans.append(_cpu_ms(lambda: matrix @ asked))
        return _cpu_ms(lambda: memory.search(QUESTIONS[number % len(QUESTIONS)], user_id="ana"))

    def after(write: Callable[[int], Any]) -> float:
        spent: list[float] = []
        for number in range(ROUNDS):
            write(number)
            spent.append(search(number))
        return median(spent)

    written: list[str] = []

    def add(number: int) -> None:
        text = _text(rng)
        _known(embedder, text, size)
        op = memory.add(_said(text, rng), user_id="ana", infer=False, at=_at(size)).ops[0]
        written.append(op.memory_id or "")

    def change(number: int) -> None:
        if number % 2:
            memory.delete(written.pop(), user_id="ana")
        else:
            text = _text(rng)
            _known(embedder, text, size)
            memory.update(written[0], text, user_id="ana")

    warm = median(search(number) for number in range(ROUNDS))
    added, changed = after(add), after(change)
    scan = median(scans)
    bar = FIXED_MS + SCANS * scan
    yield Row(f"{size:,} memories: numpy scan", scan, "ms", "", True)
    for name, value in (("search, warm", warm), ("…first after an add", added), ("…after update, delete", changed)):
        note = f"{value / bar:.2f} of the bar"
        yield Row(f"{size:,} memories: {name}", value, "ms", f"<= {bar:.2f}", value <= bar, note)


def _fill(memory: Memory, rng: random.Random, start: int, end: int) -> None:
    for first in range(start, end, 200):
        said = [_said(_text(rng), rng) for _ in range(first, min(first + 200, end))]
        memory.add(said, user_id="ana", session_id=f"s{first // 40}", infer=False, at=_at(first))


def _said(text: str, rng: random.Random) -> dict[str, str]:
    return {"role": "user", "name": rng.choice(_WHO), "content": text}


def _text(rng: random.Random) -> str:
    return f"{' '.join(rng.choices(_WORDS, k=9))} {rng.randrange(10**6)}"


def _at(number: int) -> datetime:
    return START + timedelta(minutes=number)


def _known(embedder: Known, text: str, size: int) -> None:
    """The lines that will be embedded, whoever says the text."""
    from memkit.models import MemoryRecord
    from memkit.retrieval import embed_text

    embedder.embed([embed_text(MemoryRecord(id="", text=text, speaker=who, at=_at(size))) for who in _WHO])


def _cpu_ms(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return (time.thread_time() - begun) * 1e3
