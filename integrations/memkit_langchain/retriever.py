"""`MemkitRetriever`: a user's memories as LangChain documents, best first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from memkit.principal import Principal
from memkit.results import Hit
from memkit_plug.bound import bind


class MemkitRetriever(BaseRetriever):
    """`k` here is the default; `invoke(query, k=5)` overrides it for one call. A document's metadata holds the
    memory's own, its score and the `trace_id` that feedback names."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    memory: Any
    """A Memory or an AsyncMemory, or what its `principal` made, without user_id."""
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    k: int = 10
    filters: Mapping[str, Any] | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None, **_: Any
    ) -> list[Document]:
        return self._documents(query, k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None, **_: Any
    ) -> list[Document]:
        return await asyncio.to_thread(self._documents, query, k)

    def _documents(self, query: str, k: int | None) -> list[Document]:
        bound = bind(self.memory, self.user_id, self.agent_id)
        session: dict[str, Any] = {} if isinstance(bound.reads, Principal) else {"session_id": self.session_id}
        hits = bound.reads.search(query, k=self.k if k is None else k, filters=self.filters, **session)
        return [_document(hit, hits.trace_id) for hit in hits]


def _document(hit: Hit, trace_id: str) -> Document:
    record = hit.memory
    metadata = {
        **record.metadata,
        "kind": record.kind,
        "score": hit.score,
        "trace_id": trace_id,
        "at": record.at.isoformat() if record.at else None,
    }
    return Document(page_content=record.text, id=record.id, metadata=metadata)
