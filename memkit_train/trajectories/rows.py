"""From credited decisions to rows. Stored prompts and token ids are used exactly as they are: nothing is rendered or
tokenised again, so a row says what the policy really saw and really wrote.

A decision whose ids are not in the log (a hosted model wrote it) becomes a TextRow, good for imitation and preferences;
methods that weigh by log-probs leave it out. Rows stream: one decision in memory at a time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from memkit.models import digest, micros
from memkit_train.errors import MissingLogprobs, WrongVocabulary
from memkit_train.rows import LabelledRow, PreferencePair, TextRow, TokenRow
from memkit_train.trajectories.values import Credit, Decision, RankerRow

if TYPE_CHECKING:
    from memkit_train.ranker import RankExample

R = TypeVar("R", TokenRow, TextRow)
MOST = 1.0
"""Weight of a decision at most, however many answers speak of it."""
_DATES = re.compile(r"\[[^\]\n]*\]")


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
    state_keys: bool = False,
) -> Iterator[TokenRow | TextRow]:
    """A row per decision that was used: with `scored` those alone that have a score, else all, without rewards.
    `state_keys` finds equal states also where dates differ, at the price of reading the prompts."""
    at, subjects, vocabularies = micros(now), dict[str, str](), dict[str | None, str]()
    for one in decisions:
        score = scored.get(one.decision_id) if scored is not None else None
        if not one.ok or (scored is not None and score is None):
            continue
        user_id = one.bank.user_id
        user = subjects.get(user_id)
        if user is None:
            user = subjects[user_id] = subject(user_id)
        key = state_key(one) if state_keys else one.prompt_hash or ""
        reward, weight = (score.y, score.weight) if score is not None else (None, 1.0)
        if one.prompt_ids and one.token_ids:
            vocabulary = vocabularies.get(one.model)
            if vocabulary is None:
                vocabulary = vocabularies[one.model] = str((one.payload.get("extra") or {}).get("vocabulary", ""))
            yield TokenRow(
                one.prompt_ids, one.token_ids, weight, one.role, reward, one.logprobs, key, one.age_days(at),
                vocabulary, user, one.decision_id,
            )  # fmt: skip
        elif one.reply:
            yield TextRow(
                one.messages, one.reply, weight, one.role, reward, key, one.age_days(at), user, one.decision_id
            )


def with_logprobs(found: Iterable[TokenRow | TextRow], method: str) -> list[TokenRow]:
    """For methods that weigh a row by how likely it was for the policy that acted. Others are left out: a log may well
    begin with a hosted model. One that holds nothing else is refused by name."""
    given = list(found)
    tokens = [row for row in given if isinstance(row, TokenRow)]
    likely = [row for row in tokens if row.logprobs is not None]
    if given and not tokens:
        raise WrongVocabulary(
            f"{method} cannot use this log: {len(given)} of {len(given)} rows have no token ids",
            why="a hosted model wrote them: its tokens are not those of the model to be trained",
            fix="use `memkit-train sft` or `kto`, which take text (`dpo` too, where a state was decided in two ways), "
            "or serve with a local model and collect new ones",
            method=method,
        )
    if tokens and not likely:
        raise MissingLogprobs(
            f"{method} cannot use this log: {len(tokens)} of {len(tokens)} rows have no log-probs",
            why="the backbone that served did not report them, and without them nobody can tell how likely the logged "
            "decision was",
            fix="serve with the in-process backbone, which logs them, or use `memkit-train sft`, `kto` or `dpo`",
            method=method,
        )
    return likely


def state_key(decision: Decision) -> str:
    """Equal for the same question before the same memories, on whatever day: the last message without its dates."""
    messages = decision.messages
    return digest([decision.role, _DATES.sub("", messages[-1].content)]) if messages else decision.prompt_hash or ""


# -- other shapes ------------------------------------------------------------------------------------------------------


def labelled(found: Iterable[TokenRow]) -> Iterator[LabelledRow]:
    for row in found:
        if row.reward is not None:
            yield LabelledRow(
                row.prompt_ids, row.completion_ids, row.reward >= 0.5, row.weight, row.role, row.vocabulary, row.user,
                row.ref,
            )  # fmt: skip


def pairs(found: Iterable[TokenRow], *, margin: float = 0.0) -> Iterator[PreferencePair]:
    """Decisions of one prompt that fared differently: the best against the worst, more than `margin` apart."""
    for best, worst in contrasts(found, margin=margin):
        yield PreferencePair(
            best.prompt_ids, best.completion_ids, worst.completion_ids, min(best.weight, worst.weight), best.role,
            _reward(best) - _reward(worst), best.vocabulary, best.user, best.ref,
        )  # fmt: skip


def contrasts(found: Iterable[R], *, margin: float = 0.0) -> Iterator[tuple[R, R]]:
    """(Best, worst) of each state, of those with the prompt of the best."""
    for group in _by_state(found):
        best = max(group, key=_reward)
        prompt, reply = _parts(best)
        worst = min((row for row in group if _parts(row)[0] == prompt), key=_reward)
        if _reward(best) - _reward(worst) > margin and _parts(worst)[1] != reply:
            yield best, worst


def extremes(found: Iterable[TokenRow], *, margin: float) -> Iterator[TokenRow]:
    """Of alternatives that are more than `margin` apart, the best as good (reward 1) and the worst as bad (0)."""
    for group in _by_state(found):
        low, high = min(map(_reward, group)), max(map(_reward, group))
        if high - low > margin:
            yield from (
                replace(row, reward=float(_reward(row) == high)) for row in group if _reward(row) in (low, high)
            )


def _parts(row: TokenRow | TextRow) -> tuple[object, object]:
    return (row.messages, row.completion) if isinstance(row, TextRow) else (row.prompt_ids, row.completion_ids)


def _by_state(found: Iterable[R]) -> list[list[R]]:
    groups: dict[str, list[R]] = defaultdict(list)
    for row in found:
        if row.state_key and row.reward is not None:
            groups[row.state_key].append(row)
    return list(groups.values())


def _reward(row: TokenRow | TextRow) -> float:
    return row.reward or 0.0


def ranker_examples(found: Sequence[RankerRow]) -> list[RankExample]:
    """What `memkit_train.ranker` fits. Rows without all signals (an older log's) cannot take part."""
    import numpy as np

    from memkit.retrieval import SIGNALS
    from memkit_train.ranker import RankExample

    out: list[RankExample] = []
    for row in found:
        if not row.served or any(name not in one.signals for one in row.served for name in SIGNALS):
            continue
        table = np.array([[one.signals[name] for name in SIGNALS] for one in row.served], dtype=np.float64)
        relevant = np.array([one.memory_id in row.relevant for one in row.served])
        out.append(RankExample(row.user, table, relevant))
    return out
