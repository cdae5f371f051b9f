"""What people say of one thing, and what they say later (`changes.txt`): nothing in it is filled in, so that no two
pairs share a pattern. Each memory is held against all that may come later, and against what was said of other things.
Blocks that are held out are seen by nobody who trains.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memkit_train.lab.small.scenes import relation_row
from memkit_train.lab.small.statements import fact_of, kept_row
from memkit_train.rows import ChoiceRow

_SIGNS = {">": "replaces", "=": "same", "+": "adds", "x": "ends", "-": "unrelated"}
_OTHERS = 6
"""Pairs of each kind of unrelated talk, for a block."""


@dataclass(slots=True)
class ChangingFact:
    language: str
    said: list[str]
    later: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def read_changes() -> Iterator[ChangingFact]:
    language, change = "", None
    for line in (Path(__file__).parent / "changes.txt").read_text(encoding="utf-8").splitlines():
        sign, _, rest = line.partition(" ")
        if sign == "===":
            language = rest
        elif sign in _SIGNS and change is not None:
            change.later[_SIGNS[sign]] = _ways(rest)
        elif line and not line.startswith("#"):
            change = ChangingFact(language, _ways(line))
            yield change


def _ways(line: str) -> list[str]:
    return [way.strip() for way in line.split(" | ") if way.strip()]


CHANGES = tuple(read_changes())
HELD_OUT = frozenset(range(5, len(CHANGES), 6))


def change_rows(*, held_out: bool = False, seed: int = 0) -> list[ChoiceRow]:
    """All pairs of each block, some with other blocks, and what was said as clauses that are worth keeping."""
    order = random.Random(f"{seed}/{held_out}")
    blocks = [one for at, one in enumerate(CHANGES) if (at in HELD_OUT) == held_out]
    rows: list[ChoiceRow] = []
    for number, block in enumerate(blocks):
        source = f"changes-{'held' if held_out else 'open'}-{number}"
        others = [one for one in blocks if one.language == block.language and one is not block]
        for memory, said, label in _pairs(block, others, order):
            rows.append(relation_row(fact_of(memory), fact_of(said), label, block.language, source))
        rows += [kept_row(one, source) for one in block.said]
    return rows


def _pairs(block: ChangingFact, others: Sequence[ChangingFact], order: random.Random) -> Iterator[tuple[str, str, str]]:
    again, alike = block.later["same"], block.later["unrelated"]
    for memory in [*block.said, *again]:
        for label, ways in block.later.items():
            yield from ((memory, said, label) for said in ways if said != memory)
    yield from ((one, other, "same") for one in block.said for other in block.said if other is not one)
    yield from ((memory, said, "ends") for memory in block.later["replaces"] for said in block.later["ends"])
    later = [said for label, ways in block.later.items() for said in ways if label != "unrelated"]
    yield from ((order.choice(alike), order.choice(later), "unrelated") for _ in range(_OTHERS))
    for _ in range(_OTHERS if others else 0):
        said = [one for ways in order.choice(others).later.values() for one in ways]
        yield order.choice(block.said), order.choice(said), "unrelated"
