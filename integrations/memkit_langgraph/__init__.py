"""LangGraph's long-term store on memkit: verbatim items, durable, filtered, searchable, with time to live.

    from memkit_langgraph import MemkitStore
    graph = builder.compile(store=MemkitStore("./memory"))

All items are one user's. Where a label of each namespace names the user, as in ("memories", "ana"), take
`MemkitUserStore("./memory", user_at=1)`: then `memory.erase(user_id="ana")` leaves no item of hers.

What is put is what is got: no manager touches it. To have memories managed, use `memkit_langchain.MemkitMiddleware`.
"""

from memkit_plug import missing

try:
    from memkit_langgraph.store import MemkitStore
    from memkit_langgraph.users import MemkitUserStore
except ImportError as error:
    raise missing("memkit_langgraph", "langgraph", error) from error

__all__ = ["MemkitStore", "MemkitUserStore"]
