"""Which served memories an answer used, judged by the words they share. Inferred, and logged as such."""

from __future__ import annotations

import re
from collections.abc import Mapping

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_STOP_WORDS = """a an and are as at be been but by did do does for from had has have he her his i in is it
    its me my no not of on or she so that the their them they this to was we were what when
    where which who will with you your user"""
_STOP = frozenset(_STOP_WORDS.split())
_SHARE = 0.34
"""Share of a memory's rarer words that the answer must repeat."""


def infer_citations(answer: str, memories: Mapping[str, str]) -> list[str]:
    """Ids of the memories whose telling words the answer repeats, strongest first. A word that every served memory
    holds tells nothing; one that a single memory holds tells most."""
    said = _words(answer)
    holders: dict[str, int] = {}
    words = {key: _words(text) for key, text in memories.items()}
    for own in words.values():
        for word in own:
            holders[word] = holders.get(word, 0) + 1
    scores: dict[str, float] = {}
    for key, own in words.items():
        weight = {word: 1.0 / holders[word] for word in own}
        shared = sum(value for word, value in weight.items() if word in said)
        telling = any(holders[word] == 1 or len(memories) == 1 for word in own & said)
        if telling and (shared >= 1.0 or shared >= _SHARE * sum(weight.values())):
            scores[key] = shared
    return sorted(scores, key=lambda key: (-scores[key], key))


def _words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.casefold()) if word not in _STOP}
