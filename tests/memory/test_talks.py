"""Law 11 on real talk: no default finds less than the conversation that it came from. `python -m tests.bench real` says
it of whole sets; here are four talks, without a model, with the embedder that is always there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench._real_rivals import BM25, told_to
from tests.bench._real_talks import Tally, talks, tally, told

FOUND = talks(str(Path(__file__).parents[1] / "data" / "talks"))


@pytest.fixture(scope="module")
def tallies() -> dict[str, Tally]:
    return {
        "default": tally(told("hash"), FOUND),
        "raw": tally(told("hash", infer=False), FOUND),
        "BM25": tally(told_to(BM25), FOUND),
    }


@pytest.mark.parametrize("control", ["raw", "BM25"])
def test_the_default_finds_no_less_than_the_words_themselves(tallies: dict[str, Tally], control: str) -> None:
    ours, theirs = tallies["default"], tallies[control]
    assert sum(ours.evidence) >= max(sum(theirs.evidence), 37), ours.misses
    assert sum(ours.gold) >= max(sum(theirs.gold), 35), ours.misses
    assert sum(ours.stale) <= sum(theirs.stale)


def test_a_block_is_memory_more_than_frame(tallies: dict[str, Tally]) -> None:
    shares = tallies["default"].memory
    assert sum(shares) / len(shares) >= 0.75
