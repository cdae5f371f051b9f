"""From a trained folder to a registry: manifest, probe, report. It never promotes: whoever serves decides that, with
`memkit adapters promote`.

An adapter that failed its gates may be published too, with the failures on its record; promotion refuses it.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from memkit.adapters import Registry
from memkit.adapters.manifest import (
    REPORT,
    BaseRef,
    DataWindow,
    Evaluation,
    Manifest,
    RetrievalContract,
    Role,
    TextContract,
    TrainingRecord,
    build_adapter,
)
from memkit.adapters.opening import STORE_SCHEMA
from memkit.adapters.probe import Probe, ProbeCase, write_probe
from memkit.backbones.hf import adapters, checkpoint
from memkit.backbones.hf.lanes import Tree
from memkit.backbones.hf.prompting import Prompter
from memkit.models import JSON, to_json
from memkit.roles import role_prompt_hashes
from memkit_train.errors import NoEffect
from memkit_train.files.run_folder import versions
from memkit_train.gate.checks import Verdict

CASES = 16
SOMETHING = 1e-3
"""Nats per token by which a probe case must tell the adapter from its base."""
TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where an adapter comes from: goes into its manifest as it is."""

    algorithm: str
    store_id: str = ""
    seq_first: int = 0
    seq_last: int = 0
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    subjects: Sequence[str] = ()
    """Opaque ids (`Journal.subject`) of everybody that it learned from: `memkit erase` marks adapters by them."""
    parent: str | None = None
    """Digest of the adapter that training started from."""
    seed: int = 0
    config: JSON = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class AdapterParts:
    """What of an adapter depends on the kind of its base."""

    base: BaseRef
    text: TextContract
    probe: Probe
    files: tuple[str, ...] = (adapters.WEIGHTS, adapters.CONFIG)


@dataclass(frozen=True, slots=True)
class Published:
    digest: str
    path: Path
    manifest: Manifest


def describe_model(
    adapter: Path | str,
    base: Path | str,
    probe_pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    roles: Sequence[Role],
    instructions: str = "",
    *,
    style: str = "compact",
    wordings: Mapping[str, int] = {},
    device: str = "auto",
) -> AdapterParts:
    """Of an adapter of a language model. `probe_pairs`: (prompt ids, completion ids) to choose the probe from; those
    that tell the adapter from its base best are kept."""
    folder = checkpoint.find(base)
    loaded = checkpoint.load(folder, dtype="float32", device=device)
    name = str(base) if not Path(base).is_dir() else folder.name
    return AdapterParts(
        BaseRef(id=name, digest=checkpoint.weight_digest(folder), dtype="float32"),
        _contract(loaded, roles, instructions, style, wordings),
        probe_of(loaded, Path(adapter), probe_pairs),
    )


def publish(
    registry: Registry,
    adapter: Path | str,
    parts: AdapterParts,
    *,
    roles: Sequence[Role],
    embedder: str,
    lineage: Lineage,
    verdict: Verdict | None,
    report: JSON,
    now: datetime,
    ranker: str | None = None,
    notes: str = "",
) -> Published:
    """`verdict` None: nothing was gated, and promotion will ask for `--ungated`."""
    with tempfile.TemporaryDirectory(dir=registry.root, prefix=".incoming-train-") as room:
        source = Path(room) / "source"
        source.mkdir()
        for name in parts.files:
            shutil.copyfile(Path(adapter) / name, source / name)
        write_probe(source, parts.probe)
        raw = (to_json(report) + "\n").encode()
        (source / REPORT).write_bytes(raw)
        draft = Manifest(
            kind="lora",
            created_at=now.isoformat(),
            roles=tuple(roles),
            base=parts.base,
            text=parts.text,
            retrieval=RetrievalContract(embedder=embedder, store_schema=STORE_SCHEMA, ranker=ranker),
            data=DataWindow(
                store_id=lineage.store_id,
                seq_first=lineage.seq_first,
                seq_last=lineage.seq_last,
                counts=dict(lineage.counts),
                subjects=tuple(sorted(lineage.subjects)),
            ),
            training=TrainingRecord(
                algorithm=lineage.algorithm,
                seed=lineage.seed,
                parent=lineage.parent,
                config=lineage.config,
                versions=versions(),
            ),
            evaluation=Evaluation(
                report_digest=hashlib.sha256(raw).hexdigest(),
                metrics={
                    check.name: check.value for check in (verdict.checks if verdict else ()) if check.value is not None
                },
            ),
            gates=verdict.gates if verdict else (),
            notes=notes[:4096],
        )
        made = build_adapter(source, Path(room) / "adapter", draft)
        digest = registry.publish(Path(room) / "adapter")
    return Published(digest, registry.path(digest), made)


def probe_of(
    loaded: checkpoint.Checkpoint, adapter: Path, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Probe:
    """Stored prompts with the log-probs that were measured under the adapter, in full precision."""
    trees = (adapters.build(loaded.model, adapter, merged=False), Tree(adapters.twin(loaded.model)))
    found: list[tuple[float, ProbeCase]] = []
    with torch.inference_mode():
        for prompt, completion in dict.fromkeys((tuple(p), tuple(c)) for p, c in pairs[: 8 * CASES]):
            if len(prompt) + len(completion) > loaded.context:
                continue
            ours, plain = (tree.score([(prompt, completion)])[0] for tree in trees)
            gap = sum(abs(a - b) for a, b in zip(ours, plain, strict=True)) / len(ours)
            logprobs = tuple(min(value, 0.0) for value in ours)
            found.append((gap, ProbeCase(prompt_ids=prompt, token_ids=completion, logprobs=logprobs)))
    found.sort(key=lambda one: -one[0])
    chosen = [case for gap, case in found[:CASES] if gap > SOMETHING]
    if not chosen:
        raise NoEffect(
            "the adapter does nothing that its probe could show",
            why=f"on {len(found)} stored prompts its log-probs are the base model's within {SOMETHING} nats per token",
            fix="train longer or at a higher learning rate; look at grad_norm in metrics.jsonl",
        )
    gap = sum(gap for gap, _ in found[: len(chosen)]) / len(chosen)
    return Probe(cases=tuple(chosen), tolerance=min(TOLERANCE, gap / 2) or TOLERANCE)


def _contract(
    loaded: checkpoint.Checkpoint, roles: Sequence[str], instructions: str, style: str, wordings: Mapping[str, int]
) -> TextContract:
    """What serving will compare, computed by the code that serving uses."""
    prompter = Prompter(loaded.tokenizer)
    hashes = {role: role_prompt_hashes(instructions, style, wordings.get(role, 1)).get(role) for role in roles}
    return TextContract(
        tokenizer_digest=prompter.tokenizer_digest(loaded.stop_ids),
        template_digest=prompter.template_digest(),
        prompt_hashes={role: found for role, found in hashes.items() if found is not None},
    )


def shareable(found: JSON) -> JSON:
    """What goes into the registry: figures, no words of users."""
    return {name: found[name] for name in ("verdict", "scores", "actions", "exposures") if name in found}


def portable(config: JSON) -> JSON:
    """Without the places of one machine."""
    data = {**config["data"], "store": None, "bundle": None, "registry": None}
    base = Path(config["model"]["base"])
    model = {**config["model"], "base": base.name if base.is_dir() else config["model"]["base"]}
    return {**config, "data": data, "model": model, "output": ""}
