"""How text becomes a vector. `make_embedder("hash" | "minilm" | "openai:NAME" | callable)`; see `base.Embedder`."""

from memkit.embedders.factory import EmbedderSpec, make_embedder
from memkit.seams.embedder import Embedder, close_embedder

__all__ = ["Embedder", "EmbedderSpec", "close_embedder", "make_embedder"]
