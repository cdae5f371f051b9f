"""What others find in the same conversations, given the same texts and vectors: mem0, LanceDB's hybrid, plain BM25."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memkit.retrieval import RankerWeights
from memkit.text.words import STOP_WORDS
from tests.bench._locomo import CUTOFFS, Embedded
from tests.bench._peer import run_peer

Found = list[list[list[int]]]
"""Talk → question → rows, best first."""

BM25_ONLY = RankerWeights.of("bm25", {"words": 1.0})


def mem0(talks: Sequence[Embedded]) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.npz"
        np.savez(path, **{one.talk.name: np.concatenate([one.rows, one.questions]) for one in talks})
        asked = [
            {"name": one.talk.name, "rows": one.talk.texts, "questions": [q.text for q in one.talk.questions]}
            for one in talks
        ]
        script = Path(__file__).parent / "_mem0_search.py"
        request = {"vectors": str(path), "stop_words": sorted(STOP_WORDS), "talks": asked}
        answer: Found = run_peer(["mem0ai", "fastembed"], script, request)["found"]
        return answer


def lancedb_hybrid(talks: Sequence[Embedded]) -> Found:
    """Vector and full-text search with the default reciprocal rank fusion."""
    import lancedb

    out: Found = []
    for one in talks:
        with tempfile.TemporaryDirectory() as folder:
            rows = [
                {"row": n, "text": text, "vector": vector}
                for n, (text, vector) in enumerate(zip(one.talk.texts, one.rows, strict=True))
            ]
            table = lancedb.connect(folder).create_table("t", rows)
            table.create_fts_index("text")
            out.append([_hybrid(table, q.text, v) for q, v in zip(one.talk.questions, one.questions, strict=True)])
    return out


def _hybrid(table: object, text: str, vector: np.ndarray) -> list[int]:
    search = table.search(query_type="hybrid").vector(vector).text(text).limit(CUTOFFS[-1])  # type: ignore[attr-defined]
    return [int(row) for row in search.to_arrow()["row"].to_pylist()]
