"""Picks up what other processes promoted, within a fraction of a second, and unloads what has drained."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from memkit.adapters.plan import AliasState
from memkit.adapters.registry import Registry
from memkit.adapters.swap import Swapper
from memkit.errors import AdapterRejected, IncompatibleBase, MemkitError, ModelError, NotFound, ProbeFailed

_RETRY_S = 5.0
"""A full or unreachable server is asked again after this time; a bad adapter never is."""


class Watcher:
    """Follows one alias. `sync` brings this process to what the registry says; the thread calls it when the registry
    changed. Polling is one PRAGMA on an open connection, some microseconds."""

    def __init__(
        self, registry: Registry, swapper: Swapper, alias: str, *, poll_s: float, failed: Callable[..., None]
    ) -> None:
        self._registry, self._swapper, self._alias = registry, swapper, alias
        self._poll_s, self._failed = poll_s, failed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._refused: tuple[int, float] | None = None
        """(version, when to try it again)."""

    def start(self) -> None:
        """Serve what the alias names, then watch it. Returns once the first request can be answered."""
        self.sync()
        self._thread = threading.Thread(target=self._run, name="memkit-adapters", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=30.0)

    def sync(self) -> None:
        """Never raises for an adapter that cannot be served: what served before keeps serving, or an earlier generation
        that can."""
        while True:
            state = self._registry.alias(self._alias)
            if not self._behind(state):
                return
            try:
                self._swapper.follow(state)
                self._refused = None
                return
            except MemkitError as error:
                self._failed("not_served", alias=self._alias, version=state.version, why=str(error))
                again = isinstance(error, ModelError) or not isinstance(
                    error, AdapterRejected | IncompatibleBase | ProbeFailed | NotFound
                )
                if self._registry.alias(self._alias).version == state.version:
                    self._refused = (state.version, time.monotonic() + _RETRY_S if again else float("inf"))
                    if self._swapper.router.serving(self._alias).version == 0:
                        self._swapper.fall_back(state)

    def _behind(self, state: AliasState) -> bool:
        if state.version == self._swapper.router.serving(self._alias).version:
            return False
        if self._refused is None or self._refused[0] != state.version:
            return True
        return time.monotonic() >= self._refused[1]

    def _run(self) -> None:
        seen = -1
        while not self._stop.wait(self._poll_s):
            try:
                changes = self._registry.changes()
                if changes != seen or self._refused is not None:
                    seen = changes
                    self.sync()
                self._swapper.tidy()
            except Exception as error:  # the watcher outlives whatever it meets
                self._failed("watch", why=f"{type(error).__name__}: {error}")
