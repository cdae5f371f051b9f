"""The command as people type it: real processes, exit codes, JSON for machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def memkit(*args: str, cwd: Path, stdin: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", "from memkit.cli import main; main()", *args], cwd=cwd, input=stdin, text=True,
        capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def ok(*args: str, cwd: Path) -> Any:
    code, out, err = memkit(*args, "--json", cwd=cwd)
    assert code == 0, err
    return json.loads(out)


def test_a_sitting_at_the_terminal(tmp_path: Path) -> None:
    code, out, _ = memkit("add", "I live in Oslo.", "-u", "ana", cwd=tmp_path)
    assert code == 0
    assert "ADD" in out
    moved = ok("add", "I moved to Bergen.", "-u", "ana", cwd=tmp_path)
    (hit,) = ok("search", "where does Ana live?", "-u", "ana", "-k", "1", cwd=tmp_path)["hits"]
    assert "Bergen" in hit["memory"]["text"]
    (then,) = ok("search", "where does Ana live?", "-u", "ana", "--as-of", "1", cwd=tmp_path)["hits"]
    assert "Oslo" in then["memory"]["text"]
    code, story, _ = memkit("log", "-u", "ana", cwd=tmp_path)
    assert code == 0
    assert "UPDATE" in story
    assert "I moved to Bergen." in story
    (undone,) = ok("undo", "-u", "ana", "--turn", moved["trace_id"], cwd=tmp_path)
    assert undone["cause"] == "undo"
    assert len(ok("history", "-u", "ana", cwd=tmp_path)) == 3
    assert ok("export", "all.jsonl", cwd=tmp_path)["records"] > 5
    assert ok("import", "all.jsonl", "-s", "copy", cwd=tmp_path)["records"] > 5
    assert ok("list", "-u", "ana", "-s", "copy", cwd=tmp_path) == ok("list", "-u", "ana", cwd=tmp_path)
    assert ok("stats", cwd=tmp_path)["memories"] == 1
    code, out, _ = memkit("doctor", "./memory", cwd=tmp_path)
    assert (code, "healthy" in out) == (0, True)
    assert ok("erase", "-u", "ana", "--yes", cwd=tmp_path)["counts"]["turns"] == 2
    assert memkit("log", "-u", "ana", cwd=tmp_path)[0] == 4


def test_bad_input_is_exit_2_with_the_next_step_and_makes_no_store(tmp_path: Path) -> None:
    for args in (
        ["search", "x", "-u", "ana"], ["doctor", "./nowhere"], ["add", "", "-u", "ana"], ["add", "x", "-u", ""],
        ["search", "x", "-u", "ana", "--as-of", "yesterday"], ["import", "/dev/null"], ["nonsense"],
        ["import", "/dev/null", "--dry-run"], ["import", "/nowhere", "--from", "jsonl", "-s", "nowhere"],
        ["proxy", "--upstream", "http://127.0.0.1:9/v1", "--port", "99999999"],
        ["serve", "--http", "--port", "99999999"],
    ):  # fmt: skip
        code, out, err = memkit(*args, cwd=tmp_path)
        assert (code, out) == (2, ""), args
        assert "Next:" in err or "Usage" in err, args
    assert not (tmp_path / "nowhere").exists()
    code, _, err = memkit("search", "x", "-u", "a", "-s", "none", "--json", cwd=tmp_path)
    assert (code, json.loads(err)["error"]) == (2, "NotAStore")


def test_a_bad_file_begins_no_store(tmp_path: Path) -> None:
    ok("add", "I have a dog.", "-u", "ana", "-s", "old", cwd=tmp_path)
    ok("export", "all.jsonl", "-s", "old", cwd=tmp_path)
    whole = (tmp_path / "all.jsonl").read_text().splitlines()
    (tmp_path / "cut.jsonl").write_text("\n".join(whole[:-1]))
    code, _, err = memkit("import", "cut.jsonl", "-s", "new", cwd=tmp_path)
    assert (code, "cut short" in err) == (2, True)
    assert not (tmp_path / "new").exists()
    for more in (["--user", "ben"], ["--user-label", "0"]):
        code, _, err = memkit("import", "all.jsonl", "-s", "new", *more, cwd=tmp_path)
        assert (code, "--from" in err) == (2, True)
    dry = ok("import", "all.jsonl", "-s", "new", "--dry-run", cwd=tmp_path)
    assert not (tmp_path / "new").exists()
    moved = ok("import", "all.jsonl", "-s", "new", cwd=tmp_path)
    assert dry == {"records": moved["records"], "dry_run": True}


def test_a_time_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    ok("add", "I have a dog.", "-u", "ana", cwd=tmp_path)
    for args in (["undo", "--since", "garbage"], ["undo", "--since", "²"], ["search", "x", "--as-of", "²"],
                 ["search", "x", "--as-of", "9" * 5_000]):  # fmt: skip
        code, _, err = memkit(*args, "-u", "ana", "--json", cwd=tmp_path)
        assert (code, json.loads(err)["error"]) == (2, "InvalidTime"), args
    assert len(ok("undo", "-u", "ana", "--since", "2020-01-01T00:00:00+00:00", cwd=tmp_path)) == 1


def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    code, out, _ = memkit("demo", "--tour", cwd=tmp_path)
    assert code == 0
    for word in ("UPDATE", "DELETE", "as of sequence no.", "replied", "history keeps both"):
        assert word in out
    assert list(tmp_path.iterdir()) == []


def test_hostile_text_is_shown_not_obeyed(tmp_path: Path) -> None:
    memkit("add", "\x1b[31mred\u202e [bold]x[/bold]", "-u", "ana", "--no-infer", cwd=tmp_path)
    _, out, _ = memkit("list", "-u", "ana", cwd=tmp_path)
    assert "\x1b[31mred" not in out
    assert "[bold]x[/bold]" in out
