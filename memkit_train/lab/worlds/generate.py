"""Months of somebody's life as dialogue with dated truth. `generate` is a pure function of its arguments."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from memkit_train.lab.worlds import language
from memkit_train.lab.worlds.language import MANY, MAX_VALUES, Meaning, Phrasebook
from memkit_train.lab.worlds.lexicon import Lexicon, NoWordLeft, Split
from memkit_train.lab.worlds.model import Episode, Knobs, Move, Question, Session, WorldTurn
from memkit_train.lab.worlds.questions import ask

_START = datetime(2024, 1, 8, 9, 0, tzinfo=UTC)
_LIFE = ("city", "job", "food", "pets", "hobbies")
_CORRECTABLE = ("city", "job", "food")
_REPLIES = ("I see.", "Got it.", "Thanks for telling me.", "Nice.")


def generate(count: int, *, seed: int = 0, knobs: Knobs | None = None, split: Split = "train") -> list[Episode]:
    """`count` episodes. Users, dialogues and (closed level) combinations or (open level) words of the two splits are
    disjoint; the n-th episode does not depend on `count`."""
    return [episode(index, seed=seed, knobs=knobs or Knobs(), split=split) for index in range(count)]


def stream(*, seed: int = 0, knobs: Knobs | None = None, split: Split = "train") -> Iterator[Episode]:
    index = 0
    while True:
        yield episode(index, seed=seed, knobs=knobs or Knobs(), split=split)
        index += 1


def episode(index: int, *, seed: int, knobs: Knobs, split: Split) -> Episode:
    name = f"{knobs.level}-{split}-{seed}-{index}"
    return _Story(name, knobs, split, random.Random(hashlib.sha256(name.encode()).hexdigest())).tell()


@dataclass(frozen=True, slots=True)
class Change:
    """One dated change of the truth: the values of `key` from `at` on."""

    at: datetime
    key: tuple[str, str]
    values: tuple[str, ...]
    ref: str


@dataclass
class History:
    """Everything that was ever true, in order."""

    changes: list[Change] = field(default_factory=list)
    now: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    sources: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """key → value → ref of the turn that set it; "" → ref of the turn that ended it."""
    past: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def set(self, key: tuple[str, str], values: tuple[str, ...], at: datetime, ref: str) -> None:
        before = self.now.get(key, ())
        sources = self.sources.setdefault(key, {})
        for value in values:
            if value not in before:
                sources[value] = ref
        gone = [value for value in before if value not in values]
        if gone:
            sources[""] = ref
            self.past.setdefault(key, []).extend(gone)
        if values:
            self.now[key] = values
        else:
            self.now.pop(key, None)
        self.changes.append(Change(at, key, values, ref))


class _Story:
    def __init__(self, name: str, knobs: Knobs, split: Split, rng: random.Random) -> None:
        self.name, self.knobs, self.rng = name, knobs, rng
        self.split: Split = split
        open_names = knobs.level == "open"
        self.words = Lexicon(open_names=open_names, split=split)
        self.book = Phrasebook(unseen=open_names and split == "heldout" and knobs.unseen_templates)
        self.people = self.words.people(rng, knobs.people)
        self.history = History()
        self.at = _START + timedelta(days=rng.randrange(300))

    def tell(self) -> Episode:
        sessions: list[Session] = []
        for number in range(1, self.knobs.sessions + 1):
            opened = self.at
            turns = tuple(self._session(number))
            probes = ask(
                self.history, self.people, self.book, self.rng, self.at, self.knobs.probes, f"{self.name}/p{number}"
            )
            sessions.append(Session(f"s{number}", opened, turns, probes))
            self.at = (self.at + timedelta(days=self.rng.randrange(3, 21))).replace(hour=9, minute=0)
        asked = sessions[-1].turns[-1].at + timedelta(days=1)
        questions = ask(
            self.history, self.people, self.book, self.rng, asked, self.knobs.questions, f"{self.name}/q", past=True
        )
        return Episode(
            self.name, self.split, self.knobs, tuple(self.people), tuple(sessions), questions, dict(self.history.now)
        )

    def _session(self, number: int) -> Iterator[WorldTurn]:
        count = self.knobs.turns + self.rng.randint(0, self.knobs.extra_turns)
        position = 0
        for _ in range(count):
            position += 1
            yield self._turn(f"s{number}:{position}")
            if self.knobs.replies:
                position += 1
                self.at += timedelta(minutes=1)
                reply = self.rng.choice(_REPLIES)
                yield WorldTurn(f"s{number}:{position}", "Assistant", reply, self.at, "smalltalk", role="assistant")

    def _turn(self, ref: str) -> WorldTurn:
        self.at += timedelta(minutes=self.rng.randint(1, 9))
        options = [(move, weight) for move, weight in self.knobs.rates.items() if weight > 0]
        while options:
            ((move, _),) = self.rng.choices(options, [weight for _, weight in options])
            try:
                made = self._moves[move](self, ref)
            except NoWordLeft:
                made = None
            if made is not None:
                return replace(made, move=move)
            options = [option for option in options if option[0] != move]
        return self._smalltalk(ref)

    # Each move returns a turn, or None where nothing in this life allows it just now.

    def _new(self, ref: str) -> WorldTurn | None:
        open_keys = [(s, a) for s in self.people for a in _LIFE if (s, a) not in self.history.now]
        if len(self.people) > 1 and not any(key[1] == "sister" for key in self.history.now):
            open_keys.append((self.people[0], "sister"))
        if not open_keys:
            return None
        subject, attribute = self.rng.choice(open_keys)
        value = self.people[1] if attribute == "sister" else self._fresh(subject, attribute)
        return self._tell(ref, Meaning(subject, attribute, (value,)), "state", (value,))

    def _change(self, ref: str) -> WorldTurn | None:
        known = self._known(("city", "job", "food", "plan"))
        if not known:
            return None
        subject, attribute = self.rng.choice(known)
        value = self._fresh(subject, attribute)
        move = "state" if self.rng.random() < 0.2 else "change"
        return self._tell(ref, Meaning(subject, attribute, (value,)), move, (value,))

    def _correct(self, ref: str) -> WorldTurn | None:
        known = self._known(_CORRECTABLE)
        if not known:
            return None
        subject, attribute = self.rng.choice(known)
        value = self._fresh(subject, attribute)
        others = [name for name in self.people if name != subject]
        speaker = self.rng.choice(others) if others else subject
        return self._tell(ref, Meaning(subject, attribute, (value,)), "correct", (value,), speaker=speaker)

    def _extend(self, ref: str) -> WorldTurn | None:
        known = [key for key in self._known(MANY) if len(self.history.now[key]) < MAX_VALUES]
        if not known:
            return None
        subject, attribute = self.rng.choice(known)
        value = self._fresh(subject, attribute)
        also = self.rng.random() < 0.6
        meaning = Meaning(subject, attribute, (value,), "also" if also else "plain")
        return self._tell(ref, meaning, "extend" if also else "state", (*self.history.now[subject, attribute], value))

    def _restate(self, ref: str) -> WorldTurn | None:
        known = self._known((*_LIFE, "plan"))
        if not known:
            return None
        subject, attribute = self.rng.choice(known)
        values = self.history.now[subject, attribute]
        return self._tell(ref, Meaning(subject, attribute, (self.rng.choice(values),)), "state", values)

    def _retract(self, ref: str) -> WorldTurn | None:
        known = self._known((*_LIFE, "plan"))
        if not known:
            return None
        subject, attribute = self.rng.choice(known)
        values = self.history.now[subject, attribute]
        gone = self.rng.choice(values)
        left = tuple(value for value in values if value != gone)
        return self._tell(ref, Meaning(subject, attribute, (gone,), "gone"), "gone", left)

    def _plan(self, ref: str) -> WorldTurn | None:
        free = [name for name in self.people if (name, "plan") not in self.history.now]
        if not free:
            return None
        subject = self.rng.choice(free)
        value = self._fresh(subject, "plan")
        return self._tell(ref, Meaning(subject, "plan", (value,)), "state", (value,))

    def _happened(self, ref: str) -> WorldTurn | None:
        known = self._known(("plan",))
        if not known:
            return None
        subject, _ = self.rng.choice(known)
        plan = self.history.now[subject, "plan"][0]
        attribute, value = (
            ("city", plan.removeprefix("move to "))
            if plan.startswith("move to ")
            else ("job", plan.removeprefix("work as a "))
        )
        self.history.set((subject, "plan"), (), self.at, ref)
        # Said by the planner: "the move" has no other owner.
        return self._tell(ref, Meaning(subject, attribute, (value,), "planned"), "happened", (value,), speaker=subject)

    def _soft(self, ref: str) -> WorldTurn:
        subject = self.rng.choice(self.people)
        attribute = self.rng.choice(_LIFE)
        said, fact = self.book.soft(self.rng, attribute)
        value = self._fresh(subject, attribute)
        speaker = self._speaker(subject)
        text = self._open(language.utter(said, subject, speaker, value), value)
        return WorldTurn(ref, speaker, text, self.at, "soft", (language.utter(fact, subject, "", value),))

    def _smalltalk(self, ref: str) -> WorldTurn:
        return WorldTurn(ref, self.rng.choice(self.people), self.book.smalltalk(self.rng), self.at, "smalltalk")

    _moves: dict[str, Callable[..., WorldTurn | None]] = {  # noqa: RUF012 - a constant table of methods
        "new": _new,
        "change": _change,
        "correct": _correct,
        "extend": _extend,
        "restate": _restate,
        "retract": _retract,
        "plan": _plan,
        "happened": _happened,
        "soft": _soft,
        "smalltalk": _smalltalk,
    }

    def _tell(
        self, ref: str, meaning: Meaning, template: str, values: tuple[str, ...], speaker: str | None = None
    ) -> WorldTurn:
        """The turn that says `meaning`, after which `values` are true."""
        old = next(iter(self.history.now.get(meaning.key, ())), "")
        self.history.set(meaning.key, values, self.at, ref)
        speaker = speaker or self._speaker(meaning.subject)
        said = self.book.phrase(self.rng, meaning.attribute, template)
        text = self._open(language.utter(said, meaning.subject, speaker, meaning.values[0], old), meaning.values[0])
        return WorldTurn(ref, speaker, text, self.at, "new", (language.write(meaning),))

    def _open(self, sentence: str, value: str) -> str:
        proper = (*self.people, *(f"{name}'s" for name in self.people), value)
        return language.open_with(self.book.opener(self.rng), sentence, proper)

    def _speaker(self, subject: str) -> str:
        """People mostly speak of themselves, sometimes of each other."""
        return subject if self.rng.random() < 0.7 else self.rng.choice(self.people)

    def _known(self, attributes: tuple[str, ...] | frozenset[str]) -> list[tuple[str, str]]:
        return [key for key in self.history.now if key[1] in attributes]

    def _fresh(self, subject: str, attribute: str) -> str:
        """A value that `subject` has not and did not just have. A pet has one owner: "who has" needs one answer."""
        own = (subject, attribute)
        used = [*self.history.now.get(own, ()), *self.history.past.get(own, ())[-2:]]
        if attribute == "pets":
            used += [value for key, values in self.history.now.items() if key[1] == "pets" for value in values]
        return self.words.value(self.rng, attribute, subject, used)


__all__ = ["Change", "History", "Move", "Question", "episode", "generate", "stream"]
