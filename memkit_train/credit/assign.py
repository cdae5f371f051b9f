"""From a label on an answer to the decisions that earned it. No gold: only what the log holds.

    y high   the decisions that wrote what was cited, and the decision on the last relevant moment (NOOPs too)
    y low    what that last relevant moment said …
               … was served, and the answer passed over it                 → a row for the answerer; where the app
                                                                             answered, from an older memory that the
                                                                             decision saw and let stand, blame that
               … never came into the bank, or cost the bank what it knew   → blame that decision
               … is in the bank, but was not served                        → a row for the ranker
               … was served, and the answer is wrong all the same          → a row for the answerer
             no relevant moment                                            → dropped, and counted

Words that were served as they were said count as the facts drawn from them (words.py).

Blaming the writer of what was cited would be wrong more often than right: the usual fault is a later turn that failed
to update it. Relevance is the runtime's own retrieval over the moments of the talk (moments.py), narrowed to those that
say all that the question asks about (topics.py).

Answers seldom reward a NOOP, so decisions credited in this way alone would teach a manager to store everything. `guard`
adds decisions that left duplicates and chit-chat alone. What is credited is described by marks, from which
`label_noise.py` tells whose good labels are better not imitated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from memkit.embedders import make_embedder
from memkit.models import Bank, MemoryRecord, Op
from memkit.retrieval import BankIndex, Query, embed_text, rank
from memkit.seams.embedder import Embedder, embed_queries
from memkit.text.words import terms
from memkit_train.credit.label_noise import marks
from memkit_train.credit.labels import labels
from memkit_train.credit.moments import Moment, MomentIndex, listeners, moments
from memkit_train.credit.topics import Topics
from memkit_train.credit.words import as_facts, without_fact, words_served
from memkit_train.log.records import AnswerEvent, Credit, Decision, Label, RankerRow, Served, Trajectory
from memkit_train.log.source import TrajectorySource

CANDIDATES = 30
"""Moments that retrieval may propose per question."""
GUARD_WEIGHT = 0.3
RARE = 0.1
"""Share of the moments that may have a word for it to count as somebody's value."""
ALIKE = 0.5
"""Share of a cited memory's words that a moment must have to be about the same."""


@dataclass(slots=True)
class Credited:
    """What the labels of one or many users came to."""

    credits: list[Credit] = field(default_factory=list[Credit])
    ranker: list[RankerRow] = field(default_factory=list[RankerRow])
    dropped: Counter[str] = field(default_factory=Counter[str])
    """Labels that led nowhere, by reason."""
    marks: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By decision: what it was like (label_noise.py). Of decisions about a fact alone."""

    def extend(self, other: Credited) -> None:
        self.credits += other.credits
        self.ranker += other.ranker
        self.dropped += other.dropped


def learn_topics(source: TrajectorySource, users: Sequence[str] | None = None) -> Topics:
    """One pass over the log, one user at a time."""
    topics = Topics()
    for episode in source.trajectories(users):
        texts = revisions(episode.ops)
        topics.learn((event, [texts[key].text for key in event.cited if key in texts]) for event in episode.answers)
    return topics


def assign(
    source: TrajectorySource,
    users: Sequence[str] | None = None,
    *,
    topics: Topics | None = None,
    embedder: Embedder | None = None,
) -> Iterator[tuple[Trajectory, Credited]]:
    """Credit for every user, one at a time."""
    topics = topics or learn_topics(source, users)
    embedder = embedder or make_embedder("hash")
    for episode in source.trajectories(users):
        yield episode, credit(episode, topics, embedder)


def credit(episode: Trajectory, topics: Topics, embedder: Embedder) -> Credited:
    return Crediting(episode, topics, embedder).run()


def revisions(ops: Iterable[Op]) -> dict[tuple[str, int], MemoryRecord]:
    return {(op.after.id, op.after.revision): op.after for op in ops if op.after is not None}


class Crediting:
    def __init__(self, episode: Trajectory, topics: Topics, embedder: Embedder) -> None:
        self.episode, self.topics, self.embedder = episode, topics, embedder
        self.texts = revisions(episode.ops)
        self.writers = {
            (op.after.id, op.after.revision): op
            for op in episode.ops
            if op.after is not None and op.after.seq == op.seq and op.cause == "decision"
        }
        self.by_id = {one.decision_id: one for one in episode.decisions}
        self.ops: dict[str, list[Op]] = {}
        for op in episode.ops:
            self.ops.setdefault(op.decision_id, []).append(op)
        self.moments = moments(episode)
        self.words = [frozenset(terms(one.text)) for one in self.moments]
        self.index = MomentIndex(self.moments, embedder)
        self.people = {word for one in self.moments for word in terms(one.turn.speaker)}
        self.moment_of = {one.decision.decision_id: one for one in self.moments}
        self.common = Counter(word for words in self.words for word in words)
        self.heard = {turn.turn_id: decision for turn, decision in listeners(episode)}
        self.said = {turn.turn_id: turn.text for log in episode.intakes for turn in log.turns}
        self.out = Credited()

    def run(self) -> Credited:
        events = {event.trace_id: event for event in self.episode.answers}
        for label in labels(self.episode):
            logged = events[label.trace_id]
            event = as_facts(logged, self._known(logged), self.texts)
            if label.y >= 0.5:
                self._earned(event, label, logged)
            else:
                self._blamed(event, label)
        self.out.marks = {
            one.decision_id: self._marks(one.decision_id)
            for one in self.out.credits
            if one.decision_id in self.moment_of and self.moment_of[one.decision_id].is_fact
        }
        self.out.credits += guard(self.moments, self.texts, self.out.credits, self.episode.subject)
        return self.out

    def _marks(self, decision_id: str) -> frozenset[str]:
        moment = self.moment_of[decision_id]
        shown = [self.find_shown(one) for one in moment.decision.payload.get("candidates", ())]
        return marks(moment.text, self.ops.get(decision_id, []), [one.text for one in shown if one is not None])

    def find_shown(self, candidate: Mapping[str, Any]) -> MemoryRecord | None:
        return self.texts.get((candidate["id"], candidate["revision"]))

    # -- good answers ------------------------------------------------------------------------------------------

    def _earned(self, event: AnswerEvent, label: Label, logged: AnswerEvent) -> None:
        found: dict[str, tuple[Decision, str]] = {}
        heard = words_served(logged, self.texts)
        for key in event.cited:
            op = self.writers.get(key)
            if op is not None and (decision := self.by_id.get(op.decision_id)) is not None:
                found[decision.decision_id] = (decision, "cited")
        last = self.last_relevant(event)
        part = () if last is None else last.part
        if last is not None:
            found.setdefault(last.decision.decision_id, (last.decision, "relevant"))
        for decision, why in found.values():
            if self._put_to_the_test(decision, event, heard):
                self._give(decision, label, why, part if why == "relevant" else ())
            else:
                self.out.dropped["right in spite of the decision, perhaps"] += 1
        self._missed(logged, label)
        self._answered(event, label, "answered")
        if logged.cited:
            cited = tuple(memory_id for memory_id, _ in logged.cited)
            self.out.ranker.append(
                RankerRow(self.episode.subject, logged.served, cited, label.weight, "cited", event.trace_id)
            )

    def _missed(self, logged: AnswerEvent, label: Label) -> None:
        """A good answer had to take from somebody's own words what should have been a fact."""
        for turn in without_fact(logged, self.texts.values(), self.texts):
            decision = self.heard.get(turn)
            if decision is not None:
                self._give(decision, replace(label, y=0.0), "missed")

    def _put_to_the_test(self, decision: Decision, event: AnswerEvent, heard: Set[str]) -> bool:
        """Whether a good answer speaks for the decision. It does not where the answer was served the turn's own words
        (`heard`) and used no fact that was drawn from them, or had to pass over what the decision wrote; where the
        decision let an older memory on the same matter stand, so that the answerer had to make sense of both; nor where
        it destroyed something that the question, which names what was said itself, does not ask for."""
        moment = self.moment_of.get(decision.decision_id)
        if moment is not None and moment.turn.turn_id in heard - self._sources(event.cited):
            return False
        if moment is None or not moment.is_fact:
            return True
        done, words = self.ops.get(decision.decision_id, []), self.words[moment.place]
        served = {one.memory_id for one in event.served}
        if _passed_over(done, event):
            return False
        if any(op.action in ("add", "update") for op in done) and self._left_standing(decision, words, event, served):
            return False
        named = words & set(terms(event.question)) - self.people
        return not (named and self._value(words) <= named and destroys(done, words))

    def _sources(self, keys: Iterable[tuple[str, int]]) -> set[str]:
        """The turns that these memories were drawn from."""
        return {turn for key in keys if key in self.texts for turn in self.texts[key].source_turns}

    def _left_standing(
        self, decision: Decision, words: Collection[str], event: AnswerEvent, served: Collection[str]
    ) -> bool:
        known = {record.id: record for record in self._known(event) if record.id in served}
        for one in decision.payload.get("candidates", ()):
            record = self.find_shown(one)
            if record is not None and known.get(one["id"]) == record and self.same_topic(words, record.text):
                return True
        return False

    def _value(self, words: Collection[str]) -> set[str]:
        """The words of a moment that other moments of the talk seldom have: what is said, not what it is about."""
        return {word for word in words if self.common[word] <= RARE * len(self.moments) and word not in self.people}

    def _give(self, decision: Decision, label: Label, why: str, at: tuple[int, ...] = ()) -> None:
        user = self.episode.subject
        self.out.credits.append(
            Credit(decision.decision_id, decision.role, label.y, label.weight, why, label.trace_id, user, at)
        )

    def _answered(self, event: AnswerEvent, label: Label, why: str) -> None:
        decision = self.by_id.get(event.decision_id or "")
        if decision is not None:
            self._give(decision, label, why)

    # -- bad answers -------------------------------------------------------------------------------------------

    def _blamed(self, event: AnswerEvent, label: Label) -> None:
        wanted = self._wanted(event, label)
        last = self.last_relevant(event, wanted)
        if last is None:
            self.out.dropped["no relevant turn"] += 1
            return
        said = self.words[last.place] - self.question_words(event)
        if wanted and wanted <= said:
            said = wanted
        done = [] if last.part else self.ops.get(last.decision.decision_id, [])
        if _passed_over(done, event) and _stands(done, event):
            self._misread(event, label, last)
            return
        if destroys(done, self.words[last.place]):
            self._give(last.decision, label, "lost")
            return
        known = [record for record in self._known(event) if record.kind != "turn"]
        holders = [record for record in known if said <= set(terms(record.text))]
        if not holders and not took_away(done, said):
            self._give(last.decision, label, "missed", last.part)
        elif holders and not {record.id for record in holders} & {one.memory_id for one in event.served}:
            if self._stale(event, last):
                self._misread(event, label, last)
                return
            wanted = tuple(record.id for record in holders)
            candidates = self._ranked(event, wanted)
            self.out.ranker.append(
                RankerRow(self.episode.subject, candidates, wanted, label.weight, "not served", event.trace_id)
            )
        else:
            self._misread(event, label, last)

    def _misread(self, event: AnswerEvent, label: Label, last: Moment) -> None:
        if event.decision_id in self.by_id:
            self._answered(event, label, "answered")
        elif stale := self._stale(event, last):
            self._give(last.decision, label, "stale", stale)
        else:
            self.out.dropped["answered by the app"] += 1

    def _stale(self, event: AnswerEvent, last: Moment) -> tuple[int, ...]:
        """The older memory that the decision on what was said last saw and let stand, where the app answered from it:
        (fact, handle)."""
        if event.decision_id in self.by_id or not last.is_fact:
            return ()
        for one in last.decision.payload.get("candidates", ()):
            if (one["id"], one["revision"]) in event.cited:
                return (1, one["handle"])
        return ()

    def _wanted(self, event: AnswerEvent, label: Label) -> frozenset[str]:
        """What the right answer says beyond the question, where the user told it."""
        told = [one.payload.get("expected") for one in self.episode.feedback.get(event.trace_id, ())]
        text = next((str(one) for one in reversed(told) if one is not None), self.said.get(label.said_in, ""))
        return frozenset(terms(text)) - self.question_words(event)

    def question_words(self, event: AnswerEvent) -> set[str]:
        return {other for word in terms(event.question) for other in self.topics.stands_for(word)}

    def _known(self, event: AnswerEvent) -> list[MemoryRecord]:
        """The bank's memories when it was asked."""
        live: dict[str, MemoryRecord] = {}
        for op in self.episode.ops:
            if op.seq > event.state_seq or not _within(op, event.as_of) or not _read(op.bank, event):
                continue
            if op.after is not None:
                live[op.after.id] = op.after
            elif op.before is not None:
                live.pop(op.before.id, None)
        return list(live.values())

    def _ranked(self, event: AnswerEvent, wanted: Collection[str]) -> tuple[Served, ...]:
        """What was served and what should have been, with their signals: the log has those of the former alone, so all
        are computed again, by the runtime's scorer over the bank as it was."""
        known = self._known(event)
        texts = [embed_text(record) for record in known]
        (asked,) = embed_queries(self.embedder, [event.question])
        index = BankIndex.build(known, self.embedder.embed(texts))
        among = {one.memory_id for one in event.served} | set(wanted)
        scored = rank(index, Query(text=event.question, vector=asked, k=len(known), now=event.at))
        return tuple(
            Served(one.record.id, one.record.revision, place, one.score, dict(one.signals))
            for place, one in enumerate(scored, start=1)
            if one.record.id in among
        )

    # -- relevance ---------------------------------------------------------------------------------------------

    def last_relevant(self, event: AnswerEvent, wanted: Collection[str] = ()) -> Moment | None:
        """Of the moments of the bank that was read, those that were known when it was asked. `wanted`: what the right
        answer says; the last that says it all goes before those that the question alone finds."""
        upto = sum(one.decision.created_at <= event.at for one in self.moments)
        if wanted:
            told = [one for one in self.moments[:upto] if self.words[one.place].issuperset(wanted)]
            if told := [one for one in told if _read(one.decision.bank, event)]:
                return told[-1]
        found = [
            moment
            for moment in self._near(event.question, event, upto)
            if self.topics.covers(self.words[moment.place], event.question)
        ]
        for key in event.cited if not found else ():
            record = self.texts.get(key)
            if record is not None:
                found += [
                    moment
                    for moment in self._near(record.text, event, upto)
                    if self.same_topic(self.words[moment.place], record.text)
                ]
        admitted = [one for one in found if not isinstance(event.as_of, datetime) or one.turn.at <= event.as_of]
        return max(admitted, key=lambda one: one.place, default=None)

    def _near(self, text: str, event: AnswerEvent, upto: int) -> list[Moment]:
        ranked = self.index.search(text, event.at, upto)
        return [moment for moment, _ in ranked if _read(moment.decision.bank, event)][:CANDIDATES]

    def same_topic(self, words: Collection[str], text: str) -> bool:
        """Of the same people, and with half of the words."""
        own = set(terms(text))
        if own & self.people != self.people.intersection(words):
            return False
        return len(own.intersection(words)) >= ALIKE * len(own)


def _read(bank: Bank, event: AnswerEvent) -> bool:
    """Whether the answer could be served from it: it read one agent's bank, or all of the user's."""
    return not event.bank.agent_id or bank == event.bank


def _within(op: Op, as_of: int | datetime | None) -> bool:
    if as_of is None:
        return True
    return op.seq <= as_of if isinstance(as_of, int) else op.at <= as_of


def _passed_over(done: Sequence[Op], event: AnswerEvent) -> bool:
    """Whether the answer was served a memory that these ops wrote, and used nothing that they wrote."""
    written = _written(done)
    served = {one.memory_id for one in event.served}
    return any(memory_id in served for memory_id, _ in written) and written.isdisjoint(event.cited)


def _stands(done: Sequence[Op], event: AnswerEvent) -> bool:
    """Whether what these ops wrote was served as they wrote it: no later update had replaced it."""
    return not _written(done).isdisjoint((one.memory_id, one.revision) for one in event.served)


def _written(done: Sequence[Op]) -> set[tuple[str, int]]:
    return {(op.after.id, op.after.revision) for op in done if op.after is not None and op.action != "noop"}


def destroys(done: Sequence[Op], said: Collection[str]) -> bool:
    """Whether the ops destroyed words that the moment itself does not say."""
    for op in done:
        if op.before is None or op.action not in ("update", "delete"):
            continue
        lost = set(terms(op.before.text)) - (set(terms(op.after.text)) if op.after else set())
        if lost - set(said):
            return True
    return False


def took_away(done: Sequence[Op], said: Collection[str]) -> bool:
    """Whether the ops removed what the moment speaks of: then its absence is the value."""
    for op in done:
        if op.before is not None and op.action in ("update", "delete"):
            lost = set(terms(op.before.text)) - (set(terms(op.after.text)) if op.after else set())
            if lost & set(said):
                return True
    return False


# -- the bias guard ----------------------------------------------------------------------------------------------------


def guard(
    found: Sequence[Moment], texts: dict[tuple[str, int], MemoryRecord], given: Sequence[Credit], subject: str
) -> list[Credit]:
    """NOOPs on what a shown memory says already, and replies that drew nothing from a turn like nothing else."""
    spoken_for = {one.decision_id for one in given}
    out: list[Credit] = []
    for moment in found:
        decision = moment.decision
        if decision.decision_id in spoken_for:
            continue
        why = _left_alone(moment, decision, texts)
        if why:
            spoken_for.add(decision.decision_id)
            out.append(Credit(decision.decision_id, decision.role, 1.0, GUARD_WEIGHT, why, "", subject))
    return out


def _left_alone(moment: Moment, decision: Decision, texts: dict[tuple[str, int], MemoryRecord]) -> str:
    drafts = decision.payload.get("drafts", ())
    if any(draft["action"] != "noop" for draft in drafts):
        return ""
    if decision.role == "extractor":
        return "" if moment.is_fact else "chitchat"
    said = set(terms(moment.text))
    shown = [texts.get((one["id"], one["revision"])) for one in decision.payload.get("candidates", ())]
    near = [set(terms(record.text)) for record in shown if record is not None]
    if any(said <= words for words in near):
        return "duplicate"
    alike = max((len(said & words) / max(1, len(said)) for words in near), default=0.0)
    return "chitchat" if alike < ALIKE else ""
