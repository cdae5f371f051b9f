"""What a log is decided again with: what the runtime recorded, under what a run's configuration says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memkit.engine.served_with import ServedWith

if TYPE_CHECKING:
    from memkit_train.log.source import TrajectorySource
    from memkit_train.retrain.config import DataConfig

_SPLIT = frozenset({"extractor", "manager"})


def served_with(source: TrajectorySource | None, data: DataConfig, roles: Sequence[str] | None = None) -> ServedWith:
    """`data.mode` and `data.instructions` go before the log, where they are set. `roles`: those to be trained, where
    they are not `data.roles`. A source of None is a generated world, which nothing is on record of."""
    known = ServedWith() if source is None else source.served_with
    mode = data.mode or _mode(data.roles if roles is None else roles) or known.mode
    instructions = known.instructions if data.instructions is None else data.instructions
    return replace(known, mode=mode, instructions=instructions)


def _mode(roles: Sequence[str]) -> str | None:
    """The only mode in which these roles are asked. None: both, or neither."""
    split, fused = bool(_SPLIT & {*roles}), "fused" in roles
    return None if split == fused else "split" if split else "fused"
