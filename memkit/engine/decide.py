"""From turns to operations: extract, show, manage, check. No I/O and no clock: a generator.

`decide` yields lists of generation requests and is sent the replies (or the `ModelError` that stands for one). The
runtime drives one generator per turn; the trainer drives many in step and generates them as one batch. So the
deployed decision and the trained one are the same code, prompts and re-asks included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memkit.engine.bank import LiveBank
from memkit.engine.big_bank import BigBank
from memkit.engine.call import ModelCall, Parse, Routing, ask_until_readable
from memkit.engine.drive import Steps
from memkit.engine.origins import Held, by_origin, label_shown, with_labels
from memkit.engine.served_with import ServedWith
from memkit.engine.shortlist import Shortlist
from memkit.engine.words import (
    as_they_stand,
    asked_to_end,
    is_merged,
    lives_on,
    words_that_are_covered,
    words_that_end,
)
from memkit.errors import Conflict, MemkitError, ModelError, NotFound, OpRejected
from memkit.models import Bank, MemoryRecord, Op, OpDraft, Turn
from memkit.ops import EDITION, Context, check_batch, check_caps, resolve
from memkit.retrieval import RankerWeights
from memkit.roles import Extractor, Fact, Fused, Manager, Prompt, Shown
from memkit.roles.prompting import CALL_CHARS
from memkit.seams.backbone import Sampling
from memkit.seams.embedder import Embedder
from memkit.text.requests import asks_to_forget
from memkit.text.standing import stands, stood

_HEADINGS = 80
"""Characters that a prompt counts for its headings, at most."""


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
    edition: int = EDITION
    """The rules of deciding; recorded with each decision."""
    was_kept: Callable[[Turn], bool] = lambda turn: False
    """Whether the words of an earlier turn were kept (`keep_turns="all"`): then what was ended of them is not shown."""
    outcome: str = ""
    """How the run ended that these turns are; "" where they are none."""
    hide_covered: bool = False
    """Whether the words of these turns are hidden where a fact says them (`keep_turns="uncovered"`)."""


@dataclass(slots=True)
class Decided:
    """`error` set: the turn is parked with it and nothing is applied. Else `drafts` go to the journal as one batch."""

    drafts: list[OpDraft]
    calls: list[ModelCall]
    now: datetime
    facts: list[Fact] = field(default_factory=list[Fact])
    error: MemkitError | None = None


def decide(task: Task, served: ServedWith, embedder: Embedder) -> Steps[Decided]:
    calls: list[ModelCall] = []
    try:
        if served.mode == "fused":
            drafts, facts = (yield from _fused(task, served, embedder, calls)), []
        else:
            drafts, facts = yield from _split(task, served, embedder, calls)
        check_caps(drafts, task.live.state.get, task.live.memories, served.guard, edition=task.edition)
    except (ModelError, OpRejected, Conflict, NotFound) as error:
        return Decided([], calls, task.now, error=error)
    return Decided([*drafts, *_about_words(task, drafts)], calls, task.now, facts)


def _about_words(task: Task, drafts: Sequence[OpDraft]) -> list[OpDraft]:
    """What a decision means for the words that were said: what it ended is not found in them any more."""
    new = {turn.turn_id for turn in task.turns}
    more: list[OpDraft] = []
    deletions = [draft for draft in drafts if draft.action == "delete"]
    ended = [record for one in deletions if one.memory_id and (record := task.live.state.get(one.memory_id))]
    asked = any(asks_to_forget(turn.text) for turn in task.turns)
    # who merges memories ends the one and writes the other: what that says lives on, unless it is to be forgotten
    written = [] if asked or task.edition < 6 else [one.text for one in drafts if one.action != "delete" and one.text]
    stays = lives_on if task.edition < 7 else is_merged
    ended = [one for one in ended if not any(stays(one.text, text) for text in written)]
    ended += asked_to_end(task.turns)
    if ended or asked:
        said = task.live.words_said({turn for record in ended for turn in record.source_turns} | new)
        by = deletions[0].decision_id if deletions else ""
        more += words_that_end(ended, said, new=new, written=written, decision_id=by)
    if task.hide_covered:
        gone = {draft.memory_id for draft in more}
        more += [
            one for one in words_that_are_covered(drafts, task.live.words_said(new), new) if one.memory_id not in gone
        ]
    return more


def _split(
    task: Task, served: ServedWith, embedder: Embedder, calls: list[ModelCall]
) -> Steps[tuple[list[OpDraft], list[Fact]]]:
    extractor = Extractor(served.instructions, served.style("extractor"), served.wording("extractor"))
    turns, earlier = label_turns(task, task.turns), label_turns(task, earlier_turns(task))
    prompt = extractor.render(turns, earlier)
    facts = yield from ask_until_readable(new_call(task, prompt, (), calls), extractor.parse, served.reasks)
    manager = Manager(served.instructions, served.style("manager"), served.wording("manager"))
    shortlist = _shortlist(task, embedder)
    live, drafts, ops = task.live, list[OpDraft](), list[Op]()
    for fact in facts:
        live = live.after(ops, embedder)
        chars = _room(task, manager.render(fact, (), turns))
        shown = shortlist.pick(live, [fact.text], each=served.candidates, room=served.candidates, chars=chars)
        prompt = manager.render(fact, _shown(task, shown), turns)
        shown = tuple(prompt.view.shown)  # the prompt's budget may have cut some
        call = new_call(task, prompt, shown, calls)
        ops = yield from _ask_for_ops(task, served, call, manager.parse, live, earlier)
        drafts.extend(call.drafts)
    return drafts, facts


def _fused(task: Task, served: ServedWith, embedder: Embedder, calls: list[ModelCall]) -> Steps[list[OpDraft]]:
    texts = [turn.text for turn in task.turns if turn.role in ("user", "assistant")] or [task.turns[-1].text]
    shortlist = _shortlist(task, embedder)
    role = Fused(served.instructions, served.style("fused"), served.wording("fused"))
    turns, earlier = label_turns(task, task.turns), label_turns(task, earlier_turns(task))
    chars = _room(task, role.render(turns, (), earlier))
    shown = shortlist.pick(task.live, texts, each=served.candidates, room=served.fused_candidates, chars=chars)
    prompt = role.render(turns, _shown(task, shown), earlier)
    shown = tuple(prompt.view.shown)  # the prompt's budget may have cut some
    call = new_call(task, prompt, shown, calls)
    yield from _ask_for_ops(task, served, call, role.parse, task.live, earlier)
    return list(call.drafts)


def _ask_for_ops(
    task: Task,
    served: ServedWith,
    call: ModelCall,
    parse: Parse[list[OpDraft]],
    live: LiveBank | BigBank,
    earlier: Sequence[Turn],
) -> Steps[list[Op]]:
    """Ask for operations, check them as a whole against what was shown and what the bank holds, and say what they
    will do, so that the next fact is judged against it. A batch that breaks a rule is asked again."""
    shown = {one.record.id: one.record for one in call.candidates}
    at = max(turn.at for turn in task.turns)
    context = Context(task.bank, call.decision_id, live.seq + 1, task.now, at, edition=task.edition)
    ops: list[Op] = []

    def check(asked: list[OpDraft]) -> None:
        held = list[Held]()
        if task.edition > 4:
            asked, held = by_origin(asked, task.turns, earlier, shown, edition=task.edition)
        check_batch(asked, shown, live.memories, served.guard, edition=task.edition)
        drafts = tuple(
            replace(
                draft,
                decision_id=call.decision_id,
                metadata=carry_metadata(draft, task.turns, shown),
                standing=(task.edition > 2 and _stands(draft, task.edition)) or None,
                expires_at=task.expires_at if draft.action == "add" else None,
            )
            for draft in asked
        )
        ops[:] = resolve(live.state, drafts, context)
        call.drafts, call.held = drafts, tuple(held)

    yield from ask_until_readable(call, parse, served.reasks, check)
    return ops


def _stands(draft: OpDraft, edition: int) -> bool:
    says = stands if edition > 7 else stood
    return draft.action in ("add", "update") and draft.origin == "user" and says(draft.text or "")


def carry_metadata(draft: OpDraft, turns: Sequence[Turn], shown: Mapping[str, MemoryRecord]) -> dict[str, Any] | None:
    """What is written takes the metadata of the turns that it was drawn from, a rewritten memory beside its own. What
    is said again word by word writes nothing."""
    before = shown.get(draft.memory_id or "")
    if draft.action not in ("add", "update") or (before is not None and draft.text in (None, before.text)):
        return None
    sources = [turn for turn in turns if turn.turn_id in draft.source_turns] or turns
    told = {name: value for turn in sources for name, value in turn.metadata.items()}
    return {**(before.metadata if before is not None else {}), **told} if told else None


def new_call(task: Task, prompt: Prompt, shown: Sequence[Shown], calls: list[ModelCall]) -> ModelCall:
    decision_id = task.new_id()
    call = ModelCall.of(
        prompt,
        decision_id,
        state_seq=task.live.seq,
        routing=task.routing.get(prompt.role, Routing()),
        sampling=task.sampling(decision_id, prompt.role),
        candidates=tuple(shown),
        edition=task.edition,
    )
    calls.append(call)
    return call


def label_turns(task: Task, turns: Sequence[Turn]) -> Sequence[Turn]:
    return with_labels(turns) if task.edition > 4 else turns


def _shown(task: Task, shown: Sequence[Shown]) -> Sequence[Shown]:
    return label_shown(shown) if task.edition > 4 else shown


def _room(task: Task, prompt: Prompt) -> int | None:
    """Characters that are left for memories in a prompt that shows none. None: local models are shown as many as those
    that they were trained on."""
    if task.edition < 4 or prompt.style != "json":
        return None
    return max(0, CALL_CHARS - _HEADINGS - sum(len(message.content) for message in prompt.messages))


def earlier_turns(task: Task) -> Sequence[Turn]:
    """The turns before these, as a prompt shows them. (What they bring of memories is there still, and is shown.)"""
    if task.edition < 3:
        return task.context_turns
    return as_they_stand(task.context_turns, task.live.state.get, task.was_kept, task.now)


def _shortlist(task: Task, embedder: Embedder) -> Shortlist:
    return Shortlist(task.context_turns, embedder, now=task.now, weights=task.weights, edition=task.edition)
