"""From logits to one token: mask, temperature, nucleus, noise, and what is logged of it.

A sampled token is the argmax of score + Gumbel noise, and the noise is a function of (seed, key, position) alone: who
else is in the batch changes nothing. What a batch does change are the last bits of the logits, because matrix kernels
sum in another order. A choice that such bits could turn is reported as `unsure`; the worker then recomputes that row
by itself, without cache or padding, and decides on those logits, so that it ends alike alone and in any batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memkit.seams.backbone import Sampling

NEAR_TIE = 1e-4
"""Nats. Batched and lone float32 logits differ by about 1e-6 to 1e-5; closer scores than this are decided afresh."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How one row wants its next token chosen."""

    sampling: Sampling
    key: str
    position: int
    allowed: NDArray[np.bool_] | None
    """None: every token."""
    watch: bool = False
    """Also tell whether the choice without the mask would have been allowed."""


@dataclass(frozen=True, slots=True)
class Choice:
    token: int
    raw: float
    """log p under the model as it is: temperature 1, no mask."""
    sampled: float
    """log p as sampled: temperature, nucleus and mask (0 for a greedy choice: it was certain)."""
    unsure: bool
    natural: bool | None = None
    """Whether the grammar allows what would have been chosen without it; None when not watched."""


def gumbel(sampling: Sampling, key: str, position: int, size: int) -> NDArray[np.float32]:
    """Noise for one position: a counter-based generator, so no earlier draw matters."""
    name = hashlib.sha256(f"{sampling.seed}\x00{key}".encode("utf-8", errors="surrogatepass")).digest()
    source = np.random.Philox(key=int.from_bytes(name[:16], "little"), counter=[0, 0, position, 0])
    uniform = (source.random_raw(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
    return (-np.log(-np.log(uniform))).astype(np.float32)


def choose(logits: Any, wishes: Sequence[Wish], *, near_tie: float = NEAR_TIE) -> list[Choice]:
    """`logits`: rows × vocabulary, float32, on any device. With `near_tie=0` equal scores go to the lowest token."""
    size = logits.shape[-1]
    raw = torch.log_softmax(logits, dim=-1)
    masked = logits
    if any(wish.allowed is not None for wish in wishes):
        tables = [np.ones(size, dtype=np.bool_) if wish.allowed is None else wish.allowed for wish in wishes]
        masked = logits.masked_fill(~torch.from_numpy(np.stack(tables)).to(logits.device), -torch.inf)
    warm = [row for row, wish in enumerate(wishes) if wish.sampling.temperature > 0]
    scores, behaviour, unsure, noise = masked, None, [False] * len(wishes), None
    if warm:
        at = torch.tensor(warm, device=logits.device)
        heat = torch.tensor([[wishes[row].sampling.temperature] for row in warm], device=logits.device)
        noise = _noise([wishes[row] for row in warm], size).to(logits.device)
        nucleus, doubtful = _nucleus(masked[at] / heat, [wishes[row].sampling.top_p for row in warm], near_tie)
        behaviour = torch.log_softmax(nucleus, dim=-1)
        scores = masked.clone()
        scores[at] = (nucleus + noise) * heat  # back in units of logits, where the margin is measured
        for row, doubt in zip(warm, doubtful, strict=True):
            unsure[row] = doubt
    best = scores.max(dim=-1).values
    tied = scores >= (best - near_tie).unsqueeze(-1)
    tokens = tied.int().argmax(dim=-1) if near_tie == 0 else scores.argmax(dim=-1)
    crowded = (tied.sum(dim=-1) > 1).tolist() if near_tie else [False] * len(wishes)
    raws = raw.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).tolist()
    chosen: list[int] = tokens.tolist()
    sampled = [0.0] * len(wishes)
    if behaviour is not None:
        for index, row in enumerate(warm):
            sampled[row] = float(behaviour[index, chosen[row]])
    natural = _natural(logits, wishes, warm, noise)
    return [
        Choice(chosen[row], raws[row], sampled[row], unsure[row] or bool(crowded[row]), natural[row])
        for row in range(len(wishes))
    ]


def _noise(wishes: Sequence[Wish], size: int) -> Any:
    return torch.from_numpy(np.stack([gumbel(wish.sampling, wish.key, wish.position, size) for wish in wishes]))


def _nucleus(scaled: Any, shares: Sequence[float], near_tie: float) -> tuple[Any, list[bool]]:
    """The smallest set of most likely tokens that reaches the share, others at -inf; and per row, whether last bits
    could change that set."""
    if all(share >= 1 for share in shares):
        return scaled, [False] * len(shares)
    order = torch.sort(torch.softmax(scaled, dim=-1), dim=-1, descending=True, stable=True)
    before = order.values.cumsum(dim=-1) - order.values
    share = torch.tensor(shares, device=scaled.device).unsqueeze(-1)
    kept = (before < share) | (share >= 1)
    kept[:, 0] = True
    doubtful = (((before - share).abs() < near_tie) & (order.values > 0) & (share < 1)).any(dim=-1)
    last = kept.sum(dim=-1, keepdim=True)
    edge = order.values.gather(-1, last - 1)
    beyond = order.values.gather(-1, last.clamp(max=scaled.shape[-1] - 1))
    doubtful |= ((edge - beyond).abs() <= near_tie * edge).squeeze(-1) & (share < 1).squeeze(-1)
    keep = torch.zeros_like(kept).scatter(-1, order.indices, kept)
    return scaled.masked_fill(~keep, -torch.inf), [bool(doubt) and near_tie > 0 for doubt in doubtful.tolist()]


def _natural(logits: Any, wishes: Sequence[Wish], warm: list[int], noise: Any) -> list[bool | None]:
    verdicts: list[bool | None] = [None] * len(wishes)
    for row, wish in enumerate(wishes):
        if wish.watch and wish.allowed is not None:
            free = logits[row]
            if row in warm:
                free = free / wish.sampling.temperature + noise[warm.index(row)]
            verdicts[row] = bool(wish.allowed[int(free.argmax())])
    return verdicts
