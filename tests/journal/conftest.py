from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memkit.journal import Journal
from tests.journal.making import open_journal


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = open_journal(tmp_path / "store")
    yield journal
    problems = [] if journal._closed else journal.check()
    journal.close()
    assert problems == []
