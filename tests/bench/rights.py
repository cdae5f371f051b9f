"""Rights in spaces: 5,000 drawn histories of grants, revocations, promotions, forgets and erasures, 6 principals, 2
spaces, every verb; each call is compared with a model of the rules (`_rights_world`). And the calls of the REST
service."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

from memkit import Memory
from tests.bench._rights_rest import call_by_rest
from tests.bench._rights_world import STEPS, StandingClock, World, draw_history
from tests.bench._table import Row

HISTORIES, LENGTH, BATCH = 5_000, 30, 25
BY_REST = 2_000
LANCEDB = 10
"""In one store of so many the projector works: an erasure that rewrites LanceDB's tables takes ten times as long."""
TRACELESS = {"trace_sample": 0.0}
JOURNAL_ALONE = TRACELESS | {"project_every": 1_000_000, "project_idle_s": 1_000_000.0}


def run(full: bool = False, runs: int = HISTORIES) -> list[Row]:
    counts, wrong = Counter[str](), list[str]()
    for start in range(0, runs, BATCH):
        with tempfile.TemporaryDirectory() as folder:
            clock, config = StandingClock(), JOURNAL_ALONE if start // BATCH % LANCEDB else TRACELESS
            with Memory(Path(folder) / "s", clock=clock, config=config) as memory:
                for number in range(start, min(start + BATCH, runs)):
                    world = World(memory, clock, f"h{number}", counts)
                    world.play(draw_history(random.Random(number), LENGTH))
                    wrong += world.wrong
    with tempfile.TemporaryDirectory() as folder:
        by_rest, wrong_by_rest = call_by_rest(Path(folder) / "s", BY_REST, 1)
    verbs = set(STEPS) - {"tick", "note", "erase"}  # which ask for no grant
    used = {verb for verb in verbs if counts[verb]}
    return [
        Row("histories", runs, "", "", True),
        Row("calls that a grant allows", counts["allowed"], "", "> 0", counts["allowed"] > 0),
        Row("verbs of which some are allowed", len(used), "", f"{len(verbs)}", used == verbs),
        Row("calls that are refused", counts["refused"], "", "> 0", counts["refused"] > 0),
        Row(
            "calls and contents that the rules do not allow, or lack",
            len(wrong),
            "",
            "0",
            not wrong,
            "; ".join(wrong[:3]),
        ),
        Row(
            "calls over REST that are answered against the rules",
            len(wrong_by_rest),
            "",
            "0",
            not wrong_by_rest and min(by_rest["allowed"], by_rest["refused"]) > 0,
            f"{by_rest['allowed']} allowed, {by_rest['refused']} refused; {'; '.join(wrong_by_rest[:3])}",
        ),
    ]
