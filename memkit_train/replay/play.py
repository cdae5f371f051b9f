"""Play conversations through the runtime's own decision code, batched over conversations.

Every bank is a value: a snapshot is a reference, so the bank before each session and after each turn is free to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from memkit.engine.bank import LiveBank
from memkit.engine.call import ModelCall, Routing
from memkit.engine.decide import Decided, Task, decide
from memkit.engine.drive import Steps
from memkit.engine.served_with import ServedWith
from memkit.errors import Conflict, MemkitError, ModelError, NotFound, OpRejected
from memkit.models import Bank, Op, Turn
from memkit.ops import BankState, Context, resolve
from memkit.retrieval import RankerWeights
from memkit.seams.backbone import Backbone, GenReply, GenRequest, Sampling
from memkit.seams.embedder import Embedder
from memkit_train.replay.generate import generate


@dataclass(frozen=True, slots=True)
class ReplaySettings:
    """What stays the same over a run. The defaults are the runtime's."""

    served: ServedWith = field(default_factory=ServedWith)
    context_turns: int = 4
    turns_per_add: int = 1
    sampling: Callable[[str, str], Sampling] = lambda decision_id, role: Sampling()
    weights: RankerWeights | None = None
    routing: Routing = field(default_factory=Routing)


@dataclass(slots=True)
class Lane:
    """One conversation on its way."""

    user_id: str
    turns: Sequence[Turn]
    bank: LiveBank
    ops: list[Op] = field(default_factory=list[Op])
    calls: list[ModelCall] = field(default_factory=list[ModelCall])
    parked: list[tuple[tuple[Turn, ...], MemkitError]] = field(
        default_factory=list[tuple[tuple[Turn, ...], MemkitError]]
    )
    snapshots: dict[str, LiveBank] = field(default_factory=dict[str, LiveBank])
    """Session id → the bank after its last turn."""
    applied: dict[str, list[Op]] = field(default_factory=dict[str, list[Op]])
    """Decision id → the ops that it led to."""
    position: int = 0
    decided: int = 0


Replayed = Lane


def play(
    conversations: Iterable[tuple[str, Sequence[Turn]]],
    backbone: Backbone,
    embedder: Embedder,
    options: ReplaySettings | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[Lane]:
    """Every conversation (user id, turns in order) from an empty bank to its end. All lanes advance together, so one
    `generate` serves a step of all of them."""
    options = options or ReplaySettings()
    empty = LiveBank.empty(embedder)
    lanes = [Lane(user_id, turns, empty) for user_id, turns in conversations]
    total = sum(len(lane.turns) for lane in lanes)
    running = {index: _Running(lane, options, embedder) for index, lane in enumerate(lanes) if lane.turns}
    while running:
        asked = [(one, request) for one in running.values() for request in one.waiting]
        replies = generate(backbone, [request for _, request in asked])
        given: dict[int, list[GenReply | ModelError]] = {}
        for (one, _), reply in zip(asked, replies, strict=True):
            given.setdefault(id(one), []).append(reply)
        for index, one in list(running.items()):
            if not one.advance(given.get(id(one), [])):
                del running[index]
        if progress is not None:
            progress(sum(lane.position for lane in lanes), total)
    return lanes


class _Running:
    """The lane's current decision."""

    def __init__(self, lane: Lane, options: ReplaySettings, embedder: Embedder) -> None:
        self.lane, self.options, self.embedder = lane, options, embedder
        self.group: tuple[Turn, ...] = ()
        self.steps: Steps[Decided] | None = None
        self.waiting: list[GenRequest] = []
        self._begin()

    def advance(self, replies: list[GenReply | ModelError]) -> bool:
        """Hand over the replies; False once the conversation is over."""
        assert self.steps is not None
        try:
            self.waiting = self.steps.send(replies)
        except StopIteration as stop:
            self._finish(stop.value)
            return self._begin()
        return True

    def _begin(self) -> bool:
        lane, options = self.lane, self.options
        if lane.position >= len(lane.turns):
            return False
        self.group = _group(lane.turns, lane.position, options.turns_per_add)
        earlier = [turn for turn in lane.turns[: lane.position] if turn.session_id == self.group[0].session_id]
        task = Task(
            bank=Bank(lane.user_id),
            turns=self.group,
            context_turns=tuple(earlier[-options.context_turns :] if options.context_turns else ()),
            live=lane.bank,
            now=self.group[-1].at,
            new_id=self._new_id,
            routing={"extractor": options.routing, "manager": options.routing, "fused": options.routing},
            sampling=options.sampling,
            weights=options.weights,
        )
        self.steps = decide(task, options.served, self.embedder)
        self.waiting = next(self.steps)
        return True

    def _new_id(self) -> str:
        self.lane.decided += 1
        return f"d_{self.lane.user_id}_{self.lane.decided}"

    def _finish(self, decided: Decided) -> None:
        lane, group = self.lane, self.group
        lane.calls += decided.calls
        if decided.error is not None:
            lane.parked.append((group, decided.error))
        else:
            context = Context(
                Bank(lane.user_id), self._new_id(), lane.bank.seq + 1, group[-1].at, max(turn.at for turn in group)
            )
            try:
                ops = resolve(lane.bank.state, decided.drafts, context)
            except (Conflict, NotFound, OpRejected) as error:
                lane.parked.append((group, error))
            else:
                lane.bank = lane.bank.after(ops, self.embedder)
                lane.ops += ops
                for op in ops:
                    lane.applied.setdefault(op.decision_id, []).append(op)
        lane.position += len(group)
        lane.snapshots[group[-1].session_id] = lane.bank


def _group(turns: Sequence[Turn], start: int, size: int) -> tuple[Turn, ...]:
    """The next `add` call: up to `size` turns of one session."""
    session = turns[start].session_id
    group = turns[start : start + size]
    return tuple(turn for turn in group if turn.session_id == session)


def bank_as_of(lane: Lane, at: datetime, embedder: Embedder, *, until: int | None = None) -> LiveBank:
    """The bank as it stood at a conversation time, of the ops up to sequence number `until`."""
    state = BankState().fold([op for op in lane.ops if op.at <= at and (until is None or op.seq <= until)])
    return LiveBank.of(list(state), embedder, state.seq)
