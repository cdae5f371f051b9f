"""The rooms, wired together. `Memory` is a thin set of verbs over one `Runtime`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memkit.config import Config
from memkit.embedders.deferred import default_or
from memkit.embedders.recorded import Recorded
from memkit.errors import InvalidConfig, StoreClosed
from memkit.inputs import has_surrogates, is_url, keep_turns_of, lance_of, path_of, text_of
from memkit.journal import Journal
from memkit.models import Bank, Op
from memkit.rerankers import make_reranker
from memkit.roles.prompting import check_wording
from memkit.runtime.banks import BankReader
from memkit.runtime.projector import Projector
from memkit.runtime.redaction import redact_of
from memkit.runtime.sealer import Sealer
from memkit.runtime.store_embedder import check_embedder, is_named, own_embedder, remembering
from memkit.runtime.traces import TraceBuffer
from memkit.runtime.waiting import say_undecided
from memkit.seams.clock import Clock, Ids, RandomIds, SystemClock
from memkit.seams.embedder import close_embedder

if TYPE_CHECKING:
    from memkit.adapters import AdapterSet
    from memkit.engine.call import Routing
    from memkit.engine.decide import Decided
    from memkit.engine.served_with import ServedWith
    from memkit.retrieval import RankerWeights
    from memkit.runtime.reads import Asking
    from memkit.runtime.turns import TurnWriter
    from memkit.runtime.workers import Workers
    from memkit.seams.backbone import Backbone
    from memkit.seams.embedder import Embedder
    from memkit.store import Projection, Trajectories

# A library stays quiet unless the app sets logging up: what went wrong with a turn is in `parked()`.
logging.getLogger("memkit").addHandler(logging.NullHandler())

T = TypeVar("T")

_OWED = 64
"""Acknowledged turns that are remembered before it is looked up which of them are decided by now."""
_ROLES = ("extractor", "manager", "answerer", "fused")


class _Part(Generic[T]):
    """A part that is made on first use, once, whichever thread comes first (`cached_property` locks nothing since
    Python 3.12)."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name = make, make.__name__

    def __get__(self, runtime: Runtime, owner: type[Runtime]) -> T:
        with runtime.making:
            if self._name not in runtime.__dict__:
                runtime.__dict__[self._name] = self._make(runtime)
            return runtime.__dict__[self._name]


class Runtime:
    def __init__(
        self,
        path: str | Path,
        *,
        model: Any = None,
        embedder: Any = None,
        adapters: Any = None,
        alias: str = "production",
        explore: float = 0.0,
        keep_turns: str = "all",
        instructions: str = "",
        redact: Callable[[str], str] | Collection[str] | None = None,
        reranker: Any = None,
        config: Config | Mapping[str, Any] | None = None,
        mode: str | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        model_options: Mapping[str, Any] | None = None,
        lance: str | Path | None = None,
        adopting: bool = False,
    ) -> None:
        """adopting: the store is about to be embedded anew, and may name another embedder until that is done."""
        self.making = threading.RLock()
        self.config = Config.of(config)
        if self.config.wording:
            check_wording(self.config.wording)
        self.clock: Clock = clock or SystemClock()
        self.ids: Ids = ids or RandomIds()
        self.redact = redact_of(redact)
        self.reranker = make_reranker(reranker)
        self.keep_turns = keep_turns_of(keep_turns)
        self.model, self._model_options = model, dict(model_options or {})
        self._adapters, self.alias, self._instructions, self._mode = adapters, alias, instructions, mode
        self._check(explore)
        made = None if embedder is None else default_or(embedder)  # a wrong one is refused before anything is written
        self._made_embedder = embedder is None or isinstance(embedder, str)  # who passes an embedder closes it
        self._backbone: Backbone | None = None
        self._backbone_lock, self._lock, self._closed = threading.Lock(), threading.RLock(), False
        where = path if is_url(path) else path_of(path, "path").absolute()  # the app may change its folder later
        self.journal = Journal.open(where, clock=self.clock, ids=self.ids, lance=lance_of(lance) if lance else None)
        self.path = self.journal.place
        try:
            if made is None:
                made = (None if adopting else own_embedder(self.journal)) or default_or(None)
            self.embedder: Embedder = remembering(made)
            if not adopting:
                check_embedder(self.journal, self.embedder)
        except BaseException:
            self.journal.close()
            raise
        self.reader = BankReader(
            self.journal,
            lambda: self.projection,
            self.embedder,
            self.config,
            catch_up=lambda: self.projector.project(),
            projected=lambda: self.projector.is_whole,
        )
        self.sealer = Sealer(self.journal, lambda: self.trajectories, maintain_commits=self.config.maintain_commits)
        self.projector = Projector(self.journal, lambda: self.projection, self.embedder, self.config, self.sealer)
        self.traces = TraceBuffer(self.journal, self.clock)
        self._explore, self.at_close = explore, list[Callable[[], None]]()
        _OPEN.add(self)
        self._accepted, self._accepting = dict[str, None](), threading.Lock()
        if self.config.workers and self.journal.pending_count():
            self.workers.wake()  # turns that an earlier process accepted and did not live to decide

    # ---- parts that start on first use ---------------------------------------------------------------------

    @_Part
    def projection(self) -> Projection:
        from memkit.store import Projection

        place = self.journal.catalog or self.path / "lance"
        return Projection(place, dim=self.embedder.dim, identity=self.embedder.identity, lock=self.journal.lance_lock)

    @_Part
    def trajectories(self) -> Trajectories:
        from memkit.store import SEALED, Trajectories

        return Trajectories(self.path / SEALED, lock=self.journal.lance_lock, sealed=self.journal.last_sealed)

    @property
    def backbone(self) -> Backbone:
        with self._backbone_lock:
            if self._backbone is None:
                from memkit.backbones import make_backbone

                self._backbone = make_backbone(self.model, **self._model_options)
            return self._backbone

    @property
    def answerer(self) -> Backbone | None:
        """The model that may write answers; the rules and the small manager do not."""
        return None if self.model is None or self.model == "small" else self.backbone

    @_Part
    def served_with(self) -> ServedWith:
        from memkit.engine.served_with import ServedWith
        from memkit.runtime.on_record import choose_wording

        config = self.config
        served = ServedWith(
            mode=self._mode or ("fused" if self.backbone.style == "json" else "split"),
            instructions=self._instructions,
            guard=config.guard,
            reasks=config.reasks,
            candidates=config.candidates,
            fused_candidates=config.fused_candidates,
            context_turns=config.context_turns,
            answer_candidates=config.answer_candidates,
            answer_tokens=config.answer_tokens,
        ).to(self.backbone)
        return choose_wording(self.journal, served.by_writer(), config.wording)

    @_Part
    def adapters(self) -> AdapterSet:
        from memkit.adapters import open_adapters

        return open_adapters(
            self.path,
            self._adapters,
            engine=self.journal.shared_engine,
            alias=self.alias,
            backbone=lambda: self.backbone,
            deadline_s=self.config.deadline_s,
            prompt_hashes=self.prompt_hashes,
            embedder=self.embedder.identity,
        )

    def prompt_hashes(self) -> dict[str, str]:
        """Role → hash of what it is asked here; an adapter that was trained on other prompts is refused."""
        from memkit.roles import role_prompt_hashes

        return {
            role: role_prompt_hashes(self._instructions, style, self.served_with.wording(role)).get(role, "")
            for role, style in self.served_with.styles
        }

    @_Part
    def writer(self) -> TurnWriter:
        from memkit.runtime.turns import TurnWriter

        return TurnWriter(
            self.journal,
            self.reader,
            lambda: self.backbone,
            self.embedder,
            self.served_with,
            self.config,
            clock=self.clock,
            ids=self.ids,
            route=self.route,
            weights=self.weights,
            explore=self._explore,
            explored=lambda: self.explored_roles,
            deciding=self.deciding,
            applied=self.note_applied,
            watched=self.watch,
        )

    @_Part
    def explored_roles(self) -> frozenset[str]:
        """Where decisions are sampled: in the roles that learn, if it is known which do."""
        from memkit.adapters.opening import own_host
        from memkit.adapters.plan import MODEL_ROLES

        return own_host(self.backbone)[1] or MODEL_ROLES

    @_Part
    def workers(self) -> Workers:
        from memkit.runtime.workers import Workers

        return Workers(self.journal, self.writer, self.config.workers)

    @_Part
    def asking(self) -> Asking:
        from memkit.runtime import on_record
        from memkit.runtime.reads import Asking

        return Asking(
            self.journal,
            self.reader,
            self.traces,
            self.embedder,
            self.reranker,
            lambda: self.answerer,
            lambda: self.served_with,
            self.config,
            clock=self.clock,
            ids=self.ids,
            route=self.route,
            weights=lambda user_id: self.weights(user_id) or on_record.weights(self.journal),
            deciding=self.deciding,
            watched=self.watch,
            applied=self.note_applied,
        )

    # ---- what the parts tell each other ----------------------------------------------------------------------

    def deciding(self) -> None:
        """A decision is about to be logged: what it was made with is on record first."""
        from memkit.runtime.on_record import record

        record(self.journal, self.served_with, instead=self.model is not None)

    def note_applied(self, bank: Bank, ops: Sequence[Op]) -> None:
        if ops:
            self.projector.notice(len(ops), ops)

    @contextmanager
    def route(self, user_id: str) -> Generator[dict[str, Routing], None, None]:
        """A lease on the adapters that serve this user, for as long as one decision takes."""
        if not self.uses_adapters:
            yield {}
            return
        with self.adapters.lease(user_id, _ROLES) as leases:
            from memkit.engine.call import Routing

            yield {role: Routing(one.name, one.alias, one.version, one.propensity) for role, one in leases.items()}

    @property
    def has_adapters(self) -> bool:
        """Looked up every time: another process may publish the first adapter while this one runs."""
        return self._adapters is not None or self.journal.is_shared or os.path.isdir(f"{self.path}/adapters")

    @property
    def uses_adapters(self) -> bool:
        return self.model is not None and self.has_adapters

    def watch(self, decided: Decided, routing: dict[str, Routing], error: str | None) -> None:
        """Outcomes feed the guard that rolls a bad adapter back."""
        if self.uses_adapters and routing:
            self.adapters.observe(decided, routing, error)

    def weights(self, user_id: str) -> RankerWeights | None:
        """The learned ranker that serves this user; None means the built-in weights."""
        return self.adapters.ranker(user_id) if self.has_adapters else None

    @property
    def has_vectors(self) -> bool:
        """Whether LanceDB can be written from here: with the embedder that the store names, and no stand-in for it."""
        return not isinstance(self.embedder, Recorded) and is_named(self.journal, self.embedder)

    @property
    def ready(self) -> bool:
        """Whether turns can be decided at once. Before the first one the model is loaded, which may fail."""
        return "writer" in self.__dict__

    # ---- life --------------------------------------------------------------------------------------------------

    def alive(self) -> Runtime:
        if self._closed:
            raise StoreClosed("this Memory is closed", fix="open it again: Memory(path)")
        return self

    def flush(self) -> None:
        """Every accepted turn decided or parked, every op in LanceDB, every trace written."""
        self.drain()
        self.traces.flush()
        self.projector.project()
        self.sealer.seal(force=True)

    def redact_text(self, text: str) -> str:
        """What may be written of a text that a caller handed in."""
        if self.redact is None:
            return text
        return text_of(self.redact(text), "what redact() returned", self.config.max_message_bytes)

    def note_owed(self, intake_id: str) -> None:
        """This process owes the decision on a turn that it has acknowledged."""
        with self._accepting:
            self._accepted[intake_id] = None
        self.workers.wake()
        if len(self._accepted) > _OWED:
            self._forget_decided()

    def _forget_decided(self) -> None:
        with self._accepting:
            for intake_id in list(islice(self._accepted, 2)):  # more than were added
                pending = self.journal.bank_of_pending(intake_id)
                self._accepted.pop(intake_id)
                if pending:
                    self._accepted[intake_id] = None

    def drain(self) -> None:
        """Decide whatever nobody alive is deciding; wait for what this process is deciding or has acknowledged."""
        left, deadline = -1, 0.0
        while True:
            pending = self.journal.pending_count()
            if pending != left:
                left, deadline = pending, time.monotonic() + self.config.wait_s
            claim = self.writer.claim() if pending else None  # no model for an empty queue
            if claim is not None:
                self.writer.process(claim)
            elif self._owed() or ("workers" in self.__dict__ and self.workers.busy):
                if time.monotonic() > deadline:
                    raise say_undecided(pending, self.config.wait_s)
                self.journal.wait_change(self.config.poll_s)
            else:
                return

    def _owed(self) -> bool:
        with self._accepting:
            for intake_id in list(self._accepted):
                if self.journal.bank_of_pending(intake_id):
                    return True
                self._accepted.pop(intake_id)
        return False

    def _drain_own(self) -> None:
        """At the end: no more than what this process owes. Others' turns are in the journal and find their way."""
        for intake_id in list(self._accepted):
            while (bank := self.journal.bank_of_pending(intake_id)) and (claim := self.writer.claim(bank)) is not None:
                self.writer.process(claim)

    def close(self) -> None:
        """Decide what this process has acknowledged and write traces; project where LanceDB is loaded anyway or much
        is waiting. A short script thus never pays for LanceDB; the journal has everything."""
        with self._lock:
            if self._closed:
                return
            try:
                for end in self.at_close:
                    end()
                if "workers" in self.__dict__:
                    self.workers.close()
                self._drain_own()
                self.traces.flush()
                if "lancedb" in sys.modules or self.projector.waiting >= self.config.project_every:
                    if self.has_vectors:
                        self.projector.finish()
                    self.sealer.seal()
            finally:
                self._closed = True
                _OPEN.discard(self)
                self.projector.close()
                if "adapters" in self.__dict__:
                    self.adapters.close()
                if self._backbone is not None:
                    self._backbone.close()
                if self._made_embedder:
                    close_embedder(self.embedder)
                self.journal.close()

    def _check(self, explore: float) -> None:
        if isinstance(explore, bool) or not isinstance(explore, int | float) or not 0 <= explore <= 1:
            raise InvalidConfig("explore must be a share between 0 and 1", fix="pass e.g. explore=0.1")
        if self._mode not in (None, "split", "fused"):
            raise InvalidConfig(f"mode {self._mode!r} is unknown", fix="pass mode='split' or mode='fused'")
        if self.alias != "production":  # found out now, and not by a search on the day of the first adapter
            from memkit.adapters.registry import alias_name

            alias_name(self.alias)
        if not isinstance(self._instructions, str):
            raise InvalidConfig("instructions must be text", fix="pass a str that says what to remember")
        if has_surrogates(self._instructions):
            raise InvalidConfig("instructions hold a lone surrogate", fix="repair the text where it was decoded")
        if self.model is not None or self._model_options:
            from memkit.backbones import check_model

            check_model(self.model, self._model_options)


_OPEN: weakref.WeakSet[Runtime] = weakref.WeakSet()


@atexit.register
def _drain_at_exit() -> None:
    for runtime in list(_OPEN):
        runtime.close()
