"""Pydantic AI on memkit: a capability that gives an agent memory, and a store for the harness's file memory.

    from memkit_pydantic_ai import MemkitCapability
    agent = Agent(model, capabilities=[MemkitCapability(memory, user_id="ana")])

Memories go into the one model request, never into the message history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_pydantic_ai.capability import MemkitCapability
    from memkit_pydantic_ai.store import MemkitMemoryStore

__all__ = ["MemkitCapability", "MemkitMemoryStore"]

_HOMES = {"MemkitCapability": "memkit_pydantic_ai.capability", "MemkitMemoryStore": "memkit_pydantic_ai.store"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        from memkit_plug import missing

        try:
            return getattr(importlib.import_module(_HOMES[name]), name)
        except ImportError as error:
            raise missing("memkit_pydantic_ai", "pydantic-ai", error) from error
    raise AttributeError(f"module 'memkit_pydantic_ai' has no attribute {name!r}")
