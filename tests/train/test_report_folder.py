"""The folder of a run, as a crash or a full disk may leave it."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memkit_train.errors import TrainError
from memkit_train.files.run_folder import read_json, runs, series
from memkit_train.report import RunFolder, model_card, page

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAMAGED = (b"", b'{"stages": {', b"[]", b'{"stages": []}', b'{"stages": {"collect": 5}}', b"\xff\xfe", b"[" * 100_000)


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_record_names_its_folder_and_stops_no_other(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = RunFolder.begin(tmp_path / "runs" / "0007", {"a": 1}, now=NOW)
    assert RunFolder.readable(run.path) is not None
    run.file.write_bytes(content)
    with pytest.raises(TrainError, match=r"0007 cannot be read.*Next: move that folder"):
        RunFolder(run.path)
    with caplog.at_level(logging.WARNING):
        assert RunFolder.readable(run.path) is None
    assert "0007" in caplog.text
    assert runs(tmp_path) == [run.path], "its number stays taken"
    again = RunFolder.begin(run.path, {"a": 2}, now=NOW)
    assert RunFolder(run.path).record["config"] == again.record["config"] == {"a": 2}


def test_other_files_say_what_to_do_about_them(tmp_path: Path) -> None:
    (tmp_path / "watermark.json").write_text("{")
    with pytest.raises(TrainError, match=r"watermark\.json in .*Next: remove it"):
        read_json(tmp_path / "watermark.json", "remove it")


def test_lines_that_are_no_metrics_are_passed_over(tmp_path: Path) -> None:
    run = RunFolder.begin(tmp_path, {}, now=NOW)
    (tmp_path / "metrics.jsonl").write_bytes(b'{"step": 2}\n5\n{"step": "x"}\n{"step": 1}\n{"step": null}\n\xff{"st')
    assert run.metrics() == [{"step": 1}, {"step": 2}, {"step": None}]


def test_the_lines_of_a_step_are_one_row_and_draw_a_chart(tmp_path: Path) -> None:
    run = RunFolder.begin(tmp_path, {}, now=NOW)
    run.log({"step": 1, "loss": -0.5})
    run.log({"step": 2, "loss": -1.5})
    run.log({"step": 2, "train_runtime": 3.0})
    assert series(run.metrics(), "loss") == [(1.0, -0.5), (2.0, -1.5)]
    chart = page(run).split("<polyline")[1]
    high, low = (float(point.split(",")[1]) for point in chart.split('"')[1].split())
    assert high < low, "a loss that falls is drawn falling, below zero too"
    assert ">-1.5</text>" in page(run), "the axis says what it shows"


def test_what_is_no_number_or_is_missing_leaves_the_report_whole(tmp_path: Path) -> None:
    run = RunFolder.begin(tmp_path, {}, now=NOW)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": null}\n{"step": 2, "loss": NaN}\n{"step": NaN}\n')
    judged = {"verdict": {"outcome": "refused"}, "scores": {"candidate": {"f1": "?"}}, "best": [{"candidate": {}}]}
    run.mark("evaluate", judged)
    assert "refused" in page(run)
    assert "refused" in model_card(run.record)
    run.mark("evaluate", {"verdict": {"checks": [{"name": "target"}]}})
    assert "target" in page(run)
    assert "target" in model_card(run.record)
