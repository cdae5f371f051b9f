"""Decisions that are to blame for disliked answers, and whether other operations in their place would be blameless.

Credit finds the decision that a bad answer comes from; nobody says what would have been right. But credit's own
questions can be put to any other operations on the same fact: did what was said come into the bank, or leave it, and
was nothing else lost? What passes them need not be right, but is not wrong for the reason that the logged decision was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from memkit.models import MemoryRecord, Op
from memkit.seams.embedder import Embedder
from memkit.text.words import terms
from memkit_train.credit.assign import Crediting, destroys, took_away
from memkit_train.credit.moments import Moment
from memkit_train.credit.rows import scores
from memkit_train.credit.topics import Topics
from memkit_train.log.records import AnswerEvent, Credit, Decision, Trajectory

BLAME = frozenset({"missed", "lost"})


@dataclass(frozen=True)
class Fault:
    """A decision of the manager, and the answers that it is blamed for."""

    reading: Crediting
    moment: Moment
    blames: tuple[tuple[Credit, AnswerEvent], ...]

    @property
    def decision(self) -> Decision:
        return self.moment.decision

    @property
    def weight(self) -> float:
        return min(1.0, sum(credit.weight for credit, _ in self.blames))

    @cached_property
    def said(self) -> frozenset[str]:
        return self.reading.words[self.moment.place]

    @cached_property
    def shown(self) -> tuple[MemoryRecord, ...]:
        """What the decision saw of the bank."""
        found = map(self.reading.find_shown, self.decision.payload.get("candidates", ()))
        return tuple(record for record in found if record is not None)

    def mends(self, ops: Sequence[Op], bank: Collection[MemoryRecord]) -> bool:
        """Whether these operations, which lead to this bank, are not to blame as the logged ones were."""
        if any(credit.why == "lost" for credit, _ in self.blames) and destroys(ops, self.said):
            return False
        if self._invents(ops):
            return False
        wanted = [self.said - self.reading.question_words(event) for _, event in self.blames]
        if not all(wanted):  # the question says all of it: whether it is in the bank tells nothing
            return False
        if all(took_away(ops, value) for value in wanted):
            return True
        texts = [frozenset(terms(record.text)) for record in bank]
        held = all(any(value <= text for text in texts) for value in wanted)
        return held and not self._beside_older(bank)

    def _beside_older(self, bank: Collection[MemoryRecord]) -> bool:
        """Whether a memory on the same matter, which the decision saw, stands as it stood."""
        live = {(record.id, record.revision) for record in bank}
        return any(
            (one.id, one.revision) in live and self.reading.same_topic(self.said, one.text) for one in self.shown
        )

    def _invents(self, ops: Sequence[Op]) -> bool:
        heard = set(terms(self.moment.turn.text)).union(self.said, *(terms(one.text) for one in self.shown))
        written = [op.after.text for op in ops if op.after is not None and op.action != "noop"]
        return not heard.issuperset(word for text in written for word in terms(text))


def faults(episode: Trajectory, topics: Topics, embedder: Embedder) -> Iterator[Fault]:
    """One per decision of a user's log that is more blamed than praised, in its order."""
    reading = Crediting(episode, topics, embedder)
    events = {event.trace_id: event for event in episode.answers}
    credits = reading.run().credits
    worth = scores(credits)
    blames: dict[str, list[tuple[Credit, AnswerEvent]]] = {}
    for credit in credits:
        if credit.role == "manager" and credit.why in BLAME and worth[credit.decision_id].y < 0.5:
            blames.setdefault(credit.decision_id, []).append((credit, events[credit.trace_id]))
    for moment in reading.moments:
        given = blames.get(moment.decision.decision_id)
        if given and moment.is_fact:
            yield Fault(reading, moment, tuple(given))
