"""Rows of `offline` about the data: what is read from a log is what was decided, fast enough, and credit finds the
decisions that earned it. Also a command of its own: `python -m tests.bench._offline_data [--full]`."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from memkit.journal import DecisionRecord, Journal
from memkit.models import Bank, digest, to_json
from memkit.runtime.sealer import Sealer
from memkit.seams.clock import RandomIds, SystemClock
from memkit.store import SEALED, Trajectories
from memkit_train.credit.inspect import inspect
from memkit_train.credit.rows import rows
from memkit_train.lab.worlds import Knobs, generate
from memkit_train.log import StoreSource
from tests.bench._replayed import Report, replay
from tests.bench._table import Row, as_text
from tests.trajectories._logs import Judge, talk

SEEDS = (31, 32, 33)
"""Of worlds that nothing was fitted on."""
_PROMPT, _REPLY = 220, 14
"""Tokens of a synthetic decision: those of the tiny model's manager."""


def run(full: bool = False) -> list[Row]:
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        found += _credit(Path(folder), 60 if full else 40)
        found += _speed(Path(folder), 1_000_000 if full else 60_000)
    return found


def _credit(folder: Path, users: int) -> list[Row]:
    """30 % of the answers rated, one rating in ten wrong; a manager with bad habits; credit judged by the oracle."""
    by_seed: list[tuple[float, float]] = []
    credits = blames = 0
    notes: list[str] = []
    again = Report()
    for seed in SEEDS:
        episodes = generate(users, seed=seed, knobs=Knobs(), split="heldout")
        path = folder / f"log{seed}"
        right = talk(path, episodes, seed=seed)
        with StoreSource(path) as source:
            checked = inspect(source, truth=Judge()).checked
        credits, blames = credits + checked["credit"][1], blames + checked["blame"][1]
        by_seed.append((_ratio(checked["credit"]), _ratio(checked["blame"])))
        notes.append(f"{right:.2f}")
        if seed == SEEDS[0]:
            with StoreSource(path) as source:
                again = replay(source)
    credit, blame = ([one[place] for one in by_seed] for place in (0, 1))
    answered = f"answers right {', '.join(notes)}; {len(SEEDS)} seeds, {users} users each"
    same = again.decisions > 0 and not again.different and not again.other_prompts
    return [
        Row(
            "journal → replay: decisions with other ops or prompts",
            float(again.different + again.other_prompts),
            "",
            "0",
            same,
            f"{again.decisions} sealed decisions of {users} users",
        ),
        _precision("credit: precision", credit, 0.9, f"{credits} credits; {answered}"),
        _precision("blame: precision", blame, 0.65, f"{blames} blames"),
    ]


def _speed(folder: Path, count: int) -> list[Row]:
    """Sealed records against the same in a file of JSON lines, rows made of them, and what that takes of memory."""
    journal = Journal.open(folder / "big", clock=SystemClock(), ids=RandomIds())
    table = Trajectories(folder / "big" / SEALED, lock=journal.lance_lock)
    sealer = Sealer(journal, lambda: table)
    for start in range(0, count, 5_000):
        journal.record(*[_decision(n) for n in range(start, min(count, start + 5_000))])
        sealer.seal(force=True)
    table.maintain(force=True)
    journal.close()
    with StoreSource(folder / "big") as source:
        raw = folder / "raw.jsonl"
        with raw.open("w", encoding="utf-8") as file:
            file.writelines(to_json(_decision(n).payload) + "\n" for n in range(count))
        speeds = [(_timed(_file(raw)), _timed(_sealed(source))) for _ in range(3)]
        share = median(file / sealed for file, sealed in speeds)
        sealed = count / median(one for _, one in speeds)
        made = [_timed(rows(source.decisions(), source.subject, now=SystemClock().now())) for _ in range(3)]
        grown = _growth(rows(source.decisions(), source.subject, now=SystemClock().now()), count)
    speed = count / median(made)
    return [
        Row("sealed records ÷ raw JSON lines", share, "×", "≥ 0.4", share >= 0.4, f"{sealed:,.0f} records per CPU-s"),
        Row(
            "decisions into rows, stored ids",
            speed,
            "/CPU-s",
            "≥ 50,000",
            speed >= 50_000,
            f"{count:,} decisions, {_PROMPT}+{_REPLY} tokens",
        ),
        Row(
            "memory grown while reading",
            grown,
            "MiB",
            "≤ 50",
            grown <= 50,
            f"after the first tenth of {count:,} decisions",
        ),
    ]


def _decision(number: int) -> DecisionRecord:
    prompt = to_json([["user", f"NEW fact: Ana has {number % 997} dogs."]])
    ids = [(number * 31 + place * 7) % 1_500 for place in range(_PROMPT)]
    logprobs = [-((number + place) % 1_000) / 997 for place in range(_REPLY)]
    payload = {
        "v": 1,
        "role": "manager",
        "prompt_ids": ids,
        "token_ids": ids[:_REPLY],
        "logprobs": logprobs,
        "sampled_logprobs": logprobs,
        "reply": f"UPDATE 1 Ana has {number} dogs.",
        "prompt_hash": digest(prompt),
        "model": "tiny",
        "parse": {"ok": True},
        "candidates": [
            {"handle": n, "id": f"m_{number}_{n}", "revision": 1, "score": 0.5, "signals": {"words": 0.2}}
            for n in range(5)
        ],
    }
    bank = Bank(f"user{number % 1_000}")
    return DecisionRecord(
        f"d_{number}", None, bank, "manager", number, payload, SystemClock().now(), {digest(prompt): prompt}
    )


def _file(path: Path) -> Iterator[object]:
    """The records as JSON lines: the fastest plain thing that one could have kept instead."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _sealed(source: StoreSource) -> Iterator[object]:
    """The same records from LanceDB: every field read, token ids and log-probs included."""
    for one in source.decisions():
        yield one.payload, one.prompt_ids, one.token_ids, one.logprobs


def _timed(items: Iterator[object]) -> float:
    started = time.process_time()
    for _ in items:
        pass
    return time.process_time() - started


def _growth(items: Iterator[object], count: int) -> float:
    """MiB held at the most over the last nine tenths of a read, above what the first tenth left: a high-water mark of
    the process would hide it behind the building of the table."""
    base = most = 0.0
    for number, _ in enumerate(items):
        if number == count // 10:
            base = most = _rss()
        elif base and number % 2_000 == 0:
            most = max(most, _rss())
    return most - base


def _rss() -> float:
    """Of this moment, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _ratio(found: tuple[int, int]) -> float:
    return found[0] / found[1]


def _precision(name: str, values: list[float], bar: float, note: str) -> Row:
    low, mean, high = min(values), sum(values) / len(values), max(values)
    return Row(name, mean, "", f"≥ {bar:g}", mean >= bar, f"by seed {low:.3f}–{high:.3f}; {note}")


if __name__ == "__main__":
    table = run("--full" in sys.argv)
    print(as_text(table))
    sys.exit(0 if all(row.ok for row in table) else 1)
