"""From one user's decisions to rows in the mode and style that adapters are served in.

What was asked so is taken as it was logged, ids and all; what was asked otherwise (one call in JSON, say) is written
anew from what was asked, shown and done (replay/rewrite.py). A row has the labels of the decisions that it says again.
Where facts had to be guessed only the manager learns: an extractor that is taught guesses draws worse facts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from memkit.models import JSON, micros
from memkit.seams.embedder import Embedder
from memkit_train.credit.rows import Score, rows, scores
from memkit_train.log.records import Credit, Trajectory
from memkit_train.log.source import TrajectorySource
from memkit_train.replay.env import Env
from memkit_train.replay.rewrite import Rewriter, RewrittenCall
from memkit_train.rows import GOOD, TextRow, TokenRow

UNRATED = 0.5
"""Weight of a teacher's decision that no label speaks of. One that turned out well counts up to twice as much."""


def render(
    episode: Trajectory,
    credits: Sequence[Credit],
    rewriter: Rewriter,
    roles: Sequence[str],
    *,
    every: bool,
    now: datetime,
) -> tuple[list[TokenRow | TextRow], Counter[str]]:
    """Rows of the decisions that a label reached, and why some are missing. `every`: also of those that none did, of
    whoever is no local model: a teacher is learned from, oneself is not."""
    scored = scores(credits)
    native = [one for one in episode.decisions if one.role in roles and rewriter.is_asked_so(one)]
    found: list[TokenRow | TextRow] = []
    for row in rows(native, lambda _: episode.subject, None if every else scored, now=now):
        if (score := scored.get(row.ref)) is not None or isinstance(row, TextRow):
            found.append(_valued(row, score, every))
    calls, left_out = rewriter.rewrite(episode, None if every else scored)
    by_id = {one.decision_id: one for one in episode.decisions}
    for call in calls:
        score = _of(call, credits)
        if call.role in roles and not call.guessed and (every or score is not None):
            age = by_id[call.decision_ids[0]].age_days(micros(now))
            row = TextRow(
                call.messages,
                call.reply,
                role=call.role,
                age_days=age,
                user=episode.subject,
                ref=call.decision_ids[0],
            )
            found.append(_valued(row, score, every))
    return found, left_out


def count_taught(source: TrajectorySource, embedder: Embedder) -> JSON:
    """How many decisions each role can learn in the style that adapters are served in, rated or not; and why others are
    left out."""
    taught, left_out = Counter[str](), Counter[str]()
    for mode in ("split", "fused"):
        rewriter = Rewriter(Env(embedder, replace(source.served_with, mode=mode)))
        for episode in source.trajectories():
            calls, missing = rewriter.rewrite(episode)
            roles = [one.role for one in calls if not one.guessed]
            roles += [one.role for one in episode.decisions if one.ok and rewriter.is_asked_so(one)]
            taught.update(role for role in roles if role != "answerer" or mode == "split")
            left_out.update({f"{mode}: {reason}": count for reason, count in missing.items()})
    return {"style": "compact", **taught, "left_out": dict(left_out)}


def list_imitated(found: Iterable[TokenRow | TextRow], *, every: bool) -> list[TokenRow | TextRow]:
    """Without what turned out badly; of what nobody rated, nothing or everything."""
    return [row for row in found if (every if row.reward is None else row.reward >= GOOD)]


def _of(call: RewrittenCall, credits: Iterable[Credit]) -> Score | None:
    first = call.decision_ids[0]
    given = [replace(one, decision_id=first) for one in credits if one.decision_id in call.decision_ids]
    return scores(given).get(first)


def _valued(row: TokenRow | TextRow, score: Score | None, every: bool) -> TokenRow | TextRow:
    if score is None:
        return replace(row, weight=UNRATED)
    weight = UNRATED + (1 - UNRATED) * score.weight if every and score.y >= GOOD else score.weight
    return replace(row, reward=score.y, weight=weight)
