"""Is what was written down what was said? A right answer from a wrong memory must not be reinforced."""

from __future__ import annotations

import re
from collections.abc import Iterable
from statistics import fmean

from memkit.models import Op, Turn
from memkit.text.words import terms

_TELLING = re.compile(r"\b(?:[A-Z][\w'-]*|\w*\d\w*)\b")
"""Names and numbers: what cannot be a paraphrase."""


def support(op: Op, turns: Iterable[Turn]) -> float:
    """Of one op. Turns that it does not name as its source do not count where it names any."""
    assert op.after is not None
    named = set(op.source_turns)
    sources = [turn for turn in turns if not named or turn.turn_id in named]
    heard = {term for turn in sources for term in terms(f"{turn.speaker} {turn.text}")}
    if op.before is not None:
        heard.update(terms(op.before.text))
    said = [term for word in _TELLING.findall(op.after.text) for term in terms(word)]
    return fmean(float(term in heard) for term in said) if said else 1.0
