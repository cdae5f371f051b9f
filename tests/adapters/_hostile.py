"""Adapter folders that must be refused, each with the reason that it must be refused for."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from memkit.adapters import build_adapter
from memkit.adapters.manifest import manifest_digest
from memkit.models import to_json
from tests.adapters._make import CONFIG, adapter, framed, manifest, ranker, raw_adapter, safetensors, tensors

Make = Callable[[Path], Path]
HOSTILE: dict[str, Make] = {}
"""reason → builds the folder in a given place, returns it"""


def hostile(reason: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        assert reason not in HOSTILE
        HOSTILE[reason] = make
        return make

    return register


def _weights(folder: Path, data: bytes, **config: Any) -> Path:
    """A folder whose manifest is right about weights that are not: only reading the tensors shows it."""
    raw = raw_adapter(folder.with_name("raw"), weights=data, config={**CONFIG, **config})
    build_adapter(raw, folder, manifest())
    return folder


def _named(folder: Path, **named: np.ndarray) -> Path:
    return _weights(folder, safetensors(tensors(1) | named))


def _edited(folder: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """A manifest that was edited by somebody who knows how to make its digest right again."""
    adapter(folder)
    data = json.loads((folder / "memkit_adapter.json").read_text())
    edit(data)
    data["digest"] = manifest_digest(data)
    (folder / "memkit_adapter.json").write_text(to_json(data))
    return folder


def _first() -> tuple[str, np.ndarray]:
    return next(iter(tensors(1).items()))


# ---- the folder ------------------------------------------------------------------------------------------------


@hostile("not_a_folder")
def _(folder: Path) -> Path:
    folder.write_bytes(b"")
    return folder


@hostile("folder_symlink")
def _(folder: Path) -> Path:
    folder.symlink_to(adapter(folder.with_name("real")), target_is_directory=True)
    return folder


@hostile("symlink")
def _(folder: Path) -> Path:
    adapter(folder)
    weights = folder / "adapter_model.safetensors"
    weights.rename(folder.with_name("elsewhere"))
    weights.symlink_to(folder.with_name("elsewhere"))
    return folder


@hostile("subfolder")
def _(folder: Path) -> Path:
    (adapter(folder) / "more").mkdir()
    return folder


@hostile("special_file")
def _(folder: Path) -> Path:
    adapter(folder)
    (folder / "adapter_config.json").unlink()
    os.mkfifo(folder / "adapter_config.json")
    return folder


@hostile("pickle_file")
def _(folder: Path) -> Path:
    (adapter(folder) / "adapter_model.bin").write_bytes(pickle.dumps({"x": 1}))
    return folder


@hostile("extra_file")
def _(folder: Path) -> Path:
    (adapter(folder) / "modeling_custom.py").write_text("print('owned')")
    return folder


@hostile("too_large")
def _(folder: Path) -> Path:
    with open(adapter(folder) / "adapter_config.json", "ab") as file:
        file.truncate(1 << 20)
    return folder


# ---- the manifest ----------------------------------------------------------------------------------------------


@hostile("no_manifest")
def _(folder: Path) -> Path:
    (adapter(folder) / "memkit_adapter.json").unlink()
    return folder


@hostile("manifest_unreadable")
def _(folder: Path) -> Path:
    (adapter(folder) / "memkit_adapter.json").write_text("[" * 100_000)
    return folder


@hostile("duplicate_key")
def _(folder: Path) -> Path:
    path = adapter(folder) / "memkit_adapter.json"
    path.write_text(path.read_text().replace('"gates"', '"gates":[],"gates"', 1))
    return folder


@hostile("manifest_invalid")
def _(folder: Path) -> Path:
    return _edited(folder, lambda data: data.update(run_after_load="curl"))


@hostile("newer_format")
def _(folder: Path) -> Path:
    return _edited(folder, lambda data: data.update(format=2))


@hostile("digest_mismatch")
def _(folder: Path) -> Path:
    path = adapter(folder, gates=[{"name": "safety", "passed": False}]) / "memkit_adapter.json"
    path.write_text(path.read_text().replace('"passed":false', '"passed":true'))
    return folder


@hostile("unsafe_name")
def _(folder: Path) -> Path:
    return _edited(folder, lambda data: data["files"].update({"../x": data["files"]["adapter_config.json"]}))


@hostile("unknown_file")
def _(folder: Path) -> Path:
    return _edited(folder, lambda data: data["files"].update({"setup.py": data["files"]["adapter_config.json"]}))


@hostile("unlisted_file")
def _(folder: Path) -> Path:
    return _edited(folder, lambda data: data["files"].pop("adapter_config.json"))


@hostile("unhashed_file")
def _(folder: Path) -> Path:
    return _edited(folder, lambda data: data["files"].pop("memkit_probe.json"))


@hostile("missing_file")
def _(folder: Path) -> Path:
    (adapter(folder) / "adapter_model.safetensors").unlink()
    return folder


@hostile("size_mismatch")
def _(folder: Path) -> Path:
    path = adapter(folder) / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    return folder


@hostile("hash_mismatch")
def _(folder: Path) -> Path:
    path = adapter(folder) / "adapter_model.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    return folder


@hostile("no_base")
def _(folder: Path) -> Path:
    return _edited(folder, lambda data: data.update(base=None))


@hostile("probe_invalid")
def _(folder: Path) -> Path:
    raw = raw_adapter(folder.with_name("raw"), probe=None)
    (raw / "memkit_probe.json").write_text('{"cases": [{"prompt_ids": [1], "token_ids": [2], "logprobs": [1.0]}]}')
    build_adapter(raw, folder, manifest())
    return folder


# ---- the weights -----------------------------------------------------------------------------------------------


@hostile("pickle")
def _(folder: Path) -> Path:
    return _weights(folder, pickle.dumps({"weights": [1.0] * 100}))


@hostile("zip_archive")
def _(folder: Path) -> Path:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    return _weights(folder, packed.getvalue())


@hostile("empty_weights")
def _(folder: Path) -> Path:
    return _weights(folder, b"")


@hostile("header_too_large")
def _(folder: Path) -> Path:
    return _weights(folder, (1 << 40).to_bytes(8, "little") + b"{}")


@hostile("truncated_header")
def _(folder: Path) -> Path:
    return _weights(folder, (4096).to_bytes(8, "little") + b"{")


@hostile("header_invalid")
def _(folder: Path) -> Path:
    return _weights(folder, framed('{"a": [', b""))


@hostile("no_tensors")
def _(folder: Path) -> Path:
    return _weights(folder, framed('{"__metadata__": {"format": "pt"}}', b""))


@hostile("too_many_tensors")
def _(folder: Path) -> Path:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return _weights(folder, framed(json.dumps({str(n): entry for n in range(20_001)}), b""))


@hostile("header_entry")
def _(folder: Path) -> Path:
    return _weights(
        folder, framed('{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "url": "x"}}', b"1234")
    )


@hostile("header_number")
def _(folder: Path) -> Path:
    return _weights(folder, framed('{"x": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}', b"1234"))


@hostile("dtype")
def _(folder: Path) -> Path:
    return _weights(folder, framed('{"x": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}', b"12345678"))


@hostile("tensor_size")
def _(folder: Path) -> Path:
    return _weights(folder, framed('{"x": {"dtype": "F32", "shape": [9999], "data_offsets": [0, 4]}}', b"1234"))


@hostile("duplicate_tensor")
def _(folder: Path) -> Path:
    entry = '{"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}'
    return _weights(folder, framed(f'{{"x": {entry}, "x": {entry}}}', b"1234"))


@hostile("tensor_overlap")
def _(folder: Path) -> Path:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    return _weights(folder, framed(json.dumps({"x": entry, "y": entry}), b"1234"))


@hostile("tensor_gap")
def _(folder: Path) -> Path:
    return _weights(folder, framed('{"x": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}', b"hidddata"))


@hostile("truncated")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1))[:-8])


@hostile("trailing_bytes")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)) + b"PK\x03\x04 a polyglot")


@hostile("tensor_name")
def _(folder: Path) -> Path:
    return _named(folder, **{"base_model.model.../../etc.lora_A.weight": np.ones((2, 8), np.float32)})


@hostile("not_a_lora_tensor")
def _(folder: Path) -> Path:
    return _named(folder, **{"base_model.model.lm_head.weight": np.ones((8, 8), np.float32)})


@hostile("not_a_matrix")
def _(folder: Path) -> Path:
    return _named(folder, **{_first()[0]: np.ones((2, 8, 1), np.float32)})


@hostile("unpaired_tensor")
def _(folder: Path) -> Path:
    return _named(folder, **{"base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight": _first()[1]})


@hostile("rank_mismatch")
def _(folder: Path) -> Path:
    return _named(folder, **{_first()[0]: np.ones((3, 8), np.float32)})


@hostile("not_finite")
def _(folder: Path) -> Path:
    name, values = _first()
    return _named(folder, **{name: np.where(np.arange(16).reshape(2, 8) == 5, np.float32("nan"), values)})


# ---- the configuration -----------------------------------------------------------------------------------------


@hostile("config_unreadable")
def _(folder: Path) -> Path:
    raw = raw_adapter(folder.with_name("raw"))
    (raw / "adapter_config.json").write_text('{"r": NaN}')
    build_adapter(raw, folder, manifest())
    return folder


@hostile("peft_type")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), peft_type="VERA")


@hostile("remote_code")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), auto_mapping={"base_model_class": "X", "parent_library": "evil"})


@hostile("unsupported_peft")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), modules_to_save=["lm_head"])


@hostile("rank_range")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), r=100_000)


@hostile("wrong_rank")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), r=4)


@hostile("alpha")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), lora_alpha="4")


@hostile("target_patterns")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), target_modules=".*")


@hostile("target_modules")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1)), target_modules=["q_proj", "k_proj"])


@hostile("ranker_invalid")
def _(folder: Path) -> Path:
    ranker(folder.with_name("ranker"))
    raw = folder.with_name("ranker-raw")
    (raw / "ranker.json").write_text('{"format": "memkit-ranker/1", "values": {"words": 1e999}}')
    build_adapter(raw, folder, manifest(kind="ranker", roles=["ranker"], base=None, text=None))
    return folder


# ---- sound, but not for this process ---------------------------------------------------------------------------


@hostile("other_base")
def _(folder: Path) -> Path:
    return adapter(folder, base={"id": "tiny", "digest": "f" * 64})


@hostile("other_tokenizer")
def _(folder: Path) -> Path:
    return adapter(folder, text=manifest()["text"] | {"tokenizer_digest": "f" * 64})


@hostile("other_template")
def _(folder: Path) -> Path:
    return adapter(folder, text=manifest()["text"] | {"template_digest": "f" * 64})


@hostile("other_prompt")
def _(folder: Path) -> Path:
    return adapter(folder, text=manifest()["text"] | {"prompt_hashes": {"manager": "manager/2:0000"}})


@hostile("other_embedder")
def _(folder: Path) -> Path:
    return adapter(folder, retrieval={"embedder": "minilm", "store_schema": 1})


@hostile("other_store_schema")
def _(folder: Path) -> Path:
    return adapter(folder, retrieval={"embedder": "hash/1:384", "store_schema": 2})


@hostile("rank_unservable")
def _(folder: Path) -> Path:
    return _weights(folder, safetensors(tensors(1, rank=32)), r=32)


@hostile("wrong_shape")
def _(folder: Path) -> Path:
    return _named(folder, **{_first()[0]: np.ones((2, 9), np.float32)})


@hostile("module_unservable")
def _(folder: Path) -> Path:
    renamed = {name.replace("q_proj", "lm_head"): value for name, value in tensors(1).items()}
    return _weights(folder, safetensors(renamed), target_modules=["lm_head", "v_proj"])


@hostile("no_such_layer")
def _(folder: Path) -> Path:
    renamed = {name.replace("layers.0", "layers.9"): value for name, value in tensors(1).items()}
    return _weights(folder, safetensors(renamed))
