"""From a user's log to choices with what they should have been, as far as labels reach them.

    a good answer used the fact      as it was chosen: the parts that were kept, and what the fact was to each memory
    … was missed, a part was left    keep that part
    … was lost                       what the fact was said to replace or to end has nothing to do with it
    … came from an older memory      the fact replaces that memory
    bias guard                       as it was chosen

Several labels on one choice are votes. What no label reaches is an anchor: there the new manager should choose as the
one did that it begins from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from memkit.backbones._rules_manage import KnownMemory, decide
from memkit.backbones.small.pairs import clause_pair, relation_pair
from memkit.backbones.small.shape import OPTIONS
from memkit.text.words import terms
from memkit_train.credit.assign import Crediting
from memkit_train.credit.moments import choices_of
from memkit_train.log.records import Credit, Decision
from memkit_train.rows import ChoiceRow

Place = tuple[int, ...]
_HELD = 0.7
"""Share of a part's words that a fact drawn from it has."""
_GUARD = 0.3
"""What the bias guard weighs here: it holds what anchors hold already, and there is more of it than of labels."""
_CHANGES = ("adds", "replaces", "ends")


class LoggedChoices:
    """The choices of one user's log, by decision and place. `label` is the option that was taken."""

    def __init__(self, reading: Crediting, now: int) -> None:
        self._reading, self._now = reading, now
        self._facts = {one.decision.decision_id: one.text for one in reading.moments if one.is_fact}
        self._turns = {turn.turn_id: turn for log in reading.episode.intakes for turn in log.turns}
        self.rows: dict[str, dict[Place, ChoiceRow]] = {}
        for decision in reading.by_id.values():
            if decision.ok and (found := dict(self._of(decision))):
                self.rows[decision.decision_id] = found

    def _of(self, decision: Decision) -> Iterator[tuple[Place, ChoiceRow]]:
        for one in choices_of(decision):
            row = self._clause(decision, one) if one["task"] == "clause" else self._relation(decision, one)
            if row is not None:
                yield tuple(one["place"]), row

    def _clause(self, decision: Decision, one: Mapping[str, Any]) -> ChoiceRow | None:
        number, start, end = one["place"]
        turn = self._turns.get(decision.source_turns[number - 1]) if number <= len(decision.source_turns) else None
        if turn is None or not turn.text[start:end]:
            return None  # its words were not kept
        return self._row(decision, one, ChoiceRow.of(clause_pair(turn, start, end), 0))

    def _relation(self, decision: Decision, one: Mapping[str, Any]) -> ChoiceRow | None:
        fact = self._facts.get(decision.decision_id)
        shown = {each["handle"]: self._reading.find_shown(each) for each in decision.payload.get("candidates", ())}
        memory = shown.get(one["place"][1])
        if fact is None or memory is None:
            return None
        ruled = decide(fact, [KnownMemory(one["place"][1], memory.text, True, memory.seq)])
        return self._row(decision, one, ChoiceRow.of(relation_pair(memory.text, fact, ruled), 0))

    def _row(self, decision: Decision, one: Mapping[str, Any], row: ChoiceRow) -> ChoiceRow:
        taken = OPTIONS[row.task].index(one["option"])
        return replace(
            row,
            label=taken,
            taken=taken,
            user=self._reading.episode.subject,
            ref=decision.decision_id,
            age_days=decision.age_days(self._now),
        )

    # ---- what labels say of them -----------------------------------------------------------------------------------

    def teach(self, credits: Iterable[Credit]) -> tuple[list[ChoiceRow], list[ChoiceRow]]:
        """Choices that labels reached, with votes for what they should have been; and the others."""
        votes: dict[tuple[str, Place], dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for credit in credits:
            weight = credit.weight * (_GUARD if credit.why in ("chitchat", "duplicate") else 1.0)
            for ref, place, option in self._meant(credit):
                votes[ref, place][option] += weight
        rows: list[ChoiceRow] = []
        others: list[ChoiceRow] = []
        for ref, choices in self.rows.items():
            for place, row in choices.items():
                if found := votes.get((ref, place)):
                    rows.append(_voted(row, found))
                else:
                    others.append(row)
        return rows, others

    def _meant(self, credit: Credit) -> Iterator[tuple[str, Place, int]]:
        """What a label says of single choices: (decision, place, the option that would have been right)."""
        own = self.rows.get(credit.decision_id, {})
        if credit.y >= 0.5:
            spoken_of = {credit.at: own[credit.at]} if credit.at in own else own
            for place, row in spoken_of.items():
                if not _is_other(row, credit):
                    yield credit.decision_id, place, row.taken
            if credit.role == "manager":
                yield from self._drawn_from(credit.decision_id)
            return
        for place, row in own.items():
            option = OPTIONS[row.task][row.taken]
            if credit.why == "missed" and row.task == "clause" and place == credit.at and option == "leave":
                yield credit.decision_id, place, OPTIONS["clause"].index("keep")
            elif credit.why == "stale" and place == credit.at:
                yield credit.decision_id, place, OPTIONS["relation"].index("replaces")
            elif (credit.why == "missed" and option == "same") or (credit.why == "lost" and option in _CHANGES):
                yield credit.decision_id, place, OPTIONS["relation"].index("unrelated")

    def _drawn_from(self, manager: str) -> Iterator[tuple[str, Place, int]]:
        """The kept parts that a fact was drawn from."""
        moment = self._reading.moment_of.get(manager)
        fact = set(terms(self._facts.get(manager, "")))
        if moment is None or not fact:
            return
        for ref, choices in self.rows.items():
            if self._reading.by_id[ref].intake_id != moment.intake.intake.intake_id:
                continue
            for place, row in choices.items():
                said = set(terms(row.second))
                if row.task == "clause" and row.taken and said and len(said & fact) >= _HELD * len(said):
                    yield ref, place, row.taken


def _is_other(row: ChoiceRow, credit: Credit) -> bool:
    """The bias guard speaks of what was left alone; of what was kept in the same turn it says nothing."""
    return credit.why == "chitchat" and row.task == "clause" and row.taken > 0


def _voted(row: ChoiceRow, votes: dict[int, float]) -> ChoiceRow:
    total = sum(votes.values())
    target = [votes.get(at, 0.0) / total for at in range(len(OPTIONS[row.task]))]
    return replace(row, label=max(votes, key=votes.__getitem__), weight=min(1.0, total), reward=1.0, target=target)
