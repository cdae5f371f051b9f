"""The store: what it costs to remember and to find, and that nothing is lost when things go wrong.

Figures are medians; comparisons are made side by side in one run. Embedding is excluded: vectors are looked up.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.models import to_json
from tests.bench import _store_faults as faults
from tests.bench._peer import PeerMissing, run_peer
from tests.bench._table import Row
from tests.bench._vectors import Known

SINGLE = 5_000


def run(full: bool = False) -> list[Row]:
    rows: list[Row] = []
    sections: list[Callable[[], list[Row]]] = [
        start_up,
        durable_ack,
        adding,
        lambda: searching(10_000),
        lambda: searching(100_000),
        beside_mem0,
        faults.mixed_processes,
        faults.same_fact,
        faults.damaged_projection,
    ]
    for section in sections:
        rows += section()
    return rows


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="memkit-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


# ---- starting ----------------------------------------------------------------------------------------------------

_CHILD = """
import sys, time, tempfile
{body}
heavy = [m for m in ("lancedb", "pyarrow", "numpy", "httpx", "torch") if m in sys.modules]
print(time.process_time(), ",".join(heavy))
"""
_IMPORT = "from memkit import Memory"
_ADD = """
from memkit import Memory
memory = Memory(sys.argv[1])
memory.add("I adopted a dog named Buddy.", user_id="ana")
"""


def start_up() -> list[Row]:
    def cpu(body: str) -> tuple[float, str]:
        with scratch() as folder:
            done = subprocess.run(
                [sys.executable, "-c", _CHILD.format(body=body), str(folder / "s")],
                capture_output=True,
                text=True,
                check=True,
            )
        seconds, _, heavy = done.stdout.strip().partition(" ")
        return float(seconds), heavy

    runs = [(cpu("pass")[0], cpu(_IMPORT), cpu(_ADD)) for _ in range(7)]
    bare = statistics.median(one[0] for one in runs)
    imported = statistics.median(one[1][0] for one in runs) - bare
    added = statistics.median(one[2][0] for one in runs)
    heavy = runs[0][1][1]
    return [
        Row("import: CPU over a bare interpreter", imported, "s", "<= 0.30", imported <= 0.30),
        Row("import: heavy modules loaded", float(len(heavy.split(",")) if heavy else 0), "", "0", not heavy, heavy),
        Row("start to first durable add (rules)", added, "CPU-s", "< 0.6", added < 0.6),
    ]


def plain_sqlite(folder: Path) -> sqlite3.Connection:
    """A table `t` whose every insert is one FULL commit: what durability costs on this disk."""
    plain = sqlite3.connect(folder / "plain.sqlite", isolation_level=None)
    plain.execute("PRAGMA journal_mode=WAL")
    plain.execute("PRAGMA synchronous=FULL")
    plain.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    return plain


def durable_ack() -> list[Row]:
    """`add(wait=False)` against one SQLite FULL commit of the same bytes, in turn."""
    with scratch() as folder, Memory(folder / "s", config={"workers": 1}) as memory:
        memory._runtime.workers._stop.set()  # acks alone are measured: nobody decides meanwhile
        plain = plain_sqlite(folder)
        ours, theirs = [], []
        for number in range(400):
            text = f"On day {number} I walked {number} kilometres through the rain with my dog Buddy."
            body = to_json({"text": text, "user": "ana", "at": "2026-05-01T12:00:00+00:00", "role": "user"})
            user = f"u{number % 50}"
            ours.append(timed(lambda text=text, user=user: memory.add(text, user_id=user, wait=False)))
            theirs.append(timed(lambda body=body: plain.execute("INSERT INTO t (body) VALUES (?)", (body,))))
        plain.close()
        extra = (statistics.median(ours) - statistics.median(theirs)) * 1e3
        memory._runtime.journal.close()
        memory._runtime._closed = True
        note = f"ours {statistics.median(ours) * 1e3:.2f} ms, SQLite {statistics.median(theirs) * 1e3:.2f} ms"
        return [Row("durable ack over a SQLite FULL commit", extra, "ms", "<= 0.7", extra <= 0.7, note)]


# ---- adding ------------------------------------------------------------------------------------------------------


def sentence(number: int) -> str:
    return (
        f"Note {number}: the train to Bergen left platform {number % 17} at {number % 24}:15 with {number % 97} guests."
    )


def adding() -> list[Row]:
    rows: list[Row] = []
    with scratch() as folder:
        embedder = Known()
        embedder.embed([sentence(number) for number in range(SINGLE)])
        memory = Memory(folder / "s", embedder=embedder)
        plain = plain_sqlite(folder)
        times: list[float] = []
        bare: list[float] = []
        cpu = time.thread_time()
        for number in range(SINGLE):
            text = sentence(number)
            times.append(timed(lambda text=text: memory.add(text, user_id="u", infer=False)))
            if number % 10 == 0:
                bare.append(timed(lambda text=text: plain.execute("INSERT INTO t (body) VALUES (?)", (text,))))
        cpu = (time.thread_time() - cpu) / SINGLE
        plain.close()
        note = f"a bare SQLite FULL commit {statistics.median(bare) * 1e3:.2f} ms; CPU of an add {cpu * 1e3:.2f} ms"
        p50 = statistics.median(times) * 1e3
        growth = statistics.median(times[-500:]) / statistics.median(times[:500])
        rows.append(Row("add(infer=False) one by one, p50", p50, "ms", "<= 2", p50 <= 2, note))
        rows.append(Row("…last 500 against first 500", growth, "x", "<= 1.5", growth <= 1.5))
        batches = [
            timed(
                lambda start=start: memory.add(
                    [{"role": "user", "content": sentence(start + n) + " Again."} for n in range(100)],
                    user_id="b",
                    infer=False,
                )
            )
            for start in range(0, 2_000, 100)
        ]
        per_row = statistics.median(batches) * 10
        rows.append(Row("add(infer=False) in batches of 100, per row", per_row, "ms", "<= 0.5", per_row <= 0.5))
        memory.close()
    return rows + _after_single_adds()


def _after_single_adds() -> list[Row]:
    with scratch() as folder:
        embedder = Known()
        with Memory(folder / "s", embedder=embedder) as memory:
            for number in range(SINGLE):
                memory.add(sentence(number), user_id=f"u{number % 10}", infer=False)
            memory.flush()
            memory._runtime.projector.project(maintain=True)
            payload = sum(len(sentence(number).encode()) + 4 * embedder.dim for number in range(SINGLE))
            files = [file for file in (folder / "s").rglob("*") if file.is_file()]
            ratio = sum(file.stat().st_size for file in files) / payload
            lived_in = _cold_search(memory, folder / "s", embedder)
        shutil.rmtree(folder / "s" / "lance")
        with Memory(folder / "s", embedder=embedder) as memory:
            memory.flush()
            memory._runtime.projector.project(maintain=True)
            rebuilt = _cold_search(memory, folder / "s", embedder)
        slower = lived_in / rebuilt
    return [
        Row("directory after flush and maintenance, over payload", ratio, "x", "<= 4", ratio <= 4),
        Row("files in it", float(len(files)), "", "< 300", len(files) < 300),
        Row("cold search there, over a rebuilt store", slower, "x", "<= 1.2", slower <= 1.2),
    ]


def _cold_search(memory: Memory, path: Path, embedder: Known) -> float:
    def one(number: int) -> float:
        memory._runtime.reader.forget("u3")
        return timed(lambda: memory.search(f"platform {number}", user_id="u3"))

    embedder.embed([f"platform {number}" for number in range(30)])
    return statistics.median(one(number) for number in range(30))


# ---- searching ---------------------------------------------------------------------------------------------------


def searching(rows_total: int) -> list[Row]:
    """One of 1,000 users; cold is measured in turn with a raw LanceDB query over the same table."""
    users, per_user = 1_000, rows_total // 1_000
    with scratch() as folder:
        embedder = Known()
        with Memory(folder / "s", embedder=embedder, config={"project_idle_s": 1e6}) as memory:
            for user in range(users):
                said = [{"role": "user", "content": sentence(user * per_user + n)} for n in range(per_user)]
                memory.add(said, user_id=f"u{user}", infer=False)
            memory.flush()
            memory._runtime.projector.project(maintain=True)
            warm, cold, raw = _search_times(memory, folder, embedder)
    label = f"{rows_total // 1000}k rows"
    note = f"cold {cold * 1e3:.2f} ms, raw {raw * 1e3:.2f} ms"
    return [
        Row(f"search k=10, warm bank, {label}", warm * 1e3, "ms", "<= 2", warm <= 0.002),
        Row(f"search k=10, cold bank over raw LanceDB, {label}", cold / raw, "x", "<= 3", cold <= 3 * raw, note),
    ]


def _search_times(memory: Memory, folder: Path, embedder: Known) -> tuple[float, float, float]:
    import lancedb
    from lancedb.expr import col, lit

    table = lancedb.connect(folder / "s" / "lance").open_table("memories")
    queries = [f"which platform, guest {number}?" for number in range(60)]
    embedder.embed(queries)
    cold, raw, warm = [], [], []
    for number, query in enumerate(queries):
        user = f"u{(number * 37) % 1_000}"
        cold.append(timed(lambda query=query, user=user: memory.search(query, user_id=user)))
        vector = embedder.embed([query])[0]
        raw.append(
            timed(
                lambda vector=vector, user=user: (
                    table.search(vector)
                    .where(col("user_id") == lit(user))
                    .select(["id", "text", "_distance"])
                    .limit(10)
                    .to_list()
                )
            )
        )
        warm += [timed(lambda query=query, user=user: memory.search(query, user_id=user)) for _ in range(3)]
    return statistics.median(warm), statistics.median(cold), statistics.median(raw)


# ---- the peer ----------------------------------------------------------------------------------------------------


def beside_mem0() -> list[Row]:
    """2,080 memories of 4 users in one store, in one run: half of them added one by one, half in batches; searches
    are filtered to one user, k=10. mem0 keeps the whole store in memory, so it has no cold search: a bank that memkit
    must first read from LanceDB is held against mem0's ordinary search."""
    bars = [
        ("add one by one", "add", 4.0),
        ("add in a batch", "batch", 20.0),
        ("search, warm", "search", 20.0),
        ("search, cold", "cold", 5.0),
    ]
    said = {f"u{user}": [sentence(520 * user + number) for number in range(520)] for user in range(4)}
    request = {
        "singles": {user: said[user] for user in ("u0", "u1")},
        "batches": {user: said[user] for user in ("u2", "u3")},
        "batch": 130,
        "queries": [f"which platform, guest {number}?" for number in range(40)],
    }
    try:
        script = Path(__file__).with_name("_mem0_store.py")
        theirs = run_peer(["mem0ai==2.2.1"], script, request)
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        return [Row(f"mem0: {name}", None, "x", f">= {bar:g}", False, str(error)[:120]) for name, _, bar in bars]
    ours = _ours(request)
    theirs["cold"] = theirs["search"]
    return [
        Row(
            f"faster than mem0: {name}",
            theirs[key] / ours[key],
            "x",
            f">= {bar:g}",
            theirs[key] >= bar * ours[key],
            f"ours {ours[key] * 1e3:.2f} ms, mem0 {theirs[key] * 1e3:.2f} ms",
        )
        for name, key, bar in bars
    ]


def _ours(request: dict[str, Any]) -> dict[str, float]:
    singles, batches, queries = request["singles"], request["batches"], request["queries"]
    with scratch() as folder:
        embedder = Known()
        embedder.embed([one for texts in [*singles.values(), *batches.values(), queries] for one in texts])
        with Memory(folder / "s", embedder=embedder) as memory:
            single = [
                timed(lambda t=text, u=user: memory.add(t, user_id=u, infer=False))
                for user, texts in singles.items()
                for text in texts
            ]
            batch: list[float] = []
            for user, texts in batches.items():
                for first in range(0, len(texts), request["batch"]):
                    part = [{"role": "user", "content": text} for text in texts[first : first + request["batch"]]]
                    batch.append(timed(lambda p=part, u=user: memory.add(p, user_id=u, infer=False)) / len(part))
            memory.flush()
            cold: list[float] = []
            warm: list[float] = []
            users = [*singles, *batches]
            for number, query in enumerate(queries):
                user = users[number % len(users)]
                memory._runtime.reader.forget(user)
                cold.append(timed(lambda q=query, u=user: memory.search(q, user_id=u)))
                warm.append(timed(lambda q=query, u=user: memory.search(q, user_id=u)))
    figures = {"add": single, "batch": batch, "search": warm, "cold": cold}
    return {name: statistics.median(values) for name, values in figures.items()}
