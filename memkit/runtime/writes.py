"""The writing verbs: add, update, delete, undo. Each ends in one journal transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from itertools import accumulate, count
from time import monotonic
from typing import TYPE_CHECKING, Any

from memkit.engine.record import reason
from memkit.engine.words import row_id, words_of, words_that_end
from memkit.errors import InvalidInput, NotFound, RevisionConflict, UndoConflict
from memkit.inputs import (
    CheckedMessage,
    aware,
    json_object,
    keep_turns_of,
    messages,
    optional_id,
    scope_id,
    text_of,
    whole_number,
)
from memkit.journal import Intake
from memkit.models import SPACE, Bank, MemoryRecord, Op, OpDraft, Turn, digest
from memkit.ops import Compensation, Past
from memkit.results import AddResult
from memkit.runtime.redaction import redacted_data, redacted_values

if TYPE_CHECKING:
    from memkit.journal import Accepted, IntakeState
    from memkit.runtime.runtime import Runtime

_NEAR = 1_000
"""Ops behind a deletion among which those of its words are looked for."""


def add(
    runtime: Runtime,
    raw: Any,
    *,
    bank: Bank,
    session_id: str | None,
    at: datetime | str | None,
    metadata: Mapping[str, Any] | None,
    idempotency_key: str | None,
    infer: bool,
    wait: bool,
    expires_at: datetime | str | None,
    keep_turns: str | None,
) -> AddResult:
    intake = make_intake(runtime, raw, bank, session_id, at, metadata, idempotency_key, infer, expires_at, keep_turns)
    if not infer:
        accepted = runtime.journal.accept(intake, drafts=[episode(turn, intake) for turn in intake.turns])
        _followed(runtime, accepted)
        runtime.note_applied(bank, accepted.ops)
        return AddResult(
            accepted.state.intake.intake_id,
            accepted.state.status,
            accepted.ops,
            accepted.state.intake.turns,
            replayed=accepted.replayed,
        )
    words = words_of(intake.turns, intake.expires_at) if intake.keep_turns in ("all", "uncovered") else ()
    return keep_and_decide(runtime, intake, words, wait)


def keep_and_decide(runtime: Runtime, intake: Intake, words: Sequence[OpDraft], wait: bool) -> AddResult:
    """The intake made durable, and what became of it, or will."""
    accepted = runtime.journal.accept(intake, words=words, claim=wait and runtime.ready)
    _followed(runtime, accepted)
    runtime.note_applied(intake.bank, accepted.said)
    state, ops = accepted.state, accepted.ops
    if state.status == "pending" and wait:
        state, applied = runtime.writer.settle(state.intake, accepted.claim, monotonic() + runtime.config.wait_s)
        ops = tuple(applied)
    if state.status == "pending":
        runtime.note_owed(state.intake.intake_id)
    why = _reason(runtime, state, ops)
    return AddResult(state.intake.intake_id, state.status, ops, state.intake.turns, why, accepted.replayed)


def _followed(runtime: Runtime, accepted: Accepted) -> None:
    """The user has spoken: what was said may judge the answer before it. A retried call says nothing new, and a run is
    no talk."""
    intake = accepted.state.intake
    if not accepted.replayed and not intake.outcome:
        runtime.traces.note_next_turns(intake.bank, intake.turns)


def adopt(runtime: Runtime, memories: Iterable[Mapping[str, Any]]) -> int:
    """Take over memories that another system kept: each is stored as it is, as a fact of origin `import`, unless the
    bank has it already. A `key` (its id over there) makes that hold for good: what was deleted here does not return."""
    if not isinstance(memories, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput("import_() takes a file or memories", fix="pass a path, or an iterable of mappings")
    return sum(_adopt_one(runtime, raw) for raw in memories)


_ADOPTED = frozenset({"text", "user_id", "agent_id", "session_id", "speaker", "at", "metadata", "kind", "key"})


def _adopt_one(runtime: Runtime, raw: Mapping[str, Any]) -> int:
    if not isinstance(raw, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(f"an imported memory is {type(raw).__name__}", fix="pass mappings with text and user_id")
    unknown = sorted(set(raw) - _ADOPTED, key=str)
    if unknown or raw.get("kind", "fact") not in ("fact", "episode"):
        raise InvalidInput(
            f"an imported memory has {f'the field {unknown[0]!r}' if unknown else 'an unknown kind'}",
            why=f"it may have {', '.join(sorted(_ADOPTED))}; kind is fact or episode",
            fix="drop or rename it",
        )
    bank = Bank(scope_id(raw.get("user_id"), "user_id"), optional_id(raw.get("agent_id"), "agent_id"))
    said = {"role": "user", "content": raw.get("text"), "name": raw.get("speaker") or None}
    key = raw.get("key")
    intake = make_intake(
        runtime,
        said,
        bank,
        raw.get("session_id"),
        raw.get("at"),
        raw.get("metadata"),
        None if key is None else f"import:{digest(scope_id(key, 'key'))}",
        False,
        None,
        None,
    )
    turn = replace(intake.turns[0], origin="import")
    draft = replace(episode(turn, intake), kind=raw.get("kind", "fact"))
    if draft.kind == "fact":
        draft = replace(draft, content_salt="")
    accepted = runtime.journal.accept(replace(intake, turns=(turn,)), drafts=[draft])
    added = 0 if accepted.replayed else sum(op.action == "add" for op in accepted.ops)
    runtime.note_applied(bank, accepted.ops if added else ())
    return added


def update(
    runtime: Runtime,
    user_id: str,
    memory_id: str,
    text: str | None,
    metadata: Mapping[str, Any] | None,
    expected_revision: int | None,
) -> MemoryRecord:
    if text is None and metadata is None:
        raise InvalidInput("update() changes nothing", fix="pass text, metadata=..., or both")
    if expected_revision is not None and (
        isinstance(expected_revision, bool) or not isinstance(expected_revision, int)
    ):
        raise InvalidInput("expected_revision must be a whole number", fix="pass record.revision")
    config = runtime.config
    bank, record = _own(runtime, user_id, memory_id)
    now = runtime.clock.now()
    draft = OpDraft(
        "update",
        memory_id,
        None if text is None else runtime.redact_text(text_of(text, "the text", config.max_message_bytes)),
        metadata=None if metadata is None else _metadata(runtime, metadata, bank),
        expected_revision=expected_revision,
        origin="api",
        at=now,
    )
    ops = runtime.journal.apply(bank, [draft], decision_id=runtime.ids.new("u"), at=now, cause="api")
    runtime.note_applied(bank, ops)
    return ops[0].after or record


def pin(runtime: Runtime, user_id: str, memory_id: str, pinned: object) -> MemoryRecord:
    if not isinstance(pinned, bool):
        raise InvalidInput("pinned must be True or False", fix="pass pinned=False to let the memory go")
    bank, record = _own(runtime, user_id, memory_id)
    now = runtime.clock.now()
    draft = OpDraft("update", memory_id, standing=pinned, origin="api", at=now)
    ops = runtime.journal.apply(bank, [draft], decision_id=runtime.ids.new("u"), at=now, cause="api")
    runtime.note_applied(bank, ops)
    return ops[0].after or record


def delete(runtime: Runtime, user_id: str, memory_id: str) -> Op:
    bank, record = _own(runtime, user_id, memory_id)
    now = runtime.clock.now()
    drafts = [OpDraft("delete", memory_id, origin="api", at=now), *_words_that_end(runtime, bank, [record])]
    ops = runtime.journal.apply(bank, drafts, decision_id=runtime.ids.new("u"), at=now, cause="api")
    runtime.note_applied(bank, ops)
    return ops[0]


def _words_that_end(runtime: Runtime, bank: Bank, ended: Sequence[MemoryRecord]) -> list[OpDraft]:
    """What becomes of the words of a bank when these memories end."""
    facts = [record for record in ended if record.kind == "fact"]
    if not facts:
        return []
    return words_that_end(facts, [record for _, record in runtime.journal.live(bank=bank, kinds=("turn",))])


def delete_all(runtime: Runtime, user_id: str, agent_id: str | None) -> int:
    banks = [Bank(user_id, agent_id)] if agent_id else [bank for bank, _ in runtime.journal.user_banks(user_id)]
    total = 0
    for bank in banks:
        now = runtime.clock.now()
        drafts = [OpDraft("delete", record.id, origin="api", at=now) for _, record in runtime.journal.live(bank=bank)]
        if not drafts:
            continue
        try:
            ops = runtime.journal.apply(bank, drafts, decision_id=runtime.ids.new("u"), at=now, cause="api")
        except NotFound:
            return total + delete_all(runtime, user_id, agent_id)  # somebody deleted one of them meanwhile
        runtime.note_applied(bank, ops)
        total += sum(op.before is not None and op.before.kind != "turn" for op in ops)
    return total


def undo(
    runtime: Runtime, user_id: str, op_id: str | None, turn_id: str | None, since: int | datetime | None
) -> list[Op]:
    if sum(value is not None for value in (op_id, turn_id, since)) != 1:
        raise InvalidInput("undo() needs exactly one of op_id, turn_id and since", fix="name what is to be undone")
    targets = _to_undo(runtime, user_id, op_id, turn_id, since)
    by_bank: dict[Bank, list[Op]] = {}
    for op in targets:
        by_bank.setdefault(op.bank, []).append(op)
    written: list[Op] = []
    undone: dict[str, str] = {}
    for bank, ops in by_bank.items():
        written.extend(_compensate(runtime, bank, ops, undone))
    if undone and not written and since is None:
        taker = next(iter(undone.values()))
        raise UndoConflict(
            "this is undone already", why=f"the op {taker} took it back", fix=f"undo {taker} to bring it back", op=taker
        )
    return written


def _compensate(runtime: Runtime, bank: Bank, targets: Sequence[Op], undone: dict[str, str]) -> list[Op]:
    """One compensating op per memory, what was done last first. `undone` gains the targets that stand no more."""
    names = {op.op_id for op in targets}
    found: list[Compensation] = []
    touched = dict.fromkeys(op.memory_id for op in targets if op.memory_id and op.before != op.after)
    for memory_id in touched:
        past = Past(runtime.journal.ops(bank=bank, memory_id=memory_id))
        undone |= {op_id: taker for op_id, taker in past.undone.items() if op_id in names}
        if (one := past.compensate(names)) is not None:
            found.append(one)
    if not found:
        return []
    found.sort(key=lambda one: -one.seq)
    words = _words_that_end(runtime, bank, [one.ends for one in found if one.ends is not None])
    drafts = [*(one.draft for one in found), *(one for one in words if one.memory_id not in touched)]
    now = runtime.clock.now()
    try:
        ops = runtime.journal.apply(
            bank,
            drafts,
            decision_id=runtime.ids.new("u"),
            at=now,
            cause="undo",
            undoes=[one.undoes for one in found],
        )
    except (RevisionConflict, NotFound) as error:
        raise UndoConflict(
            "the memory was changed while this was being undone", why=error.what, fix="undo it again"
        ) from None
    runtime.note_applied(bank, ops)
    return ops


def _to_undo(
    runtime: Runtime, user_id: str, op_id: str | None, turn_id: str | None, since: int | datetime | None
) -> list[Op]:
    journal = runtime.journal
    if op_id is not None:
        found = journal.ops(user_id=user_id, op_id=scope_id(op_id, "op_id"))
        found += [op for one in found for op in _words_ended_with(runtime, one)]
    elif turn_id is not None:
        wanted = scope_id(turn_id, "turn_id")
        if wanted.startswith("z_"):
            from memkit.runtime.tidying import ops_of

            return ops_of(runtime, user_id, wanted)
        intake_id = wanted
        if not wanted.startswith("i_"):
            turns = [turn for turn in journal.turns(turn_ids=[wanted]) if turn.bank.user_id == user_id]
            intake_id = turns[0].intake_id if turns else ""
        found = journal.ops(user_id=user_id, intake_id=intake_id) if intake_id else []
        if intake_id != wanted:
            found = [op for op in found if wanted in op.source_turns]
        said = journal.turns(intake_id=intake_id, bank=None) if intake_id else []
        found += [
            op
            for turn in said
            if turn.bank.user_id == user_id and wanted in (turn.turn_id, intake_id)
            for op in _ops_of_words(runtime, user_id, turn.turn_id)
        ]
    elif isinstance(since, int) and not isinstance(since, bool):
        return journal.ops(user_id=user_id, after=whole_number(since, "since", 0, 2**63 - 1) - 1)
    else:
        moment = aware(since, "since")
        return [op for op in journal.ops(user_id=user_id) if op.recorded_at >= moment]
    if not found:
        raise NotFound(
            "there is nothing of that name to undo for this user",
            why="the id belongs to nobody here, or the turn led to no op",
            fix="history(user_id=...) lists op ids and their source turns",
        )
    return found


def _ops_of_words(runtime: Runtime, user_id: str, turn_id: str) -> list[Op]:
    """What was done to the rows that keep the words of a turn."""
    found: list[Op] = []
    for number in count():
        ops = runtime.journal.ops(user_id=user_id, memory_id=row_id(turn_id, number))
        if not ops:
            break
        found += ops
    return found


def _words_ended_with(runtime: Runtime, op: Op) -> list[Op]:
    """The words that went with a deletion: they come back with it."""
    if op.action != "delete":
        return []
    near = runtime.journal.ops(bank=op.bank, after=op.seq, limit=_NEAR)
    return [one for one in near if one.decision_id == op.decision_id and one.before and one.before.kind == "turn"]


def _own(runtime: Runtime, user_id: str, memory_id: str) -> tuple[Bank, MemoryRecord]:
    found = runtime.journal.get(user_id, scope_id(memory_id, "id"))
    if found is None:
        raise NotFound(
            f"no live memory {memory_id} for this user",
            why="it was deleted, or belongs to somebody else",
            fix="list(user_id=...) shows what is there",
        )
    return found


def make_intake(
    runtime: Runtime,
    raw: Any,
    bank: Bank,
    session_id: str | None,
    at: datetime | str | None,
    metadata: Mapping[str, Any] | None,
    idempotency_key: str | None,
    infer: bool,
    expires_at: datetime | str | None,
    keep_turns: str | None,
    *,
    max_messages: int | None = None,
) -> Intake:
    config, now = runtime.config, runtime.clock.now()
    said = messages(raw, max_bytes=config.max_message_bytes, max_messages=max_messages or config.max_messages)
    told = None if at is None else aware(at, "at")
    times = accumulate((one.at or told for one in said), lambda last, own: own or last)
    extra = _metadata(runtime, metadata, bank)

    def of_turn(one: CheckedMessage) -> dict[str, Any]:
        return _metadata(runtime, {"attachments": list(one.attached), **extra}, bank) if one.attached else extra

    session = optional_id(session_id, "session_id")
    key = None if idempotency_key is None else scope_id(idempotency_key, "idempotency_key")
    intake_id = runtime.ids.new("i")
    kept = runtime.keep_turns if keep_turns is None else keep_turns_of(keep_turns)
    by = extra.get("by", "") if bank.user_id.startswith(SPACE) else ""
    turns = tuple(
        Turn(
            turn_id=f"t_{intake_id[2:]}_{position}",
            intake_id=intake_id,
            bank=bank,
            position=position,
            role=one.role,
            text=runtime.redact_text(one.text),
            at=when or now,
            speaker=redacted_data(runtime.redact, one.speaker) or (by if one.origin == "user" else ""),
            session_id=session,
            origin=one.origin,
            metadata=of_turn(one),
            at_given=when is not None,
            trainable=not infer or kept != "none",
        )
        for position, (one, when) in enumerate(zip(said, times, strict=True))
    )
    context = {} if expires_at is None else {"expires_at": aware(expires_at, "expires_at").isoformat()}
    if infer and kept != "all":
        context["keep_turns"] = kept
    return Intake(intake_id, bank, session, turns, infer, key, now, context)


def _metadata(runtime: Runtime, given: Mapping[str, Any] | None, bank: Bank) -> dict[str, Any]:
    limit = runtime.config.max_metadata_bytes
    found = json_object(given, "metadata", limit)
    if runtime.redact is None:
        return found
    by = {"by": found["by"]} if bank.user_id.startswith(SPACE) and "by" in found else {}  # an id: never redacted
    return json_object(redacted_values(runtime.redact, "", found), "metadata", limit) | by


def episode(turn: Turn, intake: Intake) -> OpDraft:
    """The turn as it is. The salt keeps the same words of another time or speaker apart; said again with no time of
    its own, it is the same episode."""
    salt = digest([turn.speaker or turn.role, turn.at if turn.at_given else None, turn.session_id, dict(turn.metadata)])
    return OpDraft(
        "add",
        text=turn.text,
        source_turns=(turn.turn_id,),
        kind="episode",
        metadata=turn.metadata,
        at=turn.at,
        speaker=turn.speaker or ("" if turn.role == "user" else turn.role),
        session_id=turn.session_id,
        origin=turn.origin,
        expires_at=intake.expires_at,
        content_salt=salt,
    )


def _is_of_the_words(op: Op, said: Set[str]) -> bool:
    """Whether it only takes back the row of a turn that was just said: a request to forget is not kept either."""
    return op.before is not None and op.before.kind == "turn" and not said.isdisjoint(op.before.source_turns)


def _reason(runtime: Runtime, state: IntakeState, ops: Sequence[Op]) -> str | None:
    if state.status == "parked":
        return f"{state.reason}: {state.detail}"
    said = {turn.turn_id for turn in state.intake.turns}
    if state.status == "pending" or any(op.action != "noop" and not _is_of_the_words(op, said) for op in ops):
        return None
    return reason(record.payload for record in runtime.journal.decisions(intake_id=state.intake.intake_id))
