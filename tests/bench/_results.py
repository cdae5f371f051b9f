"""RESULTS.md: the long tables, each section written by the command that it names."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

from memkit.backbones.hf import checkpoint
from memkit_train.lab import tiny
from tests.bench._table import Row

FILE = Path(__file__).with_name("RESULTS.md")
_HEAD = "# Results\n\nLong runs of the benchmarks. Each section names the command that writes it.\n"


def record(command: str, rows: Sequence[Row], *, file: Path = FILE) -> None:
    """Replace the section of this command, or add it."""
    when = datetime.now(UTC).date().isoformat()
    digests = {name: checkpoint.weight_digest(tiny.checkpoint(name)) for name in get_args(tiny.Name)}
    weights = ", ".join(f"{name} {found[:12]}" for name, found in digests.items())
    made = f"{when}, {platform.machine()}, Python {platform.python_version()}; checkpoints {weights}.\n"
    lines = [f"\n## `{command}`\n", made]
    lines += ["| | what | value | bar | note |", "|---|---|---|---|---|"]
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.4g} {row.unit}".strip()
        lines.append(f"| {'ok' if row.ok else 'MISS'} | {row.name} | {value} | {row.bar} | {row.note} |")
    section = "\n".join(lines) + "\n"
    text = file.read_text(encoding="utf-8") if file.is_file() else _HEAD
    known = re.compile(rf"\n## `{re.escape(command)}`\n.*?(?=\n## |\Z)", re.DOTALL)
    text = known.sub(lambda _: section, text) if known.search(text) else text.rstrip("\n") + "\n" + section
    file.write_text(text, encoding="utf-8")
