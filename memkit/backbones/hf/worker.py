"""The one thread that owns the model.

Callers hand in jobs; the worker admits them into the lane of their adapter (one padded prefill), then advances every
lane by one token per turn. Rows join and leave between tokens, so a short reply never waits for a long one.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch

from memkit.backbones.hf.choose import NEAR_TIE, Choice, Tables, Wish, choose
from memkit.backbones.hf.lanes import Lane
from memkit.backbones.hf.masks import GrammarMask, Spot
from memkit.errors import MemkitError, ModelTimeout, ModelUnavailable
from memkit.seams.backbone import Sampling

_PADDING = 1.3
"""Prompts of one prefill may differ by this much in length; beyond it, padding costs more than a second pass."""


@dataclass(frozen=True, slots=True)
class Written:
    """What one job produced. `natural` counts (allowed without the mask, steps watched)."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    sampled_logprobs: tuple[float, ...]
    finish: str
    adapter: str | None
    merged: bool
    natural: tuple[int, int]


@dataclass(eq=False)
class Job:
    """A reply in the making."""

    prompt_ids: tuple[int, ...]
    lane: Lane[Job]
    sampling: Sampling
    key: str
    max_tokens: int
    mask: GrammarMask | None
    watch: bool
    deadline: float
    deadline_s: float
    stop_ids: frozenset[int]
    future: Future[Written] = field(default_factory=Future[Written])
    spot: Spot | None = None
    tokens: list[int] = field(default_factory=list[int])
    raw: list[float] = field(default_factory=list[float])
    sampled: list[float] = field(default_factory=list[float])
    natural: list[bool] = field(default_factory=list[bool])

    def wish(self) -> Wish:
        allowed = None
        if self.mask is not None:
            self.spot = self.spot or self.mask.start
            allowed = self.mask.allow(self.spot, self.max_tokens - len(self.tokens))
        return Wish(self.sampling, self.key, len(self.tokens), allowed, self.watch)

    def take(self, choice: Choice) -> str | None:
        """Append a token; the reason to stop, if there is one."""
        self.tokens.append(choice.token)
        self.raw.append(choice.raw)
        self.sampled.append(choice.sampled)
        if choice.natural is not None:
            self.natural.append(choice.natural)
        if choice.token in self.stop_ids:
            return "stop"
        if self.mask is not None and self.spot is not None:
            self.spot = self.mask.advance(self.spot, choice.token)
            if self.spot is None:
                raise ModelUnavailable("the reply left its grammar", fix="report this with the model's name")
        return "length" if len(self.tokens) >= self.max_tokens else None

    def to_written(self, finish: str) -> Written:
        return Written(
            token_ids=tuple(self.tokens),
            logprobs=tuple(self.raw),
            sampled_logprobs=tuple(self.sampled),
            finish=finish,
            adapter=self.lane.name,
            merged=self.lane.merged,
            natural=(sum(self.natural), len(self.natural)),
        )


class Worker:
    """`max_batch` rows run at once over all lanes; `prefill_tokens` bounds one prefill, padding included."""

    def __init__(self, *, max_batch: int, window_s: float, threads: int | None, prefill_tokens: int = 4096) -> None:
        self._max_batch, self._window_s, self._threads = max_batch, window_s, threads
        self._prefill_tokens = prefill_tokens
        self._tables = Tables()
        self._wake = threading.Condition()
        self._arrived: deque[Job] = deque()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._closing = False
        self._waiting: list[Job] = []
        self._lanes: list[Lane[Job]] = []
        """Lanes with running rows."""
        self.recomputed = 0
        """Near ties that were decided on a row of its own."""
        self.reused = 0
        """Prompt tokens whose keys and values were known from earlier prompts."""
        self._thread = threading.Thread(target=self._run, name="memkit-hf", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        with self._wake:
            self._check_open()
            self._arrived.extend(jobs)
            self._wake.notify()

    def call(self, work: Callable[[], Any]) -> Any:
        """Run `work` on the worker between two tokens; its result."""
        future: Future[Any] = Future()
        with self._wake:
            self._check_open()
            self._calls.append((work, future))
            self._wake.notify()
        return future.result()

    def close(self) -> None:
        with self._wake:
            self._closing = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _check_open(self) -> None:
        if self._closing or not self._thread.is_alive():
            raise ModelUnavailable(
                "the model was closed", why="close() was called, or this process is a fork", fix="make a new backbone"
            )

    def _run(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        try:
            with torch.inference_mode():
                while self._gather():
                    self._serve_calls()
                    self._expire()
                    self._prefill()
                    for lane in list(self._lanes):
                        self._decode(lane)
        finally:  # whatever ended the loop, nobody waits for it in vain
            with self._wake:
                self._closing = True
            self._abandon()

    def _gather(self) -> bool:
        """Take in what arrived; sleep when there is nothing to do. False: time to end."""
        with self._wake:
            idle = not self._lanes and not self._waiting
            if idle:
                self._wake.wait_for(lambda: self._arrived or self._calls or self._closing)
            if self._closing:
                return False
            if idle and self._arrived and self._window_s > 0:  # others of one burst are on their way
                until, seen = time.monotonic() + self._window_s, 0
                while seen < len(self._arrived) < self._max_batch and time.monotonic() < until:
                    seen = len(self._arrived)
                    self._wake.wait(self._window_s / 4)
            self._waiting.extend(self._arrived)
            self._arrived.clear()
        return True

    def _serve_calls(self) -> None:
        while self._calls:
            work, future = self._calls.popleft()
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

    def _expire(self) -> None:
        now = time.monotonic()
        late = [job for job in self._waiting if job.deadline <= now or job.future.cancelled()]
        if late:
            self._waiting = [job for job in self._waiting if job not in late]
        for lane in list(self._lanes):
            for slot in reversed(range(len(lane.rows))):
                if lane.rows[slot].deadline <= now or lane.rows[slot].future.cancelled():
                    late.append(self._leave(lane, slot))
        for job in late:
            _fail(
                job,
                ModelTimeout(
                    f"no complete reply within {job.deadline_s:g} s",
                    why=f"{len(job.tokens)} tokens were written",
                    fix="raise deadline_s, lower max_tokens, or run fewer requests at once",
                ),
            )

    def _prefill(self) -> None:
        """Admit the oldest waiting job, and with it those of its lane whose prompts are about as long."""
        room = self._max_batch - sum(len(lane.rows) for lane in self._lanes)
        if not self._waiting or room <= 0:
            return
        first = self._waiting[0]
        lane, prefix = first.lane, first.lane.known_prefix(first.prompt_ids)
        size = len(first.prompt_ids)
        peers = sorted(
            (job for job in self._waiting[1:] if job.lane is lane and lane.known_prefix(job.prompt_ids) is prefix),
            key=lambda job: abs(len(job.prompt_ids) - size),
        )
        group, distinct, longest, shortest = [first], {first.prompt_ids}, size, size
        for job in peers:
            longest, shortest = max(longest, len(job.prompt_ids)), min(shortest, len(job.prompt_ids))
            distinct.add(job.prompt_ids)
            if len(group) == room or longest > _PADDING * shortest or longest * len(distinct) > self._prefill_tokens:
                break
            group.append(job)
        self._waiting = [job for job in self._waiting if job not in group]
        try:
            logits = lane.prefill(group, [job.prompt_ids for job in group], prefix)
        except Exception as error:
            self._break(lane, error, group)
            return
        self.reused += 0 if prefix is None else len(group) * len(prefix.ids)
        if lane not in self._lanes:
            self._lanes.append(lane)
        self._choose(lane, list(range(len(lane.rows) - len(group), len(lane.rows))), logits)

    def _decode(self, lane: Lane[Job]) -> None:
        try:
            logits = lane.decode([job.tokens[-1] for job in lane.rows])
        except Exception as error:
            self._break(lane, error)
            return
        self._choose(lane, list(range(len(lane.rows))), logits)

    def _choose(self, lane: Lane[Job], slots: list[int], logits: Any) -> None:
        jobs = [lane.rows[slot] for slot in slots]
        try:
            wishes = [job.wish() for job in jobs]
            choices = self._settle(
                lane, jobs, wishes, choose(logits, wishes, near_tie=_near_tie(lane), tables=self._tables)
            )
        except Exception as error:
            self._break(lane, error)
            return
        ended: list[int] = []
        for slot, job, choice in zip(slots, jobs, choices, strict=True):
            try:
                finish = job.take(choice) if choice.raw == choice.raw else _not_a_number()
            except MemkitError as error:
                _fail(job, error)
                ended.append(slot)
                continue
            if finish is not None:
                ended.append(slot)
                if not job.future.done():
                    job.future.set_result(job.to_written(finish))
        for slot in sorted(ended, reverse=True):
            self._leave(lane, slot)

    def _settle(self, lane: Lane[Job], jobs: list[Job], wishes: list[Wish], choices: list[Choice]) -> list[Choice]:
        """Decide near ties on logits that do not depend on the batch."""
        settled = list(choices)
        for index, choice in enumerate(choices):
            if choice.unsure:
                logits = lane.tree.alone([*jobs[index].prompt_ids, *jobs[index].tokens])
                settled[index] = choose(logits, [wishes[index]], near_tie=0)[0]
                self.recomputed += 1
        return settled

    def _leave(self, lane: Lane[Job], slot: int) -> Job:
        job = lane.drop(slot)
        if not lane.rows and lane in self._lanes:
            self._lanes.remove(lane)
        return job

    def _break(self, lane: Lane[Job], error: Exception, group: Sequence[Job] = ()) -> None:
        """A forward pass failed (out of memory, as a rule): its rows fail, the worker and all others go on."""
        for job in group or [self._leave(lane, slot) for slot in reversed(range(len(lane.rows)))]:
            _fail(
                job,
                ModelUnavailable(
                    "the model failed while it generated",
                    why=f"{type(error).__name__}: {str(error)[:300]}",
                    fix="lower max_batch or shorten the prompts if memory ran out",
                ),
            )

    def _abandon(self) -> None:
        jobs = [*self._arrived, *self._waiting, *(job for lane in self._lanes for job in lane.rows)]
        for job in jobs:
            _fail(job, ModelUnavailable("the model was closed before the reply was complete", fix="ask again"))
        for _, future in self._calls:
            future.set_exception(ModelUnavailable("the model was closed", fix="make a new backbone"))
        self._lanes.clear()


def _near_tie(lane: Lane[Job]) -> float:
    """Half precision differs between batches by more than near ties can settle: equal tokens hold for float32."""
    return NEAR_TIE if lane.tree.dtype == torch.float32 else 0.0


def _not_a_number() -> str:
    raise ModelUnavailable(
        "the model's output is not a number",
        why="weights, or an adapter, overflow in this precision",
        fix="use dtype='float32' or 'bfloat16', or roll the adapter back",
    )


def _fail(job: Job, error: MemkitError) -> None:
    if not job.future.done():
        job.future.set_exception(error)
