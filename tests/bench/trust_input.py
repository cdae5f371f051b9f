"""What is promised whatever is handed in: replies, ids, poison, strings that make readers slow; and peers beside it. A
tenth of each count; `trust-release` tries the whole. Seeds as in `trust`."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bench._peer import PeerMissing, run_peer
from tests.bench._table import Row
from tests.bench.trust import seed_of_run, tally_row
from tests.faults import _inputs, _poison
from tests.faults._tally import Tally
from tests.mutators import mutations

WHOLE = {"replies": 10_000, "ids": 6_000, "poison": 1_000}
RATIO = 2.0
PEERS = {
    "mem0": (["mem0ai==2.2.1"], "_mem0_trust.py"),
    "langgraph": (["langgraph-checkpoint-sqlite==3.1.2"], "_langgraph_trust.py"),
}


def run(*, full: bool = False) -> list[Row]:
    share, seed = 1 if full else 10, seed_of_run()
    rows = [
        tally_row("poison, obedient model: what users said changed", lambda: poisoned(WHOLE["poison"] // share, seed)),
        tally_row(
            "malformed replies: turns lost, foreign", lambda: _inputs.malformed_replies(WHOLE["replies"] // share, seed)
        ),
        tally_row("hostile ids: rows of others, foreign", lambda: _inputs.hostile_ids(WHOLE["ids"] // share, seed)),
        *beside_peers(seed),
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


def beside_peers(seed: int) -> list[Row]:
    """The same kinds of replies, ids and canaries, as far as a peer has such a case."""
    replies = [one.reply for one in mutations(1_000, seed) if one.shape.name == "mem0"]
    ids, canaries = [*_inputs.make_ids(50, random.Random(seed)), "*"], 100
    request = {"replies": replies, "ids": ids, "canaries": canaries}
    of = {
        "turns lost in silence": len(replies),
        "foreign errors": len(replies),
        "ids that read rows of others": len(ids),
        "canaries left": canaries,
    }
    return [row for peer, (packages, script) in PEERS.items() for row in _beside(peer, packages, script, request, of)]


def _beside(peer: str, packages: list[str], script: str, request: dict[str, Any], of: Mapping[str, int]) -> list[Row]:
    try:
        told = run_peer(packages, Path(__file__).with_name(script), request)
    except PeerMissing as error:
        return [Row(f"{peer}: {name}", None, "", "", False, str(error)[:120]) for name in of]
    return [Row(f"{peer}: {name}", count, f"of {of[name]}", "", True) for name, count in told.items()]
