"""What a memory without a model serves of what has changed, and with a perfect manager: FactConsolidation, RealMem and
HaluMem, beside the same turns stored raw, BM25 and mem0.

Set MEMKIT_REAL (the folder of these sets). Told as a stream, each question where the set asks it. HaluMem is measured
only: nothing is fitted to it. `--full` tells all of RealMem instead of one persona.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.bench import _real_rivals as rivals
from tests.bench import _real_sets as sets
from tests.bench._peer import PeerMissing
from tests.bench._real_talks import share
from tests.bench._real_updates import Seen, halumem, perfect
from tests.bench._table import Row
from tests.bench.real import EMBEDDERS, is_set, missing

SIZES = ("6k", "32k")
OURS, FACTS, BOTH = "default", "facts of a perfect manager", "these facts and turns"
Values = Mapping[str, tuple[float, str]]
"""What was measured → the value, and n."""
Bars = Mapping[str, tuple[int, float]]
"""What was measured → 1 for at least and -1 for at most, and the bar."""

OF_FACTS: Bars = {
    "never findable": (-1, 0),
    "gold first": (1, 88),
    "gold in the first five": (1, 99),
    "an overridden statement above the gold": (-1, 10),
}
OF_HALUMEM: Bars = {"new above old": (1, 95), "evidence@10": (1, 75), "old first": (-1, 4)}


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    if not is_set("MEMKIT_REAL", rows):
        return rows
    for size in SIZES:
        _beside(rows, f"FactConsolidation {size}", lambda told, size=size: _facts(told, size), OF_FACTS)
    most = None if full else 1
    found = _beside(rows, "RealMem", lambda told: _realmem(told, most), {}, ("minilm",))
    rows += _above_raw(found)
    rows += _perfect("RealMem", "minilm", lambda keep: _realmem_perfect(keep, most), found["raw, minilm"])
    found = _beside(rows, "HaluMem", lambda told: _seen(halumem(told)), OF_HALUMEM)
    rows += _perfect("HaluMem", "hash", lambda keep: _seen(perfect("hash", keep)), found["raw, hash"])
    return rows


def _beside(
    rows: list[Row],
    name: str,
    measure: Callable[[sets.Told], Values],
    bars: Bars,
    embedders: Sequence[str] = EMBEDDERS,
) -> dict[str, Values]:
    """The rivals, the turns stored raw, and the default, which is judged with MiniLM. System → what it found."""
    told = {rival: sets.Told(rival, infer=False) for rival in rivals.NAMES}
    for embedder in embedders:
        told |= {f"raw, {embedder}": sets.Told(embedder, infer=False), f"{OURS}, {embedder}": sets.Told(embedder)}
    out: dict[str, Values] = {}
    for system, how in told.items():
        try:
            out[system] = measure(how)
        except (PeerMissing, OSError) as error:
            rows.append(missing(f"{name}, {system}", error))
        else:
            rows += _rows(f"{name}, {system}", out[system], bars if system == f"{OURS}, minilm" else {})
    return out


def _rows(name: str, found: Values, bars: Bars) -> Iterator[Row]:
    for what, (value, note) in found.items():
        sign, bar = bars.get(what, (0, 0.0))
        text = f"{'>=' if sign > 0 else '<='} {bar:g}" if sign else ""
        yield Row(f"{name}: {what}", value, "%", text, sign * value >= sign * bar, note)


def _above_raw(found: Mapping[str, Values]) -> Iterator[Row]:
    ours, raw = found[f"{OURS}, minilm"], found["raw, minilm"]
    for what, (value, note) in ours.items():
        more = value - raw[what][0]
        yield Row(f"RealMem, {OURS}, minilm: {what}, more than raw", more, "points", ">= 4", more >= 4, note)


def _perfect(name: str, embedder: str, measure: Callable[[str], Values], turns: Values) -> Iterator[Row]:
    """Facts and turns together are to be no worse than each alone."""
    alone, both = measure("logged"), measure("all")
    for system, found in ((FACTS, alone), (BOTH, both)):
        yield from _rows(f"{name}, {system}, {embedder}", found, {})
    for what, (value, note) in both.items():
        sign = -1 if what == "old first" else 1
        more = min(sign * (value - one[what][0]) for one in (alone, turns))
        label = f"{name}, {embedder}: {what}, facts and turns over the better of them alone"
        yield Row(label, more, "points", ">= 0", more >= 0, note)


def _facts(told: sets.Told, size: str) -> Values:
    found = sets.facts(told, size)
    keys = ("never", "first", "five", "stale")
    return {
        what: (found[key], f"n={found['n']:.0f}" if key == "stale" else "n=100")
        for what, key in zip(OF_FACTS, keys, strict=True)
    }


def _realmem(told: sets.Told, most: int | None, points: sets.Points | None = None) -> Values:
    found = sets.realmem(told, most, points)
    note = f"n={found.n}"
    return {"evidence recall@10": (found.ten, note), "evidence recall@30": (found.thirty, note)}


def _realmem_perfect(keep_turns: str, most: int | None) -> Values:
    points = sets.Points()
    return _realmem(sets.perfectly("minilm", points, keep_turns), most, points)


def _seen(seen: Seen) -> Values:
    changes, asked = f"n={len(seen.above)}", f"n={len(seen.evidence)}"
    return {
        "new above old": (share(seen.above), changes),
        "evidence@10": (share(seen.evidence), asked),
        "old first": (share(seen.stale), changes),
    }
