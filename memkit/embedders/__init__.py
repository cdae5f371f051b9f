"""How text becomes a vector. `make_embedder("hash" | "minilm" | "openai:NAME" | callable)`; see `base.Embedder`."""

from memkit.embedders.base import Embedder, close_embedder
from memkit.embedders.factory import EmbedderSpec, make_embedder

__all__ = ["Embedder", "EmbedderSpec", "close_embedder", "make_embedder"]
