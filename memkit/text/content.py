"""What a text says: its words but those that managers and people write for each other; and whether another says it."""

from __future__ import annotations

import re

from memkit.memo import remember
from memkit.text.words import denies, terms

_CARRIED = 0.8
"""Share of the words of the one that the other must have to say the same; of its names, numbers and negations, all."""
_WORD = re.compile(r"[^\W\d_][\w'’]*")
_WRITTEN = frozenset(terms("user users user's im ive"))
"""What managers write where people say "I", and what people type for it."""


@remember(8_192)
def content(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _WRITTEN


def carries(whole: str, part: str) -> bool:
    """Whether a text says all that another says, so that it can stand for it."""
    return shares(whole, part) and _exact(part) <= content(whole) and (denies(whole) or not denies(part))


def shares(whole: str, part: str) -> bool:
    """Whether a text has most words of another."""
    said = content(part)
    return len(said & content(whole)) >= _CARRIED * len(said)


@remember(8_192)
def _exact(text: str) -> frozenset[str]:
    """Numbers and names: what no other word can stand for."""
    numbers = (term for term in content(text) if any(letter.isdigit() for letter in term))
    names = terms(" ".join(word for word in _WORD.findall(text) if word[0].isupper()))
    return frozenset((*numbers, *names)) - _WRITTEN
