"""How text becomes a vector. `make_embedder("hash" | "minilm" | "openai:NAME" | callable)`; see `base.Embedder`."""

from memkit.embedders.base import Embedder
from memkit.embedders.factory import EmbedderSpec, make_embedder

__all__ = ["Embedder", "EmbedderSpec", "make_embedder"]
