"""A panel: the same dialogues with the same questions, once before and once after, by users who opted out of training.
What differs is the adapter alone, so every answer has its twin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from memkit.models import JSON
from memkit_train.lab.demo.chatbot import SILENT, AnsweredQuestion, Visit
from memkit_train.lab.demo.habits import NewHabits
from memkit_train.lab.worlds import Episode
from memkit_train.metrics.stats import Estimate, difference_by_cluster, mean_by_cluster


def visits(episodes: Sequence[Episode], when: str) -> list[Visit]:
    return [Visit(one, f"{when}-{one.user_id}", SILENT, learn=False) for one in episodes]


@dataclass(frozen=True, slots=True)
class Pair:
    """One question, before and after."""

    before: AnsweredQuestion
    after: AnsweredQuestion

    @property
    def gain(self) -> int:
        return self.after.right - self.before.right


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    before: Estimate
    after: Estimate
    gain: Estimate
    pairs: tuple[Pair, ...]
    habits: NewHabits = field(default_factory=NewHabits)

    @property
    def better(self) -> bool:
        """The lower bound of the paired gain is above zero."""
        return self.gain.low > 0

    def to_json(self) -> JSON:
        return {
            name: {"value": one.value, "low": one.low, "high": one.high, "n": one.n, "users": one.clusters}
            for name, one in (("before", self.before), ("after", self.after), ("gain", self.gain))
        }


def compare(
    before: Sequence[AnsweredQuestion], after: Sequence[AnsweredQuestion], habits: NewHabits | None = None
) -> BeforeAfter:
    """Paired by question, intervals over users."""
    twins = {one.question.question_id: one for one in after}
    pairs = tuple(Pair(one, twins[one.question.question_id]) for one in before)
    sides: tuple[dict[str, list[float]], dict[str, list[float]]] = (defaultdict(list), defaultdict(list))
    for pair in pairs:
        for side, one in zip(sides, (pair.before, pair.after), strict=True):
            side[pair.before.user_id].append(float(one.right))
    return BeforeAfter(
        mean_by_cluster(sides[0]),
        mean_by_cluster(sides[1]),
        difference_by_cluster(sides[1], sides[0]),
        pairs,
        habits or NewHabits(),
    )


def telling(pairs: Sequence[Pair], most: int = 5) -> list[Pair]:
    """A few to read: what got better, of different users and kinds, and, where there is one, one that got worse."""
    better = [pair for pair in pairs if pair.gain > 0]
    chosen: list[Pair] = []
    for pair in better:
        kinds = {one.before.question.kind for one in chosen}
        users = {one.before.user_id for one in chosen}
        if pair.before.user_id not in users and (pair.before.question.kind not in kinds or len(kinds) >= 3):
            chosen.append(pair)
    worse = [pair for pair in pairs if pair.gain < 0][:1]
    return chosen[: most - len(worse)] + worse


__all__ = ["BeforeAfter", "Pair", "compare", "telling", "visits"]
