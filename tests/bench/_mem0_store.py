"""Runs in the peer's environment: mem0 with local Qdrant, given vectors, infer=False. Prints seconds as JSON."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _vectors import DIM, vector
from mem0 import Memory  # pyright: ignore[reportMissingImports]


class Given:
    def __init__(self) -> None:
        self.seen: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        if text not in self.seen:
            self.seen[text] = vector(text).tolist()
        return self.seen[text]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]


def main() -> None:
    request = json.loads(sys.stdin.read())
    folder = tempfile.mkdtemp()
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": f"{folder}/q", "on_disk": True, "embedding_model_dims": DIM, "collection_name": "m"},
            },
            "history_db_path": f"{folder}/h.db",
            "llm": {"provider": "openai", "config": {"api_key": "unused"}},
            "embedder": {"provider": "openai", "config": {"api_key": "unused", "embedding_dims": DIM}},
        }
    )
    memory.embedding_model = Given()
    singles, batches, queries = request["singles"], request["batches"], request["queries"]
    for text in [one for user in [*singles.values(), *batches.values(), queries] for one in user]:
        memory.embedding_model.embed(text)
    single, batch, search = [], [], []
    for user, texts in singles.items():
        for text in texts:
            start = time.perf_counter()
            memory.add(text, user_id=user, infer=False)
            single.append(time.perf_counter() - start)
    for user, texts in batches.items():
        for first in range(0, len(texts), request["batch"]):
            part = texts[first : first + request["batch"]]
            start = time.perf_counter()
            memory.add([{"role": "user", "content": text} for text in part], user_id=user, infer=False)
            batch.append((time.perf_counter() - start) / len(part))
    users = [*singles, *batches]
    for number, query in enumerate(queries):
        start = time.perf_counter()
        memory.search(query, filters={"user_id": users[number % len(users)]}, top_k=10)
        search.append(time.perf_counter() - start)
    figures = {"add": single, "batch": batch, "search": search}
    print(json.dumps({name: statistics.median(values) for name, values in figures.items()}))


main()
