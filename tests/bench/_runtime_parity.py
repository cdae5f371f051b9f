"""The same search twice: through the runtime (journal, projection, cache), and over a bank replayed in memory."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from memkit import Memory
from memkit.embedders.hash import HashEmbedder
from memkit.ops import BankState
from memkit.retrieval import BankIndex, Query, embed_text, rank
from tests.bench._table import Row

BANKS = 1_000
FOREIGN = 10_000
NOW = datetime(2024, 3, 1, tzinfo=UTC)
_TEXT = """
dog cat Buddy adopted painted sunrise yesterday went camping lake pottery class kids moved Berlin May 2023 two three
running marathon job quit bought guitar piano
"""
WORDS = _TEXT.split()


class Stopped:
    """A clock that stands still, so that both sides ask at the same time."""

    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def runtime_rows() -> Iterator[Row]:
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as folder, Memory(f"{folder}/m", clock=Stopped()) as memory:
        users = [f"user{n}" for n in range(BANKS)]
        different = sum(_differs(memory, user, rng) for user in users)
        name = "parity: banks whose runtime and replayed results differ in an id or score, of 1,000"
        yield Row(name, different, "", "= 0", different == 0)
        watched = users[:100]
        before = [_found(memory, user, "When did Ana paint the lake in May 2023?") for user in watched]
        for start in range(0, FOREIGN, 200):
            _add(memory, "stranger", rng, 200, start)
        after = [_found(memory, user, "When did Ana paint the lake in May 2023?") for user in watched]
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    yield Row(
        "isolation: runtime searches changed by another tenant's 10,000 rows, of 100", changed, "", "= 0", changed == 0
    )


def _differs(memory: Memory, user: str, rng: random.Random) -> bool:
    """Adds with searches in between, so that the warm bank moves by deltas; then once more against the replay."""
    for part in range(rng.randint(1, 3)):
        _add(memory, user, rng, rng.randint(1, 6), part)
        _found(memory, user, "warm")
    if rng.random() < 0.3:
        memory.delete(rng.choice(memory.list(user_id=user)).id, user_id=user)
    asked = " ".join(["When did Ana", *(rng.choice(WORDS) for _ in range(3))])
    return _found(memory, user, asked) != _replayed(memory, user, asked)


def _add(memory: Memory, user: str, rng: random.Random, count: int, part: int) -> None:
    said = [
        {
            "role": "user",
            "name": rng.choice(("Ana", "Ben")),
            "content": " ".join(rng.choices(WORDS, k=rng.randint(2, 10))),
        }
        for _ in range(count)
    ]
    memory.add(said, user_id=user, at=NOW - timedelta(days=rng.randint(1, 400) - part % 2), infer=False)


def _found(memory: Memory, user: str, text: str) -> list[tuple[str, float]]:
    return [(hit.memory.id, hit.score) for hit in memory.search(text, user_id=user, k=10)]


def _replayed(memory: Memory, user: str, text: str) -> list[tuple[str, float]]:
    records = list(BankState().fold(memory.history(user_id=user)))
    embedder = HashEmbedder()
    index = BankIndex.build(records, embedder.embed([embed_text(record) for record in records]))
    query = Query(text, embedder.embed([text])[0], k=10, now=NOW)
    return [(one.record.id, one.score) for one in rank(index, query)]
