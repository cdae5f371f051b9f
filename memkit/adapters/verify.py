"""Is this folder an adapter that may be loaded here? Asked before anything of it reaches a model or a server.

    inspect(folder)                   integrity: plain files, hashes, tensors, configuration → Verified
    check_serving(manifest, serving)  compatibility: base, tokenizer, template, prompts, embedder, store schema
    check_host(artifact, limits)      can this host serve that shape

Each refusal names its `details["reason"]`. Nothing here imports torch, PEFT or safetensors.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from memkit.adapters._files import file_entry, open_plain
from memkit.adapters.hosts.base import AdapterArtifact, HostLimits
from memkit.adapters.manifest import (
    CONFIG,
    HEADS,
    MANIFEST,
    OPTIONAL,
    PROBE,
    RANKER,
    REPORT,
    REQUIRED,
    WEIGHTS,
    Manifest,
    parse_manifest,
    strict_json,
)
from memkit.adapters.tensors import LoraPair, check_tensors, read_lora_tensors, refusal
from memkit.errors import HostFull, IncompatibleBase, InvalidConfig

MAX_BYTES: Mapping[str, int] = {
    MANIFEST: 4 << 20,
    CONFIG: 1 << 18,
    PROBE: 8 << 20,
    REPORT: 16 << 20,
    RANKER: 1 << 20,
    WEIGHTS: 8 << 30,
    HEADS: 64 << 20,
}
MAX_RANK = 512
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz")
_ANY: Any = object()
_CONFIG_VALUES: Mapping[str, Any] = {
    "peft_type": ("LORA",),
    "r": _ANY,
    "lora_alpha": _ANY,
    "target_modules": _ANY,
    "use_rslora": (True, False, None),
    "init_lora_weights": (True, False, None, "gaussian"),
    "base_model_name_or_path": _ANY,
    "revision": _ANY,
    "task_type": ("CAUSAL_LM", None),
    "peft_version": _ANY,
    "inference_mode": (True, False),
    "lora_dropout": _ANY,
    "bias": ("none",),
    "auto_mapping": _ANY,
    "megatron_core": ("megatron.core", None),
    "qalora_group_size": _ANY,
}
"""What adapter_config.json may say. Every other field must be empty: PEFT's options change more than plain LoRA."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What this process serves, as far as it knows. None is unknown, and then not checked."""

    base_digest: str | None = None
    base_id: str | None = None
    tokenizer_digest: str | None = None
    template_digest: str | None = None
    prompt_hashes: Callable[[], Mapping[str, str]] = dict[str, str]
    """Role → hash. Asked for LoRAs only: to know the style of the prompts, the model must be there."""
    embedder: str | None = None
    store_schema: int | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """A folder whose files are what its manifest says."""

    path: Path
    manifest: Manifest
    pairs: tuple[LoraPair, ...] = ()
    rank: int = 0
    alpha: float = 0.0

    @property
    def artifact(self) -> AdapterArtifact:
        modules = tuple(sorted({pair.module.rsplit(".", 1)[-1] for pair in self.pairs}))
        size = self.manifest.files[WEIGHTS].bytes
        return AdapterArtifact(self.manifest.digest, self.path, self.rank, self.alpha, modules, size)


def inspect(folder: Path | str, *, expected: str | None = None) -> Verified:
    """Check a folder completely. `expected` is the digest that its name or an alias promises."""
    folder = Path(folder)
    _check_listing(folder)
    manifest = read_manifest(folder)
    if expected is not None and manifest.digest != expected:
        raise refusal("it is another adapter", "its digest is not the one that was asked for", "other_digest")
    _check_files(folder, manifest)
    if manifest.kind == "ranker":
        _check_ranker(folder, manifest)
        return Verified(folder, manifest)
    if manifest.base is None or manifest.text is None:
        raise refusal("its manifest names no base model or text contract", "a LoRA needs both", "no_base")
    pairs = read_lora_tensors(folder / WEIGHTS)
    rank, alpha = _check_config(folder, pairs)
    if HEADS in manifest.files:
        check_tensors(folder / HEADS)
    if PROBE in manifest.files:
        from memkit.adapters.probe import read_probe

        read_probe(folder)
    return Verified(folder, manifest, pairs, rank, alpha)


def read_manifest(folder: Path) -> Manifest:
    return parse_manifest(_read(folder / MANIFEST, "no_manifest"), where=MANIFEST)


def check_serving(manifest: Manifest, serving: Serving) -> tuple[str, ...]:
    """Refuse what was trained for something else. Returns the names of what could not be compared."""
    unchecked: list[str] = []

    def same(name: str, trained: Any, served: Any) -> None:
        if trained is None or served is None:
            unchecked.append(name)
        elif trained != served:
            raise IncompatibleBase(
                f"the adapter was trained with another {name.replace('_', ' ')}",
                why=f"it says {str(trained)[:80]!r}, this process serves {str(served)[:80]!r}",
                fix="serve what it was trained on, or train it again on what is served",
                reason=f"other_{name}",
            )

    base, text, retrieval = manifest.base, manifest.text, manifest.retrieval
    if manifest.kind == "lora":
        if serving.base_digest is None and serving.base_id is not None:
            same("base_id", base and base.id, serving.base_id)
        same("base", base and base.digest, serving.base_digest)
        same("tokenizer", text and text.tokenizer_digest, serving.tokenizer_digest)
        same("template", text and text.template_digest, serving.template_digest)
        asked = serving.prompt_hashes()
        for role in manifest.roles:
            same("prompt", text and text.prompt_hashes.get(role), asked.get(role))
    same("embedder", retrieval and retrieval.embedder, serving.embedder)
    same("store_schema", retrieval and retrieval.store_schema, serving.store_schema)
    return tuple(dict.fromkeys(unchecked))


def check_host(verified: Verified, limits: HostLimits, *, resident: int = 0) -> None:
    """Refuse what the host cannot serve, before it is touched."""
    artifact = verified.artifact
    if limits.max_rank is not None and artifact.rank > limits.max_rank:
        raise _unservable(f"rank {artifact.rank}", f"the host serves up to {limits.max_rank}", "rank_unservable")
    if limits.target_modules is not None and (odd := sorted(set(artifact.target_modules) - limits.target_modules)):
        raise _unservable(
            f"LoRA on {', '.join(odd)}", "the host has no such layers, or cannot adapt them", "module_unservable"
        )
    for pair in verified.pairs if limits.module_shapes is not None else ():
        shape = (limits.module_shapes or {}).get(pair.module)
        if shape is None:
            raise _unservable(f"LoRA on {pair.module}", "the base model has no such layer", "no_such_layer")
        if shape != (pair.out_features, pair.in_features):
            raise _unservable(
                f"{pair.module} as ({pair.out_features}, {pair.in_features})", f"the base has {shape}", "wrong_shape"
            )
    if limits.max_adapters is not None and resident >= limits.max_adapters:
        raise _unservable(
            "one more adapter", f"{resident} are resident and the host holds {limits.max_adapters}", "host_full"
        )


def _unservable(what: str, why: str, reason: str) -> HostFull:
    return HostFull(
        f"the host cannot serve {what}",
        why=why,
        fix="change the host's limits, or train within them; the adapter that serves is untouched",
        reason=reason,
    )


def _check_listing(folder: Path) -> None:
    """Only known, plain files; nothing that a careless loader could fall back to."""
    if folder.is_symlink():
        raise refusal("its folder is a link", "what it points to can change", "folder_symlink")
    if not folder.is_dir():
        raise refusal(f"{folder.name!r} is not a folder", "nothing is there", "not_a_folder")
    allowed = {MANIFEST, *(name for names in (*REQUIRED.values(), *OPTIONAL.values()) for name in names)}
    with os.scandir(folder) as entries:
        for entry in entries:
            mode = entry.stat(follow_symlinks=False).st_mode
            name = entry.name[:120]
            if stat.S_ISLNK(mode):
                raise refusal(f"{name!r} is a link", "it could lead anywhere", "symlink")
            if stat.S_ISDIR(mode):
                raise refusal(f"{name!r} is a folder", "adapters are flat", "subfolder")
            if not stat.S_ISREG(mode):
                raise refusal(f"{name!r} is a pipe or device", "reading it could block or do harm", "special_file")
            if entry.name.lower().endswith(_PICKLES):
                raise refusal(f"{name!r} may be a pickle", "some loaders fall back to it", "pickle_file")
            if entry.name not in allowed:
                raise refusal(f"{name!r} does not belong there", "an adapter holds only known files", "extra_file")
            if entry.stat(follow_symlinks=False).st_size > MAX_BYTES[entry.name]:
                raise refusal(f"{name!r} is too large", f"the cap is {MAX_BYTES[entry.name]} bytes", "too_large")


def _check_files(folder: Path, manifest: Manifest) -> None:
    for name in manifest.files:
        if name != os.path.basename(name) or name in ("", ".", "..") or "\\" in name:
            raise refusal("its manifest names a path", f"{name[:120]!r} is not a plain file name", "unsafe_name")
    required, listed = REQUIRED[manifest.kind], set(manifest.files)
    if missing := sorted(required - listed):
        raise refusal(f"its manifest lists no {missing[0]}", f"a {manifest.kind} needs it", "unlisted_file")
    if odd := sorted(listed - required - OPTIONAL[manifest.kind]):
        raise refusal(f"its manifest lists {odd[0][:120]!r}", f"a {manifest.kind} has no such file", "unknown_file")
    present = set(os.listdir(folder)) - {MANIFEST}
    if unlisted := sorted(present - listed):
        raise refusal(f"{unlisted[0]!r} is not in its manifest", "its hash is unknown", "unhashed_file")
    for name, entry in manifest.files.items():
        if name not in present:
            raise refusal(f"{name} is missing", "its manifest lists it", "missing_file")
        found = file_entry(folder / name)
        if found["bytes"] != entry.bytes:
            raise refusal(f"{name} has {found['bytes']} bytes", f"its manifest says {entry.bytes}", "size_mismatch")
        if found["sha256"] != entry.sha256:
            raise refusal(f"the contents of {name} changed", "its hash is not the manifest's", "hash_mismatch")


def _check_config(folder: Path, pairs: tuple[LoraPair, ...]) -> tuple[int, float]:
    raw = strict_json(_read(folder / CONFIG, "missing_file"), where=CONFIG, reason="config_unreadable")
    if not isinstance(raw, dict):
        raise refusal(f"{CONFIG} is not an object", "it describes no adapter", "config_invalid")
    config = cast("dict[str, Any]", raw)
    if config.get("peft_type") != "LORA":
        raise refusal(f"it is a {str(config.get('peft_type'))[:32]} adapter", "only LoRA is served", "peft_type")
    mapping = cast("dict[str, Any]", config.get("auto_mapping") or {})
    if mapping and not str(mapping.get("parent_library", "")).startswith("transformers."):
        raise refusal("its configuration names a library to import", "no remote code, ever", "remote_code")
    for key, value in config.items():
        allowed = _CONFIG_VALUES.get(key, (None, False, "", [], {}))
        if allowed is not _ANY and value not in allowed:
            raise refusal(f"{key} is set", "only plain LoRA on linear layers is served", "unsupported_peft", key=key)
    rank, alpha, targets = config.get("r"), config.get("lora_alpha"), config.get("target_modules")
    if type(rank) is not int or not 1 <= rank <= MAX_RANK:
        raise refusal(f"its rank is {str(rank)[:32]}", f"a rank is a whole number up to {MAX_RANK}", "rank_range")
    if type(alpha) not in (int, float) or not math.isfinite(cast("float", alpha)):
        raise refusal("its lora_alpha is no finite number", "it scales every output", "alpha")
    if not isinstance(targets, list) or not all(isinstance(t, str) for t in cast("list[Any]", targets)):
        raise refusal("its target_modules are no list of names", "patterns could match more layers", "target_patterns")
    names = {target.rsplit(".", 1)[-1] for target in cast("list[str]", targets)}
    found = {pair.module.rsplit(".", 1)[-1] for pair in pairs}
    if names != found:
        raise refusal(
            "its tensors are not for its target modules",
            f"they differ in {sorted(names ^ found)[:4]}",
            "target_modules",
        )
    for pair in pairs:
        if pair.rank != rank:
            raise refusal(f"{pair.module} has rank {pair.rank}", f"its configuration says {rank}", "wrong_rank")
    return rank, float(cast("float", alpha))


def _check_ranker(folder: Path, manifest: Manifest) -> None:
    from memkit.retrieval import RankerWeights

    if manifest.roles != ("ranker",):
        raise refusal("a ranker that serves other roles", "rankers rank", "ranker_role")
    raw = strict_json(_read(folder / RANKER, "missing_file"), where=RANKER, reason="ranker_invalid")
    try:
        RankerWeights.from_json(cast("dict[str, Any]", raw) if isinstance(raw, dict) else {})
    except InvalidConfig as error:
        raise refusal("its weights cannot be read", str(error), "ranker_invalid") from None


def _read(path: Path, reason: str) -> bytes:
    try:
        with open_plain(path) as file:
            return file.read(MAX_BYTES[path.name] + 1)
    except OSError:
        raise refusal(f"{path.name} cannot be read", "it is missing, or not a plain file", reason) from None
