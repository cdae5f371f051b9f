"""What a foreign memory is here, and moving many of them with a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memkit import Memory
from memkit.config import Config
from memkit.errors import IdempotencyConflict, InvalidInput
from memkit.inputs import MAX_ID_BYTES, aware, json_object, messages, optional_id, scope_id
from memkit.models import digest

MOST_PROBLEMS = 100
"""Records that a report names; the rest are counted."""
MOST_NESTED = 16
"""How deep the words of a record are looked for."""
_WORDS = ("text", "memory", "data", "content", "value", "fact")
"""The keys that hold them, the likeliest first."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """One memory as another system kept it."""

    text: str
    user_id: str
    key: str
    """Its id over there: what makes coming again safe."""
    agent_id: str | None = None
    session_id: str | None = None
    speaker: str | None = None
    at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    where: str = ""
    """Its place in what was read, for the report: a key may hold its words."""

    def fields(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "user_id": self.user_id,
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "speaker": self.speaker,
            "at": self.at,
            "metadata": dict(self.metadata),
            "key": self.key,
        }


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot become a memory, and why. Says where it is, not what it holds."""

    where: str
    why: str


@dataclass(slots=True)
class MoveReport:
    dry_run: bool = False
    read: int = 0
    added: int = 0
    """In a dry run: would be looked at; whether the store has them already is not asked."""
    known: int = 0
    """In the store already: moved before, or said here in the same words."""
    changed: int = 0
    """Moved before, and another text, time or metadata now: what was moved stays as it is."""
    problems: int = 0
    users: Counter[str] = field(default_factory=Counter[str])
    listed: list[Unreadable] = field(default_factory=list[Unreadable])

    def to_dict(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "read": self.read,
            "added": self.added,
            "known": self.known,
            "changed": self.changed,
            "problems": self.problems,
            "users": dict(self.users),
            "listed": [{"where": one.where, "why": one.why} for one in self.listed],
        }

    def __str__(self) -> str:
        verb = "would be moved" if self.dry_run else "moved"
        lines = [
            f"{self.read} read: {self.added} {verb}, {self.known} known already, {self.changed} changed since they"
            f" were moved, {self.problems} not movable ({len(self.users)} users)"
        ]
        lines += [f"  {one.where}: {one.why}" for one in self.listed]
        hidden = self.problems + self.changed - len(self.listed)
        return "\n".join([*lines, f"  … and {hidden} more"] if hidden > 0 else lines)

    @property
    def code(self) -> int:
        """What a command line exits with."""
        return 0 if self.added else 1 if self.problems or self.changed else 4

    def name(self, found: Unreadable) -> None:
        if len(self.listed) < MOST_PROBLEMS:
            self.listed.append(found)


def migrate(memory: Memory | None, source: Iterable[Foreign | Unreadable], *, dry_run: bool = False) -> MoveReport:
    """Move what can be moved and report the rest; one bad record stops nothing. A dry run reads and checks only, and
    needs no memory."""
    report = MoveReport(dry_run)
    for found in source:
        report.read += 1
        if isinstance(found, Unreadable):
            report.problems += 1
            report.name(found)
            continue
        try:
            added = _checked(found) if dry_run or memory is None else memory.import_([found.fields()])
        except IdempotencyConflict:
            report.changed += 1
            report.name(Unreadable(found.where or found.key, "it changed since it was moved; what was moved stays"))
            continue
        except (InvalidInput, RecursionError) as error:
            why = str(error) if isinstance(error, InvalidInput) else "its metadata is nested too deep"
            report.problems += 1
            report.name(Unreadable(found.where or found.key, why))
            continue
        report.added += added
        report.known += 1 - added
        report.users[found.user_id] += added
    return report


def _checked(found: Foreign) -> int:
    """Refuses what moving it would refuse."""
    scope_id(found.user_id, "user_id")
    scope_id(found.key, "key")
    optional_id(found.agent_id, "agent_id")
    optional_id(found.session_id, "session_id")
    if found.at is not None:
        aware(found.at, "at")
    limits, said = Config(), {"role": "user", "content": found.text, "name": found.speaker}
    messages(said, max_bytes=limits.max_message_bytes, max_messages=1)
    json_object(found.metadata, "metadata", limits.max_metadata_bytes)
    return 1


def key_of(system: str, name: str) -> str:
    """name: its id over there, or its words where it has none. What is no id here is named by its digest; the rest
    stay as earlier versions wrote them, so that coming again is still safe."""
    key = f"{system}:{name}"
    is_id = "\x00" not in key and len(key.encode("utf-8", "surrogatepass")) <= MAX_ID_BYTES
    return key if is_id else f"{system}:{digest(name)}"


def moment(raw: Any) -> datetime | None:
    """A time as other systems write it; one without a zone is taken for UTC, which is what they mean."""
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        try:
            return datetime.fromtimestamp(raw, UTC)
        except (ValueError, OverflowError, OSError):
            return None
    if not isinstance(raw, str) or not raw:
        return None
    try:
        found = datetime.fromisoformat(raw)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def text_in(value: Any, deeper: int = MOST_NESTED) -> str:
    """The words of a memory in the shapes that people store; "" where there are none."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping) and deeper:
        return next((text for name in _WORDS if (text := text_in(value.get(name), deeper - 1))), "")
    return ""


def text_key(value: Mapping[str, Any]) -> str | None:
    """The key under which `text_in` finds the words."""
    return next((name for name in _WORDS if text_in(value.get(name), MOST_NESTED - 1)), None)
