"""The LanceDB projection: what users see of the journal, and may drop at any time. Importing this package is free;
lancedb, slow to import, is loaded by the first call that needs a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit.store.projection import Projection
    from memkit.store.trajectories import Trajectories
    from memkit.store.values import (
        SEALED,
        EraseReport,
        MaintenanceReport,
        ProjectedRow,
        Slice,
        TableProblem,
        TrajectoryRow,
    )

__all__ = [
    "SEALED",
    "EraseReport",
    "MaintenanceReport",
    "ProjectedRow",
    "Projection",
    "Slice",
    "TableProblem",
    "Trajectories",
    "TrajectoryRow",
]

_HOMES = {"Projection": "memkit.store.projection", "Trajectories": "memkit.store.trajectories"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        import importlib

        return getattr(importlib.import_module(_HOMES.get(name, "memkit.store.values")), name)
    raise AttributeError(name)
