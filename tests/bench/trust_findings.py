"""What an outside harness found on 2026-11-24, and the cases of the suite that hold each mend."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tests.bench._table import Row

CASES: Mapping[str, Sequence[str]] = {
    "1 reading a store's files drops its locks": (
        "journal/test_processes.py::test_what_is_acknowledged_stays_although_the_app_reads_the_files_of_its_own_store",
        "journal/test_processes.py::test_two_processes_write_while_one_reads_the_files",
        "journal/test_processes.py::test_reading_the_lock_files_gives_no_lock_away",
        "journal/test_processes.py::test_nothing_is_acknowledged_once_the_log_is_gone",
        "memory/test_backup.py::test_a_copy_under_load_restores_to_a_state_that_existed",
    ),
    "2 an export under load cannot be imported": (
        "memory/test_portability.py::test_an_export_holds_what_was_there_at_its_first_record",
        "memory/test_portability.py::test_every_export_while_others_write_can_be_imported",
        "memory/test_portability.py::test_of_a_torn_export_everything_is_taken_over_that_stands_on_what_it_holds",
    ),
    "3 erasing and maintenance never flush": (
        "store/test_trajectories.py::test_what_replaces_old_versions_is_on_the_disk_before_they_go",
        "store/test_trajectories.py::test_a_newest_version_that_is_torn_but_opens_gives_way_to_the_one_before",
    ),
    "4 erasing over a damaged file bricks the store": (
        "memory/test_erase.py::test_an_erasure_over_a_damaged_sealed_file_spares_what_can_be_read",
        "memory/test_erase.py::test_an_erasure_that_the_disk_does_not_let_finish_stays_open_and_is_finished_later",
        "store/test_trajectories.py::test_a_damaged_file_costs_its_own_rows_and_is_kept",
    ),
    "5 an error of a read moves the table aside": (
        "store/test_trajectories.py::test_what_nothing_else_holds_is_not_healed_away_by_a_read",
        "store/test_trajectories.py::test_a_disk_that_does_not_answer_once_moves_nothing_aside",
    ),
    "6 repair does not converge": (
        "memory/test_doctor.py::test_one_repair_is_enough_however_lancedb_was_torn",
        "memory/test_doctor.py::test_what_a_power_cut_took_of_lancedb_is_written_anew_by_the_next_flush",
    ),
    "7 a flipped bit of the log rolls turns back": (
        "memory/test_doctor.py::test_a_journal_that_lost_its_newest_operations_is_told_and_nothing_is_cut_to_it",
        "memory/test_recover.py",
    ),
    "8 claims have no lease": (
        "journal/test_processes.py::test_a_turn_of_a_stopped_process_is_taken_over_and_nothing_is_doubled_when_it_wakes",
        "journal/test_processes.py::test_a_process_that_works_on_is_not_taken_for_stopped",
        "memory/test_processes.py::test_a_model_that_never_answers_keeps_others_waiting_no_longer_than_they_will",
    ),
    "9 origin laundering": ("faults/test_poison.py",),
    "10 no cap per user in what is learned from": (
        "train/test_logged_choices.py::test_nobody_teaches_more_than_others",
        "train/test_logged_choices.py::test_nobody_has_more_rows_than_others",
        "trajectories/test_credit.py::test_the_share_of_the_largest_user_is_told_and_what_it_weighs_in_a_run",
    ),
    "11 the rest": (
        "journal/test_opening.py::test_a_damaged_schema_is_found_when_the_store_is_opened",
        "journal/test_opening.py::test_the_log_shrinks_again_after_a_reader_that_took_long",
        "memory/test_review.py::test_everything_that_callers_hand_in_is_redacted",
        "memory/test_review.py::test_named_redactors_reach_words_names_and_metadata_before_anything_is_written",
        "memory/test_verbs.py::test_ops_are_undone_one_after_the_other_and_the_refusal_names_what_is_in_the_way",
        "memory/test_erase.py::test_a_clock_that_goes_back_after_an_erasure_parks_nobody",
        "memory/test_portability.py::test_an_export_replaces_no_pipe_and_no_folder",
        "integrations/test_langgraph.py::test_erasing_a_user_leaves_no_item_of_hers",
        "integrations/test_proxy.py::test_pages_in_a_browser_are_refused_and_paths_cannot_leave_the_api",
        "integrations/test_http.py::test_a_body_that_does_not_come_is_not_waited_for",
        "integrations/test_proxy.py::test_a_body_that_does_not_come_is_not_waited_for",
        "integrations/test_mcp.py::test_a_body_that_never_ends_is_refused",
        "faults/test_damaged_stores.py::test_damage_is_harmless_or_told_and_never_silent",
    ),
}
"""Finding → files or tests below `tests`."""


def run(*, full: bool = False) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        chosen = [f"tests/{one}" for cases in CASES.values() for one in cases]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not slow", f"--junitxml={report}", *chosen]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.is_file():
            return [Row("findings 1-11 as cases", None, "", "all hold", False, done.stdout[-300:])]
        found = {_id(one): len(one) == 0 for one in ElementTree.parse(report).iter("testcase")}
    return [_row(name, cases, found) for name, cases in CASES.items()]


def _id(case: ElementTree.Element) -> str:
    return f"{case.get('classname', '').removeprefix('tests.').replace('.', '/')}.py::{case.get('name')}"


def _row(name: str, cases: Sequence[str], found: Mapping[str, bool]) -> Row:
    """A case that did not run, or was skipped, does not hold."""
    of_each = [[ok for test, ok in found.items() if test.partition("[")[0].startswith(one)] for one in cases]
    held, all_of = sum(map(sum, of_each)), sum(map(len, of_each))
    missed = [one for one, oks in zip(cases, of_each, strict=True) if not oks or not all(oks)]
    note = f"not: {', '.join(missed)[:200]}" if missed else ""
    return Row(f"finding {name}: cases that hold", held, f"of {all_of}", "all", not missed, note)
