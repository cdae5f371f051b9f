"""LangChain on memkit: a middleware that gives an agent memory, and a retriever.

    from memkit_langchain import MemkitMiddleware
    agent = create_agent(model, tools, middleware=[MemkitMiddleware(memory, user_id="ana")])

Memories are put into the model call only, never into the agent's state; what the user said is learned when it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memkit_langchain.middleware import MemkitMiddleware
    from memkit_langchain.retriever import MemkitRetriever

__all__ = ["MemkitMiddleware", "MemkitRetriever"]

_HOMES = {"MemkitMiddleware": "memkit_langchain.middleware", "MemkitRetriever": "memkit_langchain.retriever"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        from memkit_plug import missing

        try:
            return getattr(importlib.import_module(_HOMES[name]), name)
        except ImportError as error:
            raise missing("memkit_langchain", "langchain", error) from error
    raise AttributeError(f"module 'memkit_langchain' has no attribute {name!r}")
