"""Where `RowTrainer` gets the rows of each optimiser step from, and how rows are cut into micro-batches.

A source is asked for step 0, 1, 2, … right before each step, so an online source may sample from the weights of that
very moment. Whatever it must remember to go on after a crash goes through `state` and `restore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def micro_batches(rows: Sequence[Row], token_budget: int) -> list[list[Row]]:
    """Rows of similar length together, each batch within the budget once padded (a longer row goes alone)."""
    return list(_cut(sorted(rows, key=lambda row: (row.tokens, len(row.prompt_ids))), token_budget))


def _cut(ordered: Sequence[Row], token_budget: int) -> Iterator[list[Row]]:
    current: list[Row] = []
    prompt = completion = 0
    for row in ordered:
        wider = max(prompt, len(row.prompt_ids)), max(completion, len(row.completion_ids))
        if current and sum(wider) * (len(current) + 1) > token_budget:
            yield current
            current, wider = [], (len(row.prompt_ids), len(row.completion_ids))
        current.append(row)
        prompt, completion = wider
    if current:
        yield current
