"""One set of credited decisions, in the shape that each method takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memkit_train.rowfile import AnyRow
from memkit_train.rows import TextRow, TokenRow
from memkit_train.trajectories.rows import contrasts, extremes, labelled, pairs, with_logprobs

RUNGS = ("sft", "kto", "dpo", "offline")
"""The ladder, from below."""
GOOD = 0.5
MARGIN = 0.2
"""By how much alternatives must differ before one is called better."""


def shaped(found: Sequence[TokenRow | TextRow], method: str, replayed: Sequence[TokenRow] = ()) -> list[AnyRow]:
    """What each method takes of credited decisions, and of replayed alternatives to them (replay/alternatives.py). What
    a hosted model wrote stays text here: the method knows the tokenizer to read it by."""
    blamed = {(row.ref, row.completion_ids) for row in replayed if row.ref and row.reward == 0}
    found = [row for row in found if not (isinstance(row, TokenRow) and _bad(row, blamed))]  # it comes in a pair
    tokens = [row for row in found if isinstance(row, TokenRow)]
    texts = [row for row in found if isinstance(row, TextRow)]
    match method:
        case "kto":
            rated = [row for row in texts if row.reward is not None]
            return [*labelled(tokens), *rated, *labelled(extremes(replayed, margin=MARGIN))]
        case "dpo":
            contrasted = [row for both in contrasts(texts) for row in both]
            return [*pairs(tokens), *contrasted, *pairs(replayed, margin=MARGIN)]
        case "offline":
            with_logprobs([*found, *replayed], method)
            return [*found, *replayed]  # the method leaves out the rest, and counts it
        case _:
            good = [row for row in found if row.reward is not None and row.reward >= GOOD]
            return [*good, *(row for row in extremes(replayed, margin=MARGIN) if row.reward)]


def _bad(row: TokenRow, blamed: Collection[tuple[str, tuple[int, ...]]]) -> bool:
    return row.reward is not None and row.reward < GOOD and (row.ref, row.completion_ids) in blamed
