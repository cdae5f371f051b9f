"""The learned ranker: it learns from citations, some of them wrong; the gate lets only real gains through."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from memkit.errors import InvalidConfig
from memkit.retrieval import DEFAULT, RANKINGS, SIGNALS, BankIndex, RankerWeights, features, rank
from memkit_train.ranker.fit import RankExample, fit_ranker, gate_ranker, order_rows, recall_at
from tests.bench._citations import cited, judged, talk
from tests.retrieval._banks import bank, question


def test_learning_from_citations_helps_unseen_users_and_shuffled_ones_are_refused() -> None:
    seed, rng = 0, random.Random(0)
    talks = [talk(f"user{n}", rng) for n in range(14)]
    heldout = [example for one in talks[8:] for example in judged(one)]
    fit = fit_ranker([e for one in talks[:8] for e in cited(one, rng)], seed)
    passed = gate_ranker(fit.weights, DEFAULT, heldout, seed)
    assert passed.passed, passed.reason
    assert passed.report["gain"] > 0.05
    shuffled = fit_ranker([e for one in talks[:8] for e in cited(one, rng, shuffled=True)], seed)
    assert not shuffled.report["learned"]
    assert not gate_ranker(shuffled.weights, DEFAULT, heldout, seed).passed
    assert not gate_ranker(DEFAULT, DEFAULT, heldout, seed).passed


def test_the_fit_is_deterministic_and_says_how_it_did() -> None:
    rng = random.Random(3)
    examples = [e for n in range(6) for e in cited(talk(f"u{n}", rng), rng)]
    one, two = fit_ranker(examples, 7), fit_ranker(examples, 7)
    assert one.weights == two.weights
    assert one.report["users"] == 6
    assert one.report["cv_recall@10"] > one.report["prior_recall@10"]


def test_little_evidence_is_refused_and_unanimous_questions_teach_nothing() -> None:
    table = np.zeros((3, len(SIGNALS)))
    everything = RankExample("u", table, np.ones(3, dtype=bool))
    with pytest.raises(ValueError, match="both cited and uncited"):
        fit_ranker([everything] * 100)
    assert not gate_ranker(DEFAULT, DEFAULT, [everything] * 100).passed
    with pytest.raises(ValueError, match="do not fit"):
        RankExample("u", np.zeros((3, 2)), np.ones(3, dtype=bool))


def test_recall_counts_the_best_k_and_ties_go_to_the_earlier() -> None:
    table = np.zeros((30, len(SIGNALS)))
    relevant = np.zeros(30, dtype=bool)
    relevant[[0, 29]] = True
    assert recall_at(DEFAULT, RankExample("u", table, relevant)) == 0.5


def test_a_fit_orders_rows_as_reads_do_and_pulls_both_halves_of_its_prior() -> None:
    rng = random.Random(4)
    records, vectors = bank(rng, 60)
    index, query = BankIndex.build(records, vectors), replace(question(rng), k=60, now=None)
    ranked = [one.record.id for one in rank(index, query, DEFAULT)]
    order = order_rows(DEFAULT, features(index, query))
    assert [records[at].id for at in order.tolist()] == ranked
    fit = fit_ranker([e for n in range(6) for e in cited(talk(f"u{n}", rng), rng)])
    assert fit.weights.behind
    assert fit.weights.behind != fit.weights.values


def test_weights_that_were_made_for_the_first_signals_are_read_as_they_were() -> None:
    first = RANKINGS[1][0]
    raw = first.to_json()
    assert (raw["signals"], raw["digest"][:12]) == ("signals/1", "c74f018e9157")
    assert RankerWeights.from_json(raw) == first


def test_weights_go_to_json_and_back_and_damage_is_noticed(tmp_path: Path) -> None:
    weights = RankerWeights.of("mine", {"words": 0.5, "meaning": -0.25, "trust": 0.0}, note="by hand")
    weights.save(tmp_path / "w.json")
    loaded = RankerWeights.load(tmp_path / "w.json")
    assert loaded == weights
    assert loaded.digest == weights.digest != DEFAULT.digest
    assert weights.values == (("words", 0.5), ("meaning", -0.25))
    two = RankerWeights.of("mine", {"words": 0.5, "meaning": -0.25}, behind={"session": 1.0}, first=7)
    assert RankerWeights.from_json(two.to_json()) == two
    assert len({one.digest for one in (weights, two, replace(two, first=3))}) == 3
    good = weights.to_json()
    for change in (
        {"format": "x"},
        {"signals": "signals/0"},
        {"values": {"words": "1"}},
        {"values": {"wordz": 1.0}},
        {"values": {"words": float("nan")}},
        {"values": {"words": 0.6}},
        {"values": 3},
        {"behind": 3},
        {"behind": {"words": 0.6}},
        {**two.to_json(), "first": 0},
        {**two.to_json(), "first": 3},
    ):
        with pytest.raises(InvalidConfig):
            RankerWeights.from_json({**good, **change})
    for text in ("", "[]", "{", json.dumps({**good, "digest": "0"})):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InvalidConfig):
            RankerWeights.load(tmp_path / "bad.json")
    with pytest.raises(InvalidConfig):
        RankerWeights.load(tmp_path / "missing.json")
