"""All that is promised, at the counts that it is promised for: hours."""

from __future__ import annotations

from tests.bench import trust, trust_findings, trust_input, trust_load, trust_retrain, trust_soak
from tests.bench._results import record
from tests.bench._table import Row


def run(*, full: bool = True) -> list[Row]:
    parts = (trust_findings, trust_input, trust_load, trust_retrain, trust_soak, trust)
    rows = [row for part in parts for row in part.run(full=full)]
    record("python -m tests.bench trust-release", rows)
    return rows
