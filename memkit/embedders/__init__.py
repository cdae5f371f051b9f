"""How text becomes a vector: `make_embedder("hash" | "minilm" | "multilingual" | "fastembed:NAME" | …)`."""

from memkit.embedders.factory import EmbedderSpec, make_embedder
from memkit.seams.embedder import Embedder, close_embedder, embed_queries

__all__ = ["Embedder", "EmbedderSpec", "close_embedder", "embed_queries", "make_embedder"]
