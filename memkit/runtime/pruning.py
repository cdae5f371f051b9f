"""Pruning the log by age or size: how turns were decided and reads were asked, with prompts, replies and labels.

The journal first, with a note of what is to follow, then the sealed decisions, then the bytes. Interrupted, it is
finished by whoever opens the store next."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from memkit.errors import InvalidInput, StoreError
from memkit.inputs import whole_number
from memkit.models import to_json
from memkit.results import PruneReceipt
from memkit.store import SEALED
from memkit.store.files import measure

if TYPE_CHECKING:
    from memkit.runtime.runtime import Runtime

log = logging.getLogger("memkit")
_MEGABYTE = 1_000_000
_DAYS = 36_500


def prune(runtime: Runtime, days: int | None, megabytes: int | None) -> PruneReceipt:
    if days is None and megabytes is None:
        raise InvalidInput("prune() got nothing to go by", fix="pass days=90, megabytes=500, or both")
    journal, moments = runtime.journal, list[datetime]()
    runtime.traces.flush()
    before = log_bytes(runtime)
    if days is not None:
        moments.append(runtime.clock.now() - timedelta(days=whole_number(days, "days", 0, _DAYS)))
    if megabytes is not None:
        most = whole_number(megabytes, "megabytes", 0, 1_000_000_000) * _MEGABYTE
        moments += [journal.moment_of(most / before)] if before > most else []
    if not moments:
        return PruneReceipt(None, {}, before, before)
    with journal.applier_lock():
        counts = journal.prune(max(moments))
    _finish(runtime)
    return PruneReceipt(max(moments), counts, before, log_bytes(runtime))


def finish_pruning(runtime: Runtime) -> None:
    """What a process that died meanwhile left to do. Where it cannot be done now, the next one tries again."""
    try:
        _finish(runtime)
    except StoreError as error:
        log.warning("pruning is still unfinished: %s", type(error).__name__)


def _finish(runtime: Runtime) -> None:
    if last(runtime).get("done", True):
        return
    with runtime.journal.applier_lock():
        told = last(runtime)
        if (runtime.path / SEALED).is_dir():
            runtime.trajectories.prune(told["below"])
        runtime.journal.scrub()
        runtime.journal.meta_set("pruned", to_json(told | {"done": True}))


def last(runtime: Runtime) -> dict[str, Any]:
    """The newest receipt."""
    return json.loads(runtime.journal.meta_get("pruned") or "{}")


def log_bytes(runtime: Runtime) -> int:
    return runtime.journal.log_bytes() + measure(runtime.path / SEALED)[1]
