"""Several processes, one run: `torchrun --nproc-per-node 2 -m memkit_train retrain nightly.yaml`.

The first process is the command: it takes the lock, reads the log, samples, judges, writes and prints. The others wait
for it, and take their share of the sheets whenever it trains. What they are to do, and the rows of a step that was
sampled, is handed to them as it comes; nobody but the first decides anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

from memkit.models import JSON
from memkit_train.errors import Diverged
from memkit_train.learn.steps import StepSource
from memkit_train.rows import Row

_PATIENCE = timedelta(days=7)
"""While the first process evaluates, the others wait."""
_END = "end"
T = TypeVar("T")


class NoMoreSteps(Exception):
    """The first process has stopped training."""


def count_processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def is_first() -> bool:
    return rank() == 0


def follow() -> None:
    """What every process but the first does, from its start to its end."""
    while (task := _pass_on(None)) != _END:
        if task is not None:
            do, given = task
            with suppress(NoMoreSteps, Diverged):  # the first process says so
                do(*given)
    _part()


def ask(do: Callable[..., None], *given: Any) -> None:
    """Have the others do it, too. Right before they are met in training: from here on all go in step."""
    if count_processes() > 1:
        _pass_on((do, given))


def share(value: T | None) -> T:
    """What the first process says, in all of them."""
    return value if count_processes() == 1 else _pass_on(value)  # type: ignore[return-value]


def gather(values: Sequence[T]) -> list[T]:
    """The values of all, in the order of the processes."""
    if count_processes() == 1:
        return list(values)
    from torch import distributed

    found: list[Any] = [None] * count_processes()
    distributed.all_gather_object(found, list(values))
    return [one for part in found for one in part]


def dismiss() -> None:
    """The command has ended well: each of its processes ends. (After a failure the launcher ends the others.)"""
    if count_processes() > 1:
        _pass_on(_END)
        _part()


class LeadingSteps:
    """Rows of the first process's source, handed on as they come."""

    def __init__(self, source: StepSource) -> None:
        self._source, self._asked = source, 0

    def __len__(self) -> int:
        return len(self._source)

    def rows(self, step: int) -> Sequence[Row]:
        found = self._source.rows(step)
        self._asked = step + 1
        if count_processes() > 1:
            _pass_on(list(found))
        return found

    def finish(self) -> None:
        """The others wait for another step, unless this was the last."""
        if count_processes() > 1 and self._asked < len(self):
            _pass_on(None)

    def state(self) -> JSON:
        return self._source.state()

    def restore(self, state: JSON) -> None:
        self._source.restore(state)


class FollowingSteps:
    """… and as the others get them."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def __len__(self) -> int:
        return self._steps

    def rows(self, step: int) -> Sequence[Row]:
        found = _pass_on(None)
        if found is None:
            raise NoMoreSteps
        return found

    def state(self) -> JSON:
        return {}

    def restore(self, state: JSON) -> None:
        """The first process remembers."""


def _part() -> NoReturn:
    """The process ends here, once all are done. Were it to close as others do, a thread of the group that still lets go
    of a tensor would ask for the interpreter's lock and abort it."""
    from torch import distributed

    distributed.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _pass_on(value: Any) -> Any:
    """What the first process says, in all of them."""
    from torch import cuda, distributed

    if not distributed.is_initialized():
        backend = "gloo"
        if cuda.is_available():
            backend = "cpu:gloo,cuda:nccl"
            cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        distributed.init_process_group(backend, timeout=_PATIENCE)
    told = [value]
    distributed.broadcast_object_list(told, src=0)
    return told[0]
