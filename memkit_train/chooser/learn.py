"""From rows of a log to an adapter of the small manager: imitation of what choices should have been, held by anchors
to what the parent would choose elsewhere."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from memkit.backbones.small.backbone import SHIPPED
from memkit.backbones.small.shape import WEIGHTS
from memkit_train.chooser.fit import fit, predict
from memkit_train.chooser.model import Chooser
from memkit_train.learn.result import AdapterResult
from memkit_train.rows import ChoiceRow

RATE, EPOCHS, HALF_LIFE = 3e-4, 3, 30.0
ROW_S, WEIGHTS_IN_ALL = 0.02, (22_565_376, 700_000)
"""For plans: seconds of one CPU thread for a row; weights of the encoder, and about how many of them learn."""
ANCHORS = 1.0
"""Anchors for each row that a label reached."""


@dataclass(frozen=True, slots=True)
class ChooserSettings:
    output: Path
    seed: int = 0
    lr: float = RATE
    epochs: int = EPOCHS
    half_life_days: float = HALF_LIFE
    """After so long a row weighs half."""


def learn(
    rows: Sequence[ChoiceRow],
    anchors: Sequence[ChoiceRow],
    parent: Path | None,
    settings: ChooserSettings,
    *,
    told: Callable[[int, float], None] = lambda epoch, loss: None,
) -> AdapterResult:
    """`parent`: the folder of an adapter to go on from; None: what is shipped."""
    started = time.perf_counter()
    torch.set_num_threads(1)  # threads that wait for each other are slower than one on a busy machine
    model = Chooser()
    model.load(parent or SHIPPED)
    few = random.Random(settings.seed).sample(list(anchors), min(len(anchors), round(ANCHORS * len(rows))))
    held = [replace(row, target=shares) for row, shares in zip(few, predict(model, few), strict=True)]
    aged = [replace(row, weight=row.weight * 0.5 ** (row.age_days / settings.half_life_days)) for row in [*rows, *held]]
    losses: list[float] = []

    def epoch(number: int, loss: float) -> None:
        losses.append(loss)
        told(number, loss)

    steps = fit(model, aged, epochs=settings.epochs, rate=settings.lr, seed=settings.seed, smooth=0.0, told=epoch)
    model.save(settings.output)
    metrics = {
        "train/loss": losses[-1] if losses else 0.0,
        "rows/taught": float(len(rows)),
        "rows/anchors": float(len(held)),
    }
    digest = hashlib.sha256((settings.output / WEIGHTS).read_bytes()).hexdigest()
    return AdapterResult(settings.output, metrics, steps, time.perf_counter() - started, digest)
