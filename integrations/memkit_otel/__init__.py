"""OpenTelemetry for memkit, in the words of the GenAI memory conventions.

    from memkit_otel import instrument
    instrument(memory)

Ids, counts, times and token usage; no content unless `content=True`. Needs `pip install "memkit[otel]"`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_otel.instrumenting import instrument, uninstrument

__all__ = ["instrument", "uninstrument"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("memkit_otel.instrumenting"), name)
    raise AttributeError(f"module 'memkit_otel' has no attribute {name!r}")
