"""Measurements of the in-process engine, for the benchmarks that print them: `manager` and `adapters`.

Ratios within one run and medians; every engine here runs on one thread.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memkit.roles.base import ChatMessage, Prompt, View
from memkit.roles.grammar import Grammar, repeat, seq, text
from memkit.seams.backbone import GenRequest, Sampling
from tests.bench._table import Row
from tests.tiny_models import tiny_adapter, tiny_checkpoint

USERS = 16
LINES = repeat(seq("ADD ", text(40), "\n"), 2, 3)


@contextmanager
def tiny_engine(*, hidden: int = 64, layers: int = 2, vocab: int = 512, **options: Any) -> Iterator[tuple[Any, Path]]:
    """An engine over a random checkpoint, and the folder that holds it (as `base`)."""
    import torch

    from memkit.backbones.hf import HFBackbone

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        base = tiny_checkpoint(Path(folder) / "base", hidden=hidden, layers=layers, vocab=vocab)
        with HFBackbone(base, threads=1, **options) as engine:
            yield engine, Path(folder)


def ask(
    user: int, *, words: int = 48, grammar: Grammar | None = LINES, max_tokens: int = 40, **fields: Any
) -> GenRequest:
    """A prompt of about 200 tokens of the tiny tokenizer; every user's differs."""
    said = " ".join(f"{user} dog"[: 3 + index % 4] for index in range(words))
    messages = (ChatMessage("system", "You manage the memory."), ChatMessage("user", f"{user}: {said}"))
    prompt = Prompt("manager", "compact", "bench/1", messages, grammar, None, max_tokens, View())
    return GenRequest(prompt, key=f"u{user}", **fields)


@dataclass(frozen=True, slots=True)
class Speedup:
    ratio: float
    """Wall time one at a time over wall time of 16 threads at once, median of the rounds."""
    same_tokens: bool
    invalid: int
    prompt_tokens: int


def batched_speedup(rounds: int = 3) -> Speedup:
    """16 users with prompts of 200 tokens: one after the other, then each in a thread of its own."""
    with tiny_engine(hidden=128, layers=4) as (engine, _):
        requests = [ask(user, sampling=Sampling(temperature=1.0)) for user in range(USERS)]
        engine.generate(requests[:2])
        ratios: list[float] = []
        same, invalid = True, 0
        for _ in range(rounds):
            alone, one_by_one = _timed(lambda: [engine.generate([request])[0] for request in requests])
            together, at_once = _timed(lambda: _in_threads(engine, requests))
            ratios.append(one_by_one / at_once)
            same &= [reply.token_ids for reply in alone] == [reply.token_ids for reply in together]
            invalid += sum(not LINES.matches(reply.text) for reply in [*alone, *together])
        return Speedup(statistics.median(ratios), same, invalid, len(alone[0].prompt_ids or ()))


def invalid_replies(grammar: Grammar, count: int, *, max_tokens: int = 60) -> int:
    """How many of `count` replies of a random model are outside the grammar (temperatures 0 to 3)."""
    with tiny_engine(hidden=32, layers=1, max_batch=64) as (engine, _):
        requests = [
            ask(user, words=4, grammar=grammar, max_tokens=max_tokens, sampling=Sampling(temperature=user % 4))
            for user in range(count)
        ]
        return sum(not grammar.matches(reply.text) for reply in engine.generate(requests))


@dataclass(frozen=True, slots=True)
class Throughput:
    """Tokens per CPU second with a batch of 8, over those of the plain model; medians of paired rounds."""

    merged: float
    unmerged: float
    canary: float
    """Seven requests on the merged adapter and one on another."""
    four: float
    """Four adapters, two requests each: a sub-batch per adapter."""
    canary_peft: float
    """Seven and one, unmerged, by PEFT's `adapter_names` in one pass: what the engine does not do."""
    four_peft: float
    parameters: int


def adapter_throughput(*, hidden: int = 512, layers: int = 10, vocab: int = 512, rounds: int = 5) -> Throughput:
    with tiny_engine(hidden=hidden, layers=layers, vocab=vocab) as (engine, folder):
        for seed, name in enumerate(("a", "b", "c", "d"), start=1):
            engine.load_adapter(name, tiny_adapter(folder / name, base=folder / "base", seed=seed, rank=16))
        engine.load_adapter("merged", folder / "a", merged=True)
        cases: dict[str, list[str | None]] = {
            "merged": ["merged"] * 8,
            "unmerged": ["a"] * 8,
            "canary": ["merged"] * 7 + ["b"],
            "four": ["a", "b", "c", "d"] * 2,
        }
        ratios: dict[str, list[float]] = {name: [] for name in cases}
        for turn in range(rounds + 1):
            for name, names in cases.items():
                plain = _tokens_per_cpu_second(engine, [None] * 8)
                if turn:  # the first round warms up
                    ratios[name].append(_tokens_per_cpu_second(engine, names) / plain)
        medians = {name: statistics.median(values) for name, values in ratios.items()}
        canary = _mixed_share(folder, ["a"] * 7 + ["b"], rounds)
        four = _mixed_share(folder, ["a", "b", "c", "d"] * 2, rounds)
        size = sum(parameter.numel() for parameter in engine.parameters())
    plain = medians["unmerged"]
    return Throughput(**medians, canary_peft=plain * canary, four_peft=plain * four, parameters=size)


def _tokens_per_cpu_second(engine: Any, adapters: list[str | None]) -> float:
    requests = [ask(user, words=4, max_tokens=24, adapter=adapter) for user, adapter in enumerate(adapters)]
    begun = time.process_time()
    replies = engine.generate(requests)
    return sum(len(reply.token_ids or ()) for reply in replies) / (time.process_time() - begun)


def _mixed_share(folder: Path, names: list[str], rounds: int) -> float:
    """Speed of one PEFT forward pass over mixed adapters, relative to the same pass over one."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder / "base"), folder / "a", "a").eval()
    for name in ("b", "c", "d"):
        model.load_adapter(folder / name, name)
    ids = torch.arange(8).unsqueeze(-1)
    one: list[float] = []
    mixed: list[float] = []
    with torch.inference_mode():
        for _ in range(rounds * 8):
            one.append(_timed(lambda: model(input_ids=ids))[1])
            mixed.append(_timed(lambda: model(input_ids=ids, adapter_names=names))[1])
    return statistics.median(one) / statistics.median(mixed)


@dataclass(frozen=True, slots=True)
class SwapCost:
    p50: float
    """Median latency of requests in windows with one full swap each, over that in windows without."""
    p99: float
    load_ms: float
    first_token_s: float
    """From the start of loading to the end of the first reply of the new adapter."""


def swap_cost(*, windows: int = 12, window_s: float = 2.0, threads: int = 4) -> SwapCost:
    """Alternating windows: one swap (load, switch, unload) in each second one, generation going on throughout."""
    with tiny_engine() as (engine, folder):
        paths = [tiny_adapter(folder / str(seed), base=folder / "base", seed=seed) for seed in (1, 2)]
        engine.load_adapter("v0", paths[0])
        current, stop = ["v0"], threading.Event()
        seen: list[tuple[float, float]] = []

        def user(index: int) -> None:
            while not stop.is_set():
                try:
                    _, spent = _timed(lambda: engine.generate([ask(index, words=20, adapter=current[0])]))
                except Exception:
                    if not stop.is_set():
                        raise
                    return
                seen.append((time.monotonic(), spent))

        running = [threading.Thread(target=user, args=(index,)) for index in range(threads)]
        for thread in running:
            thread.start()
        time.sleep(1)
        calm: list[float] = []
        swapping: list[float] = []
        loads: list[float] = []
        firsts: list[float] = []
        for turn in range(windows):
            begun = time.monotonic()
            seen.clear()
            if turn % 2:
                old, new = current[0], f"v{turn}"
                _, spent = _timed(lambda new=new, turn=turn: engine.load_adapter(new, paths[turn // 2 % 2]))
                loads.append(spent * 1000)
                current[0] = new
                engine.generate([ask(99, words=4, max_tokens=14, adapter=new)])
                firsts.append(time.monotonic() - begun)
                time.sleep(0.3)  # requests that still name the old adapter are handed in by then
                engine.unload_adapter(old)
            time.sleep(max(0.0, window_s - (time.monotonic() - begun)))
            (swapping if turn % 2 else calm).extend(spent for _, spent in list(seen))
        stop.set()
        for thread in running:
            thread.join()
    return SwapCost(
        p50=_quantile(swapping, 0.5) / _quantile(calm, 0.5),
        p99=_quantile(swapping, 0.99) / _quantile(calm, 0.99),
        load_ms=statistics.median(loads),
        first_token_s=max(firsts),
    )


def memory_growth(cycles: int = 200) -> float:
    """Resident memory after so many load/generate/unload cycles, over that after the first twenty."""
    with tiny_engine() as (engine, folder):
        path = tiny_adapter(folder / "a", base=folder / "base")
        before = 0
        for cycle in range(20 + cycles):
            engine.load_adapter(f"v{cycle}", path, merged=cycle % 4 == 0)
            engine.generate([ask(0, words=4, max_tokens=14, adapter=f"v{cycle}")])
            engine.unload_adapter(f"v{cycle}")
            if cycle == 19:
                gc.collect()
                before = _resident()
        gc.collect()
        return _resident() / before


def manager_rows() -> list[Row]:
    """What the decision pipeline needs of the in-process model."""
    speed = batched_speedup()
    return [
        Row(
            "in process: batched over one at a time",
            speed.ratio,
            "×",
            ">= 3",
            speed.ratio >= 3,
            f"16 users, {speed.prompt_tokens} tokens",
        ),
        Row("…same tokens alone and in a batch", float(speed.same_tokens), "", "1", speed.same_tokens),
        Row("…invalid constrained replies", speed.invalid, "", "0", speed.invalid == 0),
    ]


def rows() -> list[Row]:
    """Everything above against its bar."""
    speed = batched_speedup()
    through = adapter_throughput()
    swap = swap_cost()
    growth = memory_growth()
    size = f"{through.parameters / 1e6:.0f}M parameters, batch 8"
    canary = f"PEFT's mixed batch: {through.canary_peft:.2f}"
    four = f"PEFT's mixed batch: {through.four_peft:.2f}"
    return [
        Row("batched over one at a time", speed.ratio, "×", ">= 3", speed.ratio >= 3, f"{speed.prompt_tokens} tokens"),
        Row("same tokens alone and in a batch", float(speed.same_tokens), "", "1", speed.same_tokens),
        Row("invalid constrained replies", speed.invalid, "", "0", speed.invalid == 0),
        Row("merged adapter over plain model", through.merged, "×", ">= 0.95", through.merged >= 0.95, size),
        Row("unmerged adapter over plain model", through.unmerged, "×", ">= 0.7", through.unmerged >= 0.7, size),
        Row("merged adapter with one canary row", through.canary, "×", "reported", True, canary),
        Row("four adapters, two rows each", through.four, "×", "reported", True, four),
        Row("p50 with swaps over without", swap.p50, "×", "<= 1.2", swap.p50 <= 1.2, f"load {swap.load_ms:.0f} ms"),
        Row("p99 with swaps over without", swap.p99, "×", "<= 2", swap.p99 <= 2),
        Row("load to first reply", swap.first_token_s, "s", "< 1", swap.first_token_s < 1),
        Row("memory after 200 cycles", growth, "×", "<= 1.02", growth <= 1.02),
    ]


def _in_threads(engine: Any, requests: list[GenRequest]) -> list[Any]:
    replies: dict[int, Any] = {}

    def user(index: int) -> None:
        replies[index] = engine.generate([requests[index]])[0]

    threads = [threading.Thread(target=user, args=(index,)) for index in range(len(requests))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [replies[index] for index in range(len(requests))]


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begun


def _quantile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])
