"""Where trajectories are read from. A source needs no model, streams in constant memory (one page, or one user), and
leaves out what may not be learned from: users and banks that opted out, reads of all banks that were served from such
a bank, turns marked so, erased users anyway.

    StoreSource("./memory")        a store in use; read-only, beside the app that writes it
    StoreSource("postgresql://…")  the same of many machines; a role that may only read will do
    BundleSource("./bundle")       a slice of one, carried to another machine (see bundle.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memkit.engine.served_with import ServedWith
from memkit.inputs import store_of
from memkit.journal import DecisionRecord, Journal
from memkit.models import JSON, Bank, micros
from memkit.runtime import on_record
from memkit.seams.clock import RandomIds, SystemClock
from memkit.store import SEALED, Trajectories
from memkit.store.trajectories import was_used
from memkit_train.errors import NoRows
from memkit_train.log.records import AnswerEvent, Decision, Texts, Trajectory, TurnLog, answer_event

if TYPE_CHECKING:
    from memkit.journal import FeedbackRecord
    from memkit.models import Op

PAGE = 4_096
_COLUMNS = (
    "seq",
    "decision_id",
    "intake_id",
    "user_id",
    "agent_id",
    "role",
    "state_seq",
    "created_at",
    "model",
    "adapter",
    "propensity",
    "prompt_hash",
    "ok",
    "payload",
    "blobs",
    "prompt_ids",
    "token_ids",
    "logprobs",
)
_APART = frozenset({"created_at", "prompt_ids", "token_ids", "logprobs", "payload", "blobs"})


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a log was read: newest decision and newest op."""

    decision: int
    seq: int


class TrajectorySource(Protocol):
    @property
    def served_with(self) -> ServedWith:
        """What its turns are decided with, beside the model."""
        ...

    def users(self) -> list[str]:
        """User ids that may be learned from, in order."""
        ...

    def subject(self, user_id: str) -> str:
        """The opaque id that rows, manifests and erasures know the user by."""
        ...

    def decisions(self, *, user_id: str | None = None) -> Iterator[Decision]: ...

    def answers(self, *, user_id: str | None = None) -> Iterator[AnswerEvent]: ...

    def trajectories(self, users: Sequence[str] | None = None) -> Iterator[Trajectory]:
        """One user at a time."""
        ...

    def watermark(self) -> Watermark: ...


class StoreSource:
    def __init__(self, path: str | Path) -> None:
        self.journal = Journal.open(store_of(path), clock=SystemClock(), ids=RandomIds(), read_only=True)
        self.path = self.journal.place
        self._table = Trajectories(self.path / SEALED, lock=self.journal.lance_lock)
        self.journal.sealed = self._table.fetch
        self._banks: dict[Bank, bool] = {}
        """What each bank allows, asked once per stream: an opt-out counts from the next read on, however long ago its
        decisions were sealed."""
        self._partly: dict[str, bool] = {}
        """Users with a bank that is closed to learning, asked as often."""

    @property
    def store_id(self) -> str:
        """The store that all of this was logged in: opaque ids mean something there alone."""
        return self.journal.store_id

    @property
    def served_with(self) -> ServedWith:
        """As recorded last; stores of earlier versions say nothing, and had the default."""
        return on_record.served_with(self.journal) or ServedWith()

    # -- who ---------------------------------------------------------------------------------------------------

    def users(self) -> list[str]:
        self._ask_anew()
        return [
            info.user_id
            for info in self.journal.users()
            if any(self._trainable(Bank(info.user_id, agent)) for agent in info.agents)
        ]

    def subject(self, user_id: str) -> str:
        return self.journal.subject(user_id)

    def find_erased(self, subjects: Iterable[str], since: int) -> set[str]:
        """Those of these opaque ids whose users are no longer in the store, or of whom a part was erased after `since`
        (as `newest_erasure` said it)."""
        named = set(subjects)
        parts = {one.subject for one in self.journal.erasures() if micros(one.erased_at) > since}
        return named - {self.subject(info.user_id) for info in self.journal.users()} | named & parts

    def newest_erasure(self) -> int:
        return max((micros(one.erased_at) for one in self.journal.erasures()), default=0)

    def list_closed(self) -> dict[str, tuple[str, ...]]:
        """User → agents whose banks may not be learned from; users without such a bank are left out."""
        self._ask_anew()
        found = {
            info.user_id: tuple(
                agent for agent in sorted({"", *info.agents}) if not self._trainable(Bank(info.user_id, agent))
            )
            for info in self.journal.users()
        }
        return {user_id: agents for user_id, agents in found.items() if agents}

    def may_learn(self, user_id: str, agent_id: str, served: Sequence[Mapping[str, Any]] | None = None) -> bool:
        """`served`: of a read, the memories that it was given."""
        bank = Bank(user_id, agent_id)
        return self._trainable(bank) and (
            served is None or not self._covers_closed(bank) or self._all_open(user_id, served)
        )

    def _covers_closed(self, bank: Bank) -> bool:
        """A read that names no agent covers all the user's banks."""
        if bank.agent_id:
            return False
        if bank.user_id not in self._partly:
            banks = self.journal.user_banks(bank.user_id)
            self._partly[bank.user_id] = not all(self._trainable(one) for one, _ in banks)
        return self._partly[bank.user_id]

    def _all_open(self, user_id: str, served: Sequence[Mapping[str, Any]]) -> bool:
        """Whether each of these memories is of a bank that may be learned from. Where none was served, that says
        something of every bank."""
        for one in served:
            homes = {op.bank for op in self.journal.ops(user_id=user_id, memory_id=one["id"])}
            if not homes or not all(map(self._trainable, homes)):
                return False
        return bool(served)

    def _ask_anew(self) -> None:
        self._banks.clear()
        self._partly.clear()

    def _trainable(self, bank: Bank) -> bool:
        if bank not in self._banks:
            self._banks[bank] = self.journal.is_trainable(bank)
        return self._banks[bank]

    def watermark(self) -> Watermark:
        newest = self.journal.read_unsealed()
        number = newest[-1][0] if newest else 0
        while newest and (newest := self.journal.read_unsealed(after=number)):
            number = newest[-1][0]
        return Watermark(max(number, self._table.last_seq()), self.journal.last_seq())

    # -- streams -----------------------------------------------------------------------------------------------

    def decisions(self, *, user_id: str | None = None) -> Iterator[Decision]:
        """In the order of the log: the sealed ones, then those still in the journal."""
        self._ask_anew()
        barred = self.journal.untrainable_intakes()
        banks: dict[tuple[str, str], Bank | None] = {}
        last = 0
        while True:
            for page in self._table.scan(columns=_COLUMNS, after=last, user_id=user_id, batch_rows=PAGE):
                found = _from_arrow(page, banks, self._trainable)
                yield from (one for one in found if one.intake_id not in barred and self._may_read(one))
            last = max(last, self._table.last_seq())
            while True:
                hot = self.journal.read_unsealed(after=last)
                if self._table.last_seq() > last:
                    break  # sealed meanwhile: read it from there
                if not hot:
                    return
                for number, record in hot:
                    if user_id in (None, record.bank.user_id):
                        one = from_record(number, record)
                        if self._admitted(one, barred):
                            yield one
                last = hot[-1][0]

    def _admitted(self, decision: Decision, barred: set[str]) -> bool:
        return self._trainable(decision.bank) and decision.intake_id not in barred and self._may_read(decision)

    def _may_read(self, decision: Decision) -> bool:
        """What belongs to no `add` call answers a read. Its candidates are looked at only where they matter."""
        if decision.intake_id or not self._covers_closed(decision.bank):
            return True
        return self._all_open(decision.bank.user_id, decision.payload.get("candidates", ()))

    def answers(self, *, user_id: str | None = None) -> Iterator[AnswerEvent]:
        """Reads that led to an answer, the runtime's own or one that the app reported."""
        self._ask_anew()
        for trace in self.journal.iter_traces(user_id=user_id):
            bank, payload = trace.bank, trace.payload
            if "answer" in payload and self.may_learn(bank.user_id, bank.agent_id, payload["served"]):
                yield answer_event(trace.trace_id, bank, trace.state_seq, payload, trace.created_at)

    def trajectories(self, users: Sequence[str] | None = None) -> Iterator[Trajectory]:
        """What somebody forbids while this runs is left out from the next user on."""
        barred = self.journal.untrainable_intakes()
        for user_id in self.users() if users is None else users:
            self._ask_anew()
            yield self._episode(user_id, barred)

    def _episode(self, user_id: str, barred: set[str]) -> Trajectory:
        intakes = [
            TurnLog(
                state.intake,
                state.status,
                None if state.seq_first is None else (state.seq_first, state.seq_last or state.seq_first),
            )
            for state in self.journal.iter_intakes(user_id=user_id)
            if self._trainable(state.intake.bank)
        ]
        ops: list[Op] = [op for op in self.journal.iter_ops(user_id=user_id) if self._trainable(op.bank)]
        found = (from_record(n, one) for n, one in enumerate(self.journal.iter_decisions(user_id=user_id)))
        decisions = [one for one in found if self._admitted(one, barred)]
        answers = list(self.answers(user_id=user_id))
        feedback: dict[str, tuple[FeedbackRecord, ...]] = {}
        for trace_id in (*(one.trace_id for one in answers), *(one.intake.intake_id for one in intakes)):
            if given := self.journal.feedback_for(trace_id):
                feedback[trace_id] = tuple(given)
        return Trajectory(
            user_id,
            self.subject(user_id),
            tuple(intakes),
            tuple(ops),
            tuple(decisions),
            tuple(answers),
            feedback,
            self.served_with.context_turns,
        )

    def close(self) -> None:
        self.journal.close()

    def __enter__(self) -> StoreSource:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def need_users(source: TrajectorySource) -> list[str]:
    users = source.users()
    if not users:
        raise NoRows(
            "this log has no users that may be learned from",
            why="it is empty, or everybody opted out",
            fix="collect some conversations first",
        )
    return users


def from_record(number: int, record: DecisionRecord) -> Decision:
    payload: JSON = record.payload
    arrays = {name: payload.get(name) for name in ("prompt_ids", "token_ids", "logprobs")}
    return Decision(
        number,
        record.decision_id,
        record.intake_id,
        record.bank,
        record.role,
        record.state_seq,
        micros(record.created_at),
        payload.get("model"),
        payload.get("adapter"),
        payload.get("propensity"),
        payload.get("prompt_hash"),
        was_used(payload),
        *(None if value is None else tuple(value) for value in arrays.values()),
        payload={name: value for name, value in payload.items() if name not in arrays},
        blobs=record.blobs,
    )


def _from_arrow(
    page: Any, banks: dict[tuple[str, str], Bank | None], trainable: Callable[[Bank], bool]
) -> Iterator[Decision]:
    """`banks` remembers which of them may be learned from (None: not). Token arrays are cut out of their flat buffers:
    element by element they would cost a hundred times as much."""
    page = page.combine_chunks()
    names = [name for name in _COLUMNS if name not in _APART]
    plain = [page.column(name).to_pylist() for name in names]
    created = page.column("created_at").cast("int64").to_pylist()
    arrays = [_lists(page.column(name)) for name in ("prompt_ids", "token_ids", "logprobs")]
    texts = Texts(page.column("payload"), page.column("blobs"))
    whole = zip(zip(*plain, strict=True), created, *arrays, strict=True)
    for row, (values, at, ids, reply, logprobs) in enumerate(whole):
        number, name, intake, user, agent, role, state, model, adapter, chance, prompt, ok = values
        if (user, agent) not in banks:
            named = Bank(user, agent)
            banks[user, agent] = named if trainable(named) else None
        bank = banks[user, agent]
        if bank is None:
            continue
        yield Decision(
            number,
            name,
            intake or None,
            bank,
            role,
            state,
            at,
            model,
            adapter,
            chance,
            prompt,
            ok,
            ids,
            reply,
            logprobs,
            texts,
            row,
        )


def _lists(column: Any) -> Iterator[tuple[Any, ...] | None]:
    for chunk in column.chunks:
        flat = chunk.values.to_numpy(zero_copy_only=False)
        ends = chunk.offsets.to_numpy().tolist()
        valid = chunk.is_valid().to_pylist()
        for row, known in enumerate(valid):
            yield tuple(flat[ends[row] : ends[row + 1]].tolist()) if known else None
