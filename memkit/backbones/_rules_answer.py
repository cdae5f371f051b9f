"""A question against memories, without a model: the memories that share its rarest words, in their own words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from memkit.backbones._rules_dates import ABSOLUTE
from memkit.backbones._rules_words import PETS, content, single_line, stem
from memkit.roles.base import Shown
from memkit.roles.layout import day

_MOST = 4
_WHEN = re.compile(r"^\W*(?:when|what (?:day|date|year|month)|since when)\b", re.IGNORECASE)
_GENERIC = frozenset(
    stem(word) for word in ["like", "have", "name", "live", "work", "many", "much", "time", "kind", "thing", "do"]
)
"""Words that decide nothing on their own when a question has others."""


def answer(question: str, shown: Sequence[Shown]) -> tuple[tuple[int, ...], str]:
    """(handles, answer); no handles and `unknown` when nothing fits."""
    asked = _widened(content(question))
    texts = {one.handle: _widened(content(f"{one.record.speaker} {one.record.text}")) for one in shown}
    weights = {word: math.log(1 + len(shown) / (1 + sum(word in text for text in texts.values()))) for word in asked}
    speakers = frozenset(word for one in shown for word in content(one.record.speaker))
    deciding = (asked - speakers - _GENERIC) or (asked - speakers)
    scores = {
        one.handle: sum(weights[word] + 0.01 for word in asked & texts[one.handle])
        for one in shown
        if deciding & texts[one.handle]
    }
    if not scores:
        return (), "unknown"
    newest = {one.handle: (one.record.at.timestamp() if one.record.at else 0.0, one.record.seq) for one in shown}
    best = max(scores.values())
    order = sorted(scores, key=lambda handle: (-scores[handle], tuple(-value for value in newest[handle])))
    used = [handle for handle in order if scores[handle] >= 0.75 * best][:_MOST]
    records = {one.handle: one.record for one in shown}
    if _WHEN.match(question):
        said = records[used[0]]
        dates = ABSOLUTE.findall(said.text)
        return (used[0],), dates[0] if dates else day(said.at)
    return tuple(sorted(used)), single_line(" ".join(records[handle].text for handle in used), 400)


def _widened(words: frozenset[str]) -> frozenset[str]:
    """A dog is also a pet, and a pet may be a dog."""
    return words | {"pet"} if words & PETS else words
