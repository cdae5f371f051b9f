"""Whom and what a user's memories name, worked out from what is live at the moment: nothing of it is kept, so nothing
of what was ended or erased is left in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memkit.engine.entities import choose_about, gather_entities
from memkit.models import Bank, MemoryRecord

if TYPE_CHECKING:
    from memkit.models import Entity
    from memkit.runtime.runtime import Runtime

_KINDS = ("fact", "episode", "turn")


def list_entities(runtime: Runtime, user_id: str, agent_id: str | None, limit: int) -> list[Entity]:
    return gather_entities(_live(runtime, user_id, agent_id))[:limit]


def list_about(runtime: Runtime, name: str, user_id: str, agent_id: str | None, limit: int) -> list[MemoryRecord]:
    """The newest `limit`, oldest first."""
    return choose_about(_live(runtime, user_id, agent_id), name)[-limit:]


def _live(runtime: Runtime, user_id: str, agent_id: str | None) -> list[MemoryRecord]:
    bank, now = None if agent_id is None else Bank(user_id, agent_id), runtime.clock.now()
    found = runtime.journal.live(bank=bank, user_id=None if bank else user_id, kinds=_KINDS)
    return [record for _, record in found if record.expires_at is None or record.expires_at > now]
