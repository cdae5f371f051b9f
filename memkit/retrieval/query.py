"""What a question asks for, read once per search: its terms, its times, whom it names, what kind of answer it wants."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from memkit.memo import remember
from memkit.models import Kind, MemoryRecord
from memkit.retrieval.lexicon import pair_keys, term_key
from memkit.retrieval.postings import Keys
from memkit.text.asked import ASKS_NOW, ASKS_NUMBER, ASKS_TIME, Saying
from memkit.text.times import TimePhrase, time_phrases
from memkit.text.words import words

if TYPE_CHECKING:
    Vector = NDArray[np.float32]


class RowCondition(Protocol):
    """What `memkit.filters` makes of `filters={...}`."""

    def matches(self, record: MemoryRecord) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One search. Masks (`kinds`, `condition`, `session_id`, expiry at `now`) choose what may be returned; statistics
    are always those of the whole index."""

    text: str
    vector: Vector | None = None
    """Embedding of `text`. None: lexical search only."""
    k: int = 10
    kinds: Collection[Kind] | None = None
    condition: RowCondition | None = None
    session_id: str | None = None
    now: datetime | None = None
    """When it is asked: relative time phrases and expiry are measured from here."""


@dataclass(frozen=True, slots=True, eq=False)
class ParsedQuery:
    """A query as the scorer reads it."""

    words: frozenset[str]
    """Folded, unstemmed, stop words included."""
    terms: Keys
    """Distinct terms, in order of first use: the order in which scores are summed."""
    pairs: Keys
    wanted: frozenset[int]
    """The terms."""
    times: tuple[TimePhrase, ...]
    wants_time: bool
    wants_number: bool
    wants_latest: bool
    about_asker: bool


_WANTS_TIME = re.compile(
    r"\b(?:when|what\s+(?:time|date|day|month|year|season)|which\s+(?:date|day|month|year|season|weekend|week)|how\s+long"
    r"|since\s+when)\b",
    re.IGNORECASE,
)
_WANTS_NUMBER = re.compile(
    r"\bhow\s+(?:many|much|old|often|long|far|big|tall)\b|\bwhat\s+(?:age|number)\b", re.IGNORECASE
)
_WANTS_LATEST = re.compile(
    r"\b(?:now|currently|current|nowadays|these\s+days|latest|newest|recent|recently|lately|most\s+recent|at\s+the\s+moment"
    r"|still|at\s+present)\b",
    re.IGNORECASE,
)
_TIME_HINTS = ("when", "what", "which", "how", "since")
_NUMBER_HINTS = ("how", "what")
_LATEST_HINTS = ("now", "current", "these", "latest", "newest", "recent", "lately", "moment", "still", "present")
"""One of these stands in whatever the expression of the same name finds in ASCII text."""
_ASKER = frozenset({"i", "me", "my", "mine", "myself", "we", "our", "us"})


def read_query(query: Query, *, in_any_language: bool = True) -> ParsedQuery:
    return _read(query.text, query.now.date() if query.now is not None else None, in_any_language)


@remember(4_096)
def _read(text: str, today: date | None, in_any_language: bool) -> ParsedQuery:
    """Replays and evaluations ask the same of many banks."""
    folded = words(text)

    def wants(saying: Saying) -> bool:
        return in_any_language and saying.is_in(text, folded)

    in_order = [key for word in folded if (key := term_key(word))]
    keys = np.array(in_order, dtype=np.uint64)
    return ParsedQuery(
        words=frozenset(folded),
        terms=np.array(list(dict.fromkeys(in_order)), dtype=np.uint64),
        pairs=np.array(list(dict.fromkeys(pair_keys(keys).tolist())), dtype=np.uint64),
        wanted=frozenset(in_order),
        times=time_phrases(text, today),
        wants_time=_says(_WANTS_TIME, _TIME_HINTS, text) or wants(ASKS_TIME),
        wants_number=_says(_WANTS_NUMBER, _NUMBER_HINTS, text) or wants(ASKS_NUMBER),
        wants_latest=_says(_WANTS_LATEST, _LATEST_HINTS, text) or wants(ASKS_NOW),
        about_asker=not _ASKER.isdisjoint(folded),
    )


def _says(wanted: re.Pattern[str], hints: tuple[str, ...], text: str) -> bool:
    """Whether `wanted` is in `text`. Nearly every text is decided by the hints, which cost next to nothing."""
    if text.isascii():
        lowered = text.lower()
        for hint in hints:
            if hint in lowered:
                break
        else:
            return False
    return wanted.search(text) is not None


def shared_words(asked: ParsedQuery, text: str) -> list[str]:
    """Words of `text` that the question has too, as `text` spells them, for `why`."""
    seen: dict[int, str] = {}
    for word in words(text):
        if (key := term_key(word)) in asked.wanted:
            seen.setdefault(key, word)
    return list(seen.values())
