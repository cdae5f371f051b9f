"""A BERT encoder written down as an ONNX model, in memory.

onnxruntime runs fused kernels (attention, skip-layer-norm, bias-gelu), but only a graph that already names them is sure
to get them, and exporters need torch. Six kinds of node are all that MiniLM needs, so the graph is written here by
hand, and so is the wire format: ONNX is protobuf, and the part in use fits in a few functions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weights = Mapping[str, NDArray[np.float32]]

_FLOAT, _INT32 = 1, 6
_FUSED = "com.microsoft"


@dataclass(frozen=True, slots=True)
class BertShape:
    """The parts of a model's config.json that shape the graph."""

    layers: int
    heads: int
    hidden: int
    epsilon: float


def bert_encoder(weights: Weights, shape: BertShape) -> bytes:
    """ONNX bytes: (input_ids, mask) int32 (batch, length) → hidden float (batch, length, hidden)."""
    graph = _Graph(inputs={"input_ids": _INT32, "mask": _INT32})
    graph.constant("words", weights["embeddings.word_embeddings.weight"])
    # All texts are of the first segment, so its vector is part of every position.
    places = weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
    graph.constant("places", places)
    graph.layer_norm("embeddings.LayerNorm", weights)
    state = graph.node(
        "EmbedLayerNormalization",
        "embedded",
        ["input_ids", "", "words", "places", "", "embeddings.LayerNorm.weight", "embeddings.LayerNorm.bias"],
        also=("unused_mask_index",),
        epsilon=shape.epsilon,
    )
    for number in range(shape.layers):
        state = _layer(graph, weights, shape, f"encoder.layer.{number}.", state)
    graph.node("Identity", "hidden", [state], domain="")
    return graph.model()


def bert_layers(weights: Weights, shape: BertShape, first: int) -> bytes:
    """The layers from `first` on: (states float (batch, length, hidden), mask) → hidden."""
    graph = _Graph(inputs={"states": _FLOAT, "mask": _INT32})
    state = "states"
    for number in range(first, shape.layers):
        state = _layer(graph, weights, shape, f"encoder.layer.{number}.", state)
    graph.node("Identity", "hidden", [state], domain="")
    return graph.model()


def _layer(graph: _Graph, weights: Weights, shape: BertShape, name: str, state: str) -> str:
    parts = [f"{name}attention.self.{part}" for part in ("query", "key", "value")]
    graph.constant(f"{name}qkv.weight", np.concatenate([weights[f"{part}.weight"].T for part in parts], axis=1))
    graph.constant(f"{name}qkv.bias", np.concatenate([weights[f"{part}.bias"] for part in parts]))
    attended = graph.node(
        "Attention", f"{name}attended", [state, f"{name}qkv.weight", f"{name}qkv.bias", "mask"], num_heads=shape.heads
    )
    joined = graph.matmul(f"{name}attention.output.dense", weights, attended)
    state = graph.skip_norm(f"{name}attention.output", weights, joined, state, shape.epsilon)
    wide = graph.matmul(f"{name}intermediate.dense", weights, state)
    graph.constant(f"{name}intermediate.dense.bias", weights[f"{name}intermediate.dense.bias"])
    curved = graph.node("BiasGelu", f"{name}curved", [wide, f"{name}intermediate.dense.bias"])
    narrow = graph.matmul(f"{name}output.dense", weights, curved)
    return graph.skip_norm(f"{name}output", weights, narrow, state, shape.epsilon)


class _Graph:
    def __init__(self, inputs: Mapping[str, int]) -> None:
        self._inputs = inputs
        self._nodes: list[bytes] = []
        self._constants: list[tuple[bytes, memoryview]] = []

    def constant(self, name: str, value: NDArray[np.float32]) -> None:
        raw = np.ascontiguousarray(value, dtype="<f4").data.cast("B")
        dims = b"".join(_integer(1, size) for size in value.shape)
        self._constants.append((dims + _integer(2, _FLOAT) + _string(8, name) + _head(9, len(raw)), raw))

    def node(
        self,
        kind: str,
        output: str,
        inputs: list[str],
        *,
        also: tuple[str, ...] = (),
        domain: str = _FUSED,
        **attributes: float,
    ) -> str:
        body = b"".join(_string(1, name) for name in inputs) + b"".join(_string(2, name) for name in (output, *also))
        body += _string(3, output) + _string(4, kind)
        body += b"".join(_bytes(5, _attribute(name, value)) for name, value in attributes.items())
        self._nodes.append(body + _string(7, domain))
        return output

    def matmul(self, name: str, weights: Weights, state: str) -> str:
        self.constant(f"{name}.weight", weights[f"{name}.weight"].T)
        return self.node("MatMul", f"{name}.product", [state, f"{name}.weight"], domain="")

    def layer_norm(self, name: str, weights: Weights) -> None:
        for part in ("weight", "bias"):
            self.constant(f"{name}.{part}", weights[f"{name}.{part}"])

    def skip_norm(self, name: str, weights: Weights, state: str, skip: str, epsilon: float) -> str:
        self.layer_norm(f"{name}.LayerNorm", weights)
        self.constant(f"{name}.dense.bias", weights[f"{name}.dense.bias"])
        norm = [f"{name}.LayerNorm.weight", f"{name}.LayerNorm.bias", f"{name}.dense.bias"]
        return self.node("SkipLayerNormalization", f"{name}.normed", [state, skip, *norm], epsilon=epsilon)

    def model(self) -> bytes:
        """The weights are copied once, here: what is copied again and again on the way stays with the process."""
        graph: list[bytes | memoryview] = [_bytes(1, node) for node in self._nodes]
        graph.append(_string(2, "bert"))
        for head, raw in self._constants:
            graph += [_head(5, len(head) + len(raw)) + head, raw]
        graph += [_bytes(11, _tensor(name, kind)) for name, kind in self._inputs.items()]
        graph.append(_bytes(12, _tensor("hidden", _FLOAT)))
        opsets = _bytes(8, _string(1, "") + _integer(2, 17)) + _bytes(8, _string(1, _FUSED) + _integer(2, 1))
        size = sum(len(part) for part in graph)
        return b"".join([_integer(1, 8) + _string(2, "memkit") + _head(7, size), *graph, opsets])


def _tensor(name: str, element: int) -> bytes:
    dims = ("batch", "length", "width") if element == _FLOAT else ("batch", "length")
    shape = b"".join(_bytes(1, _string(2, dim)) for dim in dims)
    return _string(1, name) + _bytes(2, _bytes(1, _integer(1, element) + _bytes(2, shape)))


def _attribute(name: str, value: Any) -> bytes:
    if isinstance(value, int):
        return _string(1, name) + _integer(3, value) + _integer(20, 2)
    return _string(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _integer(20, 1)


def _string(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _bytes(field: int, raw: bytes) -> bytes:
    return _head(field, len(raw)) + raw


def _head(field: int, size: int) -> bytes:
    return _varint(field << 3 | 2) + _varint(size)


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
