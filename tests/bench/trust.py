"""What is promised, tried: a tenth of each count; `trust-release` tries the whole. docs/promises.md tells the promises.

Seeds are printed, and a seed tries the same again (but for threads, and the ids that stores make of randomness)."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench._table import Row
from tests.faults import _inputs, _poison, _power
from tests.faults._disk import shim
from tests.faults._tally import Tally

WHOLE = {"power": 5_000, "kills": 800, "damaged": 5_000, "replies": 10_000, "ids": 6_000, "poison": 1_000}
RATIO = 2.0


def run(*, full: bool = False) -> list[Row]:
    share = 1 if full else 10
    seed = int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))
    rows = on_a_disk(share, seed)
    rows += [
        _row(
            "damaged stores: silent, foreign or lost", lambda: _inputs.damaged_stores(WHOLE["damaged"] // share, seed)
        ),
        _row(
            "malformed replies: turns lost, foreign", lambda: _inputs.malformed_replies(WHOLE["replies"] // share, seed)
        ),
        _row("hostile ids: rows of others, foreign", lambda: _inputs.hostile_ids(WHOLE["ids"] // share, seed)),
        _row("poison, obedient model: what users said changed", lambda: poisoned(WHOLE["poison"] // share, seed)),
    ]
    ratio, who = _inputs.slow_strings()
    return [
        *rows,
        Row("parsers: CPU per kB, 256 kB over 16 kB, worst", ratio, "x", f"<= {RATIO:g}", ratio <= RATIO, who),
    ]


def on_a_disk(share: int, seed: int) -> list[Row]:
    if shim() is None:
        why = "needs Linux and a C compiler (cc)"
        return [Row(name, None, "", "0", False, why) for name in ("power cuts", "kill -9 at a call", "failing calls")]
    return [
        _row(
            "power cuts: acked lost, others lost, erased back", lambda: _power.cut_power(WHOLE["power"] // share, seed)
        ),
        _control(_power.cut_power(20, seed, flushes=False)),
        _row("kill -9 at a call: the same", lambda: _power.kill_at_calls(WHOLE["kills"] // share, seed)),
        _row("a call fails once: acked lost, foreign", lambda: _power.fail_calls(share, seed)),
    ]


def poisoned(count: int, seed: int) -> Tally:
    with tempfile.TemporaryDirectory() as folder:
        tally = _poison.attack(Path(folder) / "s", count, seed)
    if tally.counts["obeyed"] < tally.tried or not tally.counts["held"]:
        tally.broken.append("the model did not obey, or nothing was held: no attack was tried")
    return tally


def _control(tally: Tally) -> Row:
    seen = len(tally.broken)
    return Row("control, a disk that never flushes: broken promises seen", seen, "", ">= 1", seen >= 1, tally.note)


def _row(name: str, work: Callable[[], Tally]) -> Row:
    tally = work()
    ok = tally.tried > 0 and not tally.broken
    return Row(f"{name}, of {tally.tried}", len(tally.broken), "", "0", ok, tally.note)
