"""Runs in the peer's environment: mem0 with local Qdrant and its BM25, infer=False. Told and asked line by line, each
text with its vector; an answer is the places of the rows found, with their scores."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from _mem0_search import Given, bm25, opened


def main() -> None:
    answers, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115 - libraries print
    begin = json.loads(sys.stdin.readline())
    memory = opened(begin["dim"], bm25(begin["stop_words"]))
    places: dict[str, int] = {}
    for line in sys.stdin:
        one = json.loads(line)
        memory.embedding_model = Given({one["text"]: one["vector"]})
        if "k" not in one:
            (added,) = memory.add(one["text"], user_id="u", infer=False)["results"]
            places[added["id"]] = len(places)
            continue
        results = memory.search(one["text"], filters={"user_id": "u"}, top_k=one["k"])["results"]
        print(json.dumps([[places[found["id"]], found["score"]] for found in results]), file=answers, flush=True)


main()
