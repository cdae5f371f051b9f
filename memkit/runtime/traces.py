"""Traces of reads: written in groups, a fraction of a second late, so that a search pays no commit.

What an answer was served must be known when feedback comes; so everything that refers to a trace flushes first. The
buffer also remembers which answer each talk is waiting to hear back on, and notes what the next turn says of it."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memkit.engine import implicit_feedback
from memkit.errors import NotFound, StoreError
from memkit.models import SPACE, Bank, Turn, digest

if TYPE_CHECKING:
    from memkit.journal import FeedbackRecord, Journal, Trace
    from memkit.seams.clock import Clock

_GROUP = 64
_DELAY_S = 0.25
_KEPT = 1_000
"""Traces that wait while the disk refuses them; the oldest are given up."""
_TALKS = 10_000
"""Answers that wait for the user's next turn; the oldest are forgotten."""


class TraceBuffer:
    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal, self._clock = journal, clock
        self._answered: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()
        self._signals: list[FeedbackRecord] = []
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], Trace]] = []
        self._timer: threading.Timer | None = None
        _BUFFERS.add(self)

    def after_fork_in_child(self) -> None:
        """A thread that is not here may hold the lock. What waits, the parent writes."""
        self._lock, self._timer = threading.Lock(), None
        self._waiting, self._signals = [], []

    def write(self, trace: Trace) -> None:
        """Now: somebody refers to it."""
        with self._lock:
            self._waiting.append(lambda: trace)
            if "answer" in trace.payload and not trace.bank.user_id.startswith(SPACE):  # where others speak next
                self._answered[_talk(trace.bank)] = (trace.trace_id, str(trace.payload["question"]))
                while len(self._answered) > _TALKS:
                    self._answered.popitem(last=False)
        self.flush()

    def write_later(self, make: Callable[[], Trace]) -> None:
        with self._lock:
            self._waiting.append(make)
            full = len(self._waiting) >= _GROUP
            self._later()
        if full:
            self._try_flush()

    def note_next_turns(self, bank: Bank, turns: Sequence[Turn]) -> None:
        """The user has said something since the last answer."""
        with self._lock:
            trace_id, question = self._answered.get(_talk(bank), ("", ""))
            found = implicit_feedback.signal(question, turns) if trace_id else None
            if found is None:
                return
            del self._answered[_talk(bank)]
            self._signals.append(_implicit(trace_id, found, self._clock))
            self._later()

    def forget(self, user_id: str) -> None:
        with self._lock:
            for talk in [talk for talk in self._answered if talk[0] == user_id]:
                del self._answered[talk]

    def _later(self) -> None:
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(_DELAY_S, self._try_flush)
            self._timer.daemon = True
            self._timer.start()

    def flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            signals, self._signals = self._signals, []
            try:
                if waiting:
                    self._journal.write_trace(*(make() for make in waiting))
                for feedback in signals:
                    with contextlib.suppress(NotFound):  # the user was erased meanwhile
                        self._journal.add_feedback(feedback)
            except StoreError:  # a full disk; what was written already is not written twice
                self._waiting, self._signals = waiting[-_KEPT:], signals[-_KEPT:]
                raise

    def _try_flush(self) -> None:
        """In nobody's name: no search fails for want of its trace. What refers to a trace flushes, and is told."""
        with contextlib.suppress(StoreError):
            self.flush()

    def get(self, user_id: str, trace_id: str) -> Trace:
        self.flush()
        trace = self._journal.trace(user_id, trace_id)
        if trace is None:
            raise NotFound(
                f"no trace {trace_id} for this user",
                why="it belongs to another user, was erased, pruned, or was not sampled",
                fix="pass the trace_id of this user's add, search, context or answer",
            )
        return trace


def _talk(bank: Bank) -> tuple[str, str]:
    return bank.user_id, bank.agent_id


def _implicit(trace_id: str, found: dict[str, object], clock: Clock) -> FeedbackRecord:
    from memkit.journal import FeedbackRecord

    feedback_id = "f_" + digest([trace_id, found])[:24]
    return FeedbackRecord(feedback_id, trace_id, dict(found), source="implicit", created_at=clock.now())


_BUFFERS: weakref.WeakSet[TraceBuffer] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for buffer in list(_BUFFERS):
        buffer.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
