"""Vectors of texts that were seen before, by content."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from memkit.seams.embedder import Embedder, close_embedder

_Embed = Callable[[Sequence[str]], NDArray[np.float32]]


class CachedEmbedder:
    """Least recently used vectors in memory, keyed by embedder and sha256 of the text. Only misses reach the
    embedder, in one batch and each text once. What is searched with is kept apart where the embedder tells it apart."""

    def __init__(self, inner: Embedder, size: int = 20_000) -> None:
        self._inner, self._size = inner, size
        self._lock = threading.Lock()
        self._rows: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self.hits = self.misses = 0

    @property
    def identity(self) -> str:
        return self._inner.identity

    @property
    def dim(self) -> int:
        return self._inner.dim

    @property
    def cheap(self) -> bool:
        return self._inner.cheap

    @property
    def endpoint(self) -> str:
        return getattr(self._inner, "endpoint", "")

    def close(self) -> None:
        close_embedder(self._inner)

    def forget(self) -> None:
        """Drop the vectors: a text can be told from its vector."""
        with self._lock:
            self._rows.clear()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows_of(texts, "", self._inner.embed)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        own = getattr(self._inner, "embed_queries", None)
        return self.embed(texts) if own is None else self._rows_of(texts, "query", own)

    def _rows_of(self, texts: Sequence[str], role: str, embed: _Embed) -> NDArray[np.float32]:
        keys = [self._key(role, text) for text in texts]
        found: dict[bytes, NDArray[np.float32]] = {}
        with self._lock:
            for key in keys:
                if key in self._rows:
                    self._rows.move_to_end(key)
                    found[key] = self._rows[key]
            self.hits += sum(key in found for key in keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            fresh = dict(zip(missing, embed(list(missing.values())), strict=True))
            found.update(fresh)
            self._keep(fresh)
        return np.stack([found[key] for key in keys]) if keys else np.zeros((0, self.dim), dtype=np.float32)

    def _keep(self, fresh: dict[bytes, NDArray[np.float32]]) -> None:
        with self._lock:
            self.misses += len(fresh)
            for key, row in fresh.items():
                self._rows[key] = row.copy()  # a view would keep its whole batch alive
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)

    def _key(self, role: str, text: str) -> bytes:
        return sha256(f"{self._inner.identity}\x00{role}\x00{text}".encode("utf-8", "surrogatepass")).digest()
