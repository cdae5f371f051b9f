"""Taking an adapter into service: verify, check limits, load, probe, move the alias, drain, unload.

The alias moves only after the loaded adapter has behaved as its trainer recorded. Whatever fails before that leaves
alias and router as they were; whatever is killed leaves an alias that names an adapter which passed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from memkit.adapters.hosts.base import AdapterHost, HostLimits, MergingHost, ScoringHost
from memkit.adapters.manifest import PROBE
from memkit.adapters.plan import MODEL_ROLES, AliasState
from memkit.adapters.probe import ProbeResult, read_probe, run_probe
from memkit.adapters.registry import Registry
from memkit.adapters.router import Router
from memkit.adapters.verify import Serving, Verified, check_host, check_serving, inspect
from memkit.errors import AdapterError, HostFull, IncompatibleBase, MemkitError, NotFound, ProbeFailed
from memkit.errors import AdapterRejected as Rejected

STEPS = ("verify", "limits", "load", "probe", "move", "drain", "unload")
_BAD_ARTIFACT = (Rejected, IncompatibleBase, ProbeFailed, NotFound)
"""The adapter is at fault, not this process or its server."""


@dataclass(frozen=True, slots=True)
class SwapReport:
    state: AliasState
    probes: Mapping[str, ProbeResult | None]
    """By digest, for what was loaded now; None where it could not be probed."""
    unchecked: tuple[str, ...]
    """Parts of the compatibility check that neither manifest nor host could answer."""
    seconds: Mapping[str, float]
    unloaded: tuple[str, ...] = ()
    draining: tuple[str, ...] = ()
    """Still leased when the drain deadline passed; unloaded later."""


@dataclass(slots=True)
class _Work:
    probes: dict[str, ProbeResult | None] = field(default_factory=dict[str, ProbeResult | None])
    unchecked: dict[str, None] = field(default_factory=dict[str, None])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    proved: bool = True


class Swapper:
    """One per process and store. `serving` says what is served beside the host; `keep` generations stay loaded for
    rollback; `roles` are those whose model the host runs; `on_step` hears the name of each step before it is taken."""

    def __init__(
        self,
        registry: Registry,
        router: Router,
        host: AdapterHost | None,
        *,
        serving: Serving,
        keep: int = 2,
        drain_s: float = 30.0,
        merge: bool = True,
        roles: frozenset[str] = MODEL_ROLES,
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        self.registry, self.router, self.host = registry, router, host
        self._serving, self._keep, self._drain_s, self._merge = serving, keep, drain_s, merge
        self._on_step = on_step or (lambda _: None)
        self._roles = roles if host is not None else frozenset[str]()
        self._swapping = threading.RLock()

    # ---- the procedure ---------------------------------------------------------------------------------------

    def swap(self, digests: Iterable[str], move: Callable[[bool], AliasState]) -> SwapReport:
        """Bring `digests` in, then `move(proved)` the alias, then serve it, drain and unload. A `StaleAlias` from
        `move` unloads what was brought in for nothing."""
        with self._swapping:
            work = _Work()
            try:
                self._bring_in(digests, work)
                state = self._timed("move", work, lambda: move(work.proved))
            except BaseException:
                self._tidy()
                raise
            self._serve(state, work)
            idle = self._idle(self._keep)
        if idle:  # the next swap, or a promotion by another process, does not wait for our leases
            self._timed("drain", work, lambda: self.router.drain(idle, self._drain_s))
        with self._swapping:
            unloaded = self._tidy(work)
        draining = tuple(name for name in idle if self.router.leases(name))
        return SwapReport(state, work.probes, tuple(work.unchecked), work.seconds, unloaded, draining)

    def follow(self, state: AliasState) -> AliasState:
        """Serve what another process moved the alias to. A promotion that nobody proved and whose adapter fails here is
        taken back; one that somebody proved is only not served here. Returns what is served now; raises what failed."""
        with self._swapping:
            work = _Work()
            try:
                self._serve(state, work)
            except _BAD_ARTIFACT as error:
                if state.proved:
                    raise
                with suppress(AdapterError):
                    self.registry.rollback(
                        state.alias, expected=state.version, actor="memkit", note=f"taken back: {error.what}"
                    )
                raise
            if self.host is not None and work.proved and not state.proved:
                self.registry.prove(state.alias, state.version)
            self._tidy()
            return state

    def fall_back(self, state: AliasState) -> AliasState | None:
        """The newest earlier generation that can be served, when `state` cannot and nothing is served yet."""
        with self._swapping:
            at = state.back
            while at is not None:
                earlier = self.registry.version_of(state.alias, at)
                if earlier is None:
                    return None
                with suppress(MemkitError):
                    self._serve(earlier, _Work())
                    return earlier
                at = earlier.back
        return None

    def at_once(self, state: AliasState) -> bool:
        """Whether `state` can be served without loading anything."""
        return self.router.can_serve(self.effective(state))

    def adopt(self, state: AliasState) -> bool:
        return self.router.adopt(self.effective(state))

    def effective(self, state: AliasState) -> AliasState:
        """What of an alias the host serves. Rankers are values, and the roles of other models are not its business."""
        return replace(state, routes={role: route for role, route in state.routes.items() if role in self._roles})

    def tidy(self) -> None:
        """Unload what is drained and no longer wanted. Never waits, neither for leases nor for a swap under way."""
        if self._swapping.acquire(blocking=False):
            try:
                self._tidy()
            finally:
                self._swapping.release()

    # ---- its steps -----------------------------------------------------------------------------------------

    def _serve(self, state: AliasState, work: _Work) -> None:
        effective = self.effective(state)
        self._bring_in(effective.digests, work)
        self.router.adopt(effective)
        if self._merge and isinstance(self.host, MergingHost):
            for name in {route.stable for route in effective.routes.values() if route.stable}:
                self.host.merge(name)

    def _bring_in(self, digests: Iterable[str], work: _Work) -> None:
        for digest in sorted(set(digests) - self.router.residents):
            self._load(digest, work)
            self.router.note_loaded(digest)

    def _load(self, digest: str, work: _Work) -> None:
        host = self.host
        if host is None:
            raise HostFull(
                "this process cannot serve LoRA adapters",
                why="its model is reached without an adapter host",
                fix="open the store with a local model (hf:…), or pass a host as adapters=",
                reason="no_host",
            )
        self.registry.in_use.hold(digest)
        loaded = False
        try:
            verified = self._timed("verify", work, lambda: inspect(self.registry.path(digest), expected=digest))
            served = _with_host(self._serving, host.capabilities())
            work.unchecked |= dict.fromkeys(check_serving(verified.manifest, served))
            self._timed("limits", work, lambda: self._check_limits(host, verified))
            self._timed("load", work, lambda: host.load(verified.artifact))
            loaded = True
            work.probes[digest] = self._timed("probe", work, lambda: self._probe(host, verified))
        except BaseException:
            self.registry.in_use.release(digest)
            if loaded:
                with suppress(MemkitError):
                    self._unload(host, digest)
            raise
        work.proved = work.proved and work.probes[digest] is not None

    def _check_limits(self, host: AdapterHost, verified: Verified) -> None:
        limits = host.capabilities()
        try:
            check_host(verified, limits, resident=len(host.resident()))
        except HostFull as error:
            if error.details.get("reason") != "host_full":
                raise
            self._tidy(keep=0)  # warm generations make room for new ones
            check_host(verified, limits, resident=len(host.resident()))

    def _probe(self, host: AdapterHost, verified: Verified) -> ProbeResult | None:
        if PROBE not in verified.manifest.files or not isinstance(host, ScoringHost) or not host.capabilities().scores:
            return None
        return run_probe(host, verified.manifest.digest, read_probe(verified.path))

    def _idle(self, keep: int) -> list[str]:
        """Loaded, named by no served alias, and none of the last `keep` generations."""
        warm = frozenset[str]()
        if keep:
            warm = warm.union(*(self.registry.warm(state, keep) for state in self.router.aliases().values()))
        return self.router.idle(warm)

    def _tidy(self, work: _Work | None = None, *, keep: int | None = None) -> tuple[str, ...]:
        """Unload what is idle and drained."""
        unloaded: list[str] = []
        for name in self._idle(self._keep if keep is None else keep):
            if self.router.retire(name):
                self.registry.in_use.release(name)
                self._timed("unload", work, lambda name=name: self._unload(self.host, name))
                unloaded.append(name)
        return tuple(unloaded)

    def _unload(self, host: AdapterHost | None, name: str) -> None:
        if host is None:
            return
        if not host.capabilities().shared:
            host.unload(name)
            return
        with self.registry.in_use.alone(name) as free:
            if free:
                host.unload(name)

    def _timed(self, step: str, work: _Work | None, act: Callable[[], Any]) -> Any:
        self._on_step(step)
        started = time.monotonic()
        try:
            return act()
        finally:
            if work is not None:
                work.seconds[step] = work.seconds.get(step, 0.0) + time.monotonic() - started


def _with_host(serving: Serving, limits: HostLimits) -> Serving:
    """What the host says of its model, where the process itself does not."""
    return replace(
        serving,
        base_digest=serving.base_digest or limits.base_digest,
        base_id=serving.base_id or limits.base_id,
        tokenizer_digest=serving.tokenizer_digest or limits.tokenizer_digest,
        template_digest=serving.template_digest or limits.template_digest,
    )
