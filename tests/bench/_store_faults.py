"""What must hold when several processes write, when they are killed, when files are damaged, when a user is erased."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from memkit import Memory
from memkit.errors import MemkitError
from memkit.ops import BankState
from tests.bench._table import Row

ROOT = Path(__file__).resolve().parents[2]


def _spawn(code: str, *args: str) -> subprocess.Popen[str]:
    env = dict(os.environ) | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def _count(name: str, value: float, bar: str, ok: bool, note: str = "") -> Row:
    return Row(name, float(value), "", bar, ok, note)


def _differs(memory: Memory) -> int:
    """Memories whose live state is not the fold of their journal, or that the projection shows differently."""
    journal, wrong = memory._runtime.journal, 0
    for info in journal.users():
        for bank, _ in journal.user_banks(info.user_id):
            folded = {record.id: record for record in BankState().fold(journal.ops(bank=bank))}
            live = {record.id: record for _, record in journal.live(bank=bank)}
            wrong += sum(folded.get(key) != live.get(key) for key in folded.keys() | live.keys())
    return wrong + len(memory.doctor())


# ---- several processes -------------------------------------------------------------------------------------------

_MIXED = """
import json, random, sys
from memkit import Memory
from memkit.errors import Conflict, NotFound
path, me, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
rng, stale, acked = random.Random(me), 0, []
with Memory(path) as memory:
    mine = []
    for step in range(count):
        kind = rng.choice(["add", "add", "rule", "update", "delete", "search"]) if mine else "add"
        if kind == "add":
            text = f"process {me} step {step} saw a heron"
            added = memory.add(text, user_id="shared", infer=False)
            mine.append(added.ops[0].memory_id); acked.append(added.ops[0].op_id)
            hits = memory.search(text, user_id="shared", k=200)
            stale += not any(hit.memory.id == mine[-1] for hit in hits)
        elif kind == "rule":
            result = memory.add(f"I visited town number {me}{step} in the north.", user_id=f"own{me}")
            acked += [op.op_id for op in result.ops]
        elif kind == "update":
            target = rng.choice(mine)
            record = memory.update(target, f"process {me} step {step} corrected", user_id="shared")
            acked.append(memory.history(user_id="shared", memory_id=target)[-1].op_id)
            stale += memory.get(target, user_id="shared").text != record.text
        elif kind == "delete":
            target = mine.pop(rng.randrange(len(mine)))
            acked.append(memory.delete(target, user_id="shared").op_id)
            try:
                memory.get(target, user_id="shared"); stale += 1
            except NotFound:
                pass
        else:
            memory.search("heron", user_id="shared")
print(json.dumps({"acked": acked, "stale": stale}))
"""


def mixed_processes() -> list[Row]:
    """4 processes × 200 mixed operations on one store, half of them on one user."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "s")
        Memory(path).close()
        running = [_spawn(_MIXED, path, str(me), "200") for me in range(4)]
        outcomes = [process.communicate(timeout=600) for process in running]
        failed = sum(process.returncode != 0 for process in running)
        told = [json.loads(out) for out, _ in outcomes if out.strip()]
        with Memory(path) as memory:
            present = Counter(op.op_id for user in memory.users() for op in memory.history(user_id=user))
            acked = [op_id for one in told for op_id in one["acked"]]
            lost = sum(op_id not in present for op_id in acked)
            double = sum(count - 1 for count in present.values()) + len(acked) - len(set(acked))
            ids = Counter(record.id for user in memory.users() for record in memory.list(user_id=user, limit=10_000))
            double += sum(count - 1 for count in ids.values())
            wrong = _differs(memory)
    stale = sum(one["stale"] for one in told)
    note = f"{len(acked)} acknowledged ops" + (
        f"; {failed} processes failed: {outcomes[0][1][-200:]}" if failed else ""
    )
    return [
        _count("4 processes x 200 ops: lost", lost + failed, "0", not lost and not failed, note),
        _count("…duplicated", double, "0", not double),
        _count("…memories that differ from fold(journal)", wrong, "0", not wrong),
        _count("…reads that missed the process's own write", stale, "0", not stale),
    ]


_SAME = """
import sys, threading
from memkit import Memory
with Memory(sys.argv[1]) as memory:
    def add():
        memory.add("I have a dog named Buddy.", user_id="ana", infer=sys.argv[2] == "infer")
    threads = [threading.Thread(target=add) for _ in range(int(sys.argv[3]))]
    [t.start() for t in threads]; [t.join() for t in threads]
"""


def same_fact() -> list[Row]:
    rows: list[Row] = []
    for how, processes, threads in [("32 threads", 1, 32), ("4 processes", 4, 4)]:
        counts: list[int] = []
        for infer in ("infer", "as it is"):
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / "s")
                Memory(path).close()
                running = [_spawn(_SAME, path, infer, str(threads)) for _ in range(processes)]
                for process in running:
                    process.communicate(timeout=300)
                with Memory(path) as memory:
                    counts.append(len(memory.list(user_id="ana")))
        rows.append(_count(f"same fact from {how}: memories", max(counts), "1", set(counts) == {1}, f"{counts}"))
    return rows


# ---- killed ------------------------------------------------------------------------------------------------------

_VICTIM = """
import random, sys
from memkit import Memory
path, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
memory = Memory(path, config={"project_idle_s": 0.05, "maintain_commits": 5})
print("open", flush=True)
mine, step = [], 0
while True:
    step += 1
    kind = rng.choice(["add", "wait", "later", "update", "delete", "flush"]) if mine else "add"
    if kind == "add":
        op = memory.add(f"run {seed} step {step} the lamp is on", user_id=f"u{step % 5}", infer=False).ops[0]
        mine.append((op.memory_id, f"u{step % 5}")); print("op", op.op_id, flush=True)
    elif kind == "wait":
        for op in memory.add(f"I met friend {seed}x{step} in the park.", user_id="talk").ops:
            print("op", op.op_id, flush=True)
    elif kind == "later":
        added = memory.add(f"I bought item {seed}x{step} today.", user_id=f"q{step % 3}", wait=False)
        print("turn", added.trace_id, flush=True)
    elif kind == "update":
        target, user = rng.choice(mine)
        memory.update(target, f"run {seed} step {step} changed", user_id=user)
    elif kind == "delete":
        target, user = mine.pop()
        print("op", memory.delete(target, user_id=user).op_id, flush=True)
    elif rng.random() < 0.2:
        memory.flush()
"""


def kills(count: int, seed: int) -> list[Row]:
    """Random kill -9 during mixed operations, background workers and projector included, on one store."""
    rng = random.Random(seed)
    lost = half = failed_opens = stuck = acked_total = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        Memory(path).close()
        acked: set[str] = set()
        turns: set[str] = set()
        for number in range(count):
            victim = _spawn(_VICTIM, str(path), str(number))
            assert victim.stdout is not None
            lines: list[str] = []
            reader = threading.Thread(target=lambda out=victim.stdout, lines=lines: lines.extend(out), daemon=True)
            reader.start()
            deadline = time.monotonic() + 20
            while not lines and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 1.2 if number % 5 == 0 else 0.3))
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            reader.join(timeout=5)
            acked |= {line.split()[1] for line in lines if line.startswith("op ") and line.endswith("\n")}
            turns |= {line.split()[1] for line in lines if line.startswith("turn ") and line.endswith("\n")}
            if number % 10 == 9 or number == count - 1:
                try:
                    with Memory(path) as memory:
                        memory.flush()
                        journal = memory._runtime.journal
                        present = {op.op_id for op in journal.iter_ops()}
                        lost += len(acked - present)
                        stuck += journal.pending_count()
                        states = [journal.intake(turn) for turn in turns]
                        lost += sum(state is None for state in states)
                        stuck += sum(state is not None and state.status == "pending" for state in states)
                        half += _differs(memory)
                except MemkitError:
                    failed_opens += 1
        acked_total = len(acked) + len(turns)
    note = f"seed {seed}; {acked_total} acknowledged"
    return [
        _count(f"kill -9 at random, {count} times: acknowledged ops and turns missing", lost, "0", not lost, note),
        _count("…half applied", half, "0", not half),
        _count("…opens that failed", failed_opens, "0", not failed_opens),
        _count("…turns stuck", stuck, "0", not stuck),
    ]


# ---- damaged and erased ------------------------------------------------------------------------------------------


def damaged_projection() -> list[Row]:
    rows: list[Row] = []
    for how in ("newest manifest cut to 0 bytes", "projection deleted"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "s"
            with Memory(path) as memory:
                for number in range(800):
                    memory.add(f"fact number {number}", user_id=f"u{number % 2}", infer=False)
                memory.flush()
            if how.startswith("newest"):
                manifests = sorted(path.glob("lance/**/_versions/*.manifest"), key=lambda file: file.stat().st_mtime)
                manifests[-1].write_bytes(b"")
            else:
                shutil.rmtree(path / "lance")
            try:
                with Memory(path) as memory:
                    found = sum(
                        bool(memory.search(f"fact number {n}", user_id=f"u{n % 2}", k=1)) for n in range(0, 800, 40)
                    )
                    memory.flush()
                    wrong = [problem for problem in memory.doctor() if "quarantine" not in problem.code]
                    kept = len(memory.list(user_id="u0", limit=1000)) + len(memory.list(user_id="u1", limit=1000))
                ok, note = found == 20 and kept == 800 and not wrong, f"{kept} of 800 kept, {len(wrong)} findings"
            except MemkitError as error:
                ok, note = False, str(error)[:120]
        rows.append(_count(f"{how}: opens, heals, nothing lost", float(ok), "1", ok, note))
    return rows


def erasure() -> list[Row]:
    """1,000 canary strings of one user, in every place a string can end up in; then `erase`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        canaries = [f"canary{number:04d}zq" for number in range(1_000)]
        with Memory(path) as memory:
            for number, canary in enumerate(canaries):
                memory.add(f"The {canary} sings.", user_id="eve", infer=number % 4 != 0, wait=True)
                if number % 10 == 0:
                    memory.add(f"Bird {number} sings.", user_id="bob", infer=False)
            for record in list(memory.list(user_id="eve", limit=300))[::3]:
                memory.update(record.id, record.text + " Loudly.", user_id="eve")
            for record in list(memory.list(user_id="eve", limit=300))[::5]:
                memory.delete(record.id, user_id="eve")
            hits = memory.search(canaries[3], user_id="eve")
            memory.observe(hits.trace_id, f"It is {canaries[3]}.", user_id="eve")
            memory.flush()
            before = _bank_hash(memory, "bob")
            memory.erase(user_id="eve")
            same = _bank_hash(memory, "bob") == before
            read = sum(len(memory.search(canary, user_id="eve")) for canary in canaries[:20])
        blob = b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())
        left = sum(canary.encode() in blob for canary in canaries) + read + _in_lance(path, canaries)
    return [
        _count("erase: canaries readable afterwards", left, "0 of 1000", not left),
        _count("erase: other users' hashes unchanged", float(same), "1", same),
    ]


def _bank_hash(memory: Memory, user: str) -> str:
    journal = memory._runtime.journal
    return "".join(BankState().fold(journal.ops(bank=bank)).hash() for bank, _ in journal.user_banks(user))


def _in_lance(path: Path, canaries: list[str]) -> int:
    """Every version of every table, read through LanceDB."""
    import lancedb

    database, found = lancedb.connect(path / "lance"), 0
    for name in database.table_names():
        table = database.open_table(name)
        for version in [entry["version"] for entry in table.list_versions()]:
            table.checkout(version)
            text = str(table.to_arrow().drop_columns(["vector"]).to_pylist()) if name == "memories" else ""
            found += sum(canary in text for canary in canaries)
    return found
