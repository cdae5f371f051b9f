"""Rows as JSON lines: what a run trains on, kept beside it, so that an interrupted run goes on with the same rows
however much was logged since."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from memkit.models import to_json
from memkit.roles.base import ChatMessage
from memkit_train.rows import AnyRow, ChoiceRow, TextRow, TokenRow

_KINDS: dict[str, type[Any]] = {one.__name__: one for one in (TokenRow, TextRow, ChoiceRow)}


def save(path: Path, rows: Iterable[AnyRow]) -> int:
    """Appears whole or not at all."""
    part, count = path.with_suffix(".part"), 0
    with part.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(to_json({"kind": type(row).__name__, **asdict(row)}) + "\n")
            count += 1
        out.flush()
        os.fsync(out.fileno())
    part.replace(path)
    return count


def load(path: Path) -> list[AnyRow]:
    with path.open(encoding="utf-8") as lines:
        return [_row(json.loads(line)) for line in lines]


def _row(raw: dict[str, Any]) -> AnyRow:
    kind: Any = _KINDS[raw.pop("kind")]
    if kind is TextRow:
        raw["messages"] = tuple(ChatMessage(**message) for message in raw["messages"])
    known = {one.name for one in fields(kind)}
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in raw.items() if key in known}
    return kind(**values)
