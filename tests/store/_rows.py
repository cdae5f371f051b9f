"""Rows and a file lock for the store's tests."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from memkit.models import Bank, MemoryRecord
from memkit.store import ProjectedRow, Projection

DIM = 16
IDENTITY = "test/1:16"
START = datetime(2024, 5, 8, 13, 56, tzinfo=UTC)


def file_lock(path: Path) -> Any:
    """Shared/exclusive across processes, as the journal's lock is."""
    path.parent.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def lock(exclusive: bool) -> Iterator[None]:
        with path.open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield

    return lock


def open_projection(root: Path, *, dim: int = DIM, identity: str = IDENTITY) -> Projection:
    return Projection(root / "lance", dim=dim, identity=identity, lock=file_lock(root / "locks" / "lance"))


def vector(seed: int, dim: int = DIM) -> np.ndarray:
    raw = np.random.default_rng(seed).standard_normal(dim).astype(np.float32)
    return raw / np.linalg.norm(raw)


def row(
    number: int, user: str = "ana", *, agent: str = "", seq: int | None = None, dim: int = DIM, **changes: Any
) -> ProjectedRow:
    seq = number if seq is None else seq
    values: dict[str, Any] = {
        "id": f"m_{number}",
        "text": f"memory {number} of {user}",
        "metadata": {"ref": f"D{number}"},
        "source_turns": (f"t_{number}",),
        "created_at": START,
        "updated_at": START + timedelta(seconds=number),
        "at": START,
        "speaker": "Ana",
        "session_id": "s1",
        "content_hash": f"h{number}",
        "seq": seq,
        **changes,
    }
    record = MemoryRecord(**values)
    return ProjectedRow(Bank(user, agent), record, record.id, seq, vector(seq, dim))


def tombstone(number: int, user: str = "ana", *, agent: str = "", seq: int) -> ProjectedRow:
    return ProjectedRow(Bank(user, agent), None, f"m_{number}", seq)


def ids(found: Any) -> list[str]:
    return [record.id for _, record in found.records]
