"""From logits to one token: mask, temperature, nucleus, one draw, and what is logged of it.

A sampled token is where the draw falls in the cumulated probabilities, and the draw is one number that hangs on (seed,
key, position) alone: who else is in the batch changes nothing. The host makes that number and reads the choices, once
for all rows; everything as wide as the vocabulary stays where the model is.

What a batch does change are the last bits of the logits, because matrix kernels sum in another order. A choice that
such bits could turn is reported as `unsure`; the worker then recomputes that row by itself, without cache or padding,
and decides on those logits, so that it ends alike alone and in any batch.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memkit.seams.backbone import Sampling

NEAR_TIE = 1e-4
"""Nats. Batched and lone float32 logits differ by about 1e-6 to 1e-5; closer scores than this are decided afresh."""
_EDGE = 1e-5
"""Of the cumulated probability: the same bits move its edges by no more."""
_TABLES = 256


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


class Tables:
    """What grammars allow, as the device holds it: a table goes there once."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[NDArray[np.bool_], Any]] = OrderedDict()

    def stack(self, wishes: Sequence[Wish], logits: Any) -> Any:
        every = torch.ones(logits.shape[-1], dtype=torch.bool, device=logits.device)
        return torch.stack([every if one.allowed is None else self._send(one.allowed, logits) for one in wishes])

    def _send(self, table: NDArray[np.bool_], logits: Any) -> Any:
        held = self._known.get(id(table))
        if held is None:  # the table is kept with its copy, so that its id stays its own
            held = self._known[id(table)] = (table, torch.from_numpy(table).to(logits.device))
            if len(self._known) > _TABLES:
                self._known.popitem(last=False)
        return held[1]


def draw(sampling: Sampling, key: str, position: int) -> float:
    """A number in (0, 1) for one position, of which no earlier one knows."""
    name = f"{sampling.seed}\x00{key}\x00{position}".encode("utf-8", errors="surrogatepass")
    return (int.from_bytes(hashlib.sha256(name).digest()[:5], "little") + 0.5) / 2.0**40


def choose(
    logits: Any, wishes: Sequence[Wish], *, near_tie: float = NEAR_TIE, tables: Tables | None = None
) -> list[Choice]:
    """`logits`: rows × vocabulary, float32, on any device. With `near_tie=0` equal scores go to the lowest token."""
    device, allowed, masked = logits.device, None, logits
    if any(wish.allowed is not None for wish in wishes):
        allowed = (tables or Tables()).stack(wishes, logits)
        masked = logits.masked_fill(~allowed, -torch.inf)
    best = masked.max(dim=-1).values
    tied = masked >= (best - near_tie).unsqueeze(-1)
    tokens = tied.int().argmax(dim=-1) if near_tie == 0 else masked.argmax(dim=-1)
    unsure = (tied.sum(dim=-1) > 1) & (near_tie > 0)
    free = logits.argmax(dim=-1)
    sampled = torch.zeros(len(wishes), device=device)
    warm = [row for row, wish in enumerate(wishes) if wish.sampling.temperature > 0]
    if warm:
        mine = [wishes[row] for row in warm]
        at = torch.tensor(warm, device=device)
        heat = torch.tensor([[one.sampling.temperature] for one in mine], device=device)
        drawn = torch.tensor([[draw(one.sampling, one.key, one.position)] for one in mine], dtype=torch.float64)
        drawn = drawn.to(device)
        nucleus, doubtful = _nucleus(masked[at] / heat, [one.sampling.top_p for one in mine], near_tie)
        tokens[at], sampled[at], close = _fall(nucleus, drawn)
        unsure[at] = (doubtful | close) & (near_tie > 0)
        if any(one.watch and one.allowed is not None for one in mine):
            free[at] = _fall(logits[at] / heat, drawn)[0]
    raw = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(dim=-1)
    natural = torch.ones_like(unsure) if allowed is None else allowed.gather(-1, free.unsqueeze(-1)).squeeze(-1)
    found = torch.stack([tokens.double(), raw.double(), sampled.double(), unsure.double(), natural.double()])
    return [
        Choice(int(token), raw, sampled, bool(open_), bool(valid) if wish.watch and wish.allowed is not None else None)
        for wish, token, raw, sampled, open_, valid in zip(wishes, *found.tolist(), strict=True)
    ]


def _fall(scaled: Any, drawn: Any) -> tuple[Any, Any, Any]:
    """Where the draws fall; log p of what they fall on; and whether they fall close to an edge."""
    every = torch.log_softmax(scaled, dim=-1)
    edges = every.exp().cumsum(dim=-1, dtype=torch.float64)
    goal = drawn * edges[:, -1:]
    token = torch.searchsorted(edges, goal, right=True).clamp(max=scaled.shape[-1] - 1)
    chosen = every.gather(-1, token)
    upper = edges.gather(-1, token)
    close = torch.minimum(upper - goal, goal - (upper - chosen.double().exp())) < _EDGE
    return token.squeeze(-1), chosen.squeeze(-1), close.squeeze(-1)


def _nucleus(scaled: Any, shares: Sequence[float], near_tie: float) -> tuple[Any, Any]:
    """The smallest set of most likely tokens that reaches the share, others at -inf; and per row, whether last bits
    could change that set."""
    if all(share >= 1 for share in shares):
        return scaled, torch.zeros(len(shares), dtype=torch.bool, device=scaled.device)
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
    return scaled.masked_fill(~keep, -torch.inf), doubtful
