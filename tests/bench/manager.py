"""The learned manager at run time: bad replies, bad networks, cost of the pipeline, replay, completeness.

`MEMKIT_LOCOMO` names the conversations for the prompt row; without it that row counts as missed.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memkit import AsyncMemory, Memory
from memkit.engine.record import RECORD_VERSION
from memkit.models import digest
from tests.bench import _engine, _transport
from tests.bench._peer import PeerMissing, run_peer
from tests.bench._scripted import Scripted
from tests.bench._table import Row
from tests.bench._vectors import Known
from tests.mutators import mutations

PEER = ["mem0ai==2.2.1"]
PEER_SCRIPT = Path(__file__).with_name("_mem0_manager.py")
ROOT = Path(__file__).resolve().parents[2]


def run(full: bool = False) -> list[Row]:
    rows: list[Row] = []
    sections: list[Callable[[], list[Row]]] = [
        malformed,
        lies,
        lambda: _transport.rows(),
        prompt_size,
        throughput,
        background,
        _in_process,
        replay,
        records,
    ]
    for section in sections:
        rows += section()
    return rows


def _count(name: str, value: float, bar: str, ok: bool, note: str = "") -> Row:
    return Row(name, float(value), "", bar, ok, note)


# ---- malformed replies and lies ----------------------------------------------------------------------------------

FACT = "Ana adopted another dog named Scout."
SEEDS = ["Ana has a car.", "Ana has a dog."]


def _seeded(path: str, says: dict[str, Any], **options: Any) -> Memory:
    """A store whose user `ana…` has the two memories that the reply shapes speak of."""
    return Memory(path, model=Scripted(says, style="json"), **options)


def malformed() -> list[Row]:
    """10,000 replies read by the roles; 1,500 of them taken through the whole pipeline, journal included, and the same
    1,500 given to mem0."""
    from tests.roles.test_replies import survey

    outcome = survey(10_000, seed=2)
    share = outcome["recovered"] / outcome["repairable"]
    uncaught = lost = partial = 0
    chosen = [one for one in mutations(2_000, seed=5) if one.shape.role in ("extractor", "manager", "fused")][:1_500]
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("split", "fused"):
            says: dict[str, Any] = {"extractor": _facts_reply(), "manager": "NOOP", "fused": "NOOP"}
            backbone = Scripted(says)
            with Memory(Path(folder) / mode, model=backbone, mode=mode) as memory:
                for mutation in chosen:
                    if (mutation.shape.role == "fused") != (mode == "fused"):
                        continue
                    backbone.says |= {
                        "extractor": _facts_reply(),
                        "manager": "NOOP",
                        mutation.shape.role: mutation.reply,
                    }
                    user = f"u{mutation.number}"
                    try:
                        result = memory.add(
                            [{"role": "user", "content": FACT}, {"role": "user", "content": "Hi."}], user_id=user
                        )
                    except Exception:
                        uncaught += 1
                        continue
                    state = memory._runtime.journal.intake(result.trace_id)
                    lost += state is None or state.status not in ("applied", "parked")
                    partial += result.status == "parked" and len(memory.history(user_id=user)) > 0
    rows = [
        _count("10,000 malformed replies: read in part", outcome["partial"], "0", not outcome["partial"]),
        Row("repairable classes recovered without another call", 100 * share, "%", ">= 95", share >= 0.95),
        _count("1,500 through the pipeline: uncaught", uncaught, "0", not uncaught),
        _count("…turns lost", lost, "0", not lost),
        _count("…batches applied in part", partial, "0", not partial),
    ]
    # The peer gets the same mutators and seed on replies in its own format: ours would be foreign to it.
    own = [one.reply for one in mutations(9_000, seed=5) if one.shape.name == "mem0"][:1_500]
    try:
        theirs = run_peer(PEER, PEER_SCRIPT, {"task": "fuzz", "with": {"replies": own}})
        share = 100 * (theirs["nothing"] + theirs["raised"]) / theirs["runs"]
        note = f"mem0: {theirs['nothing']} silently nothing, {theirs['raised']} internal errors, of {theirs['runs']}"
        rows.append(
            Row("mem0, same mutators on its own format: turns without a trace", share, "%", "reported", True, note)
        )
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        rows.append(Row("mem0, same mutators on its own format", None, "%", "reported", False, str(error)[:120]))
    return rows


def _facts_reply() -> str:
    return f'{{"facts": [{{"turn": 1, "fact": "{FACT}"}}]}}'


def lies() -> list[Row]:
    """Replies in perfect form that name what they were not shown, or ask for too much."""
    touched = parked = runs = 0
    many = ",".join(f'{{"op": "ADD", "id": null, "text": "junk {n}"}}' for n in range(10_000))
    with tempfile.TemporaryDirectory() as folder:
        backbone = Scripted({"extractor": _facts_reply(), "manager": "NOOP"})
        with Memory(Path(folder) / "s", model=backbone, mode="split") as memory:
            for user in ("victim", "ana"):
                for number in range(8):
                    backbone.says["manager"] = f'{{"operations": [{{"op": "ADD", "text": "{user} fact {number}"}}]}}'
                    backbone.says["extractor"] = f'{{"facts": [{{"turn": 1, "fact": "{user} likes {number}"}}]}}'
                    memory.add(f"{user} says {number}", user_id=user)
            foreign = memory.list(user_id="victim")[0].id
            own = memory.list(user_id="ana")[-1].id
            before = {user: [r.text for r in memory.list(user_id=user)] for user in ("victim", "ana")}
            wishes = [
                '{"op": "DELETE", "id": 77}',
                f'{{"op": "DELETE", "id": "{foreign}"}}',
                f'{{"op": "UPDATE", "id": "{own}", "text": "taken over"}}',
                '{"op": "UPDATE", "id": 1, "text": "x"}, {"op": "DELETE", "id": 1}',
                ",".join(f'{{"op": "DELETE", "id": {n}}}' for n in range(1, 6)),
                many,
                '{"op": "UPDATE", "id": 1, "text": ""}',
                '{"op": "ADD", "text": "   "}',
                ",".join(f'{{"op": "UPDATE", "id": {n}, "text": "same {n}"}}' for n in range(1, 6)),
                '{"op": "EXPLODE", "id": 1}',
                '{"op": "DELETE", "id": -1}',
                '{"op": "DELETE", "id": null}',
            ]
            backbone.says["extractor"] = '{"facts": [{"turn": 1, "fact": "ana likes 3 and 4"}]}'
            for wish in wishes:
                backbone.says["manager"] = f'{{"operations": [{wish}]}}'
                result = memory.add("ana likes 3 and 4", user_id="ana")
                runs += 1
                parked += result.status == "parked"
                touched += {user: [r.text for r in memory.list(user_id=user)] for user in before} != before
            listed = len(memory.parked(user_id="ana"))
    note = f"{parked} of {runs} parked, all listed" if listed == parked else f"{listed} of {parked} listed"
    return [_count("semantic lies: rows touched", touched, "0", not touched and parked == runs == listed, note)]


# ---- prompts -----------------------------------------------------------------------------------------------------


def prompt_size() -> list[Row]:
    names = [
        "fused prompt on ten LoCoMo sessions, largest",
        "…model calls per turn",
        "…mem0's median on the same turns",
    ]
    path = os.environ.get("MEMKIT_LOCOMO")
    if not path:
        why = "MEMKIT_LOCOMO is not set: pass the path of a LoCoMo file"
        return [
            Row(name, None, "", bar, False, why) for name, bar in zip(names, ["<= 6000", "1", "reported"], strict=True)
        ]
    turns = _locomo_turns(path)
    sizes: list[int] = []

    def say(request: Any) -> str:
        sizes.append(sum(len(message.content) for message in request.prompt.messages))
        number = len(sizes)
        return (
            f'{{"operations": [{{"op": "ADD", "id": null, "text": "Noted thing {number} of the talk.", "turn": 1}}]}}'
        )

    backbone = Scripted({"fused": say})
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "s", model=backbone) as memory:
        for pair in turns:
            memory.add(pair, user_id="talk", session_id="s")
    calls = backbone.asked["fused"] / len(turns)
    median = statistics.median(sizes)
    note = f"median {median:.0f} over {len(turns)} turns"
    rows = [
        Row(names[0], float(max(sizes)), "chars", "<= 6000", max(sizes) <= 6_000, note),
        Row(names[1], calls, "", "1", calls == 1),
    ]
    try:
        plain = [
            [{"role": "user", "content": f"{one['name']}: {one['content']}"} for one in pair] for pair in turns[:40]
        ]
        theirs = run_peer(PEER, PEER_SCRIPT, {"task": "prompts", "with": {"turns": plain}})
        rows.append(Row(names[2], theirs["chars"], "chars", "reported", True, f"{theirs['calls']:.1f} calls per turn"))
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        rows.append(Row(names[2], None, "chars", "reported", False, str(error)[:120]))
    return rows


def _locomo_turns(path: str) -> list[list[dict[str, str]]]:
    """Pairs of turns of the first ten sessions of the first conversation."""
    import json

    talk = json.loads(Path(path).read_text())[0]["conversation"]
    pairs: list[list[dict[str, str]]] = []
    for session in range(1, 11):
        said = [{"role": "user", "name": one["speaker"], "content": one["text"]} for one in talk[f"session_{session}"]]
        pairs += [said[start : start + 2] for start in range(0, len(said), 2)]
    return pairs


# ---- speed -------------------------------------------------------------------------------------------------------


def throughput(users: int = 32, each: int = 20, known: int = 2000) -> list[Row]:
    """Turns decided by a 0 ms model for 32 users at once, beside rows of other users, every commit fsynced."""
    with tempfile.TemporaryDirectory() as folder:
        embedder = Known()

        def reply(request: Any) -> str:
            walk = digest(request.key)[:12]
            return f'{{"operations": [{{"op": "ADD", "text": "Walk {walk}.", "turn": 1}}]}}'

        with Memory(Path(folder) / "s", model=Scripted({"fused": reply}), embedder=embedder) as memory:
            for user in range(known // 100):
                said = [{"role": "user", "content": f"Row {n} of {user}."} for n in range(100)]
                memory.add(said, user_id=f"filler{user}", infer=False)
            memory.flush()
            took: list[float] = []

            def work(user: int) -> None:
                for step in range(each):
                    start = time.perf_counter()
                    memory.add(f"I walked {step} miles with {user}.", user_id=f"u{user}")
                    took.append(time.perf_counter() - start)

            threads = [threading.Thread(target=work, args=(user,)) for user in range(users)]
            start, spent = time.perf_counter(), time.process_time()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            per_s = users * each / (time.perf_counter() - start)
            cpu = (time.process_time() - spent) * 1e3 / (users * each)
    took.sort()
    p99 = took[int(len(took) * 0.99) - 1] * 1e3
    rows = [
        Row("32 users, 0 ms model: turns per second", per_s, "/s", "aim 150", True),
        Row("…p99", p99, "ms", "< 500", p99 < 500),
    ]
    beside = "…over mem0 with distinct facts, in the same run"
    try:
        asked = {"users": users, "each": max(each // 4, 3), "known": known}
        theirs = run_peer(PEER, PEER_SCRIPT, {"task": "load", "with": asked})
    except (PeerMissing, OSError, subprocess.SubprocessError) as error:
        return [*rows, Row(beside, None, "x", ">= 3", False, str(error)[:120])]
    ratio, note = (
        per_s / theirs["per_s"],
        f"mem0 {theirs['per_s']:.0f}/s, one call at a time, p99 {theirs['p99']:.2f} s",
    )
    rows.append(Row(beside, ratio, "x", ">= 3", ratio >= 3, note))
    rows.append(Row("…CPU of a turn", cpu, "ms", "reported", True, f"mem0 {theirs['cpu_ms']:.1f} ms"))
    return rows


_SLOW = """
import sys, time
sys.path.insert(0, sys.argv[2])
from memkit import Memory
from tests.bench._scripted import Scripted
memory = Memory(sys.argv[1], model=Scripted({"fused": '{"operations": []}'}, delay_s=2.0))
for number in range(200):
    print(memory.add(f"I saw bird {number}.", user_id=f"u{number % 20}", wait=False).trace_id, flush=True)
print("done", flush=True)
time.sleep(60)
"""


def background() -> list[Row]:
    """`add(wait=False)` with a 2 s model: how soon it returns, what the event loop feels, and a kill right after."""
    import asyncio

    async def measure(path: Path) -> tuple[list[float], float]:
        memory = AsyncMemory(path, model=Scripted({"fused": '{"operations": []}'}, delay_s=2.0))
        took, worst, stop = [], 0.0, False

        async def probe() -> None:
            nonlocal worst
            while not stop:
                start = time.perf_counter()
                await asyncio.sleep(0.002)
                worst = max(worst, time.perf_counter() - start - 0.002)

        await memory.add("Warm up.", user_id="w", wait=False)
        probing = asyncio.create_task(probe())
        for number in range(150):
            start = time.perf_counter()
            await memory.add(f"I saw bird {number}.", user_id=f"u{number % 30}", wait=False)
            took.append(time.perf_counter() - start)
        stop = True
        await probing
        memory._memory._runtime.workers._stop.set()
        memory._memory._runtime.journal.close()
        memory._memory._runtime._closed = True
        return took, worst

    with tempfile.TemporaryDirectory() as folder:
        took, lag = asyncio.run(measure(Path(folder) / "s"))
        took.sort()
        p99 = took[int(len(took) * 0.99) - 1] * 1e3
        path = str(Path(folder) / "killed")
        victim = subprocess.Popen([sys.executable, "-c", _SLOW, path, str(ROOT)], stdout=subprocess.PIPE, text=True)
        assert victim.stdout is not None
        acked = []
        for line in victim.stdout:
            if line.strip() == "done":
                break
            acked.append(line.strip())
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        with Memory(path, model=Scripted({"fused": '{"operations": []}'})) as memory:
            memory.flush()
            states = [memory._runtime.journal.intake(turn) for turn in acked]
            lost = sum(state is None or state.status != "applied" for state in states)
    return [
        Row("add(wait=False), 2 s model: p99 to return", p99, "ms", "< 20", p99 < 20),
        Row("…event-loop lag, largest", lag * 1e3, "ms", "< 20", lag < 0.020),
        _count("…turns lost of 200 after kill -9", lost + 200 - len(acked), "0", not lost and len(acked) == 200),
    ]


def _in_process() -> list[Row]:
    return _engine.manager_rows()


# ---- replay and records ------------------------------------------------------------------------------------------


def replay() -> list[Row]:
    """Logged replies applied again give the same ops; the same weights asked again at batch 1 give the same replies."""
    from memkit_train.log import StoreSource
    from tests.bench._replayed import replay as played
    from tests.tiny_models import tiny_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        model = tiny_checkpoint(Path(folder) / "model")
        with Memory(Path(folder) / "s", model=f"hf:{model}", explore=0.3) as memory:
            for number in range(12):
                memory.add(f"I visited town {number} with Ana.", user_id=f"u{number % 3}")
            with StoreSource(Path(folder) / "s") as source:
                wrong = played(source).different
                again = [played(source, memory._runtime.backbone) for _ in range(2)]
    changed = sum(one.different for one in again)
    runs = sum(one.decisions for one in again)
    return [
        _count("replay: decisions whose re-applied reply gives other ops", wrong, "0", not wrong),
        _count("…replies that differ when generated again, twice", changed, "0", not changed, f"{runs} replies"),
    ]


LAW_6 = (
    "state_seq",
    "candidates",
    "prompt_hash",
    "prompt_version",
    "prompt_ids",
    "token_ids",
    "logprobs",
    "sampled_logprobs",
    "sampling",
    "adapter",
    "propensity",
    "parse",
    "reply",
    "usage",
    "latency_ms",
    "source_turns",
    "model",
    "drafts",
)


def records() -> list[Row]:
    """Every decision of three kinds of backbone has every field, or says why not."""
    from tests.tiny_models import tiny_checkpoint

    whole = total = 0
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_checkpoint(Path(folder) / "model")
        for name, spec in {
            "rules": None,
            "hf": f"hf:{model}",
            "callable": lambda messages: '{"operations": []}',
        }.items():
            with Memory(Path(folder) / name, model=spec) as memory:
                memory.add("I live in Oslo.", user_id="ana", at=datetime(2026, 5, 1, tzinfo=UTC))
                memory.add("I moved to Bergen.", user_id="ana")
                for decision in memory.decisions(user_id="ana"):
                    total += 1
                    missing = [key for key in LAW_6 if key not in decision and not decision["missing"].get(key)]
                    whole += not missing and decision["v"] == RECORD_VERSION
    return [
        Row("decisions with every field of the record, or a reason", 100 * whole / total, "%", "100", whole == total)
    ]
