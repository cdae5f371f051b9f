"""Random banks for the laws of the scorer."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from memkit.models import MemoryRecord
from memkit.retrieval import DEFAULT, BankIndex, Query, RankerWeights, Scored, rank

NAMES = ("Ana", "Ben", "Chloé", "")
_TEXT = """
dog cat Buddy adopted painted sunrise yesterday went camping lake pottery class kids moved Berlin in May 2023 two three
running marathon job quit bought guitar? piano 我喜欢 猫 café naïve don't it's I my the a last week new old
"""
WORDS = _TEXT.split()
START = datetime(2023, 1, 3, 9, tzinfo=UTC)


def record(rng: random.Random, number: int, seq: int) -> MemoryRecord:
    return MemoryRecord(
        id=f"m_{number:04d}",
        text=" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 14))),
        kind=rng.choice(("episode", "episode", "fact")),
        at=None if rng.random() < 0.05 else START + timedelta(hours=rng.choice((0, 1, 30, 700)) + seq),
        speaker=rng.choice(NAMES),
        session_id=rng.choice(("", "", "s1", "s2")),
        origin=rng.choice(("user", "assistant")),
        seq=seq,
        trust=rng.choice((1.0, 0.5)),
        expires_at=START + timedelta(days=1) if rng.random() < 0.05 else None,
    )


def vector(rng: random.Random, dim: int = 16) -> NDArray[np.float32]:
    row = np.array([rng.gauss(0, 1) for _ in range(dim)], dtype=np.float32)
    return row / np.linalg.norm(row)


def question(rng: random.Random, dim: int = 16) -> Query:
    lead = rng.choice(
        ("When did Ana", "How many", "What does my", "", "who now", "in May 2023", "last week", "on 4 January")
    )
    return Query(
        text=f"{lead} {' '.join(rng.choice(WORDS) for _ in range(rng.randint(0, 6)))}",
        vector=vector(rng, dim),
        k=rng.choice((1, 5, 60)),
        now=START + timedelta(days=rng.randint(0, 40)),
    )


def bank(rng: random.Random, size: int) -> tuple[list[MemoryRecord], NDArray[np.float32]]:
    records = [record(rng, n, n + 1) for n in range(size)]
    vectors = np.array([vector(rng) for _ in range(size)], dtype=np.float32).reshape(size, 16)
    return records, vectors


def results(
    index: BankIndex, query: Query, weights: RankerWeights = DEFAULT
) -> list[tuple[str, float, dict[str, float]]]:
    return [(one.record.id, one.score, one.signals) for one in rank(index, query, weights)]


def grown(rng: random.Random, size: int) -> tuple[BankIndex, dict[str, tuple[MemoryRecord, NDArray[np.float32]]]]:
    """An index that went through `size` random deltas, and what it should hold."""
    held: dict[str, tuple[MemoryRecord, NDArray[np.float32]]] = {}
    index = BankIndex.build([], np.zeros((0, 16), np.float32))
    for seq in range(1, size + 1):
        changed, removed = [], []
        for _ in range(rng.randint(0, 2)):
            old = rng.choice(list(held)) if held and rng.random() < 0.4 else None
            fresh = (
                replace(record(rng, seq * 2 + len(changed), seq), id=old)
                if old
                else record(rng, seq * 2 + len(changed), seq)
            )
            changed.append((fresh, vector(rng)))
        if held and rng.random() < 0.2:
            removed.append(rng.choice(list(held)))
        index = index.with_changes(changed, removed)
        for gone in removed:
            held.pop(gone)
        held.update({one.id: (one, row) for one, row in changed})
    return index, held


def ids(found: list[Scored]) -> list[str]:
    return [one.record.id for one in found]
