"""The rules of the four operations.

`resolve` turns drafts into ops with before- and after-images, against a *view* of the bank, one after the other, all
or none. It decides nothing about quality; it says what an operation does:

- ADD of content that the bank already holds is a NOOP that joins the source turns. Where it lasts longer than the
  memory would (its end is later, or there is none; the memory may have ended already), it is an UPDATE of that end;
  where it is to stand and does not yet, an UPDATE of that.
- UPDATE keeps the id, raises the revision, joins the source turns; an update that changes nothing is a NOOP.
  An update into the content of another live memory is refused.
- DELETE ends the memory; its before-image stays in the log.
- NOOP may name a memory: then it joins the source turns (the memory was said again).
- What is said by a weaker origin than the memory's neither joins it nor makes it last; what a stronger one says again
  is from then on said by that.
- A memory's time (`at`) is when its content was said: new content has the time of the new words, and the revision
  before keeps its own. What is said again keeps its time, and is `confirmed_at` that of the newest words.

A memory names its first and its latest source turns, up to a limit: what is said a thousand times must not grow.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from memkit.errors import Conflict, DuplicateMemory, NotFound, OpRejected, RevisionConflict, UndoConflict
from memkit.models import Action, Bank, MemoryRecord, Op, OpDraft, content_hash
from memkit.ops.origin import strength, trust_of
from memkit.ops.state import BankState

EDITION = 8
"""Of the rules of deciding. Each decision records the one that it was made by, and is replayed by it. In 1, as up to
version 0.1.0, what was said again took the time of that, and no manager was shown what the EARLIER turns are about.
Up to 2, nothing that was written was marked as standing, and EARLIER turns were shown with what had been ended of
them. Up to 3, a manager that is asked in JSON was shown so many memories, and not as many as its prompt
holds, and the guard took every update for a loss. Up to 4, an operation had the origin of the turn that its reply
named, and all origins had one trust. Up to 5, standing memories had no place of their own in a manager's list, a
memory that was merged into another took its words with it, and candidates were ranked by default/1. Up to 6, what a
user said became an assistant's as soon as that asked about it or said it again in another spelling, and words ended
with a memory that another told again in a word or two less. Up to 7, fewer words made a memory stand."""
FIRST_SOURCES, LATEST_SOURCES = 8, 24
"""Source turns that a memory names at most: the first ones, and the latest."""


class BankView(Protocol):
    """The live memories of one bank, as `resolve` needs to see them."""

    def get(self, memory_id: str) -> MemoryRecord | None: ...
    def find(self, content_hash: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """What every op of a batch has in common."""

    bank: Bank
    decision_id: str
    first_seq: int
    now: datetime
    """Record time."""
    at: datetime
    """Conversation time of drafts that name none."""
    cause: str = "decision"
    edition: int = EDITION
    seqs: Sequence[int] = ()
    """The numbers of the ops, where an engine leaves some out; else they follow on from `first_seq`."""


def make_op_id(decision_id: str, index: int) -> str:
    """Derived, so that replaying a decision yields the same ids."""
    return "o_" + hashlib.sha256(f"{decision_id}\x1f{index}".encode()).hexdigest()[:24]


def resolve(view: BankView, drafts: Sequence[OpDraft], context: Context, undoes: Sequence[str] = ()) -> list[Op]:
    """Ops for `drafts` in order, or the error of the first draft that breaks a rule (its `details["index"]` says
    which); nothing is applied here. `undoes` names, draft by draft, the op that each of the first ones compensates."""
    overlay = _Overlay(view)
    ops: list[Op] = []
    per_decision: Counter[str] = Counter()
    for index, draft in enumerate(drafts):
        decision_id = draft.decision_id or context.decision_id
        op_id = make_op_id(decision_id, per_decision[decision_id])
        per_decision[decision_id] += 1
        seq = context.seqs[index] if context.seqs else context.first_seq + index
        try:
            action, memory_id, before, after = _resolve_one(overlay, draft, context, op_id, seq)
        except (Conflict, NotFound, OpRejected) as error:
            error.details["index"] = index
            raise
        overlay.write(memory_id, before, after)
        ops.append(
            Op(
                op_id=op_id,
                seq=seq,
                bank=context.bank,
                action=action,
                memory_id=memory_id,
                text=after.text if after else draft.text,
                before=before,
                after=after,
                source_turns=draft.source_turns,
                decision_id=decision_id,
                at=draft.at or context.at,
                recorded_at=context.now,
                cause=context.cause,
                undoes=undoes[index] if index < len(undoes) else None,
            )
        )
    return ops


def apply(bank: BankState, drafts: Sequence[OpDraft], context: Context) -> tuple[BankState, list[Op]]:
    """The bank after `drafts`, and the ops that lead there."""
    ops = resolve(bank, drafts, context)
    return bank.fold(ops), ops


def inverse(op: Op) -> OpDraft | None:
    """The draft that compensates `op`; None where nothing changed. It is checked like any other: it conflicts when
    something was built on top of `op` since."""
    if op.memory_id is None or op.before == op.after:
        return None
    action: Action = "add" if op.after is None else "delete" if op.before is None else "update"
    return OpDraft(
        action,
        op.memory_id,
        source_turns=op.source_turns,
        at=op.at,
        restore=op.before,
        expected_revision=op.after.revision if op.after else None,
    )


_Resolved = tuple[Action, str | None, MemoryRecord | None, MemoryRecord | None]


def _resolve_one(view: _Overlay, draft: OpDraft, context: Context, op_id: str, seq: int) -> _Resolved:
    if draft.restore is not None:
        return _restore(view, draft, context, seq)
    match draft.action:
        case "add":
            return _add(view, draft, context, op_id, seq)
        case "update":
            return _update(view, draft, context, seq)
        case "delete":
            target = _target(view, draft)
            return "delete", target.id, target, None
        case "noop":
            if draft.memory_id is None:
                return "noop", None, None, None
            target = _target(view, draft)
            joins = not _is_weaker(draft, target, context)
            return "noop", target.id, target, _join(target, draft, context, seq) if joins else target


def _add(view: _Overlay, draft: OpDraft, context: Context, op_id: str, seq: int) -> _Resolved:
    text = _text(draft)
    key = content_hash(text, draft.kind, draft.content_salt)
    twin_id = view.find(key)
    twin = view.get(twin_id) if twin_id else None
    if twin is not None:
        return _said_again(twin, draft, context, seq)
    memory_id = draft.memory_id or "m_" + hashlib.sha256(op_id.encode()).hexdigest()[:20]
    record = MemoryRecord(
        id=memory_id,
        text=text,
        kind=draft.kind,
        metadata=dict(draft.metadata or {}),
        source_turns=_sources(draft.source_turns),
        created_at=context.now,
        updated_at=context.now,
        revision=1,
        at=draft.at or context.at,
        speaker=draft.speaker,
        session_id=draft.session_id,
        origin=draft.origin,
        trust=_trust(draft, context),
        expires_at=draft.expires_at,
        trainable=draft.trainable,
        standing=bool(draft.standing),
        content_hash=key,
        seq=seq,
    )
    return "add", memory_id, None, record


def _said_again(twin: MemoryRecord, draft: OpDraft, context: Context, seq: int) -> _Resolved:
    if _is_weaker(draft, twin, context):
        return "noop", twin.id, twin, twin
    joined, ends = _join(twin, draft, context, seq), draft.expires_at
    lasts = twin.expires_at is not None and (ends is None or ends > twin.expires_at)
    standing = twin.standing or bool(draft.standing)
    owned = _owned(joined, draft, context)
    if not lasts and standing == twin.standing and owned.origin == twin.origin:
        return "noop", twin.id, twin, joined
    ends = ends if lasts else twin.expires_at
    after = replace(
        owned, standing=standing, expires_at=ends, updated_at=context.now, revision=twin.revision + 1, seq=seq
    )
    return "update", twin.id, twin, after


def _trust(draft: OpDraft, context: Context) -> float:
    if draft.trust is not None:
        return draft.trust
    return trust_of(draft.origin) if context.edition > 4 else 1.0


def _is_weaker(draft: OpDraft, target: MemoryRecord, context: Context) -> bool:
    return context.edition > 4 and strength(draft.origin) < strength(target.origin)


def _owned(record: MemoryRecord, draft: OpDraft, context: Context) -> MemoryRecord:
    """`record`, said by whoever says it now where that is the stronger one."""
    if context.edition < 5 or record.kind == "turn" or strength(draft.origin) <= strength(record.origin):
        return record
    return replace(record, origin=draft.origin, trust=max(record.trust, trust_of(draft.origin)), speaker=draft.speaker)


def _update(view: _Overlay, draft: OpDraft, context: Context, seq: int) -> _Resolved:
    target = _target(view, draft)
    text = target.text if draft.text is None else _text(draft)
    metadata = target.metadata if draft.metadata is None else dict(draft.metadata)
    trust = target.trust if draft.trust is None else draft.trust
    expires_at = target.expires_at if draft.expires_at is None else draft.expires_at
    standing = target.standing if draft.standing is None else draft.standing
    before = (target.text, target.metadata, target.trust, target.expires_at, target.standing)
    if (text, metadata, trust, expires_at, standing) == before:
        return "noop", target.id, target, _join(target, draft, context, seq)
    key = target.content_hash if text == target.text else content_hash(text, target.kind, draft.content_salt)
    _refuse_twin(view, key, target.id)
    joined = _join(target, draft, context, seq)
    after = replace(
        joined,
        text=text,
        metadata=metadata,
        trust=trust,
        expires_at=expires_at,
        standing=standing,
        content_hash=key,
        updated_at=context.now,
        revision=target.revision + 1,
        seq=seq,
    )
    if context.edition > 1 and key != target.content_hash:
        after = replace(_owned(after, draft, context), at=draft.at or context.at, confirmed_at=None)
    return "update", target.id, target, after


def _restore(view: _Overlay, draft: OpDraft, context: Context, seq: int) -> _Resolved:
    image, memory_id = draft.restore, draft.memory_id
    assert image is not None
    assert memory_id is not None
    current = view.get(memory_id)
    if draft.action == "add" and current is not None:
        raise UndoConflict(
            f"memory {memory_id} is live again, so its deletion cannot be undone",
            why="a later op brought it back",
            fix="look at history(memory_id=...) and undo the newest op first",
        )
    if draft.action == "update":
        current = _target(view, draft)
    twin = view.find(image.content_hash)
    if twin is not None and twin != memory_id:
        raise UndoConflict(
            f"memory {memory_id} cannot get its earlier text back",
            why=f"memory {twin} holds the same text by now",
            fix=f"undo or delete {twin} first",
        )
    newest = max(image.revision, current.revision if current else 0)
    after = replace(image, revision=newest + 1, updated_at=context.now, seq=seq)
    return draft.action, memory_id, current, after


def _target(view: _Overlay, draft: OpDraft) -> MemoryRecord:
    if draft.memory_id is None:
        raise OpRejected(f"{draft.action} without a target", why="it must name the memory it changes")
    target = view.get(draft.memory_id)
    if target is None:
        raise NotFound(
            f"no live memory {draft.memory_id} in this bank",
            why="it was deleted, or belongs to another user or agent",
            fix="list(user_id=...) shows what is there; history(memory_id=...) shows what became of it",
        )
    if draft.expected_revision is not None and draft.expected_revision != target.revision:
        raise RevisionConflict(
            f"memory {target.id} is at revision {target.revision}, not {draft.expected_revision}",
            why="somebody changed it since you read it",
            fix="read it again and retry with the current revision",
            current=target.revision,
        )
    return target


def _refuse_twin(view: _Overlay, key: str, own_id: str) -> None:
    twin = view.find(key)
    if twin is not None and twin != own_id:
        raise DuplicateMemory(
            f"memory {own_id} would become a copy of {twin}",
            why="content is unique within a bank",
            fix=f"delete {own_id} instead, or use another text",
            twin=twin,
        )


def _text(draft: OpDraft) -> str:
    if draft.text is None or not draft.text.strip():
        raise OpRejected(f"{draft.action} without text", why="a memory must say something")
    return draft.text


def _join(record: MemoryRecord, draft: OpDraft, context: Context, seq: int) -> MemoryRecord:
    """`record` with the draft's source turns joined; the very same object when nothing is new."""
    sources = _sources(record.source_turns + draft.source_turns)
    if sources == record.source_turns:
        return record
    said = draft.at or context.at
    if context.edition == 1 or record.at is None:
        return replace(record, source_turns=sources, at=max(record.at or said, said), seq=seq)
    latest = max(record.confirmed_at or record.at, said)
    return replace(record, source_turns=sources, confirmed_at=latest if latest > record.at else None, seq=seq)


def _sources(turns: Sequence[str]) -> tuple[str, ...]:
    """Each turn once. Of a memory that is said over and over, where it came from and where it was said of late: every
    op keeps the turns of its own, so history, undo and credit miss nothing."""
    unique = tuple(dict.fromkeys(turns))
    if len(unique) <= FIRST_SOURCES + LATEST_SOURCES:
        return unique
    return unique[:FIRST_SOURCES] + unique[-LATEST_SOURCES:]


class _Overlay:
    """The view with the batch's own earlier ops on top."""

    def __init__(self, view: BankView) -> None:
        self._view = view
        self._written: dict[str, MemoryRecord | None] = {}
        self._content: dict[str, str | None] = {}

    def get(self, memory_id: str) -> MemoryRecord | None:
        return self._written[memory_id] if memory_id in self._written else self._view.get(memory_id)

    def find(self, content_hash: str) -> str | None:
        return self._content[content_hash] if content_hash in self._content else self._view.find(content_hash)

    def write(self, memory_id: str | None, before: MemoryRecord | None, after: MemoryRecord | None) -> None:
        if memory_id is None:
            return
        self._written[memory_id] = after
        if before is not None:
            self._content[before.content_hash] = None
        if after is not None:
            self._content[after.content_hash] = memory_id
