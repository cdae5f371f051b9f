"""A plain callable as an embedder: `embedder=lambda texts: model.encode(texts)`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.embedders.check import unit_rows
from memkit.errors import EmbedderError, MemkitError

EmbedCallable = Callable[[list[str]], Any]


class CallableEmbedder:
    """`embed(list of texts) -> list of vectors`. Without `dim` it is asked once, on first need."""

    def __init__(self, embed: EmbedCallable, *, name: str = "", dim: int | None = None) -> None:
        self._embed, self._dim, self._lock = embed, dim, threading.Lock()
        self._name = name or getattr(embed, "__qualname__", type(embed).__qualname__)

    @property
    def identity(self) -> str:
        return f"callable/{self._name}:{self.dim}"

    @property
    def dim(self) -> int:
        with self._lock:
            if self._dim is None:
                self._dim = self._call(["dimension"], None).shape[1]
            return self._dim

    @property
    def cheap(self) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._call(list(texts), self.dim) if texts else np.zeros((0, self.dim), dtype=np.float32)

    def _call(self, texts: list[str], dim: int | None) -> NDArray[np.float32]:
        try:
            raw = self._embed(texts)
        except MemkitError:
            raise
        except Exception as error:
            raise EmbedderError(
                f"the embedder {self._name} failed with {type(error).__name__}",
                why=str(error)[:200],
                fix="nothing was stored; retry once the function works",
            ) from error
        return unit_rows(raw, len(texts), dim, self._name)
