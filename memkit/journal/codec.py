"""Rows to values and back. Images are compact JSON that leaves out what the op's own columns or the defaults say."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from memkit.errors import StoreDamaged
from memkit.journal.engine import Row
from memkit.models import JSON, Action, Bank, MemoryRecord, Op, Status, Turn, micros, parse_time, to_json

STATUSES: tuple[Status, ...] = ("pending", "applied", "parked")
PENDING, APPLIED, PARKED = range(3)
_ACTIONS: tuple[Action, ...] = ("add", "update", "delete", "noop")
_ACTION_CODES = {action: code for code, action in enumerate(_ACTIONS)}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SAME_AS_BEFORE = ""

TURN_COLUMNS = (
    "t.turn_id, t.position, t.role, t.text, t.at, t.speaker, t.session_id, t.origin, t.metadata, t.at_given,"
    " t.trainable, t.crc"
)
IMAGE_COLUMNS = "o.memory_id, o.image, o.hash, o.seq, o.at, o.recorded_at, o.crc"
OP_COLUMNS = (
    f"{IMAGE_COLUMNS}, o.op_id, o.action, o.decision_id, o.cause, o.undoes, o.text, o.source_turns, o.before_seq,"
    " p.image, p.hash, p.at, p.recorded_at, p.crc"
)


def from_micros(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def pack(value: Any) -> bytes:
    return zlib.compress((value if isinstance(value, str) else to_json(value)).encode(), 6)


def unpack_text(data: bytes, where: str) -> str:
    try:
        return zlib.decompress(data).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise damage_error(where) from error


def unpack(data: bytes, where: str) -> JSON:
    return json.loads(unpack_text(data, where))


def crc(*parts: str | bytes | None) -> int:
    value = 0
    for part in parts:
        value = zlib.crc32(part.encode() if isinstance(part, str) else part or b"", value)
    return value


def damage_error(where: str) -> StoreDamaged:
    return StoreDamaged(
        f"{where} of the journal does not match its checksum",
        why="the file was changed outside of memkit, or the disk returned other bytes than were written",
        fix="keep a copy of the folder, then run `memkit doctor`; restore journal.sqlite from a backup",
    )


# -- turns ---------------------------------------------------------------------------------------------------------


def turn_row(turn: Turn, intake: int, bank: int) -> Row:
    at, metadata = turn.at.isoformat(), to_json(turn.metadata) if turn.metadata else None
    return (
        intake,
        turn.position,
        turn.turn_id,
        bank,
        turn.session_id,
        turn.role,
        turn.text,
        at,
        turn.at_given,
        turn.speaker,
        turn.origin,
        metadata,
        turn.trainable,
        turn_crc(turn.turn_id, turn.text, at, metadata),
    )


def turn_from(row: Row, intake_id: str, bank: Bank) -> Turn:
    turn_id, position, role, text, at, speaker, session_id, origin, metadata, at_given, trainable, checksum = row
    if checksum != turn_crc(turn_id, text, at, metadata):
        raise damage_error(f"turn {turn_id}")
    return Turn(
        turn_id=turn_id,
        intake_id=intake_id,
        bank=bank,
        position=position,
        role=role,
        text=text,
        at=datetime.fromisoformat(at),
        speaker=speaker,
        session_id=session_id,
        origin=origin,
        metadata=json.loads(metadata) if metadata else {},
        at_given=bool(at_given),
        trainable=bool(trainable),
    )


def turn_crc(turn_id: str, text: str, at: str, metadata: str | None) -> int:
    return crc(turn_id, text, at, metadata)


# -- images and ops ------------------------------------------------------------------------------------------------


def op_row(op: Op, bank: int, intake: int | None) -> Row:
    after, at = op.after, op.at.isoformat()
    image: str | None = None
    checksum: int | None = None
    key: bytes | None = None
    own = after is not None and after.seq == op.seq
    if after is not None and not own:
        image = SAME_AS_BEFORE
    elif after is not None:
        image, key = _image(after, op), bytes.fromhex(after.content_hash)
        checksum = crc(op.memory_id, image, key, at)
    sources = None if own and after is not None and after.source_turns == op.source_turns else to_json(op.source_turns)
    return (
        op.seq,
        op.op_id,
        bank,
        _ACTION_CODES[op.action],
        op.memory_id,
        op.decision_id,
        intake,
        at,
        micros(op.recorded_at),
        None if op.cause == "decision" else op.cause,
        op.undoes,
        op.text if after is None else None,
        sources,
        op.before.seq if op.before else None,
        image,
        key,
        checksum,
    )


def op_from(row: Row, bank: Bank) -> Op:
    memory_id, image, _, seq, at, recorded_at, _ = row[:7]
    op_id, action, decision_id, cause, undoes, text, sources, before_seq = row[7:15]
    before = None
    if before_seq is not None:
        before = image_from((memory_id, row[15], row[16], before_seq, row[17], row[18], row[19]))
    if image is None:
        after = None
    else:
        after = before if image == SAME_AS_BEFORE else image_from(row[:7])
    if sources is not None:
        source_turns = tuple(json.loads(sources))
    else:
        source_turns = after.source_turns if after else ()
    return Op(
        op_id=op_id,
        seq=seq,
        bank=bank,
        action=_ACTIONS[action],
        memory_id=memory_id,
        text=after.text if after else text,
        before=before,
        after=after,
        source_turns=source_turns,
        decision_id=decision_id,
        at=datetime.fromisoformat(at),
        recorded_at=from_micros(recorded_at),
        cause=cause or "decision",
        undoes=undoes,
    )


def _image(record: MemoryRecord, op: Op) -> str:
    """Times are left out where they equal the op's: that is every add."""
    out: JSON = {"text": record.text}
    if record.kind != "fact":
        out["kind"] = record.kind
    if record.metadata:
        out["metadata"] = record.metadata
    if record.source_turns:
        out["source_turns"] = record.source_turns
    for name, own, implied in (
        ("created_at", record.created_at, op.recorded_at),
        ("updated_at", record.updated_at, op.recorded_at),
        ("at", record.at, op.at),
        ("confirmed_at", record.confirmed_at, None),
        ("expires_at", record.expires_at, None),
    ):
        if own != implied:
            out[name] = own
    if record.revision != 1:
        out["revision"] = record.revision
    if record.speaker:
        out["speaker"] = record.speaker
    if record.session_id:
        out["session_id"] = record.session_id
    if record.origin != "user":
        out["origin"] = record.origin
    if record.trust != 1.0:
        out["trust"] = record.trust
    if not record.trainable:
        out["trainable"] = False
    if record.standing:
        out["standing"] = True
    return to_json(out)


def image_from(row: Row) -> MemoryRecord:
    """`row` is IMAGE_COLUMNS of the op that wrote the state."""
    memory_id, image, key, seq, at, recorded_at, checksum = row
    if not image or checksum != crc(memory_id, image, key, at):
        raise damage_error(f"the image at sequence number {seq}")
    raw: Mapping[str, Any] = json.loads(image)
    return MemoryRecord(
        id=memory_id,
        text=raw["text"],
        kind=raw.get("kind", "fact"),
        metadata=raw.get("metadata", {}),
        source_turns=tuple(raw.get("source_turns", ())),
        created_at=parse_time(raw["created_at"]) if "created_at" in raw else from_micros(recorded_at),
        updated_at=parse_time(raw["updated_at"]) if "updated_at" in raw else from_micros(recorded_at),
        revision=raw.get("revision", 1),
        at=parse_time(raw.get("at", at)),
        confirmed_at=parse_time(raw.get("confirmed_at")),
        speaker=raw.get("speaker", ""),
        session_id=raw.get("session_id", ""),
        origin=raw.get("origin", "user"),
        trust=raw.get("trust", 1.0),
        expires_at=parse_time(raw.get("expires_at")),
        trainable=raw.get("trainable", True),
        standing=raw.get("standing", False),
        content_hash=key.hex(),
        seq=seq,
    )
