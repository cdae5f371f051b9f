"""all-MiniLM-L6-v2 on onnxruntime, in float32: the reference's vectors (cosine above 0.999) without torch.

One thread unless told otherwise: on a busy machine a second one makes a single query many times slower.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memkit.embedders.check import unit_rows
from memkit.embedders.onnx_graph import BertShape, bert_encoder
from memkit.embedders.weights import find_minilm, fingerprint, read_config, read_safetensors
from memkit.errors import MissingExtra

MAX_TOKENS = 256
"""Where the reference cuts a text."""
_BATCH_TOKENS = 512
_KNOWN = "bdc57ac07d74"
"""Fingerprint of the published weights; others get theirs into the identity."""


class MiniLM:
    """Embedder (identity `minilm/fp32:384`). Files are looked for at once, weights are loaded with the first text."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, threads: int = 1) -> None:
        self._folder = find_minilm(path)
        self._threads = max(threads, 1)
        self._config = read_config(self._folder)
        mark = fingerprint(self._folder)
        self._identity = f"minilm/fp32{'' if mark == _KNOWN else '-' + mark}:{self.dim}"
        self._lock = threading.Lock()
        self._engine: _Engine | None = None

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def dim(self) -> int:
        return int(self._config["hidden_size"])

    @property
    def cheap(self) -> bool:
        return False

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        return self._loaded().embed(texts)

    def _loaded(self) -> _Engine:
        with self._lock:
            if self._engine is None:
                self._engine = _Engine(self._folder, self._config, self._threads)
            return self._engine


class _Engine:
    """Tokenizer and session. Both are safe to use from many threads."""

    def __init__(self, folder: Path, config: dict[str, Any], threads: int) -> None:
        self._dim = int(config["hidden_size"])
        tokenizers, runtime = _import("tokenizers"), _import("onnxruntime")
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        options: Any = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        shape = BertShape(
            config["num_hidden_layers"], config["num_attention_heads"], config["hidden_size"], config["layer_norm_eps"]
        )
        graph = bert_encoder(read_safetensors(folder / "model.safetensors"), shape)
        self._session: Any = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        ids = [self._tokenizer.encode(text).ids for text in texts]
        out = np.empty((len(texts), self._dim), dtype=np.float32)
        for batch in _batches([len(one) for one in ids]):
            out[batch] = self._run([ids[i] for i in batch])
        return unit_rows(out, len(texts), self._dim, "minilm")

    def _run(self, ids: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        longest = max(len(one) for one in ids)
        tokens = np.zeros((len(ids), longest), dtype=np.int32)
        mask = np.zeros((len(ids), longest), dtype=np.int32)
        for row, one in enumerate(ids):
            tokens[row, : len(one)], mask[row, : len(one)] = one, 1
        (hidden,) = self._session.run(None, {"input_ids": tokens, "mask": mask})
        weight = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        return np.einsum("bl,blh->bh", weight, hidden)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Positions grouped by similar length, so that little is spent on padding."""
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    batches: list[list[int]] = []
    for position in order:
        if batches and (len(batches[-1]) + 1) * lengths[position] <= _BATCH_TOKENS:
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(
            f"embedder='minilm' needs {name}", why=str(error), fix='pip install "memkit[minilm]"'
        ) from error
