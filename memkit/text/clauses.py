"""A message in clauses: as little of it as may be worth keeping, or not, by itself. In any script, by its marks alone.

A sentence ends as everywhere, but not at an initial (J. Smith) nor after an abbreviation with more to come (5 p.m. at
the pier); within one, a comma or a dash ends a clause where enough stands on both sides of it. Each clause is a span of
the text, so that what is chosen is what was said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memkit.text.words import UNSPACED

MOST = 40
"""Clauses of one message. The last one holds what is beyond."""
_CAPITAL = "A-ZÀ-ÖØ-ÞΑ-ΩА-Я"
_GOES_ON = rf"(?<=\b[{_CAPITAL}])(?<!I)\.(?= +[{_CAPITAL}])|(?<=\.[^\W\d_])\.(?= +[^\W\d_{_CAPITAL}])"
_SENTENCE = re.compile(rf"(?!{_GOES_ON})[.!?…]+[\"'”’)\]]*(?=\s)|[。！？｡।॥؟۔]+[」』”]?|\n+")
_WITHIN = re.compile(r"[,;:–—،؛、，；：]+(?=\s)|[、，；：،]|\s-+(?=\s)")
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’]\w+)*")
_LEAST = 3
"""Words that a clause has; characters in scripts without blanks count a half."""


@dataclass(frozen=True, slots=True)
class ClauseSpan:
    start: int
    end: int
    sentence: int
    """Which sentence of the message it is part of."""


def clauses(text: str) -> list[ClauseSpan]:
    """In order; what lies between two of them is blank."""
    found: list[ClauseSpan] = []
    for number, (start, end) in enumerate(_sentences(text)):
        if len(found) >= MOST:
            found[-1] = ClauseSpan(found[-1].start, end, found[-1].sentence)
            continue
        found += [ClauseSpan(at, to, number) for at, to in _parts(text, start, end)]
    return found


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for end in (*(one.end() for one in _SENTENCE.finditer(text)), len(text)):
        yield from _trimmed(text, start, end)
        start = end


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    begun = read = start
    weight, left = 0.0, _weight(text, start, end)
    for mark in _WITHIN.finditer(text, start, end):
        more = _weight(text, read, mark.end())
        weight, left, read = weight + more, left - more, mark.end()
        if weight >= _LEAST and left >= _LEAST:
            yield from _trimmed(text, begun, read)
            begun, weight = read, 0.0
    yield from _trimmed(text, begun, end)


def _weight(text: str, start: int, end: int) -> float:
    return sum(0.5 if len(one) == 1 and not one.isascii() else 1.0 for one in _WORD.findall(text, start, end))


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
