"""The values that pass between rooms. Plain frozen dataclasses: no I/O, no third-party import.

Times are timezone-aware datetimes in memory and ISO-8601 strings with their offset on disk. `at` is conversation
time (when it was said); `created_at`/`updated_at` are record time (when the store learned it). Order is always by
`seq`, the store's sequence number, never by a clock.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Literal

Kind = Literal["fact", "episode", "turn", "lesson", "chunk"]
"""fact: what a manager wrote. episode: a turn that was stored as it is. turn: the words of a turn that a manager
decides about, kept beside what it makes of them. lesson: what a reflector drew from an agent's run. chunk: a passage
of a document."""
KINDS: tuple[Kind, ...] = ("fact", "episode", "turn", "lesson", "chunk")
MEMORIES: tuple[Kind, ...] = ("fact", "episode", "lesson")
"""What managers and users handle one by one; turns and chunks are words that are only found."""
Origin = Literal["user", "assistant", "tool", "document", "import", "api"]
Action = Literal["add", "update", "delete", "noop"]
Status = Literal["applied", "pending", "parked"]

KEEP_TURNS = ("all", "uncovered", "logged", "none")
WORDS_NOT_KEPT = 'the words were not kept (keep_turns="none")'
"""How the log says it."""
"""How long the words of a turn stay searchable: for good, until a fact was drawn from them, never."""

JSON = dict[str, Any]

SPACE = "\x1d"
"""How the owner ids of spaces begin; alone, the id under which the grants are kept. No caller can name either."""


def to_json(value: Any) -> str:
    """The one canonical JSON: sorted keys, no blanks, non-ASCII kept. Hashes are taken over this."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_default)


def _default(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple | set | frozenset):
        return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    raise TypeError(f"{type(value).__name__} is not JSON")


def digest(value: Any) -> str:
    """sha256 (hex) over the canonical JSON of `value`, or over the bytes of a str."""
    raw = value if isinstance(value, str) else to_json(value)
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()


def brief(text: str | None) -> str:
    """A text as a line of a repr: all fields of a record are a screen of print."""
    return repr(text if text is None or len(text) <= 80 else f"{text[:79]}…")


def parse_time(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


def micros(at: datetime) -> int:
    """UTC microseconds since 1970: how times are stored in columns and compared."""
    delta = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


@dataclass(frozen=True, slots=True, order=True)
class Bank:
    """(user_id, agent_id): the unit that a manager sees and changes. `agent_id` "" means: no agent named."""

    user_id: str
    agent_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message as it was said, as journaled."""

    turn_id: str
    intake_id: str
    """The `add` call it came with (the trace id that `add` returns)."""
    bank: Bank
    position: int
    """Index within its `add` call."""
    role: str
    text: str
    at: datetime
    """Conversation time; record time when the caller named none."""
    speaker: str = ""
    session_id: str = ""
    origin: Origin = "user"
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at_given: bool = False
    trainable: bool = True


_TIMES = ("created_at", "updated_at", "at", "confirmed_at", "expires_at")


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One memory as it stands at one revision. `text` is what is searched and shown."""

    id: str
    text: str
    kind: Kind = "fact"
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    source_turns: tuple[str, ...] = ()
    created_at: datetime | None = None
    updated_at: datetime | None = None
    revision: int = 1
    at: datetime | None = None
    """When it was said, in conversation time; a memory whose content changed has the time of the new words."""
    confirmed_at: datetime | None = None
    """When it was last said again; None: never, since it says what it says."""
    speaker: str = ""
    session_id: str = ""
    origin: Origin = "user"
    trust: float = 1.0
    expires_at: datetime | None = None
    trainable: bool = True
    standing: bool = False
    """It always matters: every context carries it."""
    content_hash: str = ""
    seq: int = 0
    """Sequence number of the op that wrote this state."""

    def __repr__(self) -> str:
        return f"MemoryRecord({brief(self.text)}, id={self.id!r}, kind={self.kind!r}, revision={self.revision})"

    def to_dict(self) -> JSON:
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in _TIMES:
            if out[name] is not None:
                out[name] = out[name].isoformat()
        if self.confirmed_at is None:
            del out["confirmed_at"]  # readers of earlier exports do not know it
        if not self.standing:
            del out["standing"]
        out["source_turns"] = list(self.source_turns)
        out["metadata"] = dict(self.metadata)
        return out

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> MemoryRecord:
        data = dict(raw)
        for name in _TIMES:
            data[name] = parse_time(data.get(name))
        data["source_turns"] = tuple(data.get("source_turns", ()))
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})


def normalise(text: str) -> str:
    """What "the same content" means: Unicode NFKC, case, blanks and closing full stops do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .!")


def content_hash(text: str, kind: Kind = "fact", salt: str = "") -> str:
    """Key of the unique (bank, content) rule. Episodes carry a salt (speaker, time, session, metadata) because the
    same words said twice are two turns; facts do not."""
    return hashlib.sha256(f"{kind}\x1f{normalise(text)}\x1f{salt}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class OpDraft:
    """An operation as decided, before it is checked: what a manager, the rules or an API call ask for."""

    action: Action
    memory_id: str | None = None
    """Target of update, delete and (optionally) noop; the id that words get which are kept as a turn."""
    text: str | None = None
    source_turns: tuple[str, ...] = ()
    kind: Kind = "fact"
    metadata: Mapping[str, Any] | None = None
    """None keeps what the memory has; a mapping replaces it."""
    at: datetime | None = None
    speaker: str = ""
    session_id: str = ""
    origin: Origin = "user"
    trust: float | None = None
    expires_at: datetime | None = None
    trainable: bool = True
    standing: bool | None = None
    """None keeps what the memory has."""
    expected_revision: int | None = None
    content_salt: str = ""
    restore: MemoryRecord | None = None
    """Set by undo only: the before-image to bring back."""
    decision_id: str = ""
    """The decision that asks for it, where one batch carries the drafts of several; "" means the batch's own."""


@dataclass(frozen=True, slots=True)
class Op:
    """An operation that was applied (or recorded as noop): one line of the log that the bank is the fold of."""

    op_id: str
    seq: int
    bank: Bank
    action: Action
    memory_id: str | None
    text: str | None
    before: MemoryRecord | None
    after: MemoryRecord | None
    source_turns: tuple[str, ...]
    decision_id: str
    at: datetime
    """Conversation time."""
    recorded_at: datetime
    cause: str = "decision"
    """decision | said | api | undo | expire | import | erase | credit | tidy"""
    undoes: str | None = None
    """op_id of the op that this one takes back; of several of one memory, the oldest (in 0.1.0 the newest)."""

    def __repr__(self) -> str:
        return f"Op({self.action} {brief(self.text)}, memory_id={self.memory_id!r}, op_id={self.op_id!r})"

    def to_dict(self) -> JSON:
        out = {f.name: getattr(self, f.name) for f in fields(self)}
        out["bank"] = asdict(self.bank)
        out["before"] = self.before.to_dict() if self.before else None
        out["after"] = self.after.to_dict() if self.after else None
        out["source_turns"] = list(self.source_turns)
        out["at"], out["recorded_at"] = self.at.isoformat(), self.recorded_at.isoformat()
        return out

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Op:
        data = dict(raw)
        data["bank"] = Bank(**data["bank"])
        data["before"] = MemoryRecord.from_dict(data["before"]) if data["before"] else None
        data["after"] = MemoryRecord.from_dict(data["after"]) if data["after"] else None
        data["source_turns"] = tuple(data["source_turns"])
        data["at"], data["recorded_at"] = parse_time(data["at"]), parse_time(data["recorded_at"])
        return cls(**data)


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One versioned trajectory record. `payload` is what can be learned from; `blobs` are its prompts by sha256."""

    decision_id: str
    intake_id: str | None
    bank: Bank
    role: str
    state_seq: int
    payload: JSON
    created_at: datetime
    blobs: Mapping[str, str] = field(default_factory=dict[str, str])


EntityKind = Literal["person", "animal", "place", "project", "other"]


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something that memories name."""

    name: str
    """As it is written most often."""
    kind: EntityKind
    names: tuple[str, ...]
    """All names that it goes by, `name` first."""
    relations: tuple[str, ...]
    """What people say that it is to them: "sister", "dog"."""
    memories: tuple[str, ...] = field(repr=False)
    """Ids of the live memories that name it, oldest first."""
