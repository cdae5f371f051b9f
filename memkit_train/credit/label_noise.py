"""Which good labels to doubt: those of decisions whose like turned out badly.

One thumb in ten is wrong, and an answer can be right in spite of a decision. Where a habit is mostly bad, its few good
labels are mostly of these two kinds, and imitation would repeat them: of a retraction that is ignored nine times in
ten, the ignored one with a mistaken thumb looks just as good as the one that was heeded.

So every credited decision is described by marks (what it did to the memories, how near they were to what was said, and
the words of it), a regularised logistic model says from the labels of *other* users how often decisions with such marks
turn out well, and a good label is doubted where that is `LESS` times less likely than for decisions at large. With few
labels, or few alike, the model knows nothing beyond the average, and nothing is doubted.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memkit.models import Op

LESS = 3.0
"""By how much the odds of turning out well must be worse."""
PULL = 1.0
"""Of every weight towards zero."""
LEAST = 50
"""Cases that it takes to know anything."""
FOLDS, USERS, MOST = 5, 3, 300
"""A mark counts where it is seen with this many users; the most frequent ones are enough."""
LEVELS = 4
_WORD = re.compile(r"\w+")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CreditedDecision:
    """A credited decision."""

    decision_id: str
    user: str
    marks: frozenset[str]
    y: float
    weight: float


def marks(said: str, done: Sequence[Op], shown: Collection[str]) -> frozenset[str]:
    """What a decision was like: `said` is the fact that it was about, `shown` the memories that it saw."""
    words = frozenset(_WORD.findall(said.lower()))
    act = "+".join(sorted(_deed(op, words) for op in done)) or "nothing"
    near = max((_level(words, text) for text in shown), default=0)
    state = {f"near {near}", *(f"says {word}" for word in words)}
    return frozenset({act, *state, *(f"{act}, {one}" for one in state)})


def _deed(op: Op, words: frozenset[str]) -> str:
    """The action; where it rewrote or removed a memory, how much of that was spoken of, and whether words got lost that
    were not."""
    if op.before is None or op.action == "noop":
        return op.action
    before = frozenset(_WORD.findall(op.before.text.lower()))
    after = frozenset(_WORD.findall(op.after.text.lower())) if op.after else frozenset[str]()
    lost = " losing" if before - after - words else ""
    return f"{op.action}{_level(before, words)}{lost}"


def _level(words: Collection[str], text: str | Collection[str]) -> int:
    """How many of the words are in the text, in quarters."""
    known = set(_WORD.findall(text.lower())) if isinstance(text, str) else set(text)
    return int(LEVELS * len(known.intersection(words)) / len(words)) if words else 0


def find_doubtful(cases: Sequence[CreditedDecision]) -> set[str]:
    """Ids of the decisions whose good labels are better not imitated."""
    if len(cases) < LEAST:
        return set()
    places = {user: at % FOLDS for at, user in enumerate(sorted({one.user for one in cases}))}
    folds = np.array([places[one.user] for one in cases])
    table = _table(cases)
    y, weight = (np.array([getattr(one, name) for one in cases], dtype=np.float64) for name in ("y", "weight"))
    usual = np.average(y, weights=weight)
    if not 0.0 < usual < 1.0:
        return set()
    average = np.log(usual / (1 - usual))
    odds = np.full(len(cases), average)
    for fold in range(FOLDS):
        mine = folds == fold
        if mine.any() and not mine.all():
            odds[mine] = table[mine] @ _fit(table[~mine], y[~mine], weight[~mine])
    floor = average - np.log(LESS)
    return {one.decision_id for one, found in zip(cases, odds, strict=True) if one.y >= 0.5 and found < floor}


def _table(cases: Sequence[CreditedDecision]) -> Floats:
    """1 where a case has a mark; the last column is every case's."""
    users: Mapping[str, set[str]] = defaultdict(set)
    for one in cases:
        for mark in one.marks:
            users[mark].add(one.user)
    often = sorted((mark for mark, by in users.items() if len(by) >= USERS), key=lambda mark: (-len(users[mark]), mark))
    place = {mark: at for at, mark in enumerate(often[:MOST])}
    table = np.zeros((len(cases), len(place) + 1))
    table[:, -1] = 1.0
    for row, one in enumerate(cases):
        table[row, [place[mark] for mark in one.marks if mark in place]] = 1.0
    return table


def _fit(table: Floats, y: Floats, weight: Floats) -> Floats:
    """Newton's method; the average itself is not pulled."""
    pull = np.full(table.shape[1], PULL)
    pull[-1] = 1e-3
    found = np.zeros(table.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-np.clip(table @ found, -30, 30)))
        slope = table.T @ (weight * (p - y)) + pull * found
        curve = (table.T * (weight * p * (1 - p))) @ table + np.diag(pull)
        step = np.linalg.solve(curve, slope)
        found -= step
        if np.abs(step).max() < 1e-6:
            break
    return found
