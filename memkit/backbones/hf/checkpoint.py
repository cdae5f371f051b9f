"""Find a checkpoint, refuse what is unsafe or unfit, hash its weights, load model and tokenizer.

Safetensors only and never remote code: a checkpoint is data.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from memkit.backbones.hf.quiet import without_bars
from memkit.errors import InvalidConfig, ModelUnavailable

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_HUB_FILES = ["*.safetensors", "*.json", "*.jinja", "*.model", "*.txt"]
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    folder: Path
    model: Any
    tokenizer: Any
    stop_ids: frozenset[int]
    context: int
    """Most tokens of prompt and reply together."""
    vocab_size: int


def find(model: str | Path, *, revision: str | None = None) -> Path:
    """A local folder as it is; a hub id through the hub's cache (or a download, as the user asked for that model)."""
    folder = Path(model).expanduser()
    if model != "" and folder.is_dir():  # "" would be the working directory
        return folder.resolve()
    if isinstance(model, Path) or not _HUB_ID.fullmatch(model):
        raise InvalidConfig(
            f"no checkpoint at {str(model)!r}",
            why="there is no such folder, and it is not a hub id either",
            fix="give a folder with config.json and *.safetensors, or an id such as Qwen/Qwen2.5-0.5B-Instruct",
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=_HUB_FILES))
    except Exception as error:
        raise ModelUnavailable(
            f"cannot get the checkpoint {model}",
            why=f"{type(error).__name__}: {error}",
            fix="check the name and the connection, or download it first and give its folder",
        ) from error


def load(folder: Path, *, dtype: str, device: str) -> Checkpoint:
    if not list(folder.glob("*.safetensors")):
        raise InvalidConfig(
            f"{folder} holds no *.safetensors",
            why="pickled weights can run code when they are read, so they are never loaded",
            fix="convert the checkpoint with save_pretrained(), which writes safetensors",
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    if dtype not in _DTYPES:
        raise InvalidConfig(f"unknown dtype {dtype!r}", fix=f"use auto or one of {', '.join(_DTYPES)}")
    local: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    loader: Any = AutoModelForCausalLM
    try:
        config = AutoConfig.from_pretrained(folder, **local)
        if getattr(config, "is_encoder_decoder", False):
            raise InvalidConfig(f"{folder} is an encoder-decoder model", fix="use a decoder-only chat model")
        with without_bars():
            model, report = loader.from_pretrained(
                folder, config=config, dtype=_DTYPES[dtype], use_safetensors=True, output_loading_info=True, **local
            )
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
    except InvalidConfig:
        raise
    except Exception as error:
        raise InvalidConfig(
            f"cannot load the checkpoint {folder}",
            why=f"{type(error).__name__}: {str(error)[:500]}",
            fix="check that it is a complete transformers checkpoint of an architecture that needs no remote code",
        ) from error
    if report["missing_keys"]:
        raise InvalidConfig(
            f"the checkpoint {folder} is incomplete",
            why=f"tensors are missing: {sorted(report['missing_keys'])[:5]}",
            fix="copy or download it again",
        )
    model = model.to(device).eval().requires_grad_(False)
    stops = _stop_ids(model.generation_config, tokenizer)
    return Checkpoint(folder, model, tokenizer, stops, _context(config), model.get_output_embeddings().weight.shape[0])


def weight_digest(folder: Path) -> str:
    """sha256 over the configuration and every weight file. Hashing a large model takes seconds, so a file's hash is
    remembered in the user's cache folder for as long as its path, size and time stay the same."""
    remembered = _remembered()
    files = [folder / "config.json", *sorted(folder.glob("*.safetensors"))]
    total, changed = hashlib.sha256(), False
    for file in files:
        stat = file.stat()
        key = f"{file.resolve()}|{stat.st_size}|{stat.st_mtime_ns}"
        if key not in remembered:
            with file.open("rb") as stream:
                remembered[key] = hashlib.file_digest(stream, "sha256").hexdigest()
            changed = True
        total.update(b"%s\x00%s\n" % (file.name.encode(), remembered[key].encode()))
    if changed:
        _remember(remembered)
    return total.hexdigest()


def read_stop_ids(folder: Path, tokenizer: Any) -> frozenset[int]:
    """As `load` finds them, without the weights."""
    from transformers import AutoConfig, GenerationConfig

    if (folder / "generation_config.json").is_file():
        return _stop_ids(GenerationConfig.from_pretrained(folder, local_files_only=True), tokenizer)
    return _stop_ids(AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config(), tokenizer)


def _stop_ids(configuration: Any, tokenizer: Any) -> frozenset[int]:
    configured = getattr(configuration, "eos_token_id", None)
    found: set[int] = (
        set(configured) if isinstance(configured, list) else {configured} if configured is not None else set()
    )
    if tokenizer.eos_token_id is not None:
        found.add(tokenizer.eos_token_id)
    if not found:
        raise InvalidConfig("the checkpoint names no end token", fix="set eos_token in its tokenizer_config.json")
    return frozenset(found)


def _context(config: Any) -> int:
    return int(getattr(config.get_text_config(), "max_position_embeddings", None) or 1 << 30)


def _cache_file() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "memkit" / "weights.json"


def _remembered() -> dict[str, str]:
    try:
        stored = json.loads(_cache_file().read_text())
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in stored.items()} if isinstance(stored, dict) else {}


def _remember(hashes: dict[str, str]) -> None:
    """Best effort: without a writable cache folder the files are hashed again next time."""
    target = _cache_file()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as stream:
            json.dump(dict(list(hashes.items())[-256:]), stream)
        os.replace(stream.name, target)
    except OSError:
        return
