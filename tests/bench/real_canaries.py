"""500 canaries, each told by a user of its own and ended in one of nine ways, without a model and with one: what any
read serves of them afterwards, and what of the erased ones is left on disk. Some are not ended: each kind of read must
serve those. `--full` tells 2,000."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench._table import Row
from tests.canaries import WAYS, Outcome, outcome


def run(*, full: bool = False) -> list[Row]:
    kinds = [(way, rules) for way in WAYS for rules in (True, False) if rules or way != "forget by message"]
    each = -(-(2_000 if full else 500) // len(kinds))
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for place, (way, rules) in enumerate(kinds):
            found.append(outcome(Path(folder) / str(place), way, each, rules=rules))
    rows = [_leaks(way, [one for one in found if one.way == way]) for way in WAYS]
    blind = {f"{one.way}: {read}" for one in found for read in one.blind}
    erased = [one for one in found if one.way.startswith("erase")]
    on_disk, of = sum(one.on_disk for one in erased), sum(one.canaries for one in erased)
    rows.append(Row(f"erased canaries left on disk, of {of}", on_disk, "", "0", on_disk == 0))
    rows.append(
        Row("reads that serve no canary that was kept", len(blind), "", "0", not blind, "; ".join(sorted(blind)))
    )
    return rows


def _leaks(way: str, found: list[Outcome]) -> Row:
    words = {(one.rules, word) for one in found for words in one.leaks.values() for word in words}
    reads = sorted({read for one in found for read in one.leaks})
    of = sum(one.canaries for one in found)
    return Row(f"served after {way}, of {of}", len(words), "", "0", not words, ", ".join(reads))
