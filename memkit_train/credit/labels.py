"""What users said or showed about answers, as one label per answer.

    thumb, reward                 y as given                           weight 1
    expected="…"                  y = whether the answer says so       weight 1
    "No, …" in the next turn      y = 0                                weight .5
    the same question again       y = .25                              weight .3
    silence                       no label

What the user says outweighs what the user does; of several explicit ratings the last counts. Who rates has read the
answer, so a rating comes before what a comparison with an expected answer makes of it (metrics/right.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from memkit.journal import FeedbackRecord
from memkit_train.log.records import AnswerEvent, Label, Trajectory
from memkit_train.metrics.right import rate

CORRECTION, REASK = (0.0, 0.5), (0.25, 0.3)
"""(y, weight)."""
_SAME_WORDS = 0.85
_SOON = timedelta(minutes=30)
_WORD = re.compile(r"[^\W_]+", re.UNICODE)


def labels(episode: Trajectory) -> list[Label]:
    """At most one per answer, in the order of the answers."""
    found: list[Label] = []
    for position, event in enumerate(episode.answers):
        label = _explicit(event, episode.feedback.get(event.trace_id, ()))
        if label is None and _asked_again(event, episode.answers[position + 1 : position + 2]):
            label = Label(event.trace_id, *REASK, "reask")
        if label is None:
            label = _implicit(event, episode.feedback.get(event.trace_id, ()))
        if label is not None:
            found.append(label)
    return found


def said_at(episode: Trajectory) -> list[datetime]:
    """When each of these labels was made: by the last thing said of the answer, or by asking again."""
    following = {one.trace_id: after for one, after in pairwise(episode.answers)}
    found: list[datetime] = []
    for label in labels(episode):
        given = episode.feedback.get(label.trace_id, ())
        found.append(max(one.created_at for one in given) if given else following[label.trace_id].at)
    return found


def _explicit(event: AnswerEvent, given: Sequence[FeedbackRecord]) -> Label | None:
    corrected = next((str(one.payload.get("turn_id", "")) for one in given if _corrects(one)), "")
    for one in reversed(given):
        if one.payload.get("reward") is not None:
            return Label(event.trace_id, float(one.payload["reward"]), 1.0, "reward", corrected)
        if one.payload.get("label") in ("up", "down"):
            return Label(event.trace_id, float(one.payload["label"] == "up"), 1.0, "thumb", corrected)
    expected = [one for one in given if one.payload.get("expected") is not None]
    if expected:
        return Label(event.trace_id, score(event, str(expected[-1].payload["expected"])), 1.0, "expected")
    return None


def _corrects(one: FeedbackRecord) -> bool:
    return one.payload.get("signal") == "correction"


def score(event: AnswerEvent, expected: str) -> float:
    """Whether the answer says what was expected."""
    return rate("unknown" if event.abstained else event.answer, expected)


def _implicit(event: AnswerEvent, given: Sequence[FeedbackRecord]) -> Label | None:
    for one in given:
        if _corrects(one):
            return Label(event.trace_id, *CORRECTION, "correction", said_in=str(one.payload.get("turn_id", "")))
        if one.payload.get("signal") == "reask":
            return Label(event.trace_id, *REASK, "reask")
    return None


def _asked_again(event: AnswerEvent, following: Sequence[AnswerEvent]) -> bool:
    """The very next question is the same one, soon after, with nothing learned in between."""
    if not following:
        return False
    after = following[0]
    if after.bank != event.bank or after.state_seq != event.state_seq or after.at - event.at > _SOON:
        return False
    a, b = (frozenset(_WORD.findall(text.casefold())) for text in (event.question, after.question))
    return bool(a) and len(a & b) >= _SAME_WORDS * len(a | b)
