"""Adapters: hot swap without a dropped request, on the in-process engine unless a row says otherwise.

Swaps run through `memory.adapters`' own code (registry, router, swapper, probe). Latencies are ratios of alternating
windows within one run; the machine may be shared.
"""

from __future__ import annotations

import gc
import itertools
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memkit import Memory
from memkit.adapters import AdapterSet, Registry, VLLMHost, promote
from memkit.adapters.hosts.vllm import resolvable
from memkit.errors import AdapterError, MemkitError, ProbeFailed, StaleAlias
from memkit.seams.backbone import GenReply
from tests.adapters._hostile import HOSTILE
from tests.adapters._make import FakeHost, adapter
from tests.adapters._sets import serving
from tests.adapters.test_router import simulate
from tests.bench import _engine
from tests.bench._engine import ask, tiny_engine
from tests.bench._table import Row
from tests.fakes.vllm_server import FakeVLLM

ROOT = Path(__file__).resolve().parents[2]
THREADS = 16
FULL_SWAPS, FLIPS = 120, 880


def run(full: bool = False) -> list[Row]:
    sections: list[Callable[[], list[Row]]] = [
        hostile,
        canaries,
        two_processes,
        vllm,
        kills,
        watching,
        shadowing,
        swaps,
        cost,
        memory,
        throughput,
    ]
    return [row for section in sections for row in section()]


def _none(name: str, count: int, note: str = "") -> Row:
    return Row(name, count, "", "0", count == 0, note)


# ---- without a model ---------------------------------------------------------------------------------------------


def hostile() -> list[Row]:
    refused = attached = moved = 0
    for reason, make in HOSTILE.items():
        with tempfile.TemporaryDirectory() as name:
            folder, host = Path(name), FakeHost()
            with serving(folder / "store", host) as adapters:
                good = adapters.publish(adapter(folder / "good"))
                adapters.promote("production", good)
                before = len(host.calls)
                try:
                    adapters.promote("production", adapters.publish(make(folder / "hostile")))
                except AdapterError as error:
                    refused += error.details.get("reason") == reason
                attached += len(host.calls) - before
                with adapters.resolve("manager", "ana") as lease:
                    moved += lease.name != good
    total = len(HOSTILE)
    bar = f"{total}, at least 40"
    return [
        Row("hostile folders refused, each with its own reason", refused, "", bar, refused == total >= 40),
        _none("…that reached the host", attached),
        _none("…after which another adapter served", moved),
    ]


def canaries(populations: int = 10) -> list[Row]:
    """100,000 users each, whose banks carry over from session to session."""
    off: list[float] = []
    for seed in range(populations):
        truth, estimate, error = simulate("user", seed=seed)
        off.append((estimate - truth) / error)
    inside, bias = sum(abs(one) < 1.96 for one in off), abs(sum(off)) / populations**0.5
    _, by_session, session_error = simulate("session")
    wrong = (by_session - truth) / session_error
    note = f"last: true {truth:.4f}, estimate {estimate:.4f} ± {1.96 * error:.4f}"
    return [
        Row("canary by user: 95 % intervals with the true difference", inside, "", ">= 8 of 10", inside >= 8, note),
        Row("…bias over all of them", bias, "σ", "<= 2.6", bias <= 2.6),
        Row("…a split by session would be off by", wrong, "σ", "reported", True, f"estimate {by_session:.4f}"),
    ]


def _promote_at_once(root: str, digest: str, version: int, barrier: Any, answers: Any) -> None:
    registry = Registry(root)
    barrier.wait(60)
    try:
        answers.put(("won", promote(registry, "production", digest, expected=version).state.version))
    except StaleAlias as error:
        answers.put(("stale", error.details["version"]))
    registry.close()


def two_processes(rounds: int = 20) -> list[Row]:
    fork = multiprocessing.get_context("fork")
    right = 0
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "adapters"
        registry = Registry(root)
        digests = [registry.publish(adapter(Path(name) / f"a{seed}", seed=seed)) for seed in (1, 2)]
        registry.close()
        for version in range(rounds):
            barrier, answers = fork.Barrier(2), fork.Queue()
            workers = [
                fork.Process(target=_promote_at_once, args=(str(root), digest, version, barrier, answers))
                for digest in digests
            ]
            for worker in workers:
                worker.start()
            said = sorted(answers.get(timeout=60) for _ in workers)
            for worker in workers:
                worker.join(60)
            right += said == [("stale", version + 1), ("won", version + 1)]
    return [Row("two processes promote at once: one wins, one StaleAlias", right, "", f"{rounds}", right == rounds)]


def vllm() -> list[Row]:
    """The swap and the documented errors over HTTP, against the fake of vLLM's API in tests/fakes."""
    swapped = named = 0
    with tempfile.TemporaryDirectory() as name, FakeVLLM() as one, FakeVLLM() as two:
        folder = Path(name)
        with VLLMHost([one.url, two.url], base="tiny") as host, serving(folder / "store", host, keep=1) as adapters:
            digests = [adapters.publish(adapter(folder / f"a{seed}", seed=seed)) for seed in (1, 2)]
            for n in range(20):
                adapters.promote("production", digests[n % 2])
                swapped += set(one.loras) == set(two.loras) == {digests[n % 2]}
            third = adapters.publish(adapter(folder / "a3", seed=3))
            faults: list[tuple[str, Callable[[bool], None]]] = [
                ("runtime_loading_off", lambda on: setattr(two, "runtime_loading", not on)),
                ("not_listed", lambda on: setattr(two, "swallow_loads", on)),
                ("rank_unservable", lambda on: setattr(two, "max_lora_rank", 1 if on else 16)),
                ("other_files", lambda on: two.loras.update({third: "/x"}) if on else two.loras.pop(third)),
                ("replicas_disagree", lambda on: setattr(two, "ignore_adapters", on)),
            ]
            for reason, fault in faults:
                fault(True)
                try:
                    adapters.promote("production", third)
                except (AdapterError, ProbeFailed) as error:
                    named += error.details.get("reason") == reason and third not in one.loras
                fault(False)
            pulls = resolvable(adapters.registry.path(third), "tiny")
        live = os.environ.get("MEMKIT_VLLM_URL", "not set: tests/live was not run")
    return [
        Row("vLLM (fake, 2 replicas): full swaps", swapped, "", "20", swapped == 20, f"MEMKIT_VLLM_URL {live}"),
        Row("…documented errors named, nothing left behind", named, "", f"{len(faults)}", named == len(faults)),
        Row("…registry readable by vLLM's filesystem resolver", float(pulls), "", "1", pulls),
    ]


# ---- on the engine -------------------------------------------------------------------------------------------------


def kills() -> list[Row]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench._adapters_kill"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    try:
        wrong = {step: why for step, why in json.loads(done.stdout.splitlines()[-1]).items() if step != "prepare"}
    except (ValueError, IndexError):
        return [Row("kill -9 at each step of a swap", None, "", "8", False, done.stderr[-200:])]
    right = sum(not why for why in wrong.values())
    note = "; ".join(f"{step}: {why}" for step, why in wrong.items() if why) or "alias names a proved adapter, served"
    return [Row("kill -9 at each step of a swap, then restart", right, "", f"{len(wrong)}", right == len(wrong), note)]


def watching() -> list[Row]:
    """A promotion by `memkit adapters promote` in another process, until a lease names it: load and probe included."""
    from tests.bench._adapters import made, opened

    waits: list[float] = []
    with tiny_engine() as (engine, folder), opened(engine, folder / "store" / "adapters") as adapters:
        digests = [adapters.publish(made(engine, folder, seed, base=folder / "base")) for seed in (1, 2, 3)]
        adapters.promote("production", digests[0])
        adopt = adapters.router.adopt

        def timed(state: Any) -> bool:
            waits.append(time.time() - datetime.fromisoformat(state.at).timestamp())
            return adopt(state)

        adapters.router.adopt = timed  # type: ignore[method-assign]
        for digest in digests[1:]:
            command = "import sys; from memkit.cli import main; main()"
            arguments = ["adapters", "promote", digest[:12], "--store", str(folder / "store"), "--json"]
            subprocess.run([sys.executable, "-c", command, *arguments], check=True, capture_output=True, cwd=ROOT)
            deadline = time.monotonic() + 30
            while adapters.router.serving("production").route("manager").stable != digest:
                if time.monotonic() > deadline:
                    return [Row("promoted by another process, served here after", None, "s", "< 1", False, "never")]
                time.sleep(0.01)
    return [Row("promoted by another process, served here after", max(waits), "s", "< 1", max(waits) < 1, "with probe")]


def shadowing() -> list[Row]:
    """Through `Memory`: 12 turns decided by one adapter and shadowed by another, read back with the CLI's report."""
    from tests.bench._adapters import made

    turns = 12
    with tiny_engine() as (engine, folder):
        with Memory(folder / "store", model=engine, config={"reasks": 0}) as store:
            digests = [store.adapters.publish(made(engine, folder, seed, base=folder / "base")) for seed in (1, 2)]
            store.adapters.promote("production", digests[0])
            store.adapters.shadow("production", digests[1], share=1.0)
            live = {one.op_id for n in range(turns) for one in store.add(f"I have {n} dogs.", user_id="ana").ops}
            decided = store.decisions(user_id="ana", last=1_000)
            store.adapters.shadow_report()
        command = "import sys; from memkit.cli import main; main()"
        arguments = ["adapters", "shadow", "--report", "--store", str(folder / "store"), "--json"]
        told = subprocess.run([sys.executable, "-c", command, *arguments], capture_output=True, text=True, cwd=ROOT)
        reports = json.loads(told.stdout or "[]")
        with Memory(folder / "store") as store:
            applied = {op.op_id for op in store.history(user_id="ana")}
    compared = reports[0]["decisions"] if reports else 0
    agree = f"{reports[0]['agreement']:.0%} agree, {len(reports[0]['disagreements'])} shown" if reports else told.stderr
    extra = len(applied - live)
    by_live = sum(one["adapter"] == digests[0] for one in decided)
    return [
        Row("shadow: decisions side by side", compared, "", f"{by_live}", compared == by_live >= turns, agree),
        _none("…ops that came from the shadow", extra),
    ]


@dataclass(frozen=True, slots=True)
class _Served:
    name: str
    user: int
    reply: GenReply


class _Traffic:
    """Threads that lease, generate and log, for as long as the block runs."""

    def __init__(self, engine: Any, adapters: AdapterSet, threads: int, **request: Any) -> None:
        self._engine, self._adapters, self._request = engine, adapters, request
        self._stop = threading.Event()
        self.served: list[_Served] = []
        self.failures: list[str] = []
        self.seen: list[tuple[float, float]] = []
        """(when it began, seconds)"""
        self._threads = [threading.Thread(target=self._user, args=(n,)) for n in range(threads)]

    def __enter__(self) -> _Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _user(self, user: int) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                with self._adapters.resolve("manager", f"user-{user}") as lease:
                    request = ask(user, adapter=lease.name, **self._request)
                    (reply,) = self._engine.generate([request])
                if lease.name is None or reply.adapter != lease.name:
                    self.failures.append(f"leased {lease.name}, served {reply.adapter}")
                else:
                    self.served.append(_Served(lease.name, user, reply))
            except MemkitError as error:
                self.failures.append(str(error))
            self.seen.append((begun, time.monotonic() - begun))


REQUEST = {"words": 4, "max_tokens": 14}


def swaps() -> list[Row]:
    """Every reply is compared with what its logged adapter gives alone, and a sample is scored again under each."""
    from memkit.backbones.hf import ScoreRequest
    from tests.bench._adapters import made, opened

    with tiny_engine() as (engine, folder):
        root = folder / "store"
        ready = [made(engine, folder, seed, base=folder / "base") for seed in (1, 2, 3)]
        expected: dict[tuple[str, int], tuple[int, ...] | None] = {}
        with opened(engine, root, keep=1, poll_s=60.0) as adapters:
            digests = [adapters.publish(one) for one in ready]
            for name, path in zip(digests, ready, strict=True):
                engine.load_adapter(name, path)
                replies = engine.generate([ask(user, adapter=name, **REQUEST) for user in range(THREADS)])
                expected |= {(name, user): reply.token_ids for user, reply in enumerate(replies)}
                engine.unload_adapter(name)
            adapters.promote("production", digests[0])
            begun = time.monotonic()
            with _Traffic(engine, adapters, THREADS, **REQUEST) as traffic:
                cycles = 0
                for n in range(1, FULL_SWAPS + 1):
                    report = adapters.promote("production", digests[n % 3])
                    steps = {"verify", "limits", "load", "probe", "move", "drain", "unload"}
                    cycles += steps <= report.seconds.keys() and bool(report.unloaded)
        with opened(engine, root, keep=3, poll_s=60.0) as adapters:
            for digest in digests:
                adapters.promote("production", digest)
            with _Traffic(engine, adapters, THREADS, **REQUEST) as flipping:
                for n in range(FLIPS):
                    if n % 3 == 2:
                        adapters.rollback("production")
                    else:
                        adapters.promote("production", digests[n % 3])
            versions = adapters.registry.alias("production").version
        spent = time.monotonic() - begun
        served, failures = traffic.served + flipping.served, traffic.failures + flipping.failures
        neither = sum(one.reply.token_ids not in {expected[d, one.user] for d in digests} for one in served)
        other = sum(one.reply.token_ids != expected[one.name, one.user] for one in served) - neither
        for name in set(digests) - set(engine.resident()):
            engine.load_adapter(name, root / name)
        sample = random.Random(0).sample(served, min(600, len(served)))
        scored = {
            name: engine.score([ScoreRequest(s.reply.prompt_ids, s.reply.token_ids, name) for s in sample])
            for name in digests
        }
        wrong = 0
        for index, one in enumerate(sample):
            gaps = {name: _gap(scored[name][index], one.reply.logprobs or ()) for name in digests}
            wrong += min(gaps, key=gaps.__getitem__) != one.name or gaps[one.name] > 1e-3
    total = FULL_SWAPS + FLIPS
    note = f"{len(served)} replies by {THREADS} threads in {spent:.0f} s; alias at version {versions}"
    return [
        Row("swaps while 16 threads generate", total, "", ">= 1000", total >= 1000 and versions >= total, note),
        Row("…of them load, probe, move, drain, unload", cycles, "", ">= 100", cycles >= 100),
        _none("…failed requests", len(failures), failures[0] if failures else ""),
        _none("…outputs that match no adapter", neither),
        _none("…outputs of another adapter than the logged one", other),
        _none("…logged digests that re-scoring contradicts", wrong, f"{len(sample)} replies under 3 adapters"),
    ]


def cost(windows: int = 24, window_s: float = 2.0) -> list[Row]:
    """Alternating windows: a full swap in each second one. Four threads of requests."""
    from tests.bench._adapters import made, opened

    starts: list[float] = []
    firsts: list[float] = []
    backs: list[float] = []
    returned: list[float] = []
    with tiny_engine() as (engine, folder), opened(engine, folder / "store", keep=1, poll_s=60.0) as adapters:
        digests = [adapters.publish(made(engine, folder, seed, base=folder / "base")) for seed in (1, 2)]
        adapters.promote("production", digests[0])
        with _Traffic(engine, adapters, 4, words=20, max_tokens=40) as traffic:
            time.sleep(1.0)
            for n in range(windows):
                begun = time.monotonic()
                starts.append(begun)
                if n % 2:
                    firsts.append(_first_token(engine, adapters, digests[(n + 1) // 2 % 2]))
                time.sleep(max(0.0, window_s - (time.monotonic() - begun)))
        edges = itertools.pairwise([*starts, begun + window_s])
        spans = [[spent for at, spent in traffic.seen if a <= at < b] for a, b in edges]
    with tiny_engine() as (engine, folder), opened(engine, folder / "store", keep=2, poll_s=60.0) as adapters:
        digests = [adapters.publish(made(engine, folder, seed, base=folder / "base")) for seed in (1, 2)]
        adapters.promote("production", digests[0])
        with _Traffic(engine, adapters, 4, words=20, max_tokens=40):
            adopt, switched = adapters.router.adopt, [0.0]

            def timed(state: Any) -> bool:
                done = adopt(state)
                switched[0] = time.perf_counter()
                return done

            adapters.router.adopt = timed  # type: ignore[method-assign]
            for _ in range(50):
                adapters.promote("production", digests[1])
                begun = time.perf_counter()
                adapters.rollback("production")
                returned.append((time.perf_counter() - begun) * 1000)
                backs.append((switched[0] - begun) * 1000)
    pairs = [(calm, busy) for calm, busy in zip(spans[::2], spans[1::2], strict=True) if calm and busy]
    p50 = statistics.median(statistics.median(busy) / statistics.median(calm) for calm, busy in pairs)
    still, swapped = list(itertools.chain(*spans[::2])), list(itertools.chain(*spans[1::2]))
    p99 = _engine._quantile(swapped, 0.99) / _engine._quantile(still, 0.99)
    back, first = statistics.median(backs), statistics.median(firsts)
    swaps_note = f"median of {len(firsts)} swaps under load, worst {max(firsts):.2f}"
    note = f"median of {len(pairs)} neighbouring pairs; {len(still)} and {len(swapped)} requests"
    disk = f"median of 50 under load, worst {max(backs):.1f}; flushed after {statistics.median(returned):.1f}"
    return [
        Row("latency with a full swap per 2 s: p50", p50, "×", "<= 1.2", p50 <= 1.2, note),
        Row("…p99", p99, "×", "<= 2", p99 <= 2, "all windows"),
        Row("promote to first token of the new adapter", first, "s", "< 1", first < 1, swaps_note),
        Row("rollback, until requests get the earlier adapter", back, "ms", "< 5", back < 5, disk),
    ]


def _first_token(engine: Any, adapters: AdapterSet, digest: str) -> float:
    """From the call of promote, on another thread, to the first token of the new adapter."""
    begun = time.monotonic()
    swap = threading.Thread(target=adapters.promote, args=("production", digest))
    swap.start()
    while True:
        with adapters.resolve("manager", "probe") as lease:
            if lease.name == digest:
                engine.generate([ask(99, words=4, grammar=None, max_tokens=1, adapter=digest)])
                spent = time.monotonic() - begun
                break
        time.sleep(0.001)
    swap.join()
    return spent


def memory(cycles: int = 200) -> list[Row]:
    from tests.bench._adapters import made, opened

    with tiny_engine() as (engine, folder), opened(engine, folder / "store", keep=1, poll_s=60.0) as adapters:
        digests = [adapters.publish(made(engine, folder, seed, base=folder / "base")) for seed in (1, 2)]
        before = 0
        for n in range(20 + cycles):
            adapters.promote("production", digests[n % 2])
            with adapters.resolve("manager", "ana") as lease:
                engine.generate([ask(0, words=4, max_tokens=14, adapter=lease.name)])
            if n == 19:
                gc.collect()
                before = _engine._resident()
        gc.collect()
        growth = _engine._resident() / before
    return [Row(f"resident memory after {cycles} load/unload cycles", growth, "×", "<= 1.02", growth <= 1.02)]


def throughput() -> list[Row]:
    big = _engine.adapter_throughput()
    tiny = _engine.adapter_throughput(hidden=64, layers=2)
    size = f"{big.parameters / 1e6:.0f}M random parameters, batch 8"
    mixed = f"PEFT's own mixed batch: {big.four_peft:.2f}"
    small = f"unmerged {tiny.unmerged:.2f}, four adapters {tiny.four:.2f}"
    return [
        Row(
            "merged production adapter over a merged model's shape",
            big.merged,
            "×",
            ">= 0.95",
            big.merged >= 0.95,
            size,
        ),
        Row("one unmerged adapter", big.unmerged, "×", ">= 0.7", big.unmerged >= 0.7 and big.parameters >= 3e7, size),
        Row("…merged with one canary row of eight", big.canary, "×", "reported", True, f"PEFT: {big.canary_peft:.2f}"),
        Row("…four adapters, two rows each", big.four, "×", "reported", True, mixed),
        Row("…tiny model, merged", tiny.merged, "×", "reported", True, small),
    ]


def _gap(left: Any, right: Any) -> float:
    return max((abs(x - y) for x, y in zip(left, right, strict=True)), default=float("inf"))
