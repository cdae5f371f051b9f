"""Text → vector. The store records an embedder's identity and refuses another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def close_embedder(embedder: object) -> None:
    """Connections and sessions, where it has any: an embedder need not be closable."""
    close = getattr(embedder, "close", None)
    if callable(close):
        close()


def embed_queries(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors to search with. An embedder whose model tells queries from what is stored has a method `embed_queries`
    beside `embed`; every other one embeds both alike."""
    return getattr(embedder, "embed_queries", embedder.embed)(texts)


@runtime_checkable
class Embedder(Protocol):
    """Deterministic and thread-safe. Rows are unit length, float32."""

    @property
    def identity(self) -> str:
        """Name with everything that changes vectors, e.g. `hash/1:384`, `minilm/fp32:384`."""
        ...

    @property
    def dim(self) -> int: ...
    @property
    def cheap(self) -> bool:
        """True where recomputing a vector costs less than reading it back (the hashing embedder)."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors to store, and to search with where there is no method `embed_queries`."""
        ...
