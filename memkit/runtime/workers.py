"""Background threads that decide pending turns: those of this process, and those that a dead process left behind."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from memkit.errors import MemkitError, StoreClosed

if TYPE_CHECKING:
    from memkit.journal import Journal
    from memkit.runtime.turns import TurnWriter

log = logging.getLogger("memkit")

_IDLE_S = 0.5
"""How often an idle worker looks for turns that other processes left behind."""


class Workers:
    """Threads start with the first turn that needs one, up to `count`, and end with `close`."""

    def __init__(self, journal: Journal, writer: TurnWriter, count: int) -> None:
        self._journal, self._writer, self._count = journal, writer, count
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._idle = 0
        self._busy = 0
        self._pid = os.getpid()

    @property
    def busy(self) -> bool:
        """A turn is being decided here right now."""
        return self._busy > 0 and self._pid == os.getpid()

    def wake(self) -> None:
        """A turn is waiting."""
        with self._lock:
            if self._pid != os.getpid():  # threads do not survive a fork
                self._pid, self._threads, self._idle, self._busy = os.getpid(), [], 0, 0
            if self._stop.is_set() or self._idle > 0 or not self._count:
                return
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if len(self._threads) < self._count:
                thread = threading.Thread(target=self._run, name=f"memkit-worker-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """Let every worker finish the turn it has; what is still pending stays pending in the journal."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self) -> bool:
        """Decide one turn, if there is one. Busy before the claim, so that nobody sees neither."""
        with self._lock:
            self._busy += 1
        try:
            claim = self._writer.claim()
            if claim is None:
                return False
            self.wake()  # more than one turn may wait; one worker each, up to the count
            self._writer.process(claim)
            return True
        finally:
            with self._lock:
                self._busy -= 1

    def _run(self) -> None:
        while not self._stop.is_set():
            seen = self._journal.wait_change(0)  # what comes after this look at the queue ends the wait below
            try:
                if self._work():
                    continue
            except StoreClosed:
                return
            except MemkitError as error:
                log.warning("a worker met %s and goes on", type(error).__name__)
                self._stop.wait(_IDLE_S)
                continue
            with self._lock:
                self._idle += 1
            try:
                self._journal.wait_change(_IDLE_S, seen)
            finally:
                with self._lock:
                    self._idle -= 1
