"""LangGraph's long-term store on memkit: verbatim items, durable, filtered, searchable, with time to live.

    from memkit_langgraph import MemkitStore
    graph = builder.compile(store=MemkitStore("./memory"))

What is put is what is got: no manager touches it. To have memories managed, use `memkit_langchain.MemkitMiddleware`.
"""

from memkit_plug import missing

try:
    from memkit_langgraph.store import MemkitStore
except ImportError as error:
    raise missing("memkit_langgraph", "langgraph", error) from error

__all__ = ["MemkitStore"]
