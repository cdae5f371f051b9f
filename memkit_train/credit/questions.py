"""Questions whose answers the log knows, to be asked again of any bank of the same user: the only source of RL
rewards, and of the gate's held-out set.

    expected     the caller said what the answer should have been
    correction   the user did: "No. Ana lives in Oslo." leaves "Oslo" once the question's own words are taken away
    confirmed    an answer that was rated good; ratings err, so it weighs less
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memkit.embedders import make_embedder
from memkit.seams.embedder import Embedder
from memkit.text.stems import stem
from memkit.text.words import fold, terms
from memkit_train.credit.assign import Crediting
from memkit_train.credit.labels import labels
from memkit_train.credit.topics import Topics
from memkit_train.log.records import AnswerEvent, Label, LoggedQuestion, Source, Trajectory
from memkit_train.log.source import TrajectorySource

CONFIRMED_WEIGHT = 0.7
ENOUGH, ENOUGH_USERS = 200, 30


def probes(
    source: TrajectorySource, topics: Topics, users: Sequence[str] | None = None, *, embedder: Embedder | None = None
) -> Iterator[LoggedQuestion]:
    embedder = embedder or make_embedder("hash")
    for episode in source.trajectories(users):
        yield from episode_probes(episode, topics, embedder)


def episode_probes(episode: Trajectory, topics: Topics, embedder: Embedder) -> Iterator[LoggedQuestion]:
    """At most one per answer."""
    reading = Crediting(episode, topics, embedder)
    events = {event.trace_id: event for event in episode.answers}
    for label in labels(episode):
        event = events[label.trace_id]
        found = _expected(episode, reading, event, label)
        if found is None:
            continue
        expected, source, weight = found
        last = reading.last_relevant(event)
        turns = [last.turn.turn_id] if last else []
        turns += [turn for key in event.cited if key in reading.texts for turn in reading.texts[key].source_turns]
        yield LoggedQuestion(
            user=episode.subject,
            user_id=episode.user_id,
            bank=event.bank,
            as_of=event.state_seq,
            at=event.at,
            question=event.question,
            expected=expected,
            source=source,
            source_turns=tuple(dict.fromkeys(turns)),
            trace_id=event.trace_id,
            weight=weight,
            kinds=event.kinds,
        )


def _expected(
    episode: Trajectory, reading: Crediting, event: AnswerEvent, label: Label
) -> tuple[str, Source, float] | None:
    told = [one.payload.get("expected") for one in episode.feedback.get(event.trace_id, ())]
    if given := [one for one in told if one is not None]:
        return str(given[-1]), "expected", 1.0
    if label.said_in and label.y < 0.5:
        said = [one.text for one in reading.moments if one.turn.turn_id == label.said_in and one.is_fact]
        text = said[-1] if said else reading.said.get(label.said_in, "")
        value = without_question(text, event.question, reading.topics)
        return (value, "correction", 1.0) if value else None
    if label.y >= 0.99 and label.source in ("reward", "thumb"):
        return ("unknown" if event.abstained else event.answer), "confirmed", CONFIRMED_WEIGHT
    return None


def without_question(text: str, question: str, topics: Topics) -> str:
    """What a sentence says beyond the question: its words without those asked for, trimmed of small words."""
    asked = {other for word in terms(question) for other in topics.stands_for(word)}
    kept = [word for word in text.rstrip(" .!").split() if stem(fold(word.strip(",.;:!?\"'"))) not in asked]
    while kept and not terms(kept[0]):
        kept.pop(0)
    while kept and not terms(kept[-1]):
        kept.pop()
    return " ".join(kept)


def too_few(found: Sequence[LoggedQuestion]) -> str:
    """Why no verdict can rest on these probes; "" where one can."""
    users = len({one.user for one in found})
    if len(found) >= ENOUGH and users >= ENOUGH_USERS:
        return ""
    return f"{len(found)} probes of {users} users; a verdict needs {ENOUGH} of {ENOUGH_USERS}"
