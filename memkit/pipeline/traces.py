"""Traces of reads: written in groups, a fraction of a second late, so that a search pays no commit.

What an answer was served must be known when feedback comes; so everything that refers to a trace flushes first."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from memkit.errors import NotFound

if TYPE_CHECKING:
    from memkit.journal import Journal, Trace

_GROUP = 64
_DELAY_S = 0.25


class TraceBuffer:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._waiting: list[Trace] = []
        self._timer: threading.Timer | None = None

    def write(self, trace: Trace, *, now: bool = False) -> None:
        with self._lock:
            self._waiting.append(trace)
            full = now or len(self._waiting) >= _GROUP
            if not full and self._timer is None:
                self._timer = threading.Timer(_DELAY_S, self.flush)
                self._timer.daemon = True
                self._timer.start()
        if full:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if waiting:
                self._journal.write_trace(*waiting)

    def get(self, user_id: str, trace_id: str) -> Trace:
        self.flush()
        trace = self._journal.trace(user_id, trace_id)
        if trace is None:
            raise NotFound(
                f"no trace {trace_id} for this user",
                why="it belongs to another user, was erased, or was not sampled",
                fix="pass the trace_id of this user's add, search, context or answer",
            )
        return trace
