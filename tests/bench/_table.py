"""One row of a benchmark's table, and how tables are printed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`ok` is the bar's verdict; a row that could not run has value None and is not ok."""

    name: str
    value: float | None
    unit: str
    bar: str
    ok: bool
    note: str = ""


def as_json(rows: Sequence[Row]) -> str:
    keys = ("name", "value", "unit", "bar", "ok", "note")
    return json.dumps([{key: getattr(row, key) for key in keys} for row in rows], indent=1)


def as_text(rows: Sequence[Row]) -> str:
    cells = [("", "what", "value", "bar", "note")]
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.4g} {row.unit}".strip()
        cells.append(("ok" if row.ok else "MISS", row.name, value, row.bar, row.note))
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )
