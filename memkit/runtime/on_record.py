"""What a store is served with, on record in its journal: the trainer reads it there.

Whoever asks a model writes it down before the decision is logged, where it is not what the journal says already. The
rules write only where nothing is on record: a command line without a model leaves alone what the app recorded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memkit.engine.served_with import ROLES, ServedWith, unreadable
from memkit.errors import InvalidConfig
from memkit.models import to_json

if TYPE_CHECKING:
    from memkit.journal import Journal
    from memkit.retrieval import RankerWeights

_META = "practice"
"""As 0.1.0 named it: stores keep the name, so that either version reads what the other wrote."""


def served_with(journal: Journal) -> ServedWith | None:
    """As recorded last; None where nobody has decided anything."""
    text = journal.meta_get(_META)
    if text is None:
        return None
    try:
        raw = json.loads(text)
    except ValueError:
        raise unreadable("it is no JSON") from None
    return ServedWith.of(raw)


def weights(journal: Journal) -> RankerWeights | None:
    """By which reads rank what is in the store, whoever opened it. None: as by default."""
    try:
        served = served_with(journal)
    except InvalidConfig:
        return None
    return served.weights if served is not None and served.facts_first else None


def choose_wording(journal: Journal, served: ServedWith, asked: int) -> ServedWith:
    """In the words that the app asks for; else in those that its models were asked in here before."""
    if asked:
        return served.in_words(dict.fromkeys(ROLES, asked))
    try:
        before = served_with(journal)
    except InvalidConfig:  # a later version may have written what this one cannot read
        before = None
    return served if before is None else served.in_words_of(before)


def record(journal: Journal, served: ServedWith, *, instead: bool = True) -> None:
    """`instead`: of what is on record, where that is something else."""
    known, text = journal.meta_get(_META), to_json(served.to_json())
    if known is None or (instead and known != text):
        journal.meta_set(_META, text)
