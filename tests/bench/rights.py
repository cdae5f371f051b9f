"""Rights in spaces: 5,000 drawn histories of grants, revocations, promotions, forgets and erasures, 6 principals, 2
spaces, every verb; each call is compared with a model of the rules (`_rights_world`)."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path

from memkit import Memory
from tests.bench._rights_world import STEPS, StandingClock, World, draw_history
from tests.bench._table import Row

HISTORIES, LENGTH, BATCH = 5_000, 30, 50


def run(full: bool = False, runs: int = HISTORIES) -> list[Row]:
    counts, wrong = Counter[str](), list[str]()
    for start in range(0, runs, BATCH):
        with tempfile.TemporaryDirectory() as folder:
            clock = StandingClock()
            with Memory(Path(folder) / "s", clock=clock, config={"trace_sample": 0.0}) as memory:
                for number in range(start, min(start + BATCH, runs)):
                    world = World(memory, clock, f"h{number}", counts)
                    world.play(draw_history(random.Random(number), LENGTH))
                    wrong += world.wrong
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
    ]
