"""Runs in the peer's environment: mem0 with local Qdrant and a scripted model. Counts what `trust` counts, as JSON."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _vectors import DIM, vector
from mem0 import Memory  # pyright: ignore[reportMissingImports]


class Given:
    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return vector(text).tolist()

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Saying:
    reply = ""

    def generate_response(self, *args: object, **named: object) -> str:
        return self.reply


def open_memory(folder: str) -> Memory:
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
    memory.embedding_model, memory.llm = Given(), Saying()
    return memory


def read_all(memory: Memory, user: str) -> list[str]:
    found = memory.get_all(filters={"user_id": user}, top_k=10_000)
    return [one["memory"] for one in found["results"]]


def replies(memory: Memory, given: list[str]) -> dict[str, int]:
    """Turns of which nothing is kept and nobody is told; and errors that are nobody's."""
    silent = foreign = 0
    for number, reply in enumerate(given):
        memory.llm.reply = reply
        try:
            memory.add("I keep bees, and have a flat in Oslo.", user_id=f"r{number}")
        except (ValueError, AttributeError, TypeError, KeyError, IndexError, UnicodeError):
            foreign += 1
            continue
        silent += not read_all(memory, f"r{number}")
    return {"turns lost in silence": silent, "foreign errors": foreign}


def ids(memory: Memory, given: list[str]) -> int:
    """Ids by which rows of others are read."""
    let_in: list[str] = []
    for number, one in enumerate(given):
        try:
            memory.add(f"The secret word is canary{number}.", user_id=one, infer=False)
            let_in.append(one)
        except Exception:
            continue
    return sum(len(read_all(memory, one)) > 1 for one in let_in)


def erased(folder: str, count: int) -> int:
    """Canaries of a user that are in the files after everything of the user was deleted."""
    memory = open_memory(folder)
    words = [f"canary{number:04d}zq" for number in range(count)]
    for word in words:
        memory.add(f"The {word} sings.", user_id="eve", infer=False)
    memory.delete_all(user_id="eve")
    raw = b"".join(file.read_bytes() for file in Path(folder).rglob("*") if file.is_file())
    return sum(word.encode() in raw for word in words)


def main() -> None:
    request = json.loads(sys.stdin.read())
    folders = [tempfile.mkdtemp() for _ in range(3)]
    try:
        told = {
            **replies(open_memory(folders[0]), request["replies"]),
            "ids that read rows of others": ids(open_memory(folders[1]), request["ids"]),
            "canaries left": erased(folders[2], request["canaries"]),
        }
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(told))


main()
