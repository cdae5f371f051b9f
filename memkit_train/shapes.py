"""One set of credited decisions, in the shape that each method takes."""

from __future__ import annotations

from collections.abc import Sequence

from memkit_train.rowfile import AnyRow
from memkit_train.rows import TextRow, TokenRow
from memkit_train.trajectories.rows import extremes, labelled, pairs, token_rows, with_logprobs

RUNGS = ("sft", "kto", "dpo", "offline")
"""The ladder, from below."""
GOOD = 0.5
MARGIN = 0.2
"""By how much alternatives must differ before one is called better."""


def shaped(found: Sequence[TokenRow | TextRow], method: str, replayed: Sequence[TokenRow] = ()) -> list[AnyRow]:
    """What each method takes of credited decisions, and of replayed alternatives to them (replay/alternatives.py)."""
    match method:
        case "kto":
            return [*labelled(token_rows(found, method)), *labelled(extremes(replayed, margin=MARGIN))]
        case "dpo":
            return [*pairs(token_rows(found, method)), *pairs(replayed, margin=MARGIN)]
        case "offline":
            return [*with_logprobs(found, method), *with_logprobs(replayed, method)]
        case _:
            good = [row for row in found if row.reward is not None and row.reward >= GOOD]
            return [*good, *(row for row in extremes(replayed, margin=MARGIN) if row.reward)]
