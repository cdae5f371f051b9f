"""What the small manager is asked, as pairs of texts: a clause in its message, a fact beside a memory. Its trainer
makes the same pairs of what was logged."""

from __future__ import annotations

from memkit.backbones._rules_extract import Reading
from memkit.backbones._rules_manage import RuleDecision
from memkit.backbones.small import phrase
from memkit.backbones.small.encoder import TextPair
from memkit.backbones.small.features import clause_features, pair_features
from memkit.models import Turn

_AROUND = 320
"""Characters of a message that are read beside one of its clauses."""


def clause_pair(turn: Turn, start: int, end: int, reading: Reading | None = None) -> TextPair:
    """`reading`: what the rules make of the clause, where that is known."""
    said = turn.text[start:end]
    features = clause_features(turn.text, start, end, reading or phrase.reading_of(turn, said))
    return TextPair("clause", _around(turn.text, start), said, features)


def relation_pair(memory: str, fact: str, decision: RuleDecision) -> TextPair:
    """`decision`: what the rules would do with the fact, were this memory the only one."""
    state, new = phrase.state_of(memory), phrase.as_read(fact)
    return TextPair("relation", state, new, pair_features(state, new, decision))


def _around(text: str, start: int) -> str:
    """The message about a clause, as much of it as is read."""
    if len(text) <= _AROUND:
        return text
    first = max(0, min(start - _AROUND // 2, len(text) - _AROUND))
    return text[first : first + _AROUND]
