"""`memory.adapters`: which adapter serves, and the verbs that change it. Composes registry, router, swapper, watcher,
guard and shadow; the model and its host are built when the first lease is taken."""

from __future__ import annotations

import getpass
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memkit.adapters import promotion
from memkit.adapters.guard import Breach, Guard, GuardPolicy, Outcome
from memkit.adapters.hosts.base import AdapterHost
from memkit.adapters.plan import AliasState
from memkit.adapters.promotion import TaintPolicy
from memkit.adapters.rankers import Rankers
from memkit.adapters.registry import ANY, Expected, GcReport, RegisteredAdapter, Registry
from memkit.adapters.router import Lease, Router
from memkit.adapters.shadow import SHADOW, ShadowLog, ShadowReport, ShadowRunner, report
from memkit.adapters.shared import SharedAdapters
from memkit.adapters.swap import Swapper, SwapReport
from memkit.adapters.verify import Serving, check_serving, inspect
from memkit.adapters.watch import Watcher
from memkit.errors import AdapterError, BadReply, MemkitError, OpRejected, UnknownAlias
from memkit.models import JSON
from memkit.seams.backbone import GenReply, GenRequest, Replies
from memkit.seams.clock import Clock, SystemClock

if TYPE_CHECKING:
    from memkit.retrieval import RankerWeights

log = logging.getLogger("memkit.adapters")
Adapters = list[RegisteredAdapter]
States = list[AliasState]
Checks = list[tuple[str, str]]


class DecidedCall(Protocol):
    """A model call as the pipeline describes it."""

    @property
    def role(self) -> str: ...
    @property
    def decision_id(self) -> str: ...
    @property
    def request(self) -> GenRequest: ...
    @property
    def reply(self) -> GenReply | None: ...
    @property
    def drafts(self) -> Sequence[Any]: ...
    @property
    def error(self) -> MemkitError | None: ...


class DecidedTurn(Protocol):
    @property
    def calls(self) -> Sequence[DecidedCall]: ...


class AdapterSet:
    """Thread-safe. Nothing is loaded, and no thread runs, before the first lease. `host` is asked then, for the host
    and the roles whose model it runs."""

    def __init__(
        self,
        root: Path | str,
        *,
        shared: SharedAdapters | None = None,
        alias: str = "production",
        host: Callable[[], tuple[AdapterHost | None, frozenset[str]]] = lambda: (None, frozenset()),
        serving: Serving | None = None,
        generate: Callable[[Sequence[GenRequest]], Replies] | None = None,
        keep: int = 2,
        drain_s: float = 30.0,
        poll_s: float = 0.25,
        merge: bool = True,
        guard: GuardPolicy | None = None,
        taints: TaintPolicy = "refuse",
        clock: Clock | None = None,
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        self.alias = alias
        self._clock = clock or SystemClock()
        self.registry = Registry(root, clock=self._clock, shared=shared)
        self.router = Router()
        self.guard = Guard(guard)
        self.events: deque[JSON] = deque(maxlen=200)
        """What happened on its own: refusals, take-backs, guard rollbacks. Ids and reasons, no content."""
        self._host, self._generate = host, generate
        self._serving = serving or Serving()
        self._taints: TaintPolicy = taints
        self._keep, self._drain_s, self._poll_s, self._merge = keep, drain_s, poll_s, merge
        self._on_step = on_step
        self._rankers = Rankers(self.registry, alias, self._serving, self._happened)
        self._shadow_log = ShadowLog(self.registry.root / SHADOW)
        self._shadow: ShadowRunner | None = None
        self._starting = threading.RLock()
        self._swapper: Swapper | None = None
        self._watcher: Watcher | None = None
        self._pid = 0

    def __repr__(self) -> str:
        return f"AdapterSet({str(self.registry.root)!r}, alias={self.alias!r})"

    # ---- for the pipeline ------------------------------------------------------------------------------------

    def resolve(self, role: str, user_key: str) -> Lease:
        """The adapter that serves this user in this role. Close the lease when the reply is there."""
        self.start()
        return self.router.resolve(role, user_key, alias=self.alias)

    @contextmanager
    def lease(self, user_key: str, roles: Sequence[str]) -> Generator[dict[str, Lease]]:
        """Leases for several roles, of one version of the alias."""
        self.start()
        with self.router.resolve_all(roles, user_key, alias=self.alias) as leases:
            yield leases

    def ranker(self, user_key: str | None = None) -> RankerWeights | None:
        """The learned ranker in service; None means the built-in one. It does not load the model."""
        return self._rankers.current(user_key)

    def observe(self, decided: DecidedTurn, routing: Mapping[str, Any] | None = None, error: str | None = None) -> None:
        """What became of a turn: feeds the guard, and offers the turn to a shadow. Never raises."""
        try:
            for outcome in outcomes(decided, self.alias):
                self.watch_outcome(outcome)
            self._offer_to_shadow(decided)
        except Exception as failed:  # bookkeeping must not fail the turn that it keeps books of
            self._happened("observe_failed", why=f"{type(failed).__name__}: {failed}")

    def watch_outcome(self, outcome: Outcome) -> Breach | None:
        """Feed the guard one outcome. A breach takes the adapter out of service."""
        breach = self.guard.observe(outcome)
        if breach is not None:
            self._breached(breach)
        return breach

    # ---- changing what serves --------------------------------------------------------------------------------

    def promote(
        self,
        alias: str,
        digest: str,
        *,
        expected: Expected = ANY,
        roles: Sequence[str] | None = None,
        ungated: bool = False,
        actor: str | None = None,
        note: str = "",
    ) -> SwapReport:
        """Serve `digest` to everybody under `alias`: verify, load, probe, compare and swap, drain, unload. `expected`
        is the version, or the digest, that the alias must still have; `StaleAlias` names what it has instead."""
        return promotion.promote(
            self.registry,
            alias,
            digest,
            expected=expected,
            roles=roles,
            ungated=ungated,
            actor=_actor(actor),
            note=note,
            taints=self._taints,
            serving=self._serving,
            swapper=self._swapper_for(digest),
        )

    def canary(
        self,
        alias: str,
        digest: str | None,
        *,
        share: float = 0.05,
        expected: Expected = ANY,
        roles: Sequence[str] | None = None,
        ungated: bool = False,
        actor: str | None = None,
        note: str = "",
    ) -> SwapReport:
        """Serve `digest` to a share of users, the same ones every time. None ends it."""
        if digest is None:
            return promotion.end_canary(self.registry, alias, actor=_actor(actor), swapper=self._ready())
        return promotion.promote(
            self.registry,
            alias,
            digest,
            expected=expected,
            roles=roles,
            share=share,
            ungated=ungated,
            actor=_actor(actor),
            note=note,
            taints=self._taints,
            serving=self._serving,
            swapper=self._swapper_for(digest),
        )

    def shadow(
        self,
        alias: str,
        digest: str | None,
        *,
        share: float = 0.1,
        roles: Sequence[str] | None = None,
        actor: str | None = None,
    ) -> SwapReport:
        """Let `digest` decide a share of turns for comparison; nothing of it is applied. None ends it."""
        return promotion.shadow(
            self.registry, alias, digest, share, roles=roles, actor=_actor(actor), swapper=self._ready()
        )

    def rollback(
        self, alias: str, *, to: int | None = None, expected: Expected = ANY, actor: str | None = None, note: str = ""
    ) -> AliasState:
        """Undo the last change of the alias (or all after version `to`)."""
        return promotion.rollback(
            self.registry, alias, to=to, expected=expected, actor=_actor(actor), note=note, swapper=self._swapper
        )

    # ---- looking ---------------------------------------------------------------------------------------------

    def publish(self, folder: Path | str) -> str:
        """Take a folder into the registry. It serves nobody until it is promoted."""
        return self.registry.publish(folder)

    def list(self) -> Adapters:
        return self.registry.list_known()

    def serving(self, alias: str | None = None) -> AliasState:
        """What this process serves. It may lag behind `registry.alias` for as long as a swap takes."""
        self.start()
        return self.router.serving(alias or self.alias)

    def history(self, alias: str | None = None) -> States:
        """Every version of an alias, newest first."""
        found = self.registry.history(alias or self.alias)
        if not found:
            raise UnknownAlias(
                f"alias {alias or self.alias} was never set",
                why="nothing was promoted under it",
                fix="memkit adapters promote DIGEST --alias NAME",
            )
        return found

    def verify(self) -> Checks:
        """(digest, "") for every adapter that could be loaded here, (digest, why not) for the others."""
        out: list[tuple[str, str]] = []
        for digest in self.registry.digests():
            try:
                check_serving(inspect(self.registry.path(digest), expected=digest).manifest, self._serving)
                out.append((digest, ""))
            except AdapterError as error:
                out.append((digest, str(error)))
        return out

    def shadow_report(self, *, examples: int = 10) -> Sequence[ShadowReport]:
        if self._shadow is not None:
            self._shadow.drain()
        return report(self._shadow_log.read(), examples=examples)

    def gc(self, *, keep: int | None = None, min_age_s: float = 86_400.0, dry_run: bool = False) -> GcReport:
        return self.registry.gc(keep=self._keep if keep is None else keep, min_age_s=min_age_s, dry_run=dry_run)

    # ---- erased users ----------------------------------------------------------------------------------------

    def taint(self, subject: str) -> Sequence[str]:
        """Mark adapters that learned from an erased (opaque) subject. They are not promoted again by default."""
        return self.registry.taint(subject)

    def forget(self, user_id: str) -> int:
        """Destroy what shadow mode recorded of a user."""
        return self._shadow_log.forget(user_id)

    # ---- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Load what the alias names and begin to watch it. Called by the first lease."""
        if self._watcher is not None and self._pid == os.getpid():
            return
        with self._starting:
            if self._watcher is None or self._pid != os.getpid():  # threads do not survive a fork
                watcher = Watcher(
                    self.registry, self._make_swapper(), self.alias, poll_s=self._poll_s, failed=self._happened
                )
                watcher.start()
                self._watcher, self._pid = watcher, os.getpid()

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
        if self._shadow is not None:
            self._shadow.close()
        self.registry.close()

    def __enter__(self) -> AdapterSet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------------------------

    def _make_swapper(self) -> Swapper:
        if self._swapper is None:
            host, roles = self._host()
            self._swapper = Swapper(
                self.registry,
                self.router,
                host,
                serving=self._serving,
                keep=self._keep,
                drain_s=self._drain_s,
                merge=self._merge,
                roles=roles,
                on_step=self._on_step,
            )
        return self._swapper

    def _swapper_for(self, digest: str) -> Swapper | None:
        """Rankers are values: to promote one, no model is loaded."""
        kind = self.registry.manifest(self.registry.find(digest)).kind
        return self._ready() if kind == "lora" else self._swapper

    def _ready(self) -> Swapper:
        self.start()
        return self._make_swapper()

    def _breached(self, breach: Breach) -> None:
        """Go back to the newest generation in which the adapter decided nothing. Where there is none, the adapter was
        there all along, so it is not what changed: report only."""
        state = self.registry.alias(breach.alias)
        at = state.back if breach.adapter in state.deciding else None
        while at is not None:
            earlier = self.registry.version_of(breach.alias, at)
            if earlier is None:
                break
            if breach.adapter not in earlier.deciding:
                self.guard.forget(breach.alias, breach.adapter)
                promotion.rollback(
                    self.registry,
                    breach.alias,
                    to=at,
                    expected=state.version,
                    actor="guard",
                    note=breach.describe(),
                    swapper=self._swapper,
                )
                self._happened("guard_rollback", adapter=breach.adapter, why=breach.describe(), to=at)
                return
            at = earlier.back
        self._happened("guard_alarm", adapter=breach.adapter, why=breach.describe())
        self.guard.forget(breach.alias, breach.adapter)

    def _offer_to_shadow(self, decided: DecidedTurn) -> None:
        user_id = next((turn.bank.user_id for call in decided.calls for turn in call.request.prompt.view.turns), None)
        if self._generate is None or user_id is None:
            return
        leases = self.router.shadow(self.alias)
        try:
            for call in decided.calls:
                lease, reply = leases.get(call.role), call.reply
                if lease is None or lease.name is None or reply is None or lease.name == call.request.adapter:
                    continue
                own = self.router.hold(lease)
                self._runner(self._generate).offer(own, call.request, reply.text, reply.adapter, user_id)
        finally:
            for lease in leases.values():
                lease.close()

    def _runner(self, generate: Callable[[Sequence[GenRequest]], Replies]) -> ShadowRunner:
        with self._starting:
            if self._shadow is None:
                self._shadow = ShadowRunner(
                    generate, self._shadow_log.write, lambda: self._clock.now().isoformat(timespec="milliseconds")
                )
            return self._shadow

    def _happened(self, event: str, **details: Any) -> None:
        self.events.append({"event": event, "at": self._clock.now().isoformat(), **details})
        log.warning("adapters: %s", event)


def outcomes(decided: DecidedTurn, alias: str) -> Sequence[Outcome]:
    """One outcome per adapter that took part in a turn, or in an answer."""
    by_adapter: dict[str | None, list[DecidedCall]] = {}
    for call in decided.calls:
        by_adapter.setdefault(call.request.adapter, []).append(call)
    return [
        Outcome(
            adapter,
            alias,
            valid=not any(isinstance(call.error, BadReply | OpRejected) for call in calls),
            error=any(call.reply is None or call.reply.adapter != adapter for call in calls),
            deletions=None if answered else sum(draft.action == "delete" for call in calls for draft in call.drafts),
            tokens=None if answered else _tokens([call.reply for call in calls if call.reply is not None]),
        )
        for adapter, calls in by_adapter.items()
        for answered in [all(call.role == "answerer" for call in calls)]
    ]


def _tokens(replies: Sequence[GenReply]) -> int | None:
    counts = [n for reply in replies for n in (reply.usage.prompt_tokens, reply.usage.completion_tokens)]
    known = [n for n in counts if n is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _actor(actor: str | None) -> str:
    if actor is not None:
        return actor
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
