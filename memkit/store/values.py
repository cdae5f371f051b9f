"""What goes into the projection and comes out of it. No third-party import: numpy arrays are only named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memkit.models import Bank, MemoryRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memkit.retrieval.columns import Columns, Records


SEALED = "sealed"
"""Folder of a store that holds the table `trajectories`. Apart from `lance/`, which may be deleted at any time: what is
sealed is nowhere else."""


@dataclass(frozen=True, slots=True)
class ProjectedRow:
    """The state of one memory at `seq`; `record` None is a tombstone (the memory ended)."""

    bank: Bank
    record: MemoryRecord | None
    memory_id: str
    seq: int
    vector: NDArray[np.float32] | None = None
    """Required for a live record."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The live rows of a scope as of `watermark`, ordered by (seq, id), in columns; row i of `vectors` is the vector
    of row i."""

    scalars: Mapping[str, Any]
    """Arrow arrays by column name."""
    columns: Columns
    stored: Records
    vectors: NDArray[np.float32]
    watermark: int
    """Every op up to this sequence number is covered."""

    @property
    def records(self) -> list[tuple[Bank, MemoryRecord]]:
        """All rows as records. Ranking does without."""
        users, agents = (self.scalars[name].to_pylist() for name in ("user_id", "agent_id"))
        return [
            (Bank(user, agent), record) for user, agent, record in zip(users, agents, self.stored.all(), strict=True)
        ]

    def __len__(self) -> int:
        return len(self.stored)


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    ran: bool
    purged: int = 0
    """Tombstones removed."""
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class EraseReport:
    rows: int
    """Rows of the user found in the newest version (tombstones included; 0 where the whole table had to go); older
    versions are gone as well."""
    leftovers: int
    """Files removed beyond what LanceDB tracks: quarantined files, temporary files, tags and branches."""


@dataclass(frozen=True, slots=True)
class TableProblem:
    """One finding of `check()`. All are cured by a rebuild from the journal."""

    what: str
    """unreadable | checksum | duplicate | scope | watermark | index | quarantine"""
    detail: str
    memory_id: str = ""


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """One sealed decision: `payload` is the versioned trajectory record, `blobs` its prompts by content hash."""

    seq: int
    """Position in the journal's log of decisions; strictly increasing."""
    decision_id: str
    bank: Bank
    role: str
    state_seq: int
    payload: Mapping[str, Any]
    created_at: datetime
    intake_id: str = ""
    blobs: Mapping[str, str] = field(default_factory=dict[str, str])
    trainable: bool = True
