"""Where `RowTrainer` gets the rows of each optimiser step from.

A source is asked for step 0, 1, 2, … right before each step, so an online source may sample from the weights of that
very moment. Whatever it must remember to go on after a crash goes through `state` and `restore`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memkit.models import JSON
from memkit_train.errors import NoRows, OtherData
from memkit_train.rows import Row, fingerprint


class StepSource(Protocol):
    def __len__(self) -> int: ...
    def rows(self, step: int) -> Sequence[Row]:
        """No rows: the step changes nothing."""
        ...

    def state(self) -> JSON:
        """What a checkpoint needs to go on from here."""
        ...

    def restore(self, state: JSON) -> None: ...


class FixedSteps:
    """Steps that are known beforehand: logs, or one batch of rollouts."""

    def __init__(self, steps: Sequence[Sequence[Row]]) -> None:
        if not any(steps):
            raise NoRows("there is nothing to train on", fix="look at the counts of dropped groups and rows")
        self._steps = [tuple(rows) for rows in steps]

    def __len__(self) -> int:
        return len(self._steps)

    def rows(self, step: int) -> Sequence[Row]:
        return self._steps[step]

    def state(self) -> JSON:
        return {"rows": fingerprint(row for rows in self._steps for row in rows)}

    def restore(self, state: JSON) -> None:
        if state != self.state():
            raise OtherData(
                "the checkpoint belongs to other rows",
                why="the data or the configuration changed since it was written",
                fix="start anew in an empty output folder, or with resume=False",
            )
