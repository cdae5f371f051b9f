"""The writing verbs: add, update, delete, undo. Each ends in one journal transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from memkit.engine.record import reason
from memkit.errors import Conflict, InvalidInput, NotFound, UndoConflict
from memkit.inputs import aware, json_object, messages, optional_id, scope_id, text_of, whole_number
from memkit.journal import Intake
from memkit.models import Bank, MemoryRecord, Op, OpDraft, Turn, digest
from memkit.ops import inverse
from memkit.results import AddResult

if TYPE_CHECKING:
    from memkit.journal import Accepted, IntakeState
    from memkit.runtime.runtime import Runtime


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
) -> AddResult:
    intake = _intake(runtime, raw, bank, session_id, at, metadata, idempotency_key, infer, expires_at)
    if not infer:
        accepted = runtime.journal.accept(intake, drafts=[_episode(turn, intake) for turn in intake.turns])
        _followed(runtime, accepted)
        runtime.applied(bank, len(accepted.ops))
        return AddResult(
            accepted.state.intake.intake_id, accepted.state.status, accepted.ops, accepted.state.intake.turns,
            replayed=accepted.replayed,
        )  # fmt: skip
    accepted = runtime.journal.accept(intake, claim=wait and runtime.ready)
    _followed(runtime, accepted)
    state = accepted.state
    if state.status == "pending":
        if wait:
            state = runtime.writer.settle(state.intake, accepted.claim)
        else:
            runtime.accepted(state.intake.intake_id)
    ops = tuple(runtime.journal.ops(intake_id=state.intake.intake_id)) if state.status == "applied" else ()
    why = _reason(runtime, state, ops)
    return AddResult(state.intake.intake_id, state.status, ops, state.intake.turns, why, accepted.replayed)


def _followed(runtime: Runtime, accepted: Accepted) -> None:
    """The user has spoken: what was said may judge the answer before it. A retried call says nothing new."""
    if not accepted.replayed:
        intake = accepted.state.intake
        runtime.traces.followed(intake.bank, intake.turns)


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
            why=f"it may have {', '.join(sorted(_ADOPTED))}; kind is fact or episode", fix="drop or rename it",
        )  # fmt: skip
    bank = Bank(scope_id(raw.get("user_id"), "user_id"), optional_id(raw.get("agent_id"), "agent_id"))
    said = {"role": "user", "content": raw.get("text"), "name": raw.get("speaker") or None}
    key = raw.get("key")
    intake = _intake(
        runtime, said, bank, raw.get("session_id"), raw.get("at"), raw.get("metadata"),
        None if key is None else f"import:{digest(scope_id(key, 'key'))}", False, None,
    )  # fmt: skip
    turn = replace(intake.turns[0], origin="import")
    draft = replace(_episode(turn, intake), kind=raw.get("kind", "fact"))
    if draft.kind == "fact":
        draft = replace(draft, content_salt="")
    accepted = runtime.journal.accept(replace(intake, turns=(turn,)), drafts=[draft])
    added = 0 if accepted.replayed else sum(op.action == "add" for op in accepted.ops)
    runtime.applied(bank, added)
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
        "update", memory_id,
        None if text is None else runtime.redacted(text_of(text, "the text", config.max_message_bytes)),
        metadata=None if metadata is None else json_object(metadata, "metadata", config.max_metadata_bytes),
        expected_revision=expected_revision, origin="api", at=now,
    )  # fmt: skip
    ops = runtime.journal.apply(bank, [draft], decision_id=runtime.ids.new("u"), at=now, cause="api")
    runtime.applied(bank, len(ops))
    return ops[0].after or record


def delete(runtime: Runtime, user_id: str, memory_id: str) -> Op:
    bank, _ = _own(runtime, user_id, memory_id)
    now = runtime.clock.now()
    draft = OpDraft("delete", memory_id, origin="api", at=now)
    ops = runtime.journal.apply(bank, [draft], decision_id=runtime.ids.new("u"), at=now, cause="api")
    runtime.applied(bank, len(ops))
    return ops[0]


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
        runtime.applied(bank, len(ops))
        total += len(ops)
    return total


def undo(
    runtime: Runtime, user_id: str, op_id: str | None, turn_id: str | None, since: int | datetime | None
) -> list[Op]:
    if sum(value is not None for value in (op_id, turn_id, since)) != 1:
        raise InvalidInput("undo() needs exactly one of op_id, turn_id and since", fix="name what is to be undone")
    targets = _to_undo(runtime, user_id, op_id, turn_id, since)
    by_bank: dict[Bank, list[Op]] = {}
    for op in sorted(targets, key=lambda op: -op.seq):
        by_bank.setdefault(op.bank, []).append(op)
    written: list[Op] = []
    for bank, ops in by_bank.items():
        written.extend(_compensate(runtime, bank, ops))
    return written


def _compensate(runtime: Runtime, bank: Bank, newest_first: Sequence[Op]) -> list[Op]:
    """One compensating op per memory: back to the image before the oldest op to undo, provided that the newest one
    to undo is the last that touched the memory."""
    oldest: dict[str, Op] = {}
    newest: dict[str, Op] = {}
    for op in newest_first:
        if op.memory_id is not None and op.before != op.after:
            newest.setdefault(op.memory_id, op)
            oldest[op.memory_id] = op
    drafts: list[OpDraft] = []
    undoes: list[str] = []
    for memory_id, last in newest.items():
        live = runtime.journal.get(bank.user_id, memory_id)
        if live and last.after and live[1].seq > last.after.seq and live[1].revision == last.after.revision:
            raise _not_alone("the memory was said again since, and has that turn as a source too")
        draft = inverse(replace(last, before=_image(oldest[memory_id].before, last)))
        if draft is not None:
            drafts.append(draft)
            undoes.append(last.op_id)
    if not drafts:
        return []
    now = runtime.clock.now()
    try:
        ops = runtime.journal.apply(bank, drafts, decision_id=runtime.ids.new("u"), at=now, cause="undo", undoes=undoes)
    except (Conflict, NotFound) as error:
        raise _not_alone(f"a later op builds on it: {error.what}") from None
    runtime.applied(bank, len(ops))
    return ops


def _image(before: MemoryRecord | None, last: Op) -> MemoryRecord | None:
    """`before`, known by the newest revision that was given out: a revision never names two texts."""
    if before is None or last.before is None:
        return before
    return replace(before, revision=max(before.revision, last.before.revision))


def _not_alone(why: str) -> UndoConflict:
    return UndoConflict(
        "this cannot be undone on its own", why=why,
        fix="look at history(user_id=..., memory_id=...) and undo the newest op first, or use since=...",
    )  # fmt: skip


def _to_undo(
    runtime: Runtime, user_id: str, op_id: str | None, turn_id: str | None, since: int | datetime | None
) -> list[Op]:
    journal = runtime.journal
    if op_id is not None:
        found = journal.ops(user_id=user_id, op_id=scope_id(op_id, "op_id"))
    elif turn_id is not None:
        wanted = scope_id(turn_id, "turn_id")
        intake_id = wanted
        if not wanted.startswith("i_"):
            turns = [turn for turn in journal.turns(turn_ids=[wanted]) if turn.bank.user_id == user_id]
            intake_id = turns[0].intake_id if turns else ""
        found = journal.ops(user_id=user_id, intake_id=intake_id) if intake_id else []
        if intake_id != wanted:
            found = [op for op in found if wanted in op.source_turns]
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


def _own(runtime: Runtime, user_id: str, memory_id: str) -> tuple[Bank, MemoryRecord]:
    found = runtime.journal.get(user_id, scope_id(memory_id, "id"))
    if found is None:
        raise NotFound(
            f"no live memory {memory_id} for this user",
            why="it was deleted, or belongs to somebody else",
            fix="list(user_id=...) shows what is there",
        )
    return found


def _intake(
    runtime: Runtime,
    raw: Any,
    bank: Bank,
    session_id: str | None,
    at: datetime | str | None,
    metadata: Mapping[str, Any] | None,
    idempotency_key: str | None,
    infer: bool,
    expires_at: datetime | str | None,
) -> Intake:
    config, now = runtime.config, runtime.clock.now()
    said = messages(raw, max_bytes=config.max_message_bytes, max_messages=config.max_messages)
    when = now if at is None else aware(at, "at")
    extra = json_object(metadata, "metadata", config.max_metadata_bytes)
    session = optional_id(session_id, "session_id")
    key = None if idempotency_key is None else scope_id(idempotency_key, "idempotency_key")
    intake_id = runtime.ids.new("i")
    turns = tuple(
        Turn(
            turn_id=f"t_{intake_id[2:]}_{position}", intake_id=intake_id, bank=bank, position=position, role=one.role,
            text=runtime.redacted(one.text), at=when, speaker=one.speaker, session_id=session, origin=one.origin,
            metadata=extra, at_given=at is not None,
        )
        for position, one in enumerate(said)
    )  # fmt: skip
    context = {} if expires_at is None else {"expires_at": aware(expires_at, "expires_at").isoformat()}
    return Intake(intake_id, bank, session, turns, infer, key, now, context)


def _episode(turn: Turn, intake: Intake) -> OpDraft:
    """The turn as it is. The salt keeps the same words of another time or speaker apart; said again with no time of
    its own, it is the same episode."""
    salt = digest([turn.speaker or turn.role, turn.at if turn.at_given else None, turn.session_id, dict(turn.metadata)])
    return OpDraft(
        "add", text=turn.text, source_turns=(turn.turn_id,), kind="episode", metadata=turn.metadata, at=turn.at,
        speaker=turn.speaker or ("" if turn.role == "user" else turn.role), session_id=turn.session_id,
        origin=turn.origin, expires_at=intake.expires_at,
        content_salt=salt,
    )  # fmt: skip


def _reason(runtime: Runtime, state: IntakeState, ops: Sequence[Op]) -> str | None:
    if state.status == "parked":
        return f"{state.reason}: {state.detail}"
    if state.status == "pending" or any(op.action != "noop" for op in ops):
        return None
    return reason(record.payload for record in runtime.journal.decisions(intake_id=state.intake.intake_id))
