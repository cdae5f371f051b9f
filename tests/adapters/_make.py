"""Small adapters written by hand, and a host that computes its log-probs from their bytes: no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from memkit.adapters import AdapterArtifact, HostLimits, LoadedAdapter, Probe, ProbeCase, build_adapter, write_probe
from memkit.errors import HostFull

MODULES = ("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj")
SHAPES = dict.fromkeys(MODULES, (8, 8))
BASE, TOKENIZER, TEMPLATE, PROMPT = "b" * 64, "t" * 64, "c" * 64, "manager/1:9f3a"
CONFIG: Mapping[str, Any] = {
    "peft_type": "LORA",
    "r": 2,
    "lora_alpha": 4,
    "target_modules": ["q_proj", "v_proj"],
    "bias": "none",
    "base_model_name_or_path": "tiny",
    "task_type": "CAUSAL_LM",
    "inference_mode": True,
    "lora_dropout": 0.0,
    "init_lora_weights": True,
    "modules_to_save": None,
    "use_dora": False,
    "rank_pattern": {},
}
PAIRS = [((1, 2, 3), (4, 5)), ((7, 8), (9,))]


def tensors(seed: int, rank: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    out: dict[str, np.ndarray] = {}
    for module in MODULES:
        out[f"base_model.model.{module}.lora_A.weight"] = rng.normal(size=(rank, 8)).astype(np.float32)
        out[f"base_model.model.{module}.lora_B.weight"] = rng.normal(size=(8, rank)).astype(np.float32)
    return out


def safetensors(named: Mapping[str, np.ndarray], **header: Any) -> bytes:
    at, entries = 0, {}
    for name, array in named.items():
        entries[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    return framed(json.dumps(entries | header), b"".join(array.tobytes() for array in named.values()))


def framed(header: str, data: bytes) -> bytes:
    raw = header.encode()
    return len(raw).to_bytes(8, "little") + raw + data


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "lora",
        "created_at": "2026-01-01T00:00:00+00:00",
        "roles": ["manager"],
        "base": {"id": "tiny", "digest": BASE},
        "text": {"tokenizer_digest": TOKENIZER, "template_digest": TEMPLATE, "prompt_hashes": {"manager": PROMPT}},
        "retrieval": {"embedder": "hash/1:384", "store_schema": 1},
        "gates": [{"name": "format_validity", "passed": True}],
    } | changes


def raw_adapter(
    folder: Path,
    *,
    seed: int = 1,
    weights: bytes | None = None,
    config: Mapping[str, Any] | None = None,
    probe: Probe | bool | None = True,
) -> Path:
    """The files of an adapter without its manifest, as a trainer leaves them."""
    folder.mkdir(parents=True)
    data = safetensors(tensors(seed)) if weights is None else weights
    (folder / "adapter_model.safetensors").write_bytes(data)
    (folder / "adapter_config.json").write_text(json.dumps(CONFIG if config is None else config))
    if probe is True:
        probe = Probe(
            cases=tuple(ProbeCase(prompt_ids=p, token_ids=t, logprobs=tuple(log_probs(data, t))) for p, t in PAIRS)
        )
    if probe:
        write_probe(folder, probe)
    return folder


def adapter(folder: Path, *, seed: int = 1, probe: Probe | bool | None = True, **changes: Any) -> Path:
    """A complete folder, ready to be published."""
    raw = raw_adapter(folder.with_name(folder.name + "-raw"), seed=seed, probe=probe)
    build_adapter(raw, folder, manifest(**changes))
    return folder


def ranker(folder: Path, *, words: float = 0.7, **changes: Any) -> Path:
    from memkit.retrieval import RankerWeights

    raw = folder.with_name(folder.name + "-raw")
    raw.mkdir(parents=True)
    RankerWeights.of("learned/1", {"words": words, "meaning": 0.3}).save(raw / "ranker.json")
    about = {"kind": "ranker", "roles": ["ranker"], "base": None, "text": None}
    build_adapter(raw, folder, manifest(**(about | changes)))
    return folder


def log_probs(weights: bytes | None, tokens: Sequence[int]) -> list[float]:
    """A stand-in for a model: base log-probs shifted by a checksum of the adapter's bytes."""
    shift = 0.0 if weights is None else 0.5 + (sum(weights[-64:]) % 97) / 10
    return [-1.0 - shift - token / 100 for token in tokens]


class FakeHost:
    """Keeps what it was asked; `spoil` changes how a loaded adapter behaves, as a broken server would."""

    def __init__(self, *, max_adapters: int | None = None, shared: bool = False) -> None:
        self.loaded: dict[str, bytes] = {}
        self.calls: list[tuple[str, str]] = []
        self.spoil: str = ""
        self.limits = HostLimits(
            max_rank=16,
            max_adapters=max_adapters,
            target_modules=frozenset({"q_proj", "v_proj"}),
            module_shapes=SHAPES,
            base_digest=BASE,
            tokenizer_digest=TOKENIZER,
            template_digest=TEMPLATE,
            shared=shared,
        )

    def capabilities(self) -> HostLimits:
        return self.limits

    def load(self, artifact: AdapterArtifact) -> LoadedAdapter:
        self.calls.append(("load", artifact.name))
        if self.spoil == "load":
            raise HostFull("out of memory")
        self.loaded[artifact.name] = (artifact.path / "adapter_model.safetensors").read_bytes()
        return LoadedAdapter(artifact.name)

    def unload(self, name: str) -> None:
        self.calls.append(("unload", name))
        self.loaded.pop(name, None)

    def resident(self) -> list[LoadedAdapter]:
        return [LoadedAdapter(name) for name in self.loaded]

    def score(self, name: str | None, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        weights = None if name is None else self.loaded[name]
        if name is not None and self.spoil == "ignored":
            weights = None
        drift = 0.4 if name is not None and self.spoil == "drift" else 0.0
        return [[x - drift for x in log_probs(weights, tokens)] for _, tokens in pairs]
