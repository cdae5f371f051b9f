"""A whole evaluation: baselines in one table, cached, resumable, reported."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from memkit.errors import InvalidConfig
from memkit_train.evaluate import EvalConfig, Report, evaluate, summarise
from memkit_train.evaluate.command import app
from memkit_train.evaluate.html import page
from memkit_train.evaluate.runner import JudgeConfig, _Run

SYSTEMS = ("oracle", "teacher", "add-only", "full", "raw", "rules", "none")
DATA = "world:closed,count=3,sessions=4"


@pytest.fixture(scope="module")
def report():
    return evaluate(EvalConfig(DATA, systems=SYSTEMS))


def test_every_system_answers_every_question(report):
    overall = summarise(report)["overall"]
    assert list(overall) == list(SYSTEMS)
    assert len({scores["right"]["n"] for scores in overall.values()}) == 1
    assert overall["oracle"]["right"]["value"] > 0.95
    assert overall["none"]["evidence_not_in_memory"]["value"] == 1.0
    assert overall["full"]["evidence_recall"]["value"] == 1.0


def test_the_split_adds_up_in_every_row(report):
    for row in report.rows:
        scores = row["scores"]
        if "evidence_recall" in scores:
            total = scores["evidence_recall"] + scores["evidence_not_in_memory"] + scores["evidence_not_retrieved"]
            assert total == pytest.approx(1.0, abs=1e-5)


def test_bank_figures_are_exact_where_the_truth_is_known(report):
    banks = {bank["system"]: bank for bank in report.banks}
    assert banks["oracle"]["junk"] == banks["oracle"]["stale"] == banks["oracle"]["duplicates"] == 0.0
    assert banks["oracle"]["true_kept"] == 1.0
    assert banks["add-only"]["ops_update"] == 0.0
    assert banks["none"]["memories"] == 0.0


def test_a_report_survives_json_and_stands_alone(report):
    again = Report.from_json(json.loads(json.dumps(report.to_json())))
    assert summarise(again) == summarise(report)
    text = page(again)
    assert text.startswith("<!doctype html>")
    assert "http" not in text
    assert "<script" not in text
    assert 'name="viewport"' in text
    assert text.count("<svg") == 3


def test_finished_pairs_come_from_the_cache(tmp_path):
    config = EvalConfig(DATA, systems=("oracle", "raw"), cache=str(tmp_path))
    first = evaluate(config)
    assert first.made["cached"] == 0
    (tmp_path / next(tmp_path.iterdir()).name).unlink()  # as if interrupted before the last pair
    seen = []
    second = evaluate(config, progress=seen.append)
    assert second.made["cached"] == 5
    assert second.rows == first.rows
    assert (seen[0].total, seen[-1].done) == (6, 6)
    assert evaluate(EvalConfig(DATA, systems=("oracle",), cache=str(tmp_path), k=3)).made["cached"] == 0


TURN = {"content": "I moved to Oslo.", "id": "t1", "session": "s1", "role": "user", "at": "2024-05-01T09:00:00+00:00"}
QUESTION = {"question": "Where?", "answer": "Oslo", "id": "q1", "category": "city", "stale": ["Rome"]}


def written(path, turn, question):
    path.write_text(json.dumps(turn) + "\n" + json.dumps(question), encoding="utf-8")
    return f"jsonl:{path}"


@pytest.mark.parametrize(
    ("turn", "question"),
    [
        ({"session": "s2"}, {}), ({"role": "assistant"}, {}), ({}, {"as_of": "2024-06-01T00:00:00+00:00"}),
        ({}, {"at": "2024-06-01T00:00:00+00:00"}), ({}, {"after": "s1"}), ({}, {"category": "place"}),
        ({}, {"stale": ["Paris"]}),
    ],
)  # fmt: skip
def test_edited_data_is_measured_again(tmp_path, turn, question):
    def cached(*edits):
        data = written(tmp_path / "c.jsonl", *edits)
        return evaluate(EvalConfig(data, systems=("raw",), cache=str(tmp_path / "cache"))).made["cached"]

    assert cached(TURN, QUESTION) == 0
    assert cached(TURN, QUESTION) == 1
    assert cached(TURN | turn, QUESTION | question) == 0


def test_the_judge_is_shown_all_gold_answers(tmp_path, monkeypatch):
    seen = []

    def ask(messages):
        seen.append(messages[1]["content"])
        return "CORRECT"

    monkeypatch.setattr(_Run, "_answers", lambda self, built, questions: [
        {"answer": "Norway's capital", "ranked": [], "bank": built.final, "cited": None, "served": None}])  # fmt: skip
    data = written(tmp_path / "c.jsonl", TURN, QUESTION | {"answer": ["Oslo", "the capital of Norway"]})
    made = evaluate(EvalConfig(data, systems=("raw",), judge=JudgeConfig("http://judge.test", "m")), ask_judge=ask)
    assert made.rows[0]["scores"]["judge_strict"] == 1.0
    assert all(form in seen[0] for form in ("Oslo", "the capital of Norway"))


@pytest.mark.parametrize("seed", ["x", "²", "-1"])
def test_a_seed_that_is_no_number_is_refused(seed):
    with pytest.raises(InvalidConfig, match="no number"):
        evaluate(EvalConfig(DATA, systems=(f"teacher:{seed}",)))


def test_streaming_asks_each_question_with_the_memory_before():
    report = evaluate(EvalConfig(DATA, systems=("oracle", "none"), streaming=True))
    steps = {row["step"] for row in report.rows}
    assert steps == {1, 2, 3, 4}
    assert summarise(report)["overall"]["oracle"]["right"]["value"] > 0.95


def test_a_policy_that_needs_the_truth_is_refused_elsewhere(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"content": "I moved to Oslo."}\n{"question": "Where?", "answer": "Oslo"}')
    with pytest.raises(InvalidConfig, match="only for the world"):
        evaluate(EvalConfig(f"jsonl:{path}", systems=("oracle",)))


def test_the_command_prints_a_table_and_writes_the_page(tmp_path):
    out = tmp_path / "out.html"
    args = ["eval", DATA, "--systems", "oracle,none", "--cache", "", "--report", str(out)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    assert "oracle" in result.output
    assert out.stat().st_size > 5_000
    as_json = CliRunner().invoke(app, [*args[:-2], "--json"])
    assert json.loads(as_json.stdout)["summary"]["headline"] == "right"
