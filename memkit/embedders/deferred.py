"""The default embedder, known by name before it is loaded: opening a store and storing a turn need no numpy."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memkit.seams.embedder import Embedder

DEFAULT_IDENTITY, DEFAULT_DIM = "hash/1:384", 384


class DeferredDefault:
    """Stands for the built-in hashing embedder until the first text is embedded."""

    identity, dim, cheap = DEFAULT_IDENTITY, DEFAULT_DIM, True

    def __init__(self) -> None:
        self._made: Embedder | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._lock:
            if self._made is None:
                from memkit.embedders import make_embedder

                self._made = make_embedder(None)
        return self._made.embed(texts)

    def forget(self) -> None:
        """Drop cached vectors of texts (they can be told from each other by their hashes)."""
        self._made = None


def default_or(spec: Any) -> Embedder:
    """`embedder=` of a Memory."""
    if spec is None or spec == "hash":
        return DeferredDefault()
    from memkit.embedders import make_embedder

    return make_embedder(spec)
