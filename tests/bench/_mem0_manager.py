"""Runs in the peer's environment: mem0 with a stub model, for malformed replies, prompt size and throughput."""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _vectors import DIM, vector
from mem0 import Memory  # pyright: ignore[reportMissingImports]


class Given:
    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return vector(text).tolist()

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Model:
    """Stands for mem0's LLM client: says what it is told, and keeps what it was asked. Without a reply, another fact
    each time, as our own stub does: what is known already would cost it less."""

    def __init__(self) -> None:
        self.reply: str | None = '{"memory": []}'
        self.asked: list[list[str]] = []

    def generate_response(self, messages: list[dict[str, str]], *_: object, **__: object) -> str:
        self.asked.append([str(message["content"]) for message in messages])
        return facts(1, f"walk {len(self.asked)}") if self.reply is None else self.reply


def make() -> tuple[Memory, Model]:
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
    memory.embedding_model, memory.llm = Given(), Model()
    return memory, memory.llm


def facts(count: int, tag: str) -> str:
    return json.dumps({"memory": [{"id": str(n), "text": f"Fact {n} about {tag} is noted."} for n in range(count)]})


def fuzz(replies: list[str]) -> dict[str, int]:
    memory, model = make()
    nothing = raised = 0
    for number, reply in enumerate(replies):
        model.reply = reply
        try:
            stored = memory.add(f"I adopted dog number {number}.", user_id=f"u{number}")
            nothing += not stored.get("results")
        except Exception:
            raised += 1
    return {"nothing": nothing, "raised": raised, "runs": len(replies)}


def prompts(turns: list[list[dict[str, str]]]) -> dict[str, float]:
    memory, model = make()
    model.reply = facts(1, "a walk")
    for turn in turns:
        memory.add(turn, user_id="u")
    chars = statistics.median(sum(map(len, call)) for call in model.asked)
    return {"chars": chars, "calls": len(model.asked) / len(turns)}


def asked(turns: list[dict[str, str]]) -> dict[str, list[Any]]:
    """What each turn was asked with, call by call: places of the messages among all different ones."""
    memory, model = make()
    places: dict[str, int] = {}
    of_turns: list[list[list[int]]] = []
    for turn in turns:
        model.asked.clear()
        kept = [{"id": "0", "text": turn["fact"]}] if turn["fact"] else []
        model.reply = json.dumps({"memory": kept})
        memory.add([{"role": turn["role"], "content": turn["content"]}], user_id=turn["user"])
        of_turns.append([[places.setdefault(text, len(places)) for text in call] for call in model.asked])
    return {"texts": list(places), "asked": of_turns}


def load(users: int, each: int, known: int) -> dict[str, float]:
    """Beside `known` rows of other users. One call at a time: two at once can break its in-process store, which from
    then on raises IndexError and stores nothing."""
    memory, model = make()
    for number in range(known):
        memory.add(f"Row {number}.", user_id=f"filler{number // 100}", infer=False)
    model.reply = None
    took: list[float] = []
    alone = threading.Lock()

    def work(user: int) -> None:
        for step in range(each):
            start = time.perf_counter()
            with alone:
                memory.add(f"I walked {step} miles with {user}.", user_id=f"u{user}")
            took.append(time.perf_counter() - start)

    threads = [threading.Thread(target=work, args=(user,)) for user in range(users)]
    start, spent = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took.sort()
    return {
        "per_s": users * each / (time.perf_counter() - start),
        "cpu_ms": (time.process_time() - spent) * 1e3 / (users * each),
        "p99": took[int(len(took) * 0.99) - 1],
    }


def main() -> None:
    request = json.loads(sys.stdin.read())
    with open(os.devnull, "w") as quiet:
        out, sys.stdout = sys.stdout, quiet
        answer = {"fuzz": fuzz, "prompts": prompts, "asked": asked, "load": load}[request["task"]](**request["with"])
        sys.stdout = out
    print(json.dumps(answer))


main()
