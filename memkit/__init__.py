"""Memory that learns from its own use. `from memkit import Memory` is the whole quickstart; see README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit.async_memory import AsyncMemory
    from memkit.config import Config
    from memkit.inputs import Message
    from memkit.memory import Memory

__version__ = "0.2.0"
__all__ = ["AsyncMemory", "Config", "Memory", "Message", "__version__"]

_HOMES = {
    "AsyncMemory": "memkit.async_memory",
    "Config": "memkit.config",
    "Memory": "memkit.memory",
    "Message": "memkit.inputs",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'memkit' has no attribute {name!r}")
