"""From credited decisions to rows. Stored prompts and token ids are used exactly as they are: nothing is rendered or
tokenised again, so a row says what the policy really saw and really wrote.

A decision whose ids are not in the log (a hosted model wrote it) becomes a TextRow. Rows stream: one decision in memory
at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from memkit.models import micros
from memkit_train.log.records import Credit, Decision
from memkit_train.rows import TextRow, TokenRow

R = TypeVar("R", TokenRow, TextRow)
MOST = 1.0
"""Weight of a decision at most, however many answers speak of it."""


@dataclass(frozen=True, slots=True)
class Score:
    y: float
    weight: float
    whys: tuple[str, ...]


def scores(credits: Iterable[Credit]) -> dict[str, Score]:
    """One score per decision: the mean of what is said of it, by weight."""
    found: dict[str, list[Credit]] = defaultdict(list)
    for one in credits:
        found[one.decision_id].append(one)
    out: dict[str, Score] = {}
    for decision_id, given in found.items():
        total = sum(one.weight for one in given)
        y = sum(one.y * one.weight for one in given) / total
        out[decision_id] = Score(y, min(MOST, total), tuple(dict.fromkeys(one.why for one in given)))
    return out


def rows(
    decisions: Iterable[Decision],
    subject: Callable[[str], str],
    scored: Mapping[str, Score] | None = None,
    *,
    now: datetime,
) -> Iterator[TokenRow | TextRow]:
    """A row per decision that was used: with `scored` those alone that have a score, else all, without rewards."""
    at, subjects, vocabularies = micros(now), dict[str, str](), dict[str | None, str]()
    for one in decisions:
        score = scored.get(one.decision_id) if scored is not None else None
        if not one.ok or (scored is not None and score is None):
            continue
        user_id = one.bank.user_id
        user = subjects.get(user_id)
        if user is None:
            user = subjects[user_id] = subject(user_id)
        reward, weight = (score.y, score.weight) if score is not None else (None, 1.0)
        if one.prompt_ids and one.token_ids:
            vocabulary = vocabularies.get(one.model)
            if vocabulary is None:
                vocabulary = vocabularies[one.model] = str((one.payload.get("extra") or {}).get("vocabulary", ""))
            yield TokenRow(
                one.prompt_ids,
                one.token_ids,
                weight,
                one.role,
                reward,
                one.age_days(at),
                vocabulary,
                user,
                one.decision_id,
            )
        elif one.reply:
            yield TextRow(one.messages, one.reply, weight, one.role, reward, one.age_days(at), user, one.decision_id)
