"""Requests as the roles make them, and a stopwatch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from memkit.errors import ModelError
from memkit.roles.base import ChatMessage, Prompt, RoleName, View
from memkit.seams.backbone import GenRequest, Sampling

SCHEMA = {
    "type": "object",
    "properties": {"operations": {"type": "array", "items": {"type": "string"}}},
    "required": ["operations"],
    "additionalProperties": False,
}


def request(
    text: str = "I adopted a dog named Buddy.",
    *,
    role: RoleName = "manager",
    schema: dict[str, Any] | None = SCHEMA,
    adapter: str | None = None,
    temperature: float = 0.0,
    deadline_s: float = 10.0,
    max_calls: int = 3,
    key: str = "d_1",
) -> GenRequest:
    prompt = Prompt(
        role=role,
        style="json" if schema else "compact",
        version=f"{role}/1:test",
        messages=(ChatMessage("system", "Reply in JSON."), ChatMessage("user", text)),
        grammar=None,
        schema=schema,
        max_tokens=200,
        view=View(),
    )
    return GenRequest(
        prompt, key=key, adapter=adapter, sampling=Sampling(temperature), deadline_s=deadline_s, max_calls=max_calls
    )


def failure(act: Callable[[], Any]) -> tuple[ModelError, float]:
    """The error that `act` raises, or returns in the place of its one reply, and after how many seconds."""
    started = time.monotonic()
    try:
        found = act()
    except ModelError as error:
        return error, time.monotonic() - started
    if isinstance(found, list) and isinstance(found[0], ModelError):
        return found[0], time.monotonic() - started
    raise AssertionError("no error was raised")
