"""Which adapter answers this user: leases on immutable adapter names, from one consistent view of the aliases.

`resolve` is a few microseconds under one lock and touches no file. It hands out a lease, and while a lease on a name
is held that adapter is not unloaded, wherever the alias points meanwhile. A switch (`adopt`) replaces the whole view at
once, so no request ever sees half of it.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from memkit.adapters.plan import AliasState


@dataclass(slots=True)
class Lease:
    """A promise that `name` stays loaded until the lease is closed. `name` None: the base model."""

    name: str | None
    alias: str
    version: int
    propensity: float
    role: str
    _close: Callable[[Lease], None] | None = field(default=None, repr=False)

    def close(self) -> None:
        """Idempotent."""
        close, self._close = self._close, None
        if close is not None:
            close(self)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Router:
    """One per process and store. It serves the alias versions that it was given by `adopt`, which may lag behind the
    registry for as long as a swap takes."""

    def __init__(self, *, chance: Callable[[], float] | None = None) -> None:
        self._chance = chance or random.Random().random
        self._serving: dict[str, AliasState] = {}
        self._loaded: set[str] = set()
        self._leases: dict[str, int] = {}
        self._changed = threading.Condition(threading.Lock())

    # ---- per request ---------------------------------------------------------------------------------------

    def resolve(self, role: str, user_key: str, *, alias: str = "production") -> Lease:
        """A lease for one role. Use it as a context manager, or close it."""
        with self._changed:
            return self._lease(role, user_key, alias)

    @contextmanager
    def resolve_all(
        self, roles: Sequence[str], user_key: str, *, alias: str = "production"
    ) -> Generator[dict[str, Lease]]:
        """Leases for several roles from the same version of the alias."""
        with self._changed:
            leases = {role: self._lease(role, user_key, alias) for role in roles}
        try:
            yield leases
        finally:
            for lease in leases.values():
                lease.close()

    def _lease(self, role: str, user_key: str, alias: str) -> Lease:
        state = self._serving.get(alias)
        if state is None:
            return Lease(None, alias, 0, 1.0, role)
        route = state.route(role)
        arm = route.assign(user_key)
        return self._take(arm.digest, state, arm.share, role)

    def shadow(self, alias: str = "production") -> dict[str, Lease]:
        """For a sampled share of turns: role → a lease on the adapter that decides it too, for comparison only."""
        with self._changed:
            state = self._serving.get(alias)
            if state is None:
                return {}
            draw = self._chance()
            return {
                role: self._take(route.shadow, state, route.shadow_share, role)
                for role, route in state.routes.items()
                if route.shadow is not None and draw < route.shadow_share
            }

    def hold(self, lease: Lease) -> Lease:
        """A second lease on what an open lease names, for work that outlives it."""
        with self._changed:
            state = self._serving[lease.alias]
            again = self._take(lease.name, state, lease.propensity, lease.role)
            again.version = lease.version
            return again

    def _take(self, name: str | None, state: AliasState, propensity: float, role: str) -> Lease:
        if name is not None:
            self._leases[name] = self._leases.get(name, 0) + 1
        return Lease(name, state.alias, state.version, propensity, role, self._released)

    def _released(self, lease: Lease) -> None:
        with self._changed:
            if lease.name is not None:
                self._leases[lease.name] -= 1
                if not self._leases[lease.name]:
                    del self._leases[lease.name]
                    self._changed.notify_all()

    # ---- per swap ------------------------------------------------------------------------------------------

    def note_loaded(self, name: str) -> None:
        """The host has it now."""
        with self._changed:
            self._loaded.add(name)

    @property
    def residents(self) -> frozenset[str]:
        with self._changed:
            return frozenset(self._loaded)

    def can_serve(self, state: AliasState) -> bool:
        with self._changed:
            return state.digests <= self._loaded

    def adopt(self, state: AliasState) -> bool:
        """Serve this version from now on. False, and nothing changes, when an adapter of it is not loaded, or a newer
        version is served already."""
        with self._changed:
            current = self._serving.get(state.alias)
            if not state.digests <= self._loaded or (current is not None and current.version > state.version):
                return False
            self._serving = {**self._serving, state.alias: state}
            self._changed.notify_all()
            return True

    def serving(self, alias: str) -> AliasState:
        """What this process serves; version 0 before anything was adopted."""
        with self._changed:
            return self._serving.get(alias, AliasState(alias))

    def aliases(self) -> Mapping[str, AliasState]:
        with self._changed:
            return dict(self._serving)

    def idle(self, keep: frozenset[str]) -> list[str]:
        """Loaded adapters that no served alias names and that need not stay warm."""
        with self._changed:
            return sorted(self._loaded - keep - self._named())

    def drain(self, names: Sequence[str], timeout_s: float) -> bool:
        """Wait until no lease names any of them. False: some still do."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(self._leases.get(name) for name in names), timeout_s)

    def retire(self, name: str) -> bool:
        """Take a drained adapter out of service. True: the caller may unload it; from then on `adopt` refuses versions
        that name it until it is loaded again. False: it is leased, or some alias names it."""
        with self._changed:
            if self._leases.get(name) or name in self._named() or name not in self._loaded:
                return False
            self._loaded.discard(name)
            return True

    def leases(self, name: str) -> int:
        with self._changed:
            return self._leases.get(name, 0)

    def _named(self) -> set[str]:
        return {digest for state in self._serving.values() for digest in state.digests}
