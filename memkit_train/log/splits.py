"""Who is trained on and who is held out. By user, never by row: a bank carries over from session to session, so rows of
one user are not independent. And by time: nothing that happened after `until` may teach.

A user's side depends on its opaque id and the seed alone: it stays where it is while others come and go, so an adapter
that is trained next month is not trained on what this month's was judged by.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from memkit.models import micros
from memkit_train.errors import Leakage, NoRows
from memkit_train.log.records import Decision
from memkit_train.rows import AnyRow, ChoiceRow, TokenRow


@dataclass(frozen=True, slots=True)
class Split:
    seed: int = 0
    heldout_share: float = 0.2
    until: datetime | None = None

    def is_heldout(self, subject: str) -> bool:
        drawn = hashlib.sha256(f"{self.seed}\x1f{subject}".encode()).digest()
        return int.from_bytes(drawn[:6], "big") / 2**48 < self.heldout_share

    def divide(self, subjects: Iterable[str]) -> tuple[list[str], list[str]]:
        """(train, held out)."""
        train: list[str] = []
        heldout: list[str] = []
        for subject in subjects:
            (heldout if self.is_heldout(subject) else train).append(subject)
        if not train or (self.heldout_share and not heldout):
            raise NoRows(
                f"{len(train) + len(heldout)} users cannot be divided into two sides",
                why=f"{self.heldout_share:.0%} of them are to be held out, and each user stays whole",
                fix="collect more users, or set the held-out share to 0 and evaluate on other data",
            )
        return train, heldout

    def in_time(self, decision: Decision) -> bool:
        return self.until is None or micros(decision.created_at) <= micros(self.until)


def check_leaks(train: Iterable[AnyRow], heldout: Iterable[AnyRow], split: Split) -> int:
    """Raise where a held-out user, or a row that is held out, is among the rows to train on. Returns how many of these
    rows say word for word what a held-out row says: allowed (people say the same things), but worth knowing."""
    users: set[str] = set()
    refs: set[str] = set()
    texts: set[object] = set()
    for row in heldout:
        users.add(row.user)
        refs.add(row.ref)
        texts.add(_content(row))
    same = 0
    for row in train:
        if row.user and (row.user in users or split.is_heldout(row.user)):
            raise _leak("a held-out user", row)
        if row.ref and row.ref in refs:
            raise _leak("a held-out decision", row)
        same += _content(row) in texts
    return same


def _content(row: AnyRow) -> object:
    if isinstance(row, TokenRow):
        return hash((row.prompt_ids, row.completion_ids))
    if isinstance(row, ChoiceRow):
        return hash((row.task, row.first, row.second))
    return hash((row.messages, row.completion))


def _leak(what: str, row: AnyRow) -> Leakage:
    return Leakage(
        f"{what} is among the rows to train on",
        why="rows of both sides were put together, or made with two seeds",
        fix="make both sides with one Split",
        ref=row.ref,
    )
