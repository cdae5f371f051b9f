"""The core of a bank: what always matters, whatever is asked. Every context carries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

import numpy as np

from memkit.models import Kind, MemoryRecord
from memkit.retrieval import BankIndex
from memkit.text.standing import is_of_health, is_own, standing_part

if TYPE_CHECKING:
    from memkit.retrieval.query import RowCondition
    from memkit.retrieval.rows import Matrix


def core(
    index: BankIndex,
    now: datetime,
    *,
    kinds: Sequence[Kind] | None = None,
    condition: RowCondition | None = None,
    near: Matrix | None = None,
    most: int = 50,
) -> list[MemoryRecord]:
    """The standing memories of a bank: those of health and the others (how to answer, whom) by turns, because a block
    has room for few. Of health, what is of the user's own first, then what is nearest to a question (`near`: its
    vector), or the newest; of the others, the newest. Of words, the sentences that stand, where no standing fact was
    drawn from them."""
    rows = np.flatnonzero(index.rows.traits["standing"])[::-1][: 4 * most]
    found = [
        _shortened(record)
        for record in index.rows.pick(rows.tolist())
        if (record.expires_at is None or record.expires_at > now)
        and (kinds is None or record.kind in kinds)
        and (condition is None or condition.matches(record))
    ]
    told = {turn for record in found if record.kind != "turn" for turn in record.source_turns}
    left = [record for record in found if record.kind != "turn" or told.isdisjoint(record.source_turns)]
    left.sort(key=lambda record: (record.at.timestamp() if record.at is not None else 0.0, record.seq), reverse=True)
    health = [record for record in left if is_of_health(record.text)]
    others = [record for record in left if not is_of_health(record.text)]
    if near is not None and len(health) > 1:
        own = np.array(index.rows.rows_of({record.id for record in health}), dtype=np.int64)
        nearness = zip(index.rows.pick(own.tolist()), index.rows.cosines(near, own).tolist(), strict=True)
        cosines = {record.id: cosine for record, cosine in nearness}
        health.sort(key=lambda record: -cosines[record.id])
    health.sort(key=lambda record: not is_own(record.text))
    by_turns = (one for pair in zip_longest(health, others) for one in pair if one is not None)
    return list(islice(by_turns, most))


def _shortened(record: MemoryRecord) -> MemoryRecord:
    return replace(record, text=standing_part(record.text)) if record.kind == "turn" else record
