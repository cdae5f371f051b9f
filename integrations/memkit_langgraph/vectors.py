"""Vectors of items, and the similarity of a query to them. They are exact, and kept with the item in the journal where
computing them again would cost money: what is erased there is gone, and a restart embeds nothing twice."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from langgraph.store.base import IndexConfig, ensure_embeddings, get_text_at_path, tokenize_path
from langgraph.store.base.embed import EmbeddingsLambda
from numpy.typing import NDArray

from memkit.errors import EmbedderError, InvalidConfig
from memkit.seams.embedder import embed_queries

if TYPE_CHECKING:
    from memkit.seams.embedder import Embedder

T = TypeVar("T")

Known = Mapping[str, NDArray[np.float32]]
"""Text → vector."""

_DISTANCES = ("cosine", "inner_product", "l2")


@dataclass(frozen=True, slots=True)
class Vectors:
    """One row per text of an item."""

    rows: NDArray[np.float32]
    made_by: str


class Index:
    """Which texts of a value are embedded, by what, and how two vectors compare."""

    def __init__(self, config: IndexConfig | None, embedder: Embedder) -> None:
        given: dict[str, Any] = dict(config or {})
        self.fields: list[str] = list(given.get("fields") or ["$"])
        self.distance: str = given.get("distance_type") or "cosine"
        if self.distance not in _DISTANCES:
            raise InvalidConfig(f"distance_type {self.distance!r} is unknown", fix=f"pass {', '.join(_DISTANCES)}")
        self._embedder = embedder
        if config is None:
            self.embeddings, self.dims = None, embedder.dim
            self.identity, self.is_cheap = embedder.identity, embedder.cheap
        else:
            self.embeddings = ensure_embeddings(given.get("embed"))
            self.dims = given.get("dims")
            self.identity, self.is_cheap = f"{_name(given['embed'])}:{self.dims}", False

    def texts(self, value: Any, index: Any) -> list[str]:
        """`index` of a put: False for none, paths instead of the store's own, None for those."""
        if index is False:
            return []
        paths = self.fields if index is None else list(index)
        steps = ["$" if path == "$" else tokenize_path(path) for path in paths]
        return list(dict.fromkeys(text for step in steps for text in get_text_at_path(value, step) if text))

    def embed(self, texts: Sequence[str], queries: Sequence[str]) -> tuple[Known, Known]:
        texts, queries = list(dict.fromkeys(texts)), list(dict.fromkeys(queries))
        if self.embeddings is None:
            rows = self._embedder.embed(texts) if texts else ()
            asked = embed_queries(self._embedder, queries) if queries else ()
            return dict(zip(texts, rows, strict=True)), dict(zip(queries, asked, strict=True))
        if isinstance(self.embeddings, EmbeddingsLambda) and not hasattr(self.embeddings, "func"):
            return _waited_for(self.aembed, texts, queries)  # an async function alone
        rows = self.embeddings.embed_documents(texts) if texts else []
        asked = [self.embeddings.embed_query(query) for query in queries]
        return self._checked(texts, rows), self._checked(queries, asked)

    async def aembed(self, texts: Sequence[str], queries: Sequence[str]) -> tuple[Known, Known]:
        texts, queries = list(dict.fromkeys(texts)), list(dict.fromkeys(queries))
        if self.embeddings is None:
            return await asyncio.to_thread(self.embed, texts, queries) if texts or queries else ({}, {})
        rows = await self.embeddings.aembed_documents(texts) if texts else []
        asked = await asyncio.gather(*(self.embeddings.aembed_query(query) for query in queries))
        return self._checked(texts, rows), self._checked(queries, asked)

    def similarities(self, rows: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The higher, the closer, whichever the distance."""
        if self.distance == "inner_product":
            return rows @ query
        if self.distance == "l2":
            return -np.linalg.norm(rows - query, axis=1)
        norms = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
        return np.divide(rows @ query, norms, out=np.zeros(len(rows), np.float32), where=norms > 0)

    def _checked(self, texts: Sequence[str], rows: Sequence[Sequence[float]]) -> Known:
        if len(rows) != len(texts):
            raise EmbedderError(
                f"{len(rows)} vectors came back for {len(texts)} texts", fix="look at what `embed` of the index returns"
            )
        known = {text: np.asarray(row, np.float32) for text, row in zip(texts, rows, strict=True)}
        for row in known.values():
            if self.dims is not None and row.shape != (self.dims,):
                raise EmbedderError(
                    f"`embed` of the index returned {row.shape[-1] if row.ndim else 0} numbers, not {self.dims}",
                    fix="set `dims` of the index to what the model returns",
                )
        return known

    def vectors(self, texts: Sequence[str], known: Known) -> Vectors:
        size = self.dims or 0
        rows = np.stack([known[text] for text in texts]) if texts else np.zeros((0, size), np.float32)
        return Vectors(rows.astype(np.float32), self.identity)


def _waited_for(embed: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(embed(*args))
    raise asyncio.InvalidStateError(
        "The index embeds with an async function alone, and an event loop is running, which cannot wait for it."
        " Next: await the a-method of the same name (aput, aget, asearch, abatch …), or call from a thread."
    )


def _name(embed: Any) -> str:
    """What makes vectors comparable, as far as it can be told: a name, a model, a function's name."""
    if isinstance(embed, str):
        return embed
    model = next((getattr(embed, name) for name in ("model", "model_name") if hasattr(embed, name)), "")
    return f"{getattr(embed, '__qualname__', type(embed).__qualname__)}/{model}"


def pack(vectors: Vectors) -> dict[str, Any]:
    rows = np.ascontiguousarray(vectors.rows, "<f4")
    return {"by": vectors.made_by, "n": len(rows), "f32": base64.b64encode(rows.tobytes()).decode()}


def unpack(raw: Any) -> Vectors | None:
    if not isinstance(raw, Mapping):
        return None
    count = raw["n"]
    flat = np.frombuffer(base64.b64decode(raw["f32"]), "<f4").astype(np.float32, copy=False)
    return Vectors(flat.reshape(count, -1 if count else 0), raw["by"])
