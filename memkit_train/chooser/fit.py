"""Fit the chooser to labelled choices: weighted cross-entropy, AdamW."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import torch
from torch.nn import functional

from memkit.backbones.small.shape import OPTIONS
from memkit_train.chooser.model import Chooser
from memkit_train.rows import ChoiceRow

BATCH = 24


def fit(
    model: Chooser,
    rows: Sequence[ChoiceRow],
    *,
    epochs: int,
    rate: float = 5e-4,
    seed: int = 0,
    smooth: float = 0.05,
    told: Callable[[int, float], None] = lambda epoch, loss: None,
) -> int:
    """Number of steps. `told`: after each epoch, its number and mean loss."""
    torch.manual_seed(seed)
    order = random.Random(seed)
    steps = epochs * (len(rows) // BATCH + 1)
    optimizer = torch.optim.AdamW(model.learning(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps + 8, pct_start=0.1)
    for epoch in range(epochs):
        total, count = 0.0, 0
        model.train()
        for batch in _batches(rows, order):
            scores = score(model, batch)
            losses = functional.cross_entropy(scores, _targets(batch), reduction="none", label_smoothing=smooth)
            weights = torch.tensor([one.weight for one in batch])
            loss = (losses * weights).sum() / weights.sum()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.learning(), 1.0)
            optimizer.step()
            schedule.step()
            total, count = total + loss.item() * len(batch), count + len(batch)
        told(epoch + 1, total / max(count, 1))
    model.eval()
    return epochs * len(list(_batches(rows, random.Random(0))))


def _targets(batch: Sequence[ChoiceRow]) -> torch.Tensor:
    """Share of each option."""
    count = len(OPTIONS[batch[0].task])
    return torch.tensor([one.target or [float(at == one.label) for at in range(count)] for one in batch])


def score(model: Chooser, batch: Sequence[ChoiceRow]) -> torch.Tensor:
    features = torch.tensor([list(one.features) for one in batch], dtype=torch.float32)
    return model(batch[0].task, [one.first for one in batch], [one.second for one in batch], features)


@torch.no_grad()
def predict(model: Chooser, rows: Sequence[ChoiceRow]) -> list[list[float]]:
    """Probability of each option."""
    model.eval()
    found: dict[int, list[float]] = {}
    for task in {one.task for one in rows}:
        places = sorted((at for at, one in enumerate(rows) if one.task == task), key=lambda at: len(rows[at].first))
        for start in range(0, len(places), 64):
            chunk = places[start : start + 64]
            shares = torch.softmax(score(model, [rows[at] for at in chunk]), dim=-1).tolist()
            found.update(zip(chunk, shares, strict=True))
    return [found[at] for at in range(len(rows))]


def _batches(rows: Sequence[ChoiceRow], order: random.Random) -> Iterator[list[ChoiceRow]]:
    """Each of one task and of texts of similar length, in random order."""
    batches: list[list[ChoiceRow]] = []
    for task in sorted({one.task for one in rows}):
        mine = [one for one in rows if one.task == task]
        order.shuffle(mine)
        for start in range(0, len(mine), 16 * BATCH):
            chunk = sorted(mine[start : start + 16 * BATCH], key=lambda one: len(one.first) + len(one.second))
            batches += [chunk[at : at + BATCH] for at in range(0, len(chunk), BATCH)]
    order.shuffle(batches)
    yield from batches
