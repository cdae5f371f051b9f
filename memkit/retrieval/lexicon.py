"""Words as numbers, and whole banks of text read at once.

A term is the 64-bit hash of a stem, so there is no vocabulary that could depend on history. What is kept per word (its
term, what kind of word it is) is only a memo: a bank repeats its words, and looking them up in one sweep is what makes
a cold bank cheap to read.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from memkit.memo import forgettable, remember
from memkit.retrieval.columns import Columns, Floats, Ints
from memkit.retrieval.postings import Entries, Keys
from memkit.text.stems import stem
from memkit.text.words import MONTHS, STOP_WORDS, pieces, word_of, words

TIME, LEADS_TIME, IN, MAY, DIGIT_FIRST, NUMBER = 1, 2, 4, 8, 16, 32
"""What kind of word it is: tells a time; does so with any word after it ("last week"); "in" and "may", which do so
together ("in May", "May 5"); begins with a digit; tells a number."""
_LEADS = LEADS_TIME | IN | MAY
_TIMES = """
    yesterday today tonight tomorrow ago monday tuesday wednesday thursday friday saturday sunday weekend january
    february march april june july august september october november december since recently just
"""
_NUMBERS = "one two three four five six seven eight nine ten twelve once twice couple dozen hundred several"
_TIME_WORDS, _NUMBER_WORDS = frozenset(_TIMES.split()), frozenset(_NUMBERS.split())
_LEADING = frozenset({"last", "next", "this", "past"})
_YEAR = re.compile(r"(?:19|20)\d\d")
_MIX = np.uint64(0x9E3779B97F4A7C15)
_KEPT_WORDS = 131_072


@remember(65_536)
def term_key(word: str) -> int:
    """The term that a folded word counts as; 0 for a stop word."""
    if word in STOP_WORDS:
        return 0
    return int.from_bytes(blake2b(stem(word).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") | 1


def pair_keys(keys: Keys) -> Keys:
    """Keys of neighbouring terms, so that "support group" is one thing too. They live in the same key space."""
    return (keys[:-1] * _MIX) ^ (keys[1:] + _MIX)


@remember(4_096)
def fold_speaker(name: str) -> str:
    return " ".join(words(name))


class _Words(dict[str, int]):
    """Piece of text → its number; `terms` and `kinds` are indexed by it. Grows by looking a new piece up."""

    def __init__(self) -> None:
        super().__init__()
        self.terms = np.zeros(4_096, dtype=np.uint64)
        self.kinds = np.zeros(4_096, dtype=np.uint8)
        self._lock = threading.Lock()

    def __missing__(self, piece: str) -> int:
        word = word_of(piece)
        key, kind = term_key(word), _kind(word)
        with self._lock:
            if (known := self.get(piece)) is not None:
                return known
            number = len(self)
            if number == len(self.terms):
                self.terms = np.concatenate([self.terms, np.zeros_like(self.terms)])
                self.kinds = np.concatenate([self.kinds, np.zeros_like(self.kinds)])
            self.terms[number], self.kinds[number] = key, kind
            self[piece] = number
            return number


class _Vocabulary:
    """The memo of the process; begun anew when it has grown large, so that it stays bounded."""

    def __init__(self) -> None:
        self._words = _Words()

    def current(self) -> _Words:
        if len(self._words) > _KEPT_WORDS:
            self._words = _Words()
        return self._words

    def begin_anew(self) -> None:
        self._words = _Words()

    def __len__(self) -> int:
        return len(self._words)


_VOCABULARY = _Vocabulary()
forgettable(_VOCABULARY.begin_anew, _VOCABULARY.__len__)


def _kind(word: str) -> int:
    kind = TIME if word in _TIME_WORDS or _YEAR.fullmatch(word) else 0
    kind |= LEADS_TIME if word in _LEADING else 0
    kind |= {"in": IN, "may": MAY}.get(word, 0)
    kind |= DIGIT_FIRST if word[:1].isdecimal() else 0
    return kind | (NUMBER if word in _NUMBER_WORDS or any(letter.isdecimal() for letter in word) else 0)


@dataclass(frozen=True, slots=True)
class Read:
    """What the texts of some rows say, each row by itself."""

    entries: Entries
    lengths: Ints
    """Terms of each row, repeated ones included."""
    tells_time: Floats
    tells_number: Floats
    size: Floats
    """Length of the text, from 0 to 1.5."""
    asks: Floats
    """1 where the text ends with a question mark."""


def read_lines(columns: Columns) -> Read:
    """Read the lines `embed_text` of all rows in one sweep."""
    if len(columns) == 1:
        return _read_line(int(columns.days[0]), columns.speakers[0], columns.texts[0])
    return _read(columns.days.tolist(), columns.speakers, columns.texts)


@remember(4_096)
def _read_line(day: int, speaker: str, text: str) -> Read:
    """A bank grows by a row at a time, and a replay writes the same rows over and over."""
    return _read((day,), (speaker,), (text,))


def _read(days: Sequence[int], speakers: Sequence[str], texts: Sequence[str]) -> Read:
    rows, found, ends, leads = len(texts), list[str](), [0], list[int]()
    for day, speaker, text in zip(days, speakers, texts, strict=True):
        found += _lead(day, speaker)
        leads.append(len(found))
        found += pieces(text)
        ends.append(len(found))
    known = _VOCABULARY.current()
    numbers = np.array([known[piece] for piece in found], dtype=np.int64)
    owners = np.arange(rows).repeat([end - start for start, end in pairwise(ends)])
    kinds, keys = known.kinds[numbers], known.terms[numbers]
    for start, end in zip(ends, leads, strict=False):
        kinds[start:end] = 0  # traits are of the text alone
    told = keys != 0
    entries, lengths = _count(keys[told], owners[told], rows)
    return Read(
        entries,
        lengths,
        _any(_tells_time(kinds, owners), owners, rows),
        _any((kinds & NUMBER) > 0, owners, rows),
        np.array([_size(len(text.split()), len(text)) for text in texts], dtype=np.float64),
        np.array([text.rstrip().endswith(("?", "？")) for text in texts], dtype=np.float64),
    )


@remember(8_192)
def _lead(day: int, speaker: str) -> tuple[str, ...]:
    """The pieces that date and speaker put before the text (see `embed_text`)."""
    dated: tuple[str, ...] = ()
    if day:
        at = date.fromordinal(day)
        dated = (str(at.day), MONTHS[at.month - 1].lower(), str(at.year))
    return (*dated, *pieces(speaker))


@lru_cache(maxsize=4_096)
def _size(count: int, letters: int) -> float:
    return min(math.log1p(count or letters / 4) / 4.0, 1.5)


def _tells_time(kinds: NDArray[np.uint8], owners: Ints) -> NDArray[np.bool_]:
    """For each piece, whether a time expression begins there. Judged by words, so punctuation does not matter."""
    tells = (kinds & TIME) > 0
    if not np.bitwise_or.reduce(kinds) & _LEADS:
        return tells
    here, after = kinds[:-1], kinds[1:]
    pair = (here & LEADS_TIME) > 0
    pair |= ((here & IN) > 0) & ((after & MAY) > 0)
    pair |= ((here & MAY) > 0) & ((after & DIGIT_FIRST) > 0)
    tells[:-1] |= pair & (owners[:-1] == owners[1:])
    return tells


def _any(flags: NDArray[np.bool_], owners: Ints, rows: int) -> Floats:
    out = np.zeros(rows)
    out[owners[flags]] = 1.0
    return out


def _count(terms: Keys, owners: Ints, rows: int) -> tuple[Entries, Ints]:
    """Entries of terms (as often as they occur) and of pairs of neighbours (once per row)."""
    follows = owners[1:] == owners[:-1]
    keys = np.concatenate((terms, pair_keys(terms)[follows]))
    whose = np.concatenate((owners, owners[1:][follows]))
    order = keys.argsort(kind="stable")  # rows ascend already, so they do within each key
    keys, whose = keys[order], whose[order]
    fresh = np.full(len(keys), True)
    fresh[1:] = (keys[1:] != keys[:-1]) | (whose[1:] != whose[:-1])
    starts = fresh.nonzero()[0]
    counts = (np.concatenate((starts[1:], [len(keys)])) - starts).astype(np.float32)
    counts[order[starts] >= len(terms)] = 1.0
    return Entries(keys[starts], whose[starts].astype(np.int32), counts), np.bincount(owners, minlength=rows)
