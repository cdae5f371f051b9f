"""Any text model of the fastembed library by its name, multilingual ones above all: ONNX on the CPU, without torch."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.embedders.check import unit_rows
from memkit.errors import EmbedderError, InvalidConfig, MissingExtra

RECOMMENDED = "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
"""For languages other than English: some fifty of them, 0.2 GB, no prefixes."""

_QUESTION = "Represent this sentence for searching relevant passages: "
_PREFIXES = {
    "intfloat/multilingual-e5": ("query: ", "passage: "),
    "google/embeddinggemma": ("task: search result | query: ", "title: none | text: "),
    "qwen/qwen3-embedding": (
        "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
        "",
    ),
    "nomic-ai/nomic-embed-text": ("search_query: ", "search_document: "),
    "snowflake/snowflake-arctic-embed": (_QUESTION, ""),
    "mixedbread-ai/mxbai-embed": (_QUESTION, ""),
}
"""How a name begins → what the model was taught to see before a query, and before what is stored; the library leaves
both to its callers. They shape every vector: to change one is to change the identity of its models."""


class FastembedEmbedder:
    """Embedder (identity `fastembed:NAME:DIM`). The library is imported at once, for its list of models; the weights
    are loaded with the first text, from the library's cache, and are downloaded into it where they are not there."""

    def __init__(
        self, name: str = RECOMMENDED, *, path: str | os.PathLike[str] | None = None, threads: int = 1
    ) -> None:
        """path: a folder with a copy of the model; nothing is downloaded then."""
        model = find_model(name, fastembed_library().TextEmbedding.list_supported_models(), RECOMMENDED)
        self._name, self._dim, self._file = str(model["model"]), int(model["dim"]), str(model["model_file"])
        self._folder = None if path is None else model_folder(path, self._file)
        self._threads = max(threads, 1)
        known = (marks for start, marks in _PREFIXES.items() if self._name.lower().startswith(start))
        self._before_query, self._before_text = next(known, ("", ""))
        self._lock = threading.Lock()
        self._model: Any = None

    @property
    def identity(self) -> str:
        return f"fastembed:{self._name}:{self._dim}"

    @property
    def dim(self) -> int:
        return self._dim

    @property
    def cheap(self) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(texts, self._before_text, "passage_embed")

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(texts, self._before_query, "query_embed")

    def _rows(self, texts: Sequence[str], before: str, verb: str) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self._dim), dtype=np.float32)
        embed = getattr(self._loaded(), verb)
        # The tokenizer takes no halves of characters. One by one: beside others, a text is padded, and a quantised
        # model then gives it other vectors.
        whole = [before + text.encode("utf-8", "replace").decode() for text in texts]
        try:
            rows = np.array(list(embed(whole, batch_size=1)), dtype=np.float32)
        except Exception as error:
            raise self._failed("failed", error, "nothing was stored; try another model") from error
        rows[~rows.any(axis=1), 0] = 1.0  # of a text in which the model knows nothing
        return unit_rows(rows, len(texts), self._dim, self.identity)

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return self._model

    def _load(self) -> Any:
        library = fastembed_library()
        options: dict[str, Any] = {"specific_model_path": str(self._folder)} if self._folder else {}
        if self._file.endswith(".onnx"):  # others run without onnxruntime, and warn of its options
            options |= {"threads": self._threads, "cuda": False}
        try:
            return library.TextEmbedding(self._name, **options)
        except Exception as error:
            raise self._failed(
                "could not be loaded",
                error,
                "nothing was stored; connect once so that it can be downloaded, set FASTEMBED_CACHE_PATH to a folder "
                'that has it, or name a copy of it: make_embedder("fastembed:NAME", path=FOLDER)',
            ) from error

    def _failed(self, what: str, error: Exception, fix: str) -> EmbedderError:
        return EmbedderError(
            f"the embedder fastembed:{self._name} {what}", why=f"{type(error).__name__}: {str(error)[:200]}", fix=fix
        )


def fastembed_library(part: str = "") -> Any:
    try:
        return import_module(f"fastembed.{part}" if part else "fastembed")
    except ImportError as error:
        raise MissingExtra(
            "'fastembed:NAME' needs the library fastembed",
            why=str(error),
            fix='pip install "memkit[fastembed]"',
        ) from error


def find_model(name: str, offered: Iterable[dict[str, Any]], recommended: str) -> dict[str, Any]:
    """The one of the library's models of a kind that is named so, in whatever letters."""
    models = {model["model"].lower(): model for model in offered}
    if name.lower() in models:
        return models[name.lower()]
    near = [models[key]["model"] for key in get_close_matches(name.lower(), models, n=3, cutoff=0.5)]
    raise InvalidConfig(
        f"fastembed knows no model {name!r}",
        why=f"did you mean {', '.join(near)}?" if near else f"it offers {', '.join(sorted(models))[:300]}",
        fix=f'"fastembed" alone is {recommended}, which knows many languages',
    )


def model_folder(path: str | os.PathLike[str], file: str) -> Path:
    folder = Path(path).expanduser()
    missing = [name for name in (file, "tokenizer.json") if not (folder / name).is_file()]
    if missing:
        raise InvalidConfig(
            f"{folder} holds no copy of the model",
            why=f"{', '.join(missing)} is not there",
            fix="name a folder with the files of the model as the hub has them",
        )
    return folder
