"""Runs in the peer's environment: mem0 with local Qdrant and its BM25, given vectors, infer=False; one fresh store per
talk. Prints the rows found for each question as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from fastembed import SparseTextEmbedding  # pyright: ignore[reportMissingImports]
from mem0 import Memory  # pyright: ignore[reportMissingImports]


class Given:
    """mem0 takes the blanks off what it is asked."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors = {text.strip(): vector for text, vector in vectors.items()}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.vectors[text.strip()]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def bm25(stop_words: list[str]) -> SparseTextEmbedding:
    """Its own BM25, with a list of stop words given instead of downloaded."""
    folder = tempfile.mkdtemp()
    (Path(folder) / "config.json").write_text("{}")
    return SparseTextEmbedding("Qdrant/bm25", specific_model_path=folder, stopwords=set(stop_words))


def opened(dim: int, encoder: SparseTextEmbedding) -> Memory:
    folder = tempfile.mkdtemp()
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{folder}/q", "on_disk": True, "embedding_model_dims": dim, "collection_name": "m"},
            },
            "history_db_path": f"{folder}/h.db",
            "llm": {"provider": "openai", "config": {"api_key": "unused"}},
            "embedder": {"provider": "openai", "config": {"api_key": "unused", "embedding_dims": dim}},
        }
    )
    memory.vector_store._bm25_encoder = encoder
    return memory


def found(talk: dict[str, list[str]], vectors: np.ndarray, encoder: SparseTextEmbedding) -> list[list[int]]:
    memory = opened(int(vectors.shape[1]), encoder)
    texts = [*talk["rows"], *talk["questions"]]
    memory.embedding_model = Given(dict(zip(texts, vectors.tolist(), strict=True)))
    row_of: dict[str, int] = {}
    for row, text in enumerate(talk["rows"]):
        (added,) = memory.add(text, user_id="u", infer=False)["results"]
        row_of[added["id"]] = row
    out: list[list[int]] = []
    for question in talk["questions"]:
        results = memory.search(question, filters={"user_id": "u"}, top_k=60)["results"]
        out.append([row_of[one["id"]] for one in results])
    return out


def main() -> None:
    request = json.loads(sys.stdin.read())
    arrays = np.load(request["vectors"])
    encoder = bm25(request["stop_words"])
    answer = [found(talk, arrays[talk["name"]], encoder) for talk in request["talks"]]
    print(json.dumps({"found": answer}))


if __name__ == "__main__":
    main()
