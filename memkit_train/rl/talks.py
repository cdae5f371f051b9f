"""Conversations to play, with questions and the stretch of each conversation over which an answer holds.

    talks = of_world(generate(64, seed=1, knobs=Knobs(sessions=8, probes=8)))      a generated world
    talks = of_log(source, users, embedder)                                        what production logged

A question may be put to a bank only while its expected answer is the right one. A world knows from when to when that
is; of a log only so much is known that the answer was right when it was asked, and rests on turns said before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from memkit.seams.embedder import Embedder
from memkit_train.credit.questions import episode_probes
from memkit_train.credit.topics import Topics
from memkit_train.lab.worlds import Episode, Question, Truth, language, matches, policies
from memkit_train.lab.worlds.dataset import as_conversation
from memkit_train.log.source import TrajectorySource
from memkit_train.replay.script import Scene, Script, script_of
from memkit_train.rewards.base import Probed
from memkit_train.rewards.trial import HeldOut, held_out


@dataclass(frozen=True, slots=True)
class Timed:
    """A question, and after how many decided scenes its answer holds."""

    probe: Probed
    since: int
    until: int
    sessions: frozenset[str] = frozenset()
    """Where its evidence was said."""

    def holds(self, decided: int) -> bool:
        return self.since <= decided <= self.until

    def put(self, decided: int, script: Script) -> Probed:
        """The question as asked after so many scenes."""
        if decided == self.probe.after:
            return self.probe
        return replace(self.probe, after=decided, now=max(turn.at for turn in script.scenes[decided - 1].turns))


@dataclass(frozen=True, slots=True)
class Talk:
    """One bank's conversation."""

    user: str
    """Opaque subject id: who is learned from, or judged."""
    script: Script
    questions: tuple[Timed, ...]

    @property
    def name(self) -> str:
        """Of this bank alone, for keys and groups: a user may talk to several agents."""
        agent = self.script.bank.agent_id
        return f"{self.user}/{agent}" if agent else self.user

    @property
    def sessions(self) -> dict[str, range]:
        """Session → its scenes, in order."""
        found: dict[str, list[int]] = {}
        for at, scene in enumerate(self.script.scenes):
            found.setdefault(scene.session_id, []).append(at)
        return {name: range(at[0], at[-1] + 1) for name, at in found.items()}

    def held_out(self) -> HeldOut:
        """For validation: every question where it was asked."""
        return HeldOut(self.user, self.script, tuple(one.probe for one in self.questions))

    def first(self, sessions: int) -> Talk:
        """The conversation up to the end of its n-th session."""
        spans = list(self.sessions.values())
        if sessions >= len(spans):
            return self
        end = spans[sessions - 1].stop
        kept = [
            replace(one, until=min(one.until, end)) for one in self.questions if one.since <= end and _asked(one) <= end
        ]
        return Talk(self.user, Script(self.script.bank, self.script.scenes[:end]), tuple(kept))


def of_world(episodes: Sequence[Episode], *, chunks: int | None = None) -> list[Talk]:
    """The questions after each session and at the end; as-of questions are left out (they ask another bank). A scene is
    a turn, or one of `chunks` parts of a session."""
    truth = Truth(episodes)
    return [_of_episode(one, truth, chunks) for one in episodes]


def of_log(source: TrajectorySource, users: Sequence[str], topics: Topics, embedder: Embedder) -> Iterator[Talk]:
    """The banks of these users that something can be asked of. Topics are learned from users to train on."""
    for episode in source.trajectories(users):
        for one in held_out(episode, list(episode_probes(episode, topics, embedder))):
            if one.probes:
                yield Talk(one.user, one.script, tuple(_logged(probe, one.script) for probe in one.probes))


def _asked(question: Timed) -> int:
    assert question.probe.after is not None
    return question.probe.after


def _logged(probe: Probed, script: Script) -> Timed:
    after = len(script) if probe.after is None else probe.after
    told = set(probe.source_turns)
    scenes = [at for at, scene in enumerate(script.scenes[:after]) if told & {turn.turn_id for turn in scene.turns}]
    since = scenes[-1] + 1 if scenes else after
    sessions = frozenset(script.scenes[at].session_id for at in scenes)
    return Timed(replace(probe, after=after), since, after, sessions)


def _of_episode(episode: Episode, truth: Truth, chunks: int | None) -> Talk:
    script = _chunked(episode, chunks)
    scene_of = {turn.turn_id: at for at, scene in enumerate(script.scenes) for turn in scene.turns}
    heard = [turn for scene in script.scenes for turn in scene.turns]
    turns = dict(zip((turn.ref for turn in episode.turns), heard, strict=True))
    last = [scene_of[turns[session.turns[-1].ref].turn_id] + 1 for session in episode.sessions]
    asked: list[tuple[Question, int]] = [
        (question, end) for session, end in zip(episode.sessions, last, strict=True) for question in session.probes
    ]
    asked += [(question, len(script)) for question in episode.questions if question.as_of is None]
    history = [
        [_said(one) for turn in scene.turns for one in truth.meanings(turn.speaker, turn.text)]
        for scene in script.scenes
    ]
    found: list[Timed] = []
    for question, after in asked:
        sources = [turns[ref] for ref in question.evidence if ref in turns]
        probe = Probed(
            question.text,
            question.expected,
            question.asked_at,
            tuple(turn.turn_id for turn in sources),
            after,
            _tags(question),
            question.question_id,
        )
        since, until = _span(question, after, history)
        found.append(Timed(probe, since, until, frozenset(turn.session_id for turn in sources)))
    return Talk(episode.user_id, script, tuple(found))


def _chunked(episode: Episode, chunks: int | None) -> Script:
    """Memory-R2's K parts of a session, the last one shorter; None: turn by turn."""
    turns = [said.as_turn(episode.user_id) for said in as_conversation(episode).turns]
    scenes: list[Scene] = []
    for session in episode.sessions:
        mine = [turn for turn in turns if turn.session_id == session.session_id]
        size = 1 if chunks is None else -(-len(mine) // chunks)
        scenes += script_of(episode.user_id, mine, turns_per_add=size).scenes
    named = (replace(scene, intake_id=f"{episode.user_id}/{at}") for at, scene in enumerate(scenes))
    return Script(script_of(episode.user_id, turns[:1]).bank, tuple(named))


def _tags(question: Question) -> frozenset[str]:
    tags = {question.kind}
    if not question.answer:
        tags.add("abstain")
    if question.stale:
        tags.add("update")
    return frozenset(tags)


def _span(question: Question, after: int, history: Sequence[Sequence[language.Meaning]]) -> tuple[int, int]:
    """The longest stretch around `after` over which what was said gives the expected answer. Only turns about what is
    asked for can change it."""
    keys = {question.key, *([question.via] if question.via else [])}
    attributes = {"pets"} if question.kind in ("owner", "hop") else set[str]()
    moves = [
        at
        for at, meanings in enumerate(history)
        if any(one.key in keys or one.attribute in attributes or _ends_plan(one, keys) for one in meanings)
    ]

    def right(decided: int) -> bool:
        lines = [(at, history[at]) for at in moves if at < decided]
        return matches(question, policies.answer(question.text, lines)[0])

    since = next((at + 1 for at in reversed(moves) if at < after and not right(at)), 0)
    until = next((at for at in moves if at >= after and not right(at + 1)), len(history))
    return since, until


def _said(meaning: language.Meaning) -> language.Meaning:
    """In talk, "Ana has a dog" does not mean that she has no cat; a memory that says it would."""
    plain = meaning.attribute in language.MANY and meaning.mode == "plain"
    return replace(meaning, mode="also") if plain else meaning


def _ends_plan(meaning: language.Meaning, keys: Iterable[tuple[str, str]]) -> bool:
    return meaning.mode == "planned" and (meaning.subject, "plan") in keys
