"""`memkit_adapter.json`: what an adapter is, what it was trained on and for, and which files it consists of.

The digest is taken over the whole manifest (which holds the sha256 of every other file), so it names the weights *and*
every claim made about them. It is the adapter's only name. Who promoted it, and when, is not part of the bytes: that
is in the registry's history, and `memkit adapters show` prints both.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memkit.adapters._files import durable_write, file_entry
from memkit.errors import AdapterRejected, InvalidInput
from memkit.inputs import path_of
from memkit.models import JSON, to_json

FORMAT = 1
MANIFEST = "memkit_adapter.json"
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
PROBE = "memkit_probe.json"
REPORT = "memkit_report.json"
RANKER = "ranker.json"
HEADS = "heads.safetensors"
"""What the small manager chooses with; adapters of language models have none."""

REQUIRED: Mapping[str, frozenset[str]] = {"lora": frozenset({WEIGHTS, CONFIG}), "ranker": frozenset({RANKER})}
OPTIONAL: Mapping[str, frozenset[str]] = {"lora": frozenset({PROBE, REPORT, HEADS}), "ranker": frozenset({REPORT})}

Kind = Literal["lora", "ranker"]
Role = Literal["extractor", "manager", "answerer", "fused", "ranker"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Short = Annotated[str, Field(max_length=512)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class FileEntry(_Strict):
    sha256: Sha256
    bytes: Annotated[int, Field(ge=0)]


class BaseRef(_Strict):
    """The model that the adapter was trained on. `digest` is over its configuration and weights."""

    id: Short
    revision: Short = ""
    digest: Short
    dtype: Short = ""


class TextContract(_Strict):
    """How text becomes tokens. Training with another chat template than serving is the classic silent failure."""

    tokenizer_digest: Short
    template_digest: Short
    prompt_hashes: dict[Short, Short]
    """Role → hash of its fixed prompt text and instructions."""


class RetrievalContract(_Strict):
    """What the prompts were filled from: a manager's behaviour depends on what retrieval returns."""

    embedder: Short
    store_schema: int
    ranker: Sha256 | None = None


class DataWindow(_Strict):
    store_id: Short
    seq_first: Annotated[int, Field(ge=0)] = 0
    seq_last: Annotated[int, Field(ge=0)] = 0
    counts: dict[Short, int] = Field(default_factory=dict)
    subjects: tuple[Short, ...] = ()
    """Whose turns it learned from, as opaque ids: `erase` marks adapters by them."""


class TrainingRecord(_Strict):
    algorithm: Short = ""
    seed: int = 0
    parent: Sha256 | None = None
    config: JSON = Field(default_factory=dict)
    versions: dict[Short, Short] = Field(default_factory=dict)


class Evaluation(_Strict):
    report_digest: Sha256 | None = None
    metrics: dict[Short, Finite] = Field(default_factory=dict)


class Gate(_Strict):
    name: Short
    passed: bool
    value: Finite | None = None
    bar: Short = ""


class Manifest(_Strict):
    format: Literal[1] = FORMAT
    kind: Kind
    created_at: Short
    roles: Annotated[tuple[Role, ...], Field(min_length=1)]
    base: BaseRef | None = None
    text: TextContract | None = None
    retrieval: RetrievalContract | None = None
    data: DataWindow | None = None
    training: TrainingRecord = TrainingRecord()
    evaluation: Evaluation = Evaluation()
    gates: tuple[Gate, ...] = ()
    notes: Annotated[str, Field(max_length=4096)] = ""
    files: dict[Short, FileEntry] = Field(default_factory=dict)
    digest: Sha256 = "0" * 64

    @property
    def gated(self) -> bool:
        """At least one gate was run, and none failed."""
        return bool(self.gates) and all(gate.passed for gate in self.gates)


def manifest_digest(raw: Mapping[str, Any]) -> str:
    """sha256 over the canonical JSON of everything but the digest itself, as it was written: a later version of this
    file may know more fields, and must come to the same digest."""
    return hashlib.sha256(to_json({k: v for k, v in raw.items() if k != "digest"}).encode()).hexdigest()


def parse_manifest(raw: bytes, *, where: str) -> Manifest:
    """Bytes to a manifest whose own digest is right. Everything else about it is still a claim."""
    data = strict_json(raw, where=where)
    if isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
        raise AdapterRejected(
            f"{where} has format {data['format']}",
            why=f"this memkit reads format {FORMAT}",
            fix="upgrade memkit",
            reason="newer_format",
        )
    try:
        manifest = Manifest.model_validate_json(raw)
    except ValidationError as error:
        raise AdapterRejected(
            f"{where} is not a valid manifest",
            why=_first(error),
            fix="publish the adapter again with memkit-train",
            reason="manifest_invalid",
        ) from None
    if manifest_digest(data) != manifest.digest:
        raise AdapterRejected(
            f"{where} was changed after it was written",
            why="its digest is not the digest of its contents",
            fix="publish the adapter again from its source",
            reason="digest_mismatch",
        )
    return manifest


def strict_json(raw: bytes, *, where: str, reason: str = "manifest_unreadable") -> Any:
    """JSON without duplicate keys, NaN or endless nesting: what two parsers could read differently is refused."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(items)
        if len(out) < len(items):
            raise AdapterRejected(
                f"{where} names a key twice",
                why="two readers could disagree about it",
                fix="write it anew",
                reason="duplicate_key",
            )
        return out

    def constant(name: str) -> Any:
        raise ValueError(name)

    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError):
        raise AdapterRejected(
            f"{where} is not JSON", why="it cannot be parsed", fix="write it anew", reason=reason
        ) from None


def build_adapter(source: Path | str, target: Path | str, manifest: Manifest | Mapping[str, Any]) -> Manifest:
    """Assemble a publishable folder: copy the known files of `source` (as PEFT or a trainer left them; anything else,
    such as the README that PEFT writes, stays behind), hash them, and write the manifest. `target` must not exist."""
    draft = manifest if isinstance(manifest, Manifest) else _drafted(manifest)
    source, target = path_of(source, "source"), path_of(target, "target")
    known = REQUIRED[draft.kind] | OPTIONAL[draft.kind]
    present = sorted(name for name in known if (source / name).is_file())
    try:
        target.mkdir(parents=True)
    except OSError as error:
        raise InvalidInput(
            f"{target} cannot be made", why=error.strerror or "", fix="name a folder that does not exist yet"
        ) from None
    for name in present:
        shutil.copyfile(source / name, target / name)
    return write_manifest(target, draft, present)


def _drafted(given: Mapping[str, Any]) -> Manifest:
    try:
        return Manifest.model_validate_json(json.dumps(dict(given)))
    except ValidationError as error:
        why = _first(error)
    except (TypeError, ValueError) as error:
        why = str(error)
    raise InvalidInput("this makes no manifest", why=why, fix="set this field right")


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'the document'}: {first['msg']}"


def write_manifest(folder: Path, draft: Manifest, names: Sequence[str] | None = None) -> Manifest:
    """Fill in `files` and `digest` for what lies in `folder`, and write `memkit_adapter.json` there."""
    chosen = sorted(names if names is not None else (n for n in os.listdir(folder) if n != MANIFEST))
    files = {name: FileEntry(**file_entry(folder / name)) for name in chosen}
    manifest = draft.model_copy(update={"files": files})
    manifest = manifest.model_copy(update={"digest": manifest_digest(manifest.model_dump(mode="json"))})
    durable_write(folder / MANIFEST, (to_json(manifest.model_dump(mode="json")) + "\n").encode())
    return manifest
