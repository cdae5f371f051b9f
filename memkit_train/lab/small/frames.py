"""What people say of one thing of theirs (`frames.txt`), with any values: a statement, its change, its end, a detail,
the same again, and what only looks alike. Each pair of a memory and a new fact has a known relation. Frames that are
held out are seen by nobody who trains.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memkit_train.lab.small.scenes import relation_row
from memkit_train.lab.small.statements import fact_of, kept_row, thing
from memkit_train.rows import ChoiceRow

_RELATIONS = {"new": "replaces", "same": "same", "more": "adds", "over": "ends", "not": "unrelated"}
_CHANCES = ((0.34, "new"), (0.44, "same"), (0.56, "more"), (0.68, "over"), (0.82, "not"))


@dataclass(slots=True)
class Frame:
    name: str
    kind: str
    ways: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def read_frames() -> Iterator[Frame]:
    frame: Frame | None = None
    for line in (Path(__file__).parent / "frames.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("=="):
            if frame is not None:
                yield frame
            name, kind = line.removeprefix("==").split(":")
            frame = Frame(name.strip(), kind.strip())
        elif frame is not None and ": " in line:
            what, ways = line.split(": ", 1)
            frame.ways[what] = [way.strip() for way in ways.split("|")]
    if frame is not None:
        yield frame


FRAMES = tuple(read_frames())
HELD_OUT = frozenset(range(4, len(FRAMES), 7))


def frame_rows(count: int, *, held_out: bool = False, seed: int = 0) -> list[ChoiceRow]:
    """`count` pairs, and now and then the statement as a clause that is worth keeping."""
    order = random.Random(f"{seed}/{held_out}")
    frames = [one for at, one in enumerate(FRAMES) if (at in HELD_OUT) == held_out]
    rows: list[ChoiceRow] = []
    for number in range(count):
        source = f"frames-{'held' if held_out else 'open'}-{number}"
        memory, said, label = _pair(order, frames)
        rows.append(relation_row(memory, fact_of(said), label, "en", source))
        if number % 6 == 0:
            rows.append(kept_row(said, source))
    return rows


def _pair(order: random.Random, frames: Sequence[Frame]) -> tuple[str, str, str]:
    frame = order.choice(frames)
    first, second = _different(order, frame.kind)
    memory = fact_of(_said(order, frame, "is", first, second))
    draw = order.random()
    what = next((what for chance, what in _CHANCES if draw < chance), "")
    if what:
        return memory, _said(order, frame, what, first, second), _RELATIONS[what]
    other = order.choice([one for one in frames if one is not frame])
    value = first if other.kind == frame.kind and order.random() < 0.5 else thing(order, other.kind)
    return (
        memory,
        _said(order, other, order.choice(("is", "is", "new", "more", "over")), value, thing(order, other.kind)),
        "unrelated",
    )


def _different(order: random.Random, kind: str) -> tuple[str, str]:
    first = second = thing(order, kind)
    while second == first:
        second = thing(order, kind)
    return first, second


def _said(order: random.Random, frame: Frame, what: str, value: str, other: str) -> str:
    text = order.choice(frame.ways[what]).format(v=value, w=other)
    noisy = order.random()
    return text.lower() if noisy < 0.15 else f"{text[0].upper()}{text[1:]}." if noisy < 0.5 else text
