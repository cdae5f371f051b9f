"""What a run of the small manager does in its own way: rows of choices, training, trying, publishing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from memkit.adapters.hosts.small import as_case
from memkit.adapters.manifest import CONFIG, HEADS, WEIGHTS, BaseRef, TextContract
from memkit.adapters.probe import Probe, ProbeCase
from memkit.backbones.small import SmallBackbone
from memkit_train.errors import NoEffect
from memkit_train.files.run_folder import RunFolder, Tick
from memkit_train.retrain.config import TrainConfig
from memkit_train.retrain.publish import CASES, SOMETHING, TOLERANCE, AdapterParts
from memkit_train.rows import ChoiceRow

if TYPE_CHECKING:
    from memkit_train.learn.result import AdapterResult


def train_choices(
    config: TrainConfig,
    output: Path,
    rows: Sequence[ChoiceRow],
    anchors: Sequence[ChoiceRow],
    parent: Path | None,
    *,
    run: RunFolder | None = None,
    tick: Tick | None = None,
) -> AdapterResult:
    from memkit_train.chooser.learn import ChooserSettings, learn

    method = config.method
    given = {"lr": method.lr, "epochs": method.epochs, "half_life_days": method.half_life_days}
    set_ = {name: value for name, value in given.items() if value is not None}
    settings = ChooserSettings(output, method.seed, **set_)

    def told(epoch: int, loss: float) -> None:
        if run is not None:
            run.log({"step": epoch, "loss": loss})
        if tick is not None:
            tick("train", epoch, settings.epochs, {"loss": loss})

    return learn(rows, anchors, parent, settings, told=told)


def open_manager(folders: dict[str, Path | None]) -> SmallBackbone:
    """With what lies in these folders under their names."""
    backbone = SmallBackbone()
    for name, folder in folders.items():
        if folder is not None:
            backbone.load_learned(name, folder)
    return backbone


def describe_manager(adapter: Path, rows: Sequence[ChoiceRow]) -> AdapterParts:
    """`rows`: what a probe is chosen from; those that tell the adapter best from what is shipped are kept."""
    backbone = open_manager({"adapter": adapter})
    pairs = [row.pair for row in rows[: 16 * CASES]]
    ours, plain = backbone.score("adapter", pairs), backbone.score("", pairs)
    gaps = [float(np.abs(a - b).mean()) for a, b in zip(ours, plain, strict=True)]
    best = sorted(range(len(pairs)), key=lambda at: -gaps[at])[:CASES]
    chosen = [at for at in best if gaps[at] > SOMETHING]
    if not chosen:
        raise NoEffect(
            "the adapter does nothing that its probe could show",
            why=f"on {len(pairs)} logged choices it is as sure as what is shipped, within {SOMETHING} nats",
            fix="train longer or at a higher learning rate",
        )
    cases = tuple(
        ProbeCase(
            prompt_ids=as_case(pairs[at]),
            token_ids=tuple(range(len(ours[at]))),
            logprobs=tuple(min(float(one), 0.0) for one in ours[at]),
        )
        for at in chosen
    )
    gap = sum(gaps[at] for at in chosen) / len(chosen)
    return AdapterParts(
        BaseRef(id=backbone.identity, digest=backbone.base_digest, dtype="float32"),
        TextContract(tokenizer_digest="minilm", template_digest="none", prompt_hashes={}),
        Probe(cases=cases, tolerance=min(TOLERANCE, gap / 2)),
        (WEIGHTS, CONFIG, HEADS),
    )
