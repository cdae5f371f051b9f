"""What is promised whatever the disk, the process and the hours do: a tenth of each count; `trust-release` tries the
whole, with `trust-input` and `trust-findings`. docs/promises.md tells the promises.

Seeds are printed, and a seed tries the same again (but for threads, and the ids that stores make of randomness)."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from tests.bench._store_faults import erasure, kills
from tests.bench._table import Row
from tests.faults import _copies, _histories, _inputs, _power
from tests.faults._disk import shim
from tests.faults._tally import Tally

WHOLE = {"power": 5_000, "kills": 800, "damaged": 5_000, "steps": 50_000, "random": 500, "copies": 50}


def run(*, full: bool = False) -> list[Row]:
    share, seed = 1 if full else 10, seed_of_run()
    return [
        tally_row("model-checked steps: wrong or lost", lambda: _histories.histories(WHOLE["steps"] // share, seed)),
        *erasure(),
        *on_a_disk(share, seed),
        *kills(WHOLE["random"] // share, seed),
        tally_row(
            "backups and exports under load: lacking, unhealthy", lambda: _copies.copies(WHOLE["copies"] // share, seed)
        ),
        tally_row(
            "damaged stores: silent, foreign or lost", lambda: _inputs.damaged_stores(WHOLE["damaged"] // share, seed)
        ),
    ]


def seed_of_run() -> int:
    return int(os.environ.get("FAULTS_SEED") or random.SystemRandom().randrange(2**32))


def on_a_disk(share: int, seed: int) -> list[Row]:
    if shim() is None:
        why = "needs Linux and a C compiler (cc)"
        return [Row(name, None, "", "0", False, why) for name in ("power cuts", "kill -9 at a call", "failing calls")]
    return [
        tally_row(
            "power cuts: acked lost, others lost, erased back", lambda: _power.cut_power(WHOLE["power"] // share, seed)
        ),
        _control(_power.cut_power(20, seed, flushes=False)),
        tally_row("kill -9 at a call: the same", lambda: _power.kill_at_calls(WHOLE["kills"] // share, seed)),
        tally_row("a call fails once: acked lost, foreign", lambda: _power.fail_calls(share, seed)),
    ]


def _control(tally: Tally) -> Row:
    seen = len(tally.broken)
    return Row("control, a disk that never flushes: broken promises seen", seen, "", ">= 1", seen >= 1, tally.note)


def tally_row(name: str, work: Callable[[], Tally]) -> Row:
    tally = work()
    ok = tally.tried > 0 and not tally.broken
    return Row(f"{name}, of {tally.tried}", len(tally.broken), "", "0", ok, tally.note)
