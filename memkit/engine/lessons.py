"""An agent's run becomes lessons: what the reflector writes, how far it is believed, and what use makes of that.

A run that failed never teaches as a success, whatever a reply says: its lessons begin with a mark and half the trust,
and change none that a success taught. What a lesson says more of than the agent did, a tool or a document said: it has
their origin. What use shows moves the trust (`confidence`) of a lesson; one that keeps failing ends, and so does one
that nobody used for half a year."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from memkit.engine.call import ModelCall, ask_until_readable
from memkit.engine.decide import Decided, Task, carry_metadata, earlier_turns, label_turns, new_call
from memkit.engine.drive import Steps
from memkit.engine.origins import Held, label_shown, origin_of_lesson
from memkit.engine.served_with import ServedWith
from memkit.errors import Conflict, ModelError, NotFound, OpRejected
from memkit.models import MemoryRecord, OpDraft
from memkit.ops import Context, check_batch, check_caps, resolve
from memkit.ops.origin import strength, trust_of
from memkit.retrieval import Scored
from memkit.roles import Reflector, Shown
from memkit.seams.embedder import Embedder

OUTCOMES = ("success", "failure", "unknown")
_MARKS = {"success": "", "failure": "After a failure: ", "unknown": "Not judged: "}
_BELIEVED = {"success": 1.0, "failure": 0.5, "unknown": 0.6}
"""Share of the trust in whoever said it."""
_KEPT = timedelta(days=180)
"""How long a lesson lasts that nobody uses."""
_STEP = 1 / 3
"""How far one use moves the trust in a lesson towards its outcome."""
_LEAST, _FAILED = 0.25, 2
"""A lesson with less trust, which failed so often, ends."""


def reflect(task: Task, served: ServedWith, embedder: Embedder) -> Steps[Decided]:
    """The counterpart of `decide` for the turns of a run: the task, its steps, and how it ended."""
    calls: list[ModelCall] = []
    try:
        drafts = yield from _reflect(task, served, embedder, calls)
        check_caps(drafts, task.live.state.get, task.live.memories, served.guard, edition=task.edition)
    except (ModelError, OpRejected, Conflict, NotFound) as error:
        return Decided([], calls, task.now, error=error)
    return Decided(drafts, calls, task.now)


def _reflect(task: Task, served: ServedWith, embedder: Embedder, calls: list[ModelCall]) -> Steps[list[OpDraft]]:
    role = Reflector(served.style("fused"), served.wording("fused"))
    texts = [task.turns[0].text, task.turns[-1].text]
    found = task.live.candidates(texts, embedder, k=served.fused_candidates, now=task.now, kinds=("lesson",))
    prompt = role.render(
        label_turns(task, task.turns), label_shown(_numbered(found)), label_turns(task, earlier_turns(task))
    )
    call = new_call(task, prompt, prompt.view.shown, calls)
    shown = {one.record.id: one.record for one in call.candidates}
    at = max(turn.at for turn in task.turns)
    context = Context(task.bank, call.decision_id, task.live.seq + 1, task.now, at, edition=task.edition)

    def check(asked: list[OpDraft]) -> None:
        pairs = [_as_lesson(draft, task, shown) for draft in asked]
        drafts = tuple(draft for draft, _ in pairs)
        check_batch(drafts, shown, task.live.memories, served.guard, edition=task.edition)
        resolve(task.live.state, drafts, context)
        call.drafts, call.held = drafts, tuple(held for _, held in pairs if held is not None)

    yield from ask_until_readable(call, role.parse, served.reasks, check)
    return list(call.drafts)


def _numbered(rows: Sequence[Sequence[Scored]]) -> list[Shown]:
    best: dict[str, Scored] = {}
    for one in sorted((one for row in rows for one in row), key=lambda one: (-one.score, one.record.seq)):
        best.setdefault(one.record.id, one)
    return [Shown(n, one.record, one.score, one.signals) for n, one in enumerate(best.values(), start=1)]


def _as_lesson(draft: OpDraft, task: Task, shown: Mapping[str, MemoryRecord]) -> tuple[OpDraft, Held | None]:
    """A draft as it may be applied, and what was asked for where it may not."""
    target = shown.get(draft.memory_id or "")
    draft = replace(draft, speaker="", origin=origin_of_lesson(draft, task.turns, shown.values()))
    held = None
    if target is not None and draft.action in ("update", "delete") and (why := _may_not(draft, target, task.outcome)):
        held = Held(draft, why)
        draft = replace(draft, action="add" if draft.action == "update" else "noop", memory_id=None)
    if draft.action not in ("add", "update"):
        return draft, held
    told = carry_metadata(draft, task.turns, shown) or {}
    lesson = {"lesson": {"outcome": task.outcome, "used": 0, "helped": 0}}
    return replace(
        draft,
        kind="lesson",
        text=_marked(draft.text or "", task.outcome),
        trust=round(trust_of(draft.origin) * _BELIEVED[task.outcome], 4),
        metadata={**told, **lesson},
        expires_at=task.now + _KEPT,
    ), held


def _may_not(draft: OpDraft, target: MemoryRecord, outcome: str) -> str:
    if strength(draft.origin) < strength(target.origin):
        return f"text from a {draft.origin} may not {draft.action} what a {target.origin} said"
    if outcome != "success" and _counts(target)["outcome"] == "success":
        return f"a run with outcome {outcome} may not {draft.action} what a success taught"
    return ""


def _marked(text: str, outcome: str) -> str:
    """The text with the mark of its run alone: a model may have copied that of the lesson that it rewrites."""
    for mark in filter(None, _MARKS.values()):
        while text.startswith(mark):
            text = text[len(mark) :]
    return _MARKS[outcome] + text


def credit(record: MemoryRecord, reward: float, now: datetime) -> OpDraft:
    """What a lesson's use makes of it: more or less trust and a longer life, or its end."""
    told = _counts(record)
    used, helped = told["used"] + 1, told["helped"] + (reward >= 0.5)
    trust = round(record.trust + _STEP * (reward - record.trust), 4)
    if trust < _LEAST and used - helped >= _FAILED:
        return OpDraft("delete", record.id, expected_revision=record.revision, origin="api", at=now)
    return OpDraft(
        "update",
        record.id,
        metadata={**record.metadata, "lesson": {**told, "used": used, "helped": helped}},
        trust=trust,
        expires_at=now + _KEPT,
        expected_revision=record.revision,
        origin="api",
        at=now,
    )


def _counts(record: MemoryRecord) -> dict[str, Any]:
    """Whoever wrote the metadata: `update` may have replaced it."""
    told = record.metadata.get("lesson")
    found: dict[str, Any] = dict(told) if isinstance(told, Mapping) else {}  # pyright: ignore[reportUnknownArgumentType]
    counts = {name: found.get(name) for name in ("used", "helped")}
    whole = {name: value if isinstance(value, int) and value >= 0 else 0 for name, value in counts.items()}
    return {"outcome": str(found.get("outcome", "unknown")), **whole}
