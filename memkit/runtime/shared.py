"""Memories that go into a space, and out of the world: promoting, forgetting, and what becomes of both when a user, a
space or a part of one is erased. What is forgotten is destroyed with every copy that was taken of it, wherever that is
by now, and with all that was drawn from either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memkit.errors import NotAllowed, NotFound
from memkit.inputs import Admitted
from memkit.journal.records import Part
from memkit.models import SPACE, Bank, MemoryRecord, Op, OpDraft, Turn, digest, normalise
from memkit.runtime import rights
from memkit.runtime.rights import Caller

if TYPE_CHECKING:
    from memkit.journal import Journal
    from memkit.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Copy:
    """A memory of a space that was taken there from another owner."""

    space: str
    copy: str
    source: str
    memory: str
    by: str
    record_id: str


def promote(runtime: Runtime, who: Caller, into: Admitted, source: str, memory_id: str) -> MemoryRecord:
    """`source`: who owns the memory. That it is copied is on record before the copy is there."""
    journal, space = runtime.journal, into.removeprefix(SPACE)
    found = journal.get(source, memory_id)
    if found is None:
        raise NotFound(
            f"no live memory {memory_id} to promote", why="it was deleted, or belongs to somebody else", fix="list() it"
        )
    there = [one for one in list_copies(journal, space) if (one.source, one.memory) == (source, memory_id)]
    for one in there:
        if (live := journal.get(into, one.copy)) is not None:
            return live[1]
    record, now, copy = found[1], runtime.clock.now(), runtime.ids.new("m")
    known = {"copy": copy, "from": source, "memory": memory_id, "by": who.user_id}
    note = OpDraft("add", text=copy, kind="episode", metadata=known, origin="api", at=now, trainable=False)
    _apply(runtime, Bank(SPACE, space), [note])
    draft = OpDraft(
        "add",
        copy,
        record.text,
        kind="episode" if record.kind == "turn" else record.kind,
        metadata={**record.metadata, "by": who.user_id},
        at=record.at,
        speaker=record.speaker or who.user_id,
        origin=record.origin,
        trust=record.trust,
        expires_at=record.expires_at,
        trainable=record.trainable,
        content_salt=digest([source, memory_id]),
    )
    (op,) = _apply(runtime, Bank(into, ""), [draft])
    assert op.after is not None
    return op.after


def list_copies(journal: Journal, space: str | None = None) -> list[Copy]:
    """Into one space, or into all."""
    bank = None if space is None else Bank(SPACE, space)
    return [
        Copy(found.agent_id, told["copy"], told["from"], told["memory"], told["by"], record.id)
        for found, record in journal.live(bank=bank, user_id=None if bank else SPACE)
        if "copy" in (told := record.metadata)
    ]


def choose_forgotten(runtime: Runtime, who: Caller, space: str, memory_id: str | None, words: str | None) -> Part:
    """What goes: one memory, or all that say these words, with the turns that they were drawn from. Whoever may forget
    reaches everything; whoever may not, what they said or promoted themselves."""
    journal, owner = runtime.journal, SPACE + space
    everything = rights.may(rights.list_grants(journal, space), who, "forget", runtime.clock.now())
    said = [turn for state in journal.iter_intakes(user_id=owner) for turn in state.intake.turns]
    ops = journal.ops(user_id=owner, memory_id=memory_id)
    wanted = None if words is None else normalise(words)
    memories = {op.memory_id or "" for op in ops if op.after and (wanted is None or wanted in normalise(op.after.text))}
    named = {turn for op in ops if op.memory_id in memories for turn in _sources(op)}
    turns = [one for one in said if one.turn_id in named or (wanted is not None and wanted in normalise(one.text))]
    if not everything:
        mine = {turn.turn_id for turn in said if turn.metadata.get("by") == who.user_id}
        own = {op.memory_id for op in ops if not mine.isdisjoint(_sources(op)) or _is_put_by(who.user_id, op)}
        turns, memories = [turn for turn in turns if turn.turn_id in mine], memories & own
    if turns or memories:
        return Part(tuple(sorted(turn.turn_id for turn in turns)), tuple(sorted(memories)))
    if everything:
        raise NotFound("there is nothing of that to forget in this space", fix="list() and history() show what is")
    raise NotAllowed(
        f"{who.user_id!r} may not forget that in the space {space!r}",
        why="no grant that holds now says so, and it is nothing that they said or promoted",
        fix=f"have somebody who may share there call grant('forget', to={who.user_id!r})",
    )


def _is_put_by(user_id: str, op: Op) -> bool:
    """What no turn led to: it was promoted, or put there by a plug that keeps a host's own data."""
    return op.after is not None and not _sources(op) and op.after.metadata.get("by") == user_id


def _sources(op: Op) -> tuple[str, ...]:
    return (*op.source_turns, *(op.after.source_turns if op.after else ()))


def copies_of(journal: Journal, owner: str, memories: Iterable[str] | None = None) -> Iterator[tuple[str, Part]]:
    """Space owners, each with the copies there of these memories of `owner`; of all, where none are named."""
    wanted = None if memories is None else set(memories)
    found = [one for one in list_copies(journal) if one.source == owner and (wanted is None or one.memory in wanted)]
    for space in sorted({one.space for one in found}):
        yield SPACE + space, Part(memories=tuple(sorted(one.copy for one in found if one.space == space)))


def parts_of(journal: Journal, user_id: str) -> Iterator[tuple[str, Part]]:
    """What an erased user leaves in spaces: copies of the user's memories, what the user promoted and said there; and
    last, what the records of the rights know. Of a space that is erased: its copies elsewhere, and its own records."""
    if not journal.user_banks(SPACE):
        return
    copies = list_copies(journal)
    yield from copies_of(journal, user_id)
    spaces = {bank.agent_id for bank, _ in journal.user_banks(SPACE)} if not user_id.startswith(SPACE) else set[str]()
    for space in sorted(spaces):
        owner = SPACE + space
        turns = [turn.turn_id for turn in _said_by(journal, owner, user_id)]
        memories = {op.memory_id for op in journal.ops(user_id=owner) if op.memory_id and _is_put_by(user_id, op)}
        if turns or memories:
            yield owner, Part(tuple(sorted(turns)), tuple(sorted(memories)))
    own = [one.record_id for one in copies if user_id in (one.source, one.by, SPACE + one.space)]
    grants = [
        one.grant_id
        for one in rights.list_grants(journal)
        if SPACE + one.space == user_id or (one.to == user_id and not one.is_role) or one.by == user_id
    ]
    if own or grants:
        yield SPACE, Part(memories=tuple(sorted({*own, *grants})))


def _said_by(journal: Journal, owner: str, user_id: str) -> Iterator[Turn]:
    for state in journal.iter_intakes(user_id=owner):
        yield from (turn for turn in state.intake.turns if turn.metadata.get("by") == user_id)


def _apply(runtime: Runtime, bank: Bank, drafts: list[OpDraft]) -> list[Op]:
    now = runtime.clock.now()
    ops = runtime.journal.apply(bank, drafts, decision_id=runtime.ids.new("u"), at=now, cause="api")
    runtime.note_applied(bank, ops)
    return ops
