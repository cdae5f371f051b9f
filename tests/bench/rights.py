"""Rights in spaces: 5,000 drawn histories of grants, revocations, promotions, forgets and erasures, 6 principals, 2
spaces, every verb and every plug; each call is compared with a model of the rules (`_rights_world`, `_rights_plugs`).
And the calls of the REST service."""

from __future__ import annotations

import logging
import random
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from memkit import Memory
from tests.bench._rights_plugs import PLUG_STEPS, Hosts, PluggedWorld
from tests.bench._rights_rest import call_by_rest
from tests.bench._rights_world import STEPS, StandingClock, draw_history
from tests.bench._table import Row

HISTORIES, LENGTH, BATCH = 5_000, 30, 25
BY_REST = 2_000
WORKERS = 4
"""Histories wait for the disk more than they compute."""
LANCEDB = 10
"""In one store of so many the projector works: an erasure that rewrites LanceDB's tables takes ten times as long."""
TRACELESS = {"trace_sample": 0.0}
JOURNAL_ALONE = TRACELESS | {"project_every": 1_000_000, "project_idle_s": 1_000_000.0}


def _play(part: tuple[int, int]) -> tuple[Counter[str], list[str]]:
    """Some histories, in a store of their own."""
    counts, wrong, clock = Counter[str](), list[str](), StandingClock()
    logging.getLogger("memkit").setLevel(logging.ERROR)  # a chat that goes on without memory says so
    config = JOURNAL_ALONE if part[0] // BATCH % LANCEDB else TRACELESS
    with tempfile.TemporaryDirectory() as folder, Memory(Path(folder) / "s", clock=clock, config=config) as memory:
        hosts = Hosts(memory)
        for number in range(*part):
            world = PluggedWorld(memory, clock, f"h{number}", counts, hosts=hosts)
            world.play(draw_history(random.Random(number), LENGTH, (*STEPS, *PLUG_STEPS)))
            world.close()
            wrong += world.wrong
        hosts.close()
    return counts, wrong


def run(full: bool = False, runs: int = HISTORIES) -> list[Row]:
    counts, wrong = Counter[str](), list[str]()
    parts = [(start, min(start + BATCH, runs)) for start in range(0, runs, BATCH)]
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        for counted, found in pool.map(_play, parts):
            counts += counted
            wrong += found
    with tempfile.TemporaryDirectory() as folder:
        by_rest, wrong_by_rest = call_by_rest(Path(folder) / "s", BY_REST, 1)
    verbs = {*STEPS, *PLUG_STEPS} - {"tick", "note", "erase"}  # which ask for no grant
    calls = counts["allowed"] + counts["refused"]
    used = {verb for verb in verbs if counts[verb]}
    return [
        Row("histories", runs, "", "", True),
        Row("calls through plugs", counts["by plug"], "", "> 30 %", counts["by plug"] > 0.3 * calls, f"of {calls}"),
        Row("calls that a grant allows", counts["allowed"], "", "> 0", counts["allowed"] > 0),
        Row("verbs and ways of plugs of which some are allowed", len(used), "", f"{len(verbs)}", used == verbs),
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
