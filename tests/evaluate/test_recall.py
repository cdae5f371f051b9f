"""The failure split adds up on a planted bank, and tags without content do not pass."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from memkit.models import MemoryRecord
from memkit_train.evaluate.recall import first_words, recall_at, supports, trace_evidence
from memkit_train.metrics.stats import difference_by_cluster, mean_by_cluster

TEXTS = {
    "t1": "I moved to Oslo last spring.",
    "t2": "We adopted a cat named Milo.",
    "t3": "I work as a nurse.",
    "t4": "My sister plays chess.",
}
OSLO = MemoryRecord("m1", "Ana lives in Oslo.", source_turns=("t1",))
CAT = MemoryRecord("m2", "Ana has a cat named Milo.", source_turns=("t2",))
NURSE = MemoryRecord("m3", "Ana works as a nurse.", source_turns=("t3",))


def test_planted_fates():
    split = trace_evidence(
        ["t1", "t2", "t3", "t4"], [OSLO, CAT, NURSE], [CAT, NURSE], TEXTS, cited={"m3"}, names=["Ana"]
    )
    assert split.not_in_memory == 0.25  # t4
    assert split.not_retrieved == 0.25  # t1
    assert split.recall == 0.5
    assert split.unused == 0.25  # t2: served, not cited
    assert split.reciprocal_rank == 1.0


def test_the_split_sums_to_the_recall_loss_whatever_the_bank():
    rng = random.Random(0)
    refs = [f"t{n}" for n in range(12)]
    texts = {ref: f"word{ref} says something" for ref in refs}
    for _ in range(200):
        bank = [
            MemoryRecord(f"m{n}", f"word{rng.choice(refs)}", source_turns=tuple(rng.sample(refs, rng.randint(0, 4))))
            for n in range(rng.randint(0, 8))
        ]
        served = rng.sample(bank, rng.randint(0, len(bank)))
        evidence = rng.sample(refs, rng.randint(1, 5))
        split = trace_evidence(evidence, bank, served, texts, cited=set())
        assert split.recall + split.not_in_memory + split.not_retrieved == pytest.approx(1.0)
        assert split.recall == pytest.approx(recall_at(evidence, served, len(served)))
        assert split.recall_content <= split.recall
        assert split.unused == pytest.approx(split.recall)


def test_copying_tags_without_content_is_caught():
    hoarder = MemoryRecord("m9", "Ana likes long walks.", source_turns=("t1", "t2", "t3", "t4"))
    split = trace_evidence(["t1", "t2", "t3"], [hoarder], [hoarder], TEXTS, names=["Ana"])
    assert split.recall == 1.0
    assert split.recall_content == 0.0
    assert split.kept_content == 0.0


@pytest.mark.parametrize(
    ("memory", "turn", "expected"),
    [
        ("Ana lives in Oslo.", "I just relocated to Oslo", True),
        ("Ana likes pizza.", "Ana moved to Oslo", False),  # only the name in common
        ("Ana adopted a dog.", "I am adopting dogs", True),
        ("", "anything", False),
    ],
)
def test_support_needs_common_content(memory, turn, expected):
    assert supports(memory, turn, ["Ana"]) is expected


def test_no_evidence_no_split():
    assert trace_evidence([], [OSLO], [OSLO], TEXTS) is None


def test_intervals_redraw_conversations():
    alike = {f"c{n}": [0.0, 1.0] for n in range(10)}
    apart = {f"c{n}": [float(n % 2)] * 2 for n in range(10)}
    assert mean_by_cluster(alike).low == mean_by_cluster(alike).high == 0.5
    spread = mean_by_cluster(apart)
    assert spread.low < 0.35 < 0.65 < spread.high
    assert spread.n == 20
    assert mean_by_cluster({"only": [0.0, 1.0]}).low == 0.0
    gain = difference_by_cluster({"a": [1.0], "b": [1.0]}, {"a": [0.0], "b": [0.5]})
    assert gain.value == 0.75


def test_a_budget_of_words_cuts_the_memory_that_is_too_long():
    ranked = [replace(OSLO, text="one two three"), replace(OSLO, text="four five")]
    assert [first_words(ranked, words) for words in (2, 4, 9)] == [
        "one two",
        "one two three four",
        "one two three four five",
    ]
