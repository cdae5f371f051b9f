"""What is promised whatever is handed in: replies, ids, poison, strings that make readers slow; and mem0 beside it. A
tenth of each count; `trust-release` tries the whole. Seeds as in `trust`."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.bench._peer import PeerMissing, run_peer
from tests.bench._table import Row
from tests.bench.trust import seed_of_run, tally_row
from tests.faults import _inputs, _poison
from tests.faults._tally import Tally
from tests.mutators import mutations

WHOLE = {"replies": 10_000, "ids": 6_000, "poison": 1_000}
RATIO = 2.0


def run(*, full: bool = False) -> list[Row]:
    share, seed = 1 if full else 10, seed_of_run()
    rows = [
        tally_row("poison, obedient model: what users said changed", lambda: poisoned(WHOLE["poison"] // share, seed)),
        tally_row(
            "malformed replies: turns lost, foreign", lambda: _inputs.malformed_replies(WHOLE["replies"] // share, seed)
        ),
        tally_row("hostile ids: rows of others, foreign", lambda: _inputs.hostile_ids(WHOLE["ids"] // share, seed)),
        *beside_mem0(seed),
    ]
    ratio, who = _inputs.slow_strings()
    return [
        *rows,
        Row("parsers: CPU per kB, 256 kB over 16 kB, worst", ratio, "x", f"<= {RATIO:g}", ratio <= RATIO, who),
    ]


def poisoned(count: int, seed: int) -> Tally:
    with tempfile.TemporaryDirectory() as folder:
        tally = _poison.attack(Path(folder) / "s", count, seed)
    if tally.counts["obeyed"] < tally.tried or not tally.counts["held"]:
        tally.broken.append("the model did not obey, or nothing was held: no attack was tried")
    return tally


def beside_mem0(seed: int) -> list[Row]:
    """The same kinds of replies, ids and canaries, as far as mem0 has such a case."""
    replies = [one.reply for one in mutations(1_000, seed) if one.shape.name == "mem0"]
    ids, canaries = [*_inputs.make_ids(50, random.Random(seed)), "*"], 100
    names = ("turns lost in silence", "foreign errors", "ids that read rows of others", "canaries left")
    try:
        request = {"replies": replies, "ids": ids, "canaries": canaries}
        told = run_peer(["mem0ai==2.2.1"], Path(__file__).with_name("_mem0_trust.py"), request)
    except PeerMissing as error:
        return [Row(f"mem0: {name}", None, "", "", False, str(error)[:120]) for name in names]
    counts = [told["replies"]["silent"], told["replies"]["foreign"], told["ids"], told["erased"]]
    of = [len(replies), len(replies), len(ids), canaries]
    return [
        Row(f"mem0: {name}", count, f"of {whole}", "", True)
        for name, count, whole in zip(names, counts, of, strict=True)
    ]
