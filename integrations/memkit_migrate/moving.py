"""What a foreign memory is here, and moving many of them with a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from memkit import Memory
from memkit.errors import InvalidInput

MOST_PROBLEMS = 100
"""Problems that a report spells out; the rest are counted."""


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

    def fields(self) -> dict[str, Any]:
        return {
            "text": self.text, "user_id": self.user_id, "agent_id": self.agent_id, "session_id": self.session_id,
            "speaker": self.speaker, "at": self.at, "metadata": dict(self.metadata), "key": self.key,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A record that cannot become a memory, and why. Says where it is, not what it holds."""

    where: str
    why: str


@dataclass(slots=True)
class Report:
    dry_run: bool = False
    read: int = 0
    added: int = 0
    """In a dry run: would be looked at; whether the store has them already is not asked."""
    known: int = 0
    """In the store already: moved before, or said here in the same words."""
    problems: int = 0
    users: Counter[str] = field(default_factory=Counter[str])
    listed: list[Unreadable] = field(default_factory=list[Unreadable])

    def to_dict(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run, "read": self.read, "added": self.added, "known": self.known,
            "problems": self.problems, "users": dict(self.users),
            "listed": [{"where": one.where, "why": one.why} for one in self.listed],
        }  # fmt: skip

    def __str__(self) -> str:
        verb = "would be moved" if self.dry_run else "moved"
        lines = [
            f"{self.read} read: {self.added} {verb}, {self.known} known already, {self.problems} not movable"
            f" ({len(self.users)} users)"
        ]
        lines += [f"  {one.where}: {one.why}" for one in self.listed]
        hidden = self.problems - len(self.listed)
        return "\n".join([*lines, f"  … and {hidden} more"] if hidden > 0 else lines)

    def _problem(self, found: Unreadable) -> None:
        self.problems += 1
        if len(self.listed) < MOST_PROBLEMS:
            self.listed.append(found)


def migrate(memory: Memory | None, source: Iterable[Foreign | Unreadable], *, dry_run: bool = False) -> Report:
    """Move what can be moved and report the rest; one bad record stops nothing. A dry run reads and checks only, and
    needs no memory."""
    report = Report(dry_run)
    for found in source:
        report.read += 1
        if isinstance(found, Unreadable):
            report._problem(found)
            continue
        try:
            added = 1 if dry_run or memory is None else memory.import_([found.fields()])
        except InvalidInput as error:
            report._problem(Unreadable(found.key, str(error)))
            continue
        report.added += added
        report.known += 1 - added
        report.users[found.user_id] += added
    return report


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


def text_in(value: Any) -> str:
    """The words of a memory in the shapes that people store; "" where there are none."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        for name in ("text", "memory", "data", "content", "value", "fact"):
            if text := text_in(value.get(name)):
                return text
    return ""
