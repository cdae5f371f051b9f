"""The command as people type it: real processes, exit codes, JSON for machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.integrations._env import ENV


def memkit(*args: str, cwd: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    strict = {"PYTHONPATH": ENV["PYTHONPATH"], "COLUMNS": "80", "PYTHONIOENCODING": "utf-8:strict"}
    done = subprocess.run(
        [sys.executable, "-c", "from memkit.cli import main; main()", *args],
        cwd=cwd,
        input=stdin,
        check=False,
        capture_output=True,
        env=os.environ | strict,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ok(*args: str, cwd: Path) -> Any:
    code, out, err = memkit(*args, "--json", cwd=cwd)
    assert code == 0, err
    return json.loads(out)


def test_a_document_is_added_at_the_terminal_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "handbook.md").write_text("# Refunds\nMoney is sent back in 14 days.")
    assert ok("add-document", "handbook.md", "-u", "ana", cwd=tmp_path)["ops"]
    code, out, _ = memkit("add-document", "handbook.md", "-u", "ana", cwd=tmp_path)
    assert (code, "as it was" in out) == (0, True)
    (hit, *_) = ok("search", "when is money sent back?", "-u", "ana", cwd=tmp_path)["hits"]
    assert hit["memory"]["metadata"] == {"document": "handbook.md", "heading": "Refunds"}
    code, _, err = memkit("add-document", "gone.md", "-u", "ana", cwd=tmp_path)
    assert (code, "gone.md" in err) == (2, True)


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
    undone, *_ = ok("undo", "-u", "ana", "--turn", moved["trace_id"], cwd=tmp_path)
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
    code, out, err = memkit("erase", "-u", "anna", "--yes", "--json", cwd=tmp_path)
    assert (code, "'anna'" in err) == (4, True), "a mistyped id does not look like an erasure"
    assert not any(json.loads(out)["counts"].values())


def test_a_turn_a_memory_or_a_session_is_erased_by_name(tmp_path: Path) -> None:
    said = ok("add", "My pin is 4711.", "-u", "ana", "--session", "s1", cwd=tmp_path)
    for text, session in (("I play the violin.", "s2"), ("I adopted a dog named Waffles.", "s3")):
        ok("add", text, "-u", "ana", "--session", session, cwd=tmp_path)
    assert ok("erase", "-u", "ana", "--turn", said["trace_id"], "--yes", cwd=tmp_path)["counts"]["turns"] == 1
    assert ok("erase", "-u", "ana", "--session", "s2", "--yes", cwd=tmp_path)["counts"]["turns"] == 1
    (dog,) = ok("list", "-u", "ana", cwd=tmp_path)["memories"]
    assert ok("erase", "-u", "ana", "--memory", dog["id"], "--yes", cwd=tmp_path)["counts"]["turns"] == 1
    code, _, err = memkit("erase", "-u", "ana", "--session", "s2", "--yes", cwd=tmp_path)
    assert (code, "nothing of that name" in err) == (2, True)


def test_what_is_not_to_be_written_is_named_once(tmp_path: Path) -> None:
    said = "My card is 4111 1111 1111 1111."
    ok("add", said, "-u", "ana", "--no-infer", "--redact", "cards,keys", cwd=tmp_path)
    assert ok("list", "-u", "ana", cwd=tmp_path)["memories"][0]["text"] == "My card is [card]."
    code, _, err = memkit("add", said, "-u", "ana", "--redact", "credit", cwd=tmp_path)
    assert (code, "keys, passwords, cards, mail, phone" in err) == (2, True)


def test_bad_input_is_exit_2_with_the_next_step_and_makes_no_store(tmp_path: Path) -> None:
    for args in (
        ["search", "x", "-u", "ana"],
        ["doctor", "./nowhere"],
        ["add", "", "-u", "ana"],
        ["add", "x", "-u", ""],
        ["search", "x", "-u", "ana", "--as-of", "yesterday"],
        ["import", "/dev/null"],
        ["nonsense"],
        ["import", "/dev/null", "--dry-run"],
        ["import", "/nowhere", "--from", "jsonl", "-s", "nowhere"],
        ["proxy", "--upstream", "http://127.0.0.1:9/v1", "--port", "99999999"],
        ["serve", "--http", "--port", "99999999"],
        ["serve", "--user", ""],
    ):
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


def test_a_backup_is_restored_to_a_new_folder(tmp_path: Path) -> None:
    ok("add", "I live in Oslo.", "-u", "ana", "-s", "old", cwd=tmp_path)
    seq = ok("backup", "kept", "-s", "old", cwd=tmp_path)["seq"]
    assert ok("restore", "kept", "new", cwd=tmp_path)["seq"] == seq
    assert ok("list", "-u", "ana", "-s", "new", cwd=tmp_path) == ok("list", "-u", "ana", "-s", "old", cwd=tmp_path)
    ok("doctor", "new", cwd=tmp_path)
    for again in (["backup", "kept", "-s", "old"], ["restore", "kept", "new"], ["restore", "nowhere", "other"]):
        code, _, err = memkit(*again, cwd=tmp_path)
        assert (code, "Next:" in err) == (2, True)


def test_what_is_left_out_of_a_torn_export_is_told(tmp_path: Path) -> None:
    ok("add", "tea", "-u", "ben", "--no-infer", "-s", "old", cwd=tmp_path)
    ok("add", "I have a dog.", "-u", "ana", "-s", "old", cwd=tmp_path)
    ok("export", "all.jsonl", "-s", "old", cwd=tmp_path)
    begin, *lines, _ = (tmp_path / "all.jsonl").read_text().splitlines()
    lines.pop(next(n for n, line in enumerate(lines) if "I have a dog." in line))  # the turn that the rest came of
    end = json.dumps({"memkit_end": len(lines)})
    (tmp_path / "torn.jsonl").write_text("".join(f"{line}\n" for line in (begin, *lines, end)))
    code, _, err = memkit("import", "torn.jsonl", "-s", "new", cwd=tmp_path)
    assert (code, "--drop-dangling" in err) == (2, True)
    dry = ok("import", "torn.jsonl", "-s", "new", "--drop-dangling", "--dry-run", cwd=tmp_path)
    moved = ok("import", "torn.jsonl", "-s", "new", "--drop-dangling", cwd=tmp_path)
    assert dry == moved | {"dry_run": True}
    assert moved["records"] + sum(moved["dropped"].values()) == len(lines)
    assert set(moved["dropped"]) == {"op", "decision"}
    _, out, _ = memkit("import", "torn.jsonl", "-s", "third", "--drop-dangling", cwd=tmp_path)
    assert f"left out: {moved['dropped']['op']} of kind op" in out
    code, _, err = memkit("import", "x", "--from", "mem0", "--drop-dangling", cwd=tmp_path)
    assert (code, "our own exports" in err) == (2, True)


def test_a_time_that_is_none_is_refused_in_words(tmp_path: Path) -> None:
    ok("add", "I have a dog.", "-u", "ana", cwd=tmp_path)
    for args in (
        ["undo", "--since", "garbage"],
        ["undo", "--since", "²"],
        ["search", "x", "--as-of", "²"],
        ["search", "x", "--as-of", "9" * 5_000],
    ):
        code, _, err = memkit(*args, "-u", "ana", "--json", cwd=tmp_path)
        assert (code, json.loads(err)["error"]) == (2, "InvalidTime"), args
    assert len(ok("undo", "-u", "ana", "--since", "2020-01-01T00:00:00+00:00", cwd=tmp_path)) == 2


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


def test_standard_input_is_text_or_is_refused_in_words(tmp_path: Path) -> None:
    assert memkit("add", "-", "-u", "ana", cwd=tmp_path, stdin="I live in Zürich.\r\n".encode())[0] == 0
    assert "Zürich" in ok("list", "-u", "ana", cwd=tmp_path)["memories"][0]["text"]
    code, _, err = memkit("add", "-", "-u", "ana", "--json", cwd=tmp_path, stdin=b"I live in Z\xfcrich.")
    assert (code, json.loads(err)["error"]) == (2, "InvalidText")


def test_piped_tables_are_lines_that_can_be_searched(tmp_path: Path) -> None:
    ok(
        "add",
        "The train leaves from platform 9, as it does on every day of the week.",
        "-u",
        "ana",
        "--no-infer",
        cwd=tmp_path,
    )
    (op,) = ok("history", "-u", "ana", cwd=tmp_path)
    _, out, _ = memkit("history", "-u", "ana", cwd=tmp_path)
    (line,) = [line for line in out.splitlines() if op["op_id"] in line]
    assert op["after"]["text"] in line
    assert line.split("\t")[-1] == op["op_id"]
    _, _, err = memkit("search", "x", "-u", "ana", "-s", "a-folder-with-a-name/" * 8, cwd=tmp_path)
    assert len(err.splitlines()) == 1, "what is to be typed next is not broken up"


def test_adapters_of_what_is_no_store_are_refused_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "none"):
        code, _, err = memkit("adapters", "list", "-s", folder, "--json", cwd=tmp_path)
        assert (code, json.loads(err)["error"]) == (2, "NotAStore")
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]
    ok("add", "I have a dog.", "-u", "ana", "-s", "empty", cwd=tmp_path)
    for folder in ("empty", "empty/adapters"):  # the second is the registry, which the first begins
        assert ok("adapters", "list", "-s", folder, cwd=tmp_path)["adapters"] == []
    code, _, err = memkit("adapters", "rollback", "-s", "empty", "--expected", "²", "--json", cwd=tmp_path)
    assert (code, json.loads(err)["error"]) == (2, "NotFound")


def test_what_wrote_nothing_says_why(tmp_path: Path) -> None:
    code, out, _ = memkit("add", "what's the weather?", "-u", "ana", cwd=tmp_path)
    assert (code, "nothing written: a question" in out) == (0, True)
    _, out, _ = memkit("log", "-u", "ana", cwd=tmp_path)
    assert "because  a question" in out


def test_the_version_is_told(tmp_path: Path) -> None:
    assert memkit("--version", cwd=tmp_path) == (0, f"memkit {version('memkit')}\n", "")


def test_the_statements_of_a_postgresql_store_are_printed_for_whoever_may_run_them(tmp_path: Path) -> None:
    code, out, _ = memkit("schema", "--schema", "shop", cwd=tmp_path)
    assert (code, out.splitlines()[2]) == (0, "CREATE SCHEMA IF NOT EXISTS shop;")
    assert "CREATE TABLE shop.ops" in out
    assert all(line.endswith(";") for line in out.splitlines()[1:]), "nothing is wrapped"
    assert memkit("schema", "--schema", "shop; DROP", cwd=tmp_path)[0] == 2
