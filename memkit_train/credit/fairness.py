"""Nobody teaches more than others: what one user's labels weigh together is capped by what a usual user's do.

One who rates a thousand answers, rightly or to do harm, counts as one who rates many; not as the whole log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

USUAL, MOST = 0.75, 1.5
"""A user's labels weigh at most `MOST` times what those of the user at this quantile do."""


def weigh_users(given: Iterable[tuple[str, float]]) -> Mapping[str, float]:
    """(user, weight) of every row → factor by which each user's rows are to weigh less: 1 for nearly all."""
    totals: dict[str, float] = defaultdict(float)
    for user, weight in given:
        totals[user] += weight
    if not totals:
        return {}
    most = MOST * float(np.quantile(list(totals.values()), USUAL))
    return {user: min(1.0, most / total) if total else 1.0 for user, total in totals.items()}
