"""A user's talk as a list of moments: each fact that was drawn from a turn, with the decision that handled it.

Facts come from the logged replies of the extractor, read by the extractor's own parser; a turn of which nothing was
drawn is a moment of its own, handled by the extractor, and so is each part of a turn that a manager which chooses parts
left. Moments are searched with the runtime's scorer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memkit.errors import BadReply
from memkit.models import MemoryRecord, Turn
from memkit.retrieval import BankIndex, Query, Scored, embed_text, rank
from memkit.roles import Extractor, Fact
from memkit.seams.embedder import Embedder, embed_queries
from memkit_train.log.records import Decision, Trajectory, TurnLog


@dataclass(frozen=True, slots=True)
class Moment:
    place: int
    """Order in the talk."""
    intake: TurnLog
    text: str
    """The fact, or the turn's own words where nothing was drawn from it."""
    is_fact: bool
    turn: Turn
    decision: Decision
    part: tuple[int, ...] = ()
    """Where a part was left: which turn of the decision, from where to where."""


def moments(episode: Trajectory) -> list[Moment]:
    """Of turns that were decided and applied."""
    of_intake: dict[str, list[Decision]] = {}
    for decision in episode.decisions:
        if decision.intake_id is not None and decision.ok:
            of_intake.setdefault(decision.intake_id, []).append(decision)
    out: list[Moment] = []
    for log in episode.intakes:
        if log.status == "applied" and log.intake.infer:
            decisions = of_intake.get(log.intake.intake_id, [])
            parts = _left_parts(log, decisions)
            for text, turn, decision, part in parts:
                out.append(Moment(len(out), log, text, False, turn, decision, part))
            for text, is_fact, turn, decision in _of_intake(log, decisions):
                if is_fact or not parts:
                    out.append(Moment(len(out), log, text, is_fact, turn, decision))
    return out


def _left_parts(log: TurnLog, decisions: Sequence[Decision]) -> list[tuple[str, Turn, Decision, tuple[int, ...]]]:
    """The parts that were weighed by themselves and left."""
    out: list[tuple[str, Turn, Decision, tuple[int, ...]]] = []
    for decision in decisions:
        for one in choices_of(decision):
            if one["task"] == "clause" and one["option"] == "leave":
                number, start, end = one["place"]
                turn = log.turns[number - 1]
                out.append((turn.text[start:end], turn, decision, (number, start, end)))
    return out


def choices_of(decision: Decision) -> Sequence[Mapping[str, Any]]:
    """The choices of a manager that chooses; of one that writes, none."""
    return (decision.payload.get("extra") or {}).get("choices", ())


def listeners(episode: Trajectory) -> Iterator[tuple[Turn, Decision]]:
    """Each turn of the user, with the decision that should have drawn facts from it."""
    heard = {one.intake_id: one for one in episode.decisions if one.ok and one.role in ("extractor", "fused")}
    for log in episode.intakes:
        decision = heard.get(log.intake.intake_id)
        if log.status == "applied" and decision is not None:
            yield from ((turn, decision) for turn in log.turns if turn.role == "user")


def _of_intake(log: TurnLog, decisions: Sequence[Decision]) -> list[tuple[str, bool, Turn, Decision]]:
    turns = {turn.turn_id: turn for turn in log.turns}
    last = log.turns[-1]
    fused = [one for one in decisions if one.role == "fused"]
    if fused:
        texts = [draft["text"] for draft in fused[-1].payload["drafts"] if draft["text"]]
        return [(text, True, last, fused[-1]) for text in texts] or [(last.text, False, last, fused[-1])]
    extractors = [one for one in decisions if one.role == "extractor"]
    managers = [one for one in decisions if one.role == "manager"]
    if not extractors:
        return []
    facts = _facts(extractors[-1], log.turns)
    if not facts or len(facts) != len(managers):
        return [(turn.text, False, turn, extractors[-1]) for turn in log.turns if turn.role == "user"]
    return [
        (fact.text, True, turns.get(fact.source_turns[-1], last) if fact.source_turns else last, decision)
        for fact, decision in zip(facts, managers, strict=True)
    ]


def _facts(decision: Decision, turns: Sequence[Turn]) -> list[Fact]:
    role = Extractor("", decision.style)
    try:
        return role.parse(decision.reply or "", role.render(turns)).value
    except BadReply:
        return []


class MomentIndex:
    """The talk as a bank of its own, searched by the runtime's retrieval."""

    def __init__(self, found: Sequence[Moment], embedder: Embedder) -> None:
        self.moments, self._embedder = found, embedder
        self._records = [
            MemoryRecord(
                id=str(one.place),
                text=one.text,
                kind="fact" if one.is_fact else "episode",
                at=one.turn.at,
                speaker=one.turn.speaker,
                session_id=one.turn.session_id,
                seq=one.place + 1,
            )
            for one in found
        ]
        self._vectors = embedder.embed([embed_text(record) for record in self._records]) if found else None

    def search(self, text: str, now: datetime, upto: int) -> list[tuple[Moment, Scored]]:
        """The first `upto` moments, best first: later ones were not known when it was asked."""
        if not upto or self._vectors is None:
            return []
        index = BankIndex.build(self._records[:upto], self._vectors[:upto])
        (vector,) = embed_queries(self._embedder, [text])
        scored = rank(index, Query(text=text, vector=vector, k=upto, now=now))
        return [(self.moments[int(one.record.id)], one) for one in scored]
