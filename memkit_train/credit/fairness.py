"""Nobody teaches more than others: of what is learned from, one user has at most a twentieth, by number of rows and by
what they weigh together; twice an even share, where there are few users.

One who rates a thousand answers, rightly or to do harm, counts as one who rates many; not as the whole log.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

MOST, EVEN = 0.05, 2.0
"""The largest share of all; and in shares of users who all teach alike."""


class Owned(Protocol):
    @property
    def user(self) -> str: ...


T = TypeVar("T", bound=Owned)


def weigh_users(given: Iterable[tuple[str, float]]) -> Mapping[str, float]:
    """(user, weight) of every row → factor by which each user's rows are to weigh less: 1 for nearly all."""
    totals: dict[str, float] = defaultdict(float)
    for user, weight in given:
        totals[user] += weight
    most = _cap([total for total in totals.values() if total])
    return {user: min(1.0, most / total) if total else 1.0 for user, total in totals.items()}


def thin(rows: Sequence[T]) -> list[T]:
    """Of users with more rows than one may have: some of them, from all of their log."""
    factors = weigh_users((row.user, 1.0) for row in rows)
    seen, kept = Counter[str](), list[T]()
    for row in rows:
        at, factor = seen[row.user], factors[row.user]
        seen[row.user] += 1
        if int((at + 1) * factor + 1e-9) > int(at * factor + 1e-9):
            kept.append(row)
    return kept


def _cap(totals: Iterable[float]) -> float:
    """Users are cut to it from the largest on, until it is the largest share of what is then left."""
    sizes = sorted(totals, reverse=True)
    share, rest, most = max(MOST, EVEN / max(len(sizes), 1)), sum(sizes), 0.0
    for cut, size in enumerate(sizes):
        if share * cut >= 1:
            break
        most = share * rest / (1 - share * cut)
        if size <= most:
            break
        rest -= size
    return most
