"""The core of a bank: what always matters, whatever is asked. Every context carries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from memkit.models import Kind, MemoryRecord
from memkit.retrieval import BankIndex
from memkit.text.standing import is_of_health, standing_part

if TYPE_CHECKING:
    from memkit.retrieval.query import RowCondition


def core(
    index: BankIndex,
    now: datetime,
    *,
    kinds: Sequence[Kind] | None = None,
    condition: RowCondition | None = None,
    most: int = 50,
) -> list[MemoryRecord]:
    """The standing memories of a bank: those of health first, of each sort the newest first. Of words, the sentences
    that stand, where no standing fact was drawn from them."""
    rows = np.flatnonzero(index.rows.traits["standing"])[::-1][: 4 * most]
    found = [
        record
        for record in index.rows.pick(rows.tolist())
        if (record.expires_at is None or record.expires_at > now)
        and (kinds is None or record.kind in kinds)
        and (condition is None or condition.matches(record))
    ]
    told = {turn for record in found if record.kind != "turn" for turn in record.source_turns}
    left = [record for record in found if record.kind != "turn" or told.isdisjoint(record.source_turns)]
    return [_shortened(record) for record in sorted(left, key=_rank, reverse=True)[:most]]


def _shortened(record: MemoryRecord) -> MemoryRecord:
    return replace(record, text=standing_part(record.text)) if record.kind == "turn" else record


def _rank(record: MemoryRecord) -> tuple[bool, float, int]:
    return (is_of_health(record.text), record.at.timestamp() if record.at is not None else 0.0, record.seq)
