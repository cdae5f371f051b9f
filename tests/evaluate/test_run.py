"""A whole evaluation: baselines in one table, cached, resumable, reported."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from memkit.errors import InvalidConfig, ModelUnavailable
from memkit.retrieval.weights import RankerWeights
from memkit_train.evaluate import EvalConfig, Report, evaluate, summarise
from memkit_train.evaluate.command import app
from memkit_train.evaluate.html import page
from memkit_train.evaluate.runner import BUDGETS, JudgeConfig, _Run
from memkit_train.evaluate.systems import serve
from memkit_train.report.svg import COLOURS, bars
from tests.stub_server import StubServer, status

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
    assert text.count("<svg") == 4


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
        ({"session": "s2"}, {}),
        ({"role": "assistant"}, {}),
        ({}, {"as_of": "2024-06-01T00:00:00+00:00"}),
        ({}, {"at": "2024-06-01T00:00:00+00:00"}),
        ({}, {"after": "s1"}),
        ({}, {"category": "place"}),
        ({}, {"stale": ["Paris"]}),
    ],
)
def test_edited_data_is_measured_again(tmp_path, turn, question):
    def cached(*edits):
        data = written(tmp_path / "c.jsonl", *edits)
        return evaluate(EvalConfig(data, systems=("raw",), cache=str(tmp_path / "cache"))).made["cached"]

    assert cached(TURN, QUESTION) == 0
    assert cached(TURN, QUESTION) == 1
    assert cached(TURN | turn, QUESTION | question) == 0


@pytest.mark.parametrize(
    ("name", "value"), [("__version__", "99"), ("DEFAULT_WEIGHTS", RankerWeights.of("other", {"words": 1.0}))]
)
def test_another_release_and_another_ranker_are_measured_again(tmp_path, monkeypatch, name, value):
    config = EvalConfig(written(tmp_path / "c.jsonl", TURN, QUESTION), systems=("raw",), cache=str(tmp_path / "cache"))
    evaluate(config)
    monkeypatch.setattr(f"memkit_train.evaluate.runner.{name}", value)
    assert evaluate(config).made["cached"] == 0


def test_the_judge_is_shown_all_gold_answers(tmp_path, monkeypatch):
    seen = []

    def ask(messages):
        seen.append(messages[1]["content"])
        return "CORRECT"

    monkeypatch.setattr(
        _Run,
        "_answers",
        lambda self, built, questions: [
            {"answer": "Norway's capital", "ranked": [], "bank": built.final, "cited": None, "served": None}
        ],
    )
    data = written(tmp_path / "c.jsonl", TURN, QUESTION | {"answer": ["Oslo", "the capital of Norway"]})
    judge = JudgeConfig("https://judge.test", "m")
    made = evaluate(EvalConfig(data, systems=("raw",), answerer="rules", judge=judge), ask_judge=ask)
    assert made.rows[0]["scores"]["judge_strict"] == 1.0
    assert all(form in seen[0] for form in ("Oslo", "the capital of Norway"))


def test_verdicts_that_could_not_be_read_are_told(tmp_path):
    data = written(tmp_path / "c.jsonl", TURN, QUESTION)
    config = EvalConfig(data, systems=("raw",), answerer="rules", judge=JudgeConfig("https://judge.test", "m"))
    report = evaluate(config, ask_judge=lambda messages: "hm")
    scores = summarise(report)["overall"]["raw"]
    assert "judge_strict" not in scores
    assert scores["judge_strict_unreadable"]["value"] == 1.0
    assert "verdicts unreadable, strict" in page(report)


def test_one_policy_may_go_by_several_names_and_a_name_given_twice_counts_once(tmp_path):
    names = ("oracle", "oracle:0", "raw", "raw")
    for cached in (3, 9):
        report = evaluate(EvalConfig(DATA, systems=names, cache=str(tmp_path)))
        assert (report.systems, report.made["cached"]) == (["oracle", "oracle:0", "raw"], cached)
        overall = summarise(report)["overall"]
        assert overall["oracle"] == overall["oracle:0"]
        assert len({scores["right"]["n"] for scores in overall.values()}) == 1


@pytest.fixture
def serving(monkeypatch):
    """The endpoint that `openai:NAME` stands for."""

    def point(server):
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key")

    return point


@pytest.mark.parametrize("code", [401, 400])
@pytest.mark.parametrize("asked", [{"systems": ("openai:m",)}, {"systems": ("raw",), "answerer": "openai:m"}])
def test_a_model_that_never_replies_is_not_measured_and_nothing_of_it_is_kept(asked, code, tmp_path, serving):
    data = written(tmp_path / "c.jsonl", TURN, QUESTION | {"answer": None})
    config = EvalConfig(data, cache=str(tmp_path / "cache"), **asked)
    with StubServer() as server:
        serving(server)
        server.always(status(code))
        with pytest.raises(ModelUnavailable, match=rf"cannot be measured.*status {code}.*run again"):
            evaluate(config)
    assert not (tmp_path / "cache").exists()
    with StubServer(reply="I would rather not say") as server:  # its own words, however bad, are what is measured
        serving(server)
        report = evaluate(config)
    assert report.banks[0]["parked"] == (1.0 if config.answerer is None else 0.0)
    if config.answerer is not None:
        assert report.rows[0]["scores"]["abstained"] == 0.0
    assert evaluate(config).made["cached"] == 1, "a finished pair asks nobody"


@pytest.mark.parametrize("systems", [("raw",), ("add-only:openai:m",)])
def test_a_name_on_another_server_is_another_model(systems, tmp_path, serving):
    data = written(tmp_path / "c.jsonl", TURN, QUESTION)
    for answer in ("Oslo", "Rome"):
        with StubServer(reply=json.dumps({"memories": [], "answer": answer, "facts": []})) as server:
            serving(server)
            answerer = "openai:m" if systems == ("raw",) else None
            report = evaluate(EvalConfig(data, systems=systems, answerer=answerer, cache=str(tmp_path / "cache")))
        assert report.made["cached"] == 0
        assert report.rows[0]["answer"] == (answer if answerer else None)


def test_an_embedder_on_another_server_is_another_model(tmp_path, serving):
    config = EvalConfig(
        written(tmp_path / "c.jsonl", TURN, QUESTION),
        systems=("raw",),
        embedder="openai:m",
        cache=str(tmp_path / "cache"),
    )
    for _ in range(2):
        with StubServer() as server:
            serving(server)
            assert evaluate(config).made["cached"] == 0
            assert evaluate(config).made["cached"] == 1


def test_a_memory_that_a_prompt_had_no_room_for_was_not_served(tmp_path, serving):
    turns = [TURN | {"id": f"t{n}", "content": f"Fact number {n}."} for n in range(80)]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, [*turns, QUESTION | {"evidence": ["t79"]}])))
    with StubServer(reply=json.dumps({"memories": [], "answer": "Oslo"})) as server:
        serving(server)
        report = evaluate(EvalConfig(f"jsonl:{tmp_path / 'c.jsonl'}", systems=("full",), answerer="openai:m"))
    shown = server.bodies[-1]["messages"][-1]["content"]
    assert report.rows[0]["scores"]["evidence_recall"] == float("Fact number 79." in shown)


def test_a_page_without_answers_names_none(tmp_path):
    text = page(evaluate(EvalConfig(written(tmp_path / "c.jsonl", TURN, QUESTION | {"evidence": ["t1"]}), ("none",))))
    assert "lost before retrieval" in text
    assert "answered" not in text


def test_a_system_has_one_colour_in_every_chart(report):
    text, colour = page(report), '<i style="background:{}"></i>raw<'.format(COLOURS[SYSTEMS.index("raw")])
    assert text.count(colour) == text.count("</i>raw<") >= 3


def test_long_names_stay_inside_the_bars():
    names = ["add-only:openai:gpt-4.1-mini", "hf:/models/" + "long/" * 20 + "adapter-7"]
    drawn = bars({name: (1.0,) for name in names}, ("x",), ("#000",))
    for x, text in re.findall(r'<text x="([\d.]+)" [^>]*text-anchor="end">([^<]+)</text>', drawn):
        assert 7 * len(text) <= float(x)
    assert "add-only:openai:gpt-4.1-mini</text>" in drawn
    assert "/adapter-7</text>" in drawn
    for x, width in re.findall(r'<rect x="([\d.]+)" [^>]*width="([\d.]+)"', drawn):
        assert float(x) + float(width) <= 640


def test_the_whole_talk_is_served_whole(tmp_path):
    turns = [TURN | {"id": f"t{n}", "content": f"Fact number {n}."} for n in range(20)]
    path = tmp_path / "c.jsonl"
    path.write_text("\n".join(map(json.dumps, [*turns, QUESTION | {"evidence": ["t19"]}])), encoding="utf-8")
    overall = summarise(evaluate(EvalConfig(f"jsonl:{path}", systems=("full", "raw"), k=3)))["overall"]
    assert overall["full"]["evidence_recall"]["value"] == 1.0


def test_evidence_of_what_was_taken_back_is_not_missed(report, tmp_path):
    unknown = [row for row in report.rows if not row["gold"]]
    assert any(row["evidence"] for row in unknown)
    assert all("evidence_recall" not in row["scores"] for row in unknown)
    talk = {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [{"speaker": "Ana", "dia_id": "D1:1", "text": "Ben skis."}],
    }
    asked = {"question": "Does Ana ski?", "adversarial_answer": "yes", "evidence": ["D1:1"], "category": 5}
    path = tmp_path / "l.json"
    path.write_text(json.dumps([{"conversation": talk, "qa": [asked]}]), encoding="utf-8")
    (row,) = evaluate(EvalConfig(f"locomo:{path}", systems=("raw",))).rows
    assert row["scores"]["evidence_recall"] == 1.0, "as LoCoMo publishes it, over all its categories"


@pytest.mark.parametrize(
    ("option", "value"),
    [("--k", "0"), ("--k", "-1"), ("--words", "-5"), ("--limit", "-1"), ("--limit", "0"), ("--systems", ",")],
)
def test_sizes_that_measure_nothing_are_refused(option, value):
    result = CliRunner().invoke(app, ["eval", DATA, "--cache", "", option, value])
    assert isinstance(result.exception, InvalidConfig)
    assert option.strip("-") in str(result.exception)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--judge-model", "m", "--lenient"], "not named"),
        (["--report", "/no/such/folder/x.html"], "cannot be written"),
        (["--answerer", "raw"], "answers nothing"),
        (["--answerer", "oracle"], "answers nothing"),
        (["--judge-url", "https://judge.test/v1", "--judge-model", "m"], "nothing to judge"),
    ],
)
def test_what_would_be_passed_over_or_fail_at_the_end_is_refused_before_anything_is_measured(tmp_path, options, words):
    data = written(tmp_path / "c.jsonl", TURN, QUESTION)
    result = CliRunner().invoke(app, ["eval", data, "--systems", "raw", "--cache", str(tmp_path / "kept"), *options])
    assert isinstance(result.exception, InvalidConfig)
    assert words in str(result.exception)
    assert not (tmp_path / "kept").exists()


def test_questions_that_only_streaming_asks_are_told(tmp_path):
    odd = {"conversation": "\x1b[2J"}
    data = written(tmp_path / "c.jsonl", TURN | odd, QUESTION | odd | {"after": "s1"})
    result = CliRunner().invoke(app, ["eval", data, "--systems", "raw", "--cache", ""])
    assert (result.exit_code, "left out: 1 questions" in result.output) == (0, True)
    assert "raw on \\u001b[2J" in result.output, "a name is shown, not obeyed"
    assert len(evaluate(EvalConfig(data, systems=("raw",), streaming=True)).rows) == 1


@pytest.mark.parametrize("seed", ["x", "²", "-1"])
def test_a_seed_that_is_no_number_is_refused(seed):
    with pytest.raises(InvalidConfig, match="no number"):
        evaluate(EvalConfig(DATA, systems=(f"teacher:{seed}",)))


def test_streaming_asks_each_question_with_the_memory_before():
    report = evaluate(EvalConfig(DATA, systems=("oracle", "none"), streaming=True))
    steps = {row["step"] for row in report.rows}
    assert steps == {1, 2, 3, 4}
    assert summarise(report)["overall"]["oracle"]["right"]["value"] > 0.95


def test_streaming_knows_nothing_of_what_comes_later(tmp_path, monkeypatch):
    """Neither its turns, also where it is asked about a later time, nor its date."""
    told = [
        TURN,
        TURN | {"id": "t2", "session": "s2", "content": "I have a dog.", "at": "2024-09-01T09:00:00+00:00"},
        TURN | {"id": "t3", "content": "I like jazz.", "at": "2024-10-01T09:00:00+00:00"},  # s1 goes on after s2
        TURN | {"id": "t4", "session": "s3", "content": "I moved to Bergen.", "at": "2024-12-01T09:00:00+00:00"},
    ]
    asked = [
        QUESTION | {"id": "now", "answer": "Bergen", "evidence": ["t2"]},
        QUESTION | {"id": "then", "answer": "Bergen", "after": "s2", "as_of": "2025-01-01T00:00:00+00:00"},
        QUESTION | {"id": "both", "answer": "jazz", "evidence": ["t2", "t3"]},
    ]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, told + asked)))
    clock = []
    monkeypatch.setattr("memkit_train.evaluate.runner.serve", lambda *args: clock.append(args[3]) or serve(*args))
    for system in ("raw", "rules"):
        report = evaluate(EvalConfig(f"jsonl:{tmp_path / 'c.jsonl'}", systems=(system,), streaming=True))
        now, then, both = (row["scores"] for row in report.rows)
        assert now["gold_in_bank"] == then["gold_in_bank"] == 0.0
        assert both["evidence_not_in_memory"] == 0.0, "asked once all of its evidence was said"
        assert [at.month for at in clock[-3:]] == [9, 1, 10]


def test_the_budget_is_of_words_however_many_memories_that_are(tmp_path):
    turns = [TURN | {"id": f"t{n}", "content": f"Oslo {n}"} for n in range(80)]
    turns.append(TURN | {"id": "last", "content": "blah " * 5 + "Paris"})
    lines = [*turns, QUESTION | {"question": "Oslo?", "answer": "Paris"}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (row,) = evaluate(EvalConfig(f"jsonl:{tmp_path / 'c.jsonl'}", systems=("raw",), words=1_000)).rows
    assert row["scores"]["gold_in_top"] == row["scores"]["gold_in_bank"] == 1.0
    assert [row["scores"][f"gold@{n}"] for n in BUDGETS] == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


def test_a_policy_that_needs_the_truth_is_refused_elsewhere(tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text('{"content": "I moved to Oslo."}\n{"question": "Where?", "answer": "Oslo"}')
    for system in ("oracle", "teacher:1", "add-only:oracle"):
        with pytest.raises(InvalidConfig, match="only for the world"):
            evaluate(EvalConfig(f"jsonl:{path}", systems=("raw", system), cache=str(tmp_path / "kept")))
    assert not (tmp_path / "kept").exists(), "nothing is measured first"


def test_the_command_prints_a_table_and_writes_the_page(tmp_path):
    out = tmp_path / "out.html"
    args = ["eval", DATA, "--systems", "oracle,none", "--cache", "", "--report", str(out)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 0, result.output
    assert "oracle" in result.output
    assert out.stat().st_size > 5_000
    as_json = CliRunner().invoke(app, [*args[:-2], "--json"])
    assert json.loads(as_json.stdout)["summary"]["headline"] == "right"
