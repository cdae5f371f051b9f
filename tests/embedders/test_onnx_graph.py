"""The hand-written graph against BERT written out in numpy, on a tiny random model: no weights package needed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from memkit.embedders import make_embedder
from memkit.embedders.onnx_graph import BertShape, bert_encoder

HIDDEN, HEADS, LAYERS, WORDS = 16, 2, 2, 12
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "i", "paint", "a", "sun", "##rise", "dog", "my", "barks"]


def random_weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = {
        "embeddings.word_embeddings.weight": (WORDS, HIDDEN),
        "embeddings.position_embeddings.weight": (64, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        "embeddings.LayerNorm.weight": (HIDDEN,),
        "embeddings.LayerNorm.bias": (HIDDEN,),
    }
    for n in range(LAYERS):
        name = f"encoder.layer.{n}."
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            shapes |= {f"{name}{part}.weight": (HIDDEN, HIDDEN), f"{name}{part}.bias": (HIDDEN,)}
        shapes |= {f"{name}intermediate.dense.weight": (4 * HIDDEN, HIDDEN)}
        shapes |= {f"{name}intermediate.dense.bias": (4 * HIDDEN,)}
        shapes |= {f"{name}output.dense.weight": (HIDDEN, 4 * HIDDEN), f"{name}output.dense.bias": (HIDDEN,)}
        for part in ("attention.output", "output"):
            shapes |= {f"{name}{part}.LayerNorm.weight": (HIDDEN,), f"{name}{part}.LayerNorm.bias": (HIDDEN,)}
    return {name: rng.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def reference(weights: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / spread * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = weights["embeddings.word_embeddings.weight"][ids] + weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings")
    for n in range(LAYERS):
        name = f"encoder.layer.{n}."
        parts = [dense(x, f"{name}attention.self.{part}") for part in ("query", "key", "value")]
        q, k, v = (part.reshape(len(ids), HEADS, -1).transpose(1, 0, 2) for part in parts)
        scores = q @ k.transpose(0, 2, 1) / math.sqrt(HIDDEN / HEADS)
        share = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (share / share.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(ids), HIDDEN)
        x = norm(dense(mixed, f"{name}attention.output.dense") + x, f"{name}attention.output")
        wide = dense(x, f"{name}intermediate.dense")
        curved = wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))
        x = norm(dense(curved, f"{name}output.dense") + x, f"{name}output")
    return x


def test_graph_computes_bert_and_ignores_padding() -> None:
    runtime = pytest.importorskip("onnxruntime")
    weights = random_weights()
    session = runtime.InferenceSession(
        bert_encoder(weights, BertShape(LAYERS, HEADS, HIDDEN, 1e-12)), providers=["CPUExecutionProvider"]
    )
    ids = np.array([[2, 4, 5, 3, 0, 0], [2, 9, 10, 11, 7, 3]], np.int32)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    (hidden,) = session.run(None, {"input_ids": ids, "mask": mask})
    assert np.allclose(hidden[0, :4], reference(weights, [2, 4, 5, 3]), atol=1e-4)
    assert np.allclose(hidden[1], reference(weights, [2, 9, 10, 11, 7, 3]), atol=1e-4)


def test_a_local_model_with_other_weights_has_another_identity(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    tokenizers = pytest.importorskip("tokenizers")
    weights = random_weights()
    write_model(tmp_path, weights, tokenizers)
    embedder = make_embedder(f"minilm:{tmp_path}")
    assert embedder.identity.startswith("minilm/fp32-")
    assert embedder.dim == HIDDEN
    tokens = [2, 4, 5, 6, 7, 8, 3]
    pooled = reference(weights, tokens).mean(0)
    rows = embedder.embed(["I paint a sunrise", "my dog", "i"])
    assert np.allclose(rows[0], pooled / np.linalg.norm(pooled), atol=1e-4)


def write_model(folder: Path, weights: dict[str, np.ndarray], tokenizers: object) -> None:
    header, body = {}, b""
    for name, value in weights.items():
        span = [len(body), len(body) + value.nbytes]
        header[f"bert.{name}"] = {"dtype": "F32", "shape": value.shape, "data_offsets": span}
        body += value.tobytes()
    raw = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(raw).to_bytes(8, "little") + raw + body)
    config = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "hidden_size": HIDDEN,
        "layer_norm_eps": 1e-12,
    }
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {word: n for n, word in enumerate(VOCABULARY)}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))  # type: ignore[attr-defined]
    made.normalizer = tokenizers.normalizers.BertNormalizer()  # type: ignore[attr-defined]
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()  # type: ignore[attr-defined]
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))  # type: ignore[attr-defined]
    made.save(str(folder / "tokenizer.json"))
