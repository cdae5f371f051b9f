"""Who calls, how often, and what that caller may name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memkit import Memory
from memkit.net.tenants import Tenant
from memkit_http import Declined
from memkit_plug.bound import refuse_others

NARROW = {
    "add",
    "addDocument",
    "learn",
    "search",
    "context",
    "answer",
    "list",
    "entities",
    "about",
    "profile",
    "deleteAll",
}
"""Calls whose verb takes the agent itself."""


def settle_scope(who: Tenant, user_id: str | None, agent_id: str | None) -> tuple[str, str | None]:
    """The user and the agent that a call is about."""
    if who.is_app:
        if user_id is None:
            raise Declined(400, "the call names no user", why="the token is an app's", fix="send user_id")
        return user_id, agent_id
    if user_id not in (None, who.user_id):
        raise Declined(403, "the token does not speak for that user", fix="leave user_id out, or use an app's token")
    if who.agent_id is not None and agent_id not in (None, who.agent_id):
        raise Declined(403, "the token does not speak for that agent", fix="leave agent_id out")
    return who.user_id, who.agent_id if agent_id is None else agent_id


def refuse_beyond_agent(memory: Memory, who: Tenant, name: str, asked: Any) -> None:
    """A token of one agent: what it names must be of that agent's bank, and what reaches further is refused."""
    if who.agent_id is None or name in NARROW:
        return
    named = {
        "memory_id": getattr(asked, "id", None) or getattr(asked, "memory_id", None),
        "op_id": getattr(asked, "op_id", None),
        "trace_id": getattr(asked, "trace_id", None),
    }
    if name in ("parked", "retry", "erase") or getattr(asked, "since", None) is not None or not any(named.values()):
        raise Declined(403, "the call reaches beyond the token's agent", fix="use a token of the user")
    refuse_others(memory, who, **named)


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rate:
    """So many calls a second for each caller, twice as many at once."""

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._now = per_second, now
        self._buckets: dict[Tenant, _Bucket] = {}
        self._lock = threading.Lock()

    def take(self, who: Tenant) -> None:
        if self._rate <= 0:
            return
        now = self._now()
        with self._lock:
            bucket = self._buckets.setdefault(who, _Bucket(2 * self._rate, now))
            bucket.left = min(2 * self._rate, bucket.left + (now - bucket.at) * self._rate)
            bucket.at = now
            if bucket.left >= 1:
                bucket.left -= 1
                return
            wait = (1 - bucket.left) / self._rate
        raise Declined(
            429,
            f"more than {self._rate:g} calls a second",
            fix=f"try again in {wait:.2f} seconds",
            headers={"retry-after": str(max(1, round(wait)))},
        )
