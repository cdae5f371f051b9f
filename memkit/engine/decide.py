"""From turns to operations: extract, show, manage, check. No I/O and no clock: a generator.

`decide` yields lists of generation requests and is sent the replies (or the `ModelError` that stands for one). The
runtime drives one generator per turn; the trainer drives many in step and generates them as one batch. So the
deployed decision and the trained one are the same code, prompts and re-asks included.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memkit.engine.bank import LiveBank
from memkit.engine.big_bank import BigBank
from memkit.engine.words import words_that_are_covered, words_that_end
from memkit.errors import BadReply, Conflict, MemkitError, ModelError, NotFound, OpRejected
from memkit.models import Bank, MemoryRecord, Op, OpDraft, Turn
from memkit.ops import Context, GuardLimits, check_batch, check_caps, resolve
from memkit.retrieval import RankerWeights, Scored
from memkit.roles import Extractor, Fact, Fused, Manager, Prompt, Shown, reask_messages
from memkit.seams.backbone import GenReply, GenRequest, Sampling
from memkit.seams.embedder import Embedder

Steps = Generator[list[GenRequest], list["GenReply | ModelError"], "Decided"]


@dataclass(frozen=True, slots=True)
class Routing:
    """Which adapter answers, and how it came to be chosen (logged with the decision)."""

    adapter: str | None = None
    alias: str = "production"
    alias_version: int = 0
    propensity: float = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What stays the same from turn to turn."""

    mode: str = "split"
    """split: extractor, then the manager per fact. fused: one call."""
    instructions: str = ""
    styles: tuple[tuple[str, str], ...] = ()
    """Role → reply style (compact or json)."""
    guard: GuardLimits = field(default_factory=GuardLimits)
    reasks: int = 2
    candidates: int = 5
    fused_candidates: int = 20
    deadline_s: float = 60.0

    def style(self, role: str) -> str:
        return dict(self.styles).get(role, "compact")


@dataclass(frozen=True, slots=True)
class Task:
    """One `add` call, ready to be decided."""

    bank: Bank
    turns: tuple[Turn, ...]
    context_turns: tuple[Turn, ...]
    live: LiveBank | BigBank
    now: datetime
    new_id: Callable[[], str]
    """Decision ids, in the order in which the calls are made."""
    routing: dict[str, Routing] = field(default_factory=dict[str, Routing])
    """Per role."""
    sampling: Callable[[str, str], Sampling] = lambda decision_id, role: Sampling()
    weights: RankerWeights | None = None
    expires_at: datetime | None = None
    """When what is added from these turns ends."""
    hide_covered: bool = False
    """Whether the words of these turns are hidden where a fact says them (`keep_turns="uncovered"`)."""


@dataclass(slots=True)
class ModelCall:
    """One role's decision: the prompt, every attempt, what became of it."""

    decision_id: str
    role: str
    prompt: Prompt
    request: GenRequest
    state_seq: int
    routing: Routing
    candidates: tuple[Shown, ...] = ()
    attempts: list[Attempt] = field(default_factory=list["Attempt"])
    drafts: tuple[OpDraft, ...] = ()
    repairs: tuple[str, ...] = ()
    error: MemkitError | None = None

    @property
    def reply(self) -> GenReply | None:
        """The last reply, the one that counted."""
        return next((attempt.reply for attempt in reversed(self.attempts) if attempt.reply is not None), None)


@dataclass(frozen=True, slots=True)
class Attempt:
    prompt: Prompt
    reply: GenReply | None
    error: MemkitError | None


@dataclass(slots=True)
class Decided:
    """`error` set: the turn is parked with it and nothing is applied. Else `drafts` go to the journal as one batch."""

    drafts: list[OpDraft]
    calls: list[ModelCall]
    now: datetime
    facts: list[Fact] = field(default_factory=list[Fact])
    error: MemkitError | None = None


def decide(task: Task, settings: Settings, embedder: Embedder) -> Steps:
    calls: list[ModelCall] = []
    try:
        if settings.mode == "fused":
            drafts, facts = (yield from _fused(task, settings, embedder, calls)), []
        else:
            drafts, facts = yield from _split(task, settings, embedder, calls)
        check_caps(drafts, task.live.memories, settings.guard)
    except (ModelError, OpRejected, Conflict, NotFound) as error:
        return Decided([], calls, task.now, error=error)
    return Decided([*drafts, *_about_words(task, drafts)], calls, task.now, facts)


def _about_words(task: Task, drafts: Sequence[OpDraft]) -> list[OpDraft]:
    """What a decision means for the words that were said: what it ended is not found in them any more."""
    new = {turn.turn_id for turn in task.turns}
    more: list[OpDraft] = []
    deletions = [draft for draft in drafts if draft.action == "delete"]
    ended = [record for one in deletions if one.memory_id and (record := task.live.state.get(one.memory_id))]
    if ended:
        said = task.live.said({turn for record in ended for turn in record.source_turns} | new)
        more += words_that_end(ended, said, new=new, decision_id=deletions[0].decision_id)
    if task.hide_covered:
        gone = {draft.memory_id for draft in more}
        more += [one for one in words_that_are_covered(drafts, task.live.said(new), new) if one.memory_id not in gone]
    return more


def _split(
    task: Task, settings: Settings, embedder: Embedder, calls: list[ModelCall]
) -> Generator[list[GenRequest], list[GenReply | ModelError], tuple[list[OpDraft], list[Fact]]]:
    extractor = Extractor(settings.instructions, settings.style("extractor"))
    prompt = extractor.render(task.turns, task.context_turns)
    extraction = _call(task, settings, prompt, (), calls)

    def read(reply: GenReply, prompt: Prompt) -> tuple[list[Fact], Any]:
        parsed = extractor.parse(reply.text, prompt, cut=was_cut(reply))
        return parsed.value, parsed

    facts, _ = yield from _ask(extraction, read, settings)
    manager = Manager(settings.instructions, settings.style("manager"))
    live, drafts, ops = task.live, list[OpDraft](), list[Op]()
    for fact in facts:
        live = live.after(ops, embedder)
        shown = _shown(
            live.candidates([fact.text], embedder, k=settings.candidates, now=task.now, weights=task.weights)[0]
        )
        prompt = manager.render(fact, shown, task.turns)
        call = _call(task, settings, prompt, shown, calls)
        ops = yield from _ask_for_ops(task, settings, call, manager.parse, live)
        drafts.extend(call.drafts)
    return drafts, facts


def _fused(
    task: Task, settings: Settings, embedder: Embedder, calls: list[ModelCall]
) -> Generator[list[GenRequest], list[GenReply | ModelError], list[OpDraft]]:
    texts = [turn.text for turn in task.turns if turn.role in ("user", "assistant")] or [task.turns[-1].text]
    found = task.live.candidates(texts, embedder, k=settings.candidates, now=task.now, weights=task.weights)
    best: dict[str, Scored] = {}
    for scored in sorted((one for row in found for one in row), key=lambda one: (-one.score, one.record.seq)):
        best.setdefault(scored.record.id, scored)
    shown = _shown(list(best.values())[: settings.fused_candidates])
    role = Fused(settings.instructions, settings.style("fused"))
    prompt = role.render(task.turns, shown, task.context_turns)
    shown = tuple(prompt.view.shown)  # the prompt's budget may have cut some
    call = _call(task, settings, prompt, shown, calls)
    yield from _ask_for_ops(task, settings, call, role.parse, task.live)
    return list(call.drafts)


def _ask_for_ops(
    task: Task, settings: Settings, call: ModelCall, parse: Callable[..., Any], live: LiveBank | BigBank
) -> Generator[list[GenRequest], list[GenReply | ModelError], list[Op]]:
    """Ask for operations, check them as a whole against what was shown and what the bank holds, and say what they
    will do, so that the next fact is judged against it. A batch that breaks a rule is asked again."""
    shown = {one.record.id: one.record for one in call.candidates}
    context = Context(task.bank, call.decision_id, live.seq + 1, task.now, max(turn.at for turn in task.turns))

    def checked(reply: GenReply, prompt: Prompt) -> tuple[list[Op], Any]:
        parsed = parse(reply.text, prompt, cut=was_cut(reply))
        check_batch(parsed.value, shown, live.memories, settings.guard)
        drafts = tuple(
            replace(
                draft,
                decision_id=call.decision_id,
                metadata=_carried(draft, task.turns, shown),
                expires_at=task.expires_at if draft.action == "add" else None,
            )
            for draft in parsed.value
        )
        ops = resolve(live.state, drafts, context)
        call.drafts = drafts
        return ops, parsed

    ops, _ = yield from _ask(call, checked, settings)
    return ops


def _carried(draft: OpDraft, turns: Sequence[Turn], shown: Mapping[str, MemoryRecord]) -> dict[str, Any] | None:
    """What is written takes the metadata of the turns that it was drawn from, a rewritten memory beside its own. What
    is said again word by word writes nothing."""
    before = shown.get(draft.memory_id or "")
    if draft.action not in ("add", "update") or (before is not None and draft.text in (None, before.text)):
        return None
    sources = [turn for turn in turns if turn.turn_id in draft.source_turns] or turns
    told = {name: value for turn in sources for name, value in turn.metadata.items()}
    return {**(before.metadata if before is not None else {}), **told} if told else None


def _call(task: Task, settings: Settings, prompt: Prompt, shown: Sequence[Shown], calls: list[ModelCall]) -> ModelCall:
    decision_id = task.new_id()
    routing = task.routing.get(prompt.role, Routing())
    sampling = task.sampling(decision_id, prompt.role)
    request = GenRequest(prompt, decision_id, routing.adapter, sampling, settings.deadline_s)
    call = ModelCall(decision_id, prompt.role, prompt, request, task.live.seq, routing, tuple(shown))
    calls.append(call)
    return call


def _ask(
    call: ModelCall, read: Callable[[GenReply, Prompt], tuple[Any, Any]], settings: Settings
) -> Generator[list[GenRequest], list[GenReply | ModelError], tuple[Any, Any]]:
    """Ask, and on a reply that cannot be used quote the error and ask again, at most `reasks` times.
    A transport failure is not asked again: the backbone has already retried. `read` returns (value, parsed)."""
    request, used = call.request, 0
    budget = 1 + settings.reasks
    while True:
        (reply,) = yield [replace(request, max_calls=budget - used)]
        if isinstance(reply, ModelError):
            call.attempts.append(Attempt(request.prompt, None, reply))
            call.error = reply
            raise reply
        used += max(1, reply.usage.calls)
        try:
            value, parsed = read(reply, request.prompt)
        except (BadReply, OpRejected, Conflict, NotFound) as error:
            call.attempts.append(Attempt(request.prompt, reply, error))
            if used >= budget:
                call.error = error
                raise
            prompt = replace(request.prompt, messages=request.prompt.messages + reask_messages(reply.text, error))
            request = replace(request, prompt=prompt, key=f"{call.decision_id}#{used}")
            continue
        call.attempts.append(Attempt(request.prompt, reply, None))
        call.repairs = tuple(parsed.repairs)
        return value, parsed


def was_cut(reply: GenReply) -> bool:
    """Whether the reply ended because it reached its length limit."""
    return reply.finish == "length"


def _shown(scored: Sequence[Scored]) -> tuple[Shown, ...]:
    return tuple(Shown(n, one.record, one.score, one.signals) for n, one in enumerate(scored, start=1))


def drive(steps: Steps, generate: Callable[[Sequence[GenRequest]], Sequence[GenReply | ModelError]]) -> Decided:
    """Run one decision to its end, blocking. `generate` may return errors in their places, or raise one for all."""
    try:
        requests = next(steps)
        while True:
            try:
                replies: list[GenReply | ModelError] = list(generate(requests))
            except ModelError as error:
                replies = [error for _ in requests]
            requests = steps.send(replies)
    except StopIteration as stop:
        return stop.value
