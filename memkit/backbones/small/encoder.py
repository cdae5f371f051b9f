"""The encoder behind the choices, on onnxruntime: pairs of texts → a score for each option.

The lower layers read a text by itself, and what they make of it is kept; the upper ones, with LoRA matrices merged in,
read the two texts of a pair together; a head turns what they made of them into scores. Nothing is loaded before the
first pair. What was learned is a folder: LoRA matrices with their configuration, and the heads.
"""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from memkit.backbones.small.shape import CONFIG, FACT, HEADS, LOWER, MEMORY, MESSAGE, SPAN, WEIGHTS
from memkit.embedders.onnx_graph import BertShape, bert_layers
from memkit.embedders.weights import find_minilm, read_config, read_safetensors
from memkit.errors import InvalidConfig, MissingExtra, ModelRefused
from memkit.memo import forgettable

Task = Literal["clause", "relation"]
Floats = NDArray[np.float32]

KINDS = {"message": (0, MESSAGE), "span": (1, SPAN), "memory": (2, MEMORY), "fact": (3, FACT)}
"""Kind of text → its mark, tokens that are read."""
READS: Mapping[Task, tuple[str, str]] = {"clause": ("message", "span"), "relation": ("memory", "fact")}
_KEPT = 768
"""Texts whose lower states are kept, 30 kB each."""
_BATCH_TOKENS = 1_024
_PREFIX = "base_model.model."


@dataclass(frozen=True, slots=True)
class TextPair:
    task: Task
    first: str
    second: str
    features: Sequence[float]


class Encoder:
    """Thread-safe. `shipped`: the folder of what everybody begins with; others are learned under names of their own."""

    def __init__(self, shipped: Path, path: str | os.PathLike[str] | None = None) -> None:
        self.folder = find_minilm(path)
        _check_folder(shipped)
        self._lock = threading.Lock()
        self._shipped = shipped
        self._lower: _Lower | None = None
        self._uppers: dict[str, _Upper] = {}

    def learn(self, name: str, folder: Path) -> None:
        """Serve what lies in a folder under a name. Read at once, so that what cannot be read fails here."""
        _check_folder(folder)
        upper = _Upper(self.folder, folder)
        with self._lock:
            self._uppers[name] = upper

    def forget(self, name: str) -> None:
        with self._lock:
            self._uppers.pop(name, None)

    def linear_shapes(self) -> dict[str, tuple[int, int]]:
        weights = read_safetensors(self.folder / "model.safetensors", only="encoder.layer.")
        return {
            name.removesuffix(".weight"): (value.shape[0], value.shape[1])
            for name, value in weights.items()
            if value.ndim == 2 and int(name.split(".")[2]) >= LOWER
        }

    def names(self) -> list[str]:
        """What is learned beside what is shipped."""
        with self._lock:
            return sorted(name for name in self._uppers if name)

    def score(self, pairs: Sequence[TextPair], name: str = "") -> list[Floats]:
        """For each pair the scores of its task's options, not yet normalised."""
        if not pairs:
            return []
        with self._lock:
            if self._lower is None:
                self._lower = _Lower(self.folder)
            if not name and name not in self._uppers:
                self._uppers[name] = _Upper(self.folder, self._shipped)
            lower, upper = self._lower, self._uppers.get(name)
        if upper is None:
            raise ModelRefused(
                f"adapter {name!r} is not loaded",
                why=f"loaded: {self.names() or 'none'}",
                fix="load it first, and unload it only when no request names it any more",
            )
        return upper.score(lower, pairs)


def _check_folder(learned: Path) -> None:
    missing = [name for name in (WEIGHTS, CONFIG, HEADS) if not (learned / name).is_file()]
    if missing:
        raise InvalidConfig(
            f"{learned} holds no small manager", why=f"{missing[0]} is not there", fix="name another folder, or none"
        )


class _Lower:
    def __init__(self, folder: Path) -> None:
        tokenizers = _import("tokenizers")
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        shape = _shape(folder, LOWER)
        layers = read_safetensors(folder / "model.safetensors", only="encoder.layer.")
        self._session = _session(bert_layers(layers, shape, 0))
        self._embeddings = _Embeddings(folder, shape.epsilon)
        self._kept: OrderedDict[tuple[str, str], Floats] = OrderedDict()
        self._lock = threading.Lock()
        _READERS.add(self)

    def __len__(self) -> int:
        return len(self._kept)

    def forget(self) -> None:
        with self._lock:
            self._kept.clear()

    def read(self, texts: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Floats]:
        """(kind, text) → its states, one row per token."""
        wanted = dict.fromkeys(texts)
        with self._lock:
            found = {key: self._kept[key] for key in wanted if key in self._kept}
        missing = [key for key in wanted if key not in found]
        for batch in _batches([len(text) for _, text in missing]):
            for place, states in zip(batch, self._run([missing[at] for at in batch]), strict=True):
                found[missing[place]] = states
        with self._lock:
            for key in missing:
                self._kept[key] = found[key]
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return found

    def ids(self, kind: str, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text[:2_000]).ids
        most = KINDS[kind][1]
        return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]

    def _run(self, keys: Sequence[tuple[str, str]]) -> list[Floats]:
        ids = [self.ids(kind, text) for kind, text in keys]
        longest = max(map(len, ids))
        given = np.zeros((len(ids), longest, self._embeddings.width), dtype=np.float32)
        mask = np.zeros((len(ids), longest), dtype=np.int32)
        for row, one in enumerate(ids):
            given[row, : len(one)], mask[row, : len(one)] = self._embeddings.read(one), 1
        (hidden,) = self._session.run(None, {"states": given, "mask": mask})
        return [hidden[row, : len(one)].copy() for row, one in enumerate(ids)]


_READERS: WeakSet[_Lower] = WeakSet()


def _forget_texts() -> None:
    for one in list(_READERS):
        one.forget()


forgettable(_forget_texts, lambda: sum(map(len, list(_READERS))))


class _Embeddings:
    """What the layers begin from, read from the mapped file, whose pages everybody on the machine shares."""

    def __init__(self, folder: Path, epsilon: float) -> None:
        weights = read_safetensors(folder / "model.safetensors", only="embeddings.")
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._scale = np.array(weights["embeddings.LayerNorm.weight"])
        self._shift = np.array(weights["embeddings.LayerNorm.bias"])
        self._epsilon = np.float32(epsilon)
        self.width = self._words.shape[1]

    def read(self, ids: Sequence[int]) -> Floats:
        states = self._words[list(ids)] + self._places[: len(ids)]
        centred = states - states.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + self._epsilon)
        return centred / spread * self._scale + self._shift


class _Upper:
    def __init__(self, base: Path, learned: Path) -> None:
        weights = dict(read_safetensors(base / "model.safetensors", only="encoder.layer."))
        _merge(weights, read_safetensors(learned / WEIGHTS), _scale_of(learned))
        config = read_config(base)
        self._session = _session(bert_layers(weights, _shape(base, int(config["num_hidden_layers"])), LOWER))
        self._heads = read_safetensors(learned / HEADS)

    def score(self, lower: _Lower, pairs: Sequence[TextPair]) -> list[Floats]:
        keys = [((READS[one.task][0], one.first), (READS[one.task][1], one.second)) for one in pairs]
        states = lower.read([key for both in keys for key in both])
        joined = [np.concatenate([self._marked(key, states[key]) for key in both]) for both in keys]
        scores: list[Floats] = [np.zeros(0, np.float32)] * len(pairs)
        for batch in _batches([len(one) for one in joined]):
            longest = max(len(joined[at]) for at in batch)
            given = np.zeros((len(batch), longest, joined[0].shape[1]), dtype=np.float32)
            mask = np.zeros((len(batch), longest), dtype=np.int32)
            for row, at in enumerate(batch):
                given[row, : len(joined[at])], mask[row, : len(joined[at])] = joined[at], 1
            (hidden,) = self._session.run(None, {"states": given, "mask": mask})
            for row, at in enumerate(batch):
                cut = len(states[keys[at][0]])
                first, second = hidden[row, :cut].mean(axis=0), hidden[row, cut : len(joined[at])].mean(axis=0)
                scores[at] = self._head(pairs[at], first, second)
        return scores

    def _marked(self, key: tuple[str, str], states: Floats) -> Floats:
        return states + self._heads["marks"][KINDS[key[0]][0]]

    def _head(self, pair: TextPair, first: Floats, second: Floats) -> Floats:
        given = np.concatenate(
            [first, second, np.abs(first - second), first * second, np.asarray(pair.features, dtype=np.float32)]
        )
        heads, task = self._heads, pair.task
        inner = np.tanh(heads[f"{task}.inner.weight"] @ given + heads[f"{task}.inner.bias"])
        return heads[f"{task}.outer.weight"] @ inner + heads[f"{task}.outer.bias"]


def _merge(weights: dict[str, Floats], lora: Mapping[str, Floats], scale: float) -> None:
    """LoRA matrices into the weights that they change."""
    for name, down in lora.items():
        if name.endswith(".lora_A.weight"):
            module = name.removesuffix(".lora_A.weight")
            up = lora[f"{module}.lora_B.weight"]
            place = f"{module.removeprefix(_PREFIX)}.weight"
            weights[place] = (weights[place] + scale * (up @ down)).astype(np.float32)


def _scale_of(learned: Path) -> float:
    config = json.loads((learned / CONFIG).read_text(encoding="utf-8"))
    return float(config["lora_alpha"]) / float(config["r"])


def _shape(folder: Path, layers: int) -> BertShape:
    config = read_config(folder)
    return BertShape(layers, config["num_attention_heads"], config["hidden_size"], config["layer_norm_eps"])


def _session(graph: bytes) -> Any:
    runtime = _import("onnxruntime")
    options: Any = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # it keeps all that the longest batch ever took
    return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Places grouped by similar length."""
    order = sorted(range(len(lengths)), key=lambda at: (lengths[at], at))
    batches: list[list[int]] = []
    for place in order:
        if batches and (len(batches[-1]) + 1) * lengths[place] <= _BATCH_TOKENS:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(f"model='small' needs {name}", why=str(error), fix='pip install "memkit[small]"') from error
