"""What a user's next message says about the answer before it: a correction, the same question again, or neither.

Recorded as feedback of source `implicit`, which training may weigh or ignore. Silence is no label, and so is an
ordinary next turn; it is recorded only so that a trainer can find it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memkit.models import JSON, Turn

_CORRECTION = re.compile(
    r"^\W*(?:no[,.!]|nope|wrong|that(?:'s| is) (?:not|wrong|incorrect)|not (?:quite|true|right)|incorrect"
    r"|you(?:'re| are) wrong|actually[, ]|i (?:already )?told you|i said|i meant|correction)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_SAME_QUESTION = 0.6
"""Share of words that two questions must have in common to be one."""


def signal(question: str, turns: Sequence[Turn]) -> JSON | None:
    """What the user's words in `turns` say about the answer to `question`; None where the user says nothing."""
    said = next((turn for turn in turns if turn.role in ("user", "human")), None)
    if said is None:
        return None
    kind = "next_turn"
    if _CORRECTION.search(said.text):
        kind = "correction"
    elif _alike(question, said.text):
        kind = "reask"
    return {"signal": kind, "turn_id": said.turn_id}


def _alike(one: str, other: str) -> bool:
    a, b = ({word.casefold() for word in _WORD.findall(text)} for text in (one, other))
    return bool(a and b) and len(a & b) / len(a | b) >= _SAME_QUESTION
