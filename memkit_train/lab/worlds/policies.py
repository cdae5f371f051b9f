"""Backbones that know the world: the oracle, and the teacher whose habits the biased model imitates.

They read `prompt.view` and reply in the compact grammars, so they take the path of any model: rendered, parsed,
checked, applied, logged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from memkit.roles import Shown
from memkit.seams.backbone import GenReply, GenRequest, Replies, Usage
from memkit_train.lab.worlds import language
from memkit_train.lab.worlds.language import MANY, Meaning
from memkit_train.lab.worlds.model import Episode

HABITS: Mapping[str, float] = {
    "new": 0.97,
    "change": 0.5,
    "extend": 0.35,
    "restate": 0.6,
    "retract": 0.4,
    "happened": 0.5,
    "soft": 0.5,
    "plan": 0.97,
}
"""How often the teacher does the right thing; else it does what `imperfect` says. `shorten` is the retraction of one of
several, which rewrites a memory where others delete it; unsaid, it is as `retract`."""


def manage(fact: str, shown: Sequence[tuple[int, str]]) -> list[str]:
    """The right operations, one per line, for one fact and the shown memories (handle, text). At most one memory is
    written and one leftover removed per decision: more could run into the guard's limit on what one batch may lose."""
    said = language.read(fact)
    if said is None:
        return ["NOOP"]
    meanings = [(handle, language.read(text)) for handle, text in shown]
    same = [(handle, known) for handle, known in meanings if known is not None and known.key == said.key]
    same = [(handle, known) for handle, known in same if known.mode != "gone"]
    if said.mode == "gone":
        return _retract(said, same)
    values = said.values
    if said.attribute in MANY:
        values = _union([known.values for _, known in same], said.values)
    lines = _write(said, values, same)
    if said.mode == "planned":
        lines += _fulfil(said, meanings)
    elif len(same) > 1:
        lines.append(f"DELETE {same[1][0]}")
    return lines


def kind_of(fact: str, shown: Sequence[tuple[int, str]]) -> str:
    """What this decision is a case of: new, change, extend, restate, retract, happened, plan or soft."""
    said = language.read(fact)
    if said is None:
        return "soft"
    if said.mode == "gone":
        return "retract"
    if said.mode == "planned":
        return "happened"
    same = [k for _, text in shown if (k := language.read(text)) is not None and k.key == said.key and k.mode != "gone"]
    if not same:
        return "plan" if said.attribute == "plan" else "new"
    if any(set(said.values) <= set(known.values) for known in same):
        return "restate"
    return "extend" if said.attribute in MANY else "change"


def _write(said: Meaning, values: tuple[str, ...], same: Sequence[tuple[int, Meaning]]) -> list[str]:
    text = language.state(said.subject, said.attribute, values)
    tail = "" if text == language.write(said) else f" {text}"
    if not same:
        return [f"ADD{tail}"]
    handle, known = same[0]
    if known.mode == "plain" and set(known.values) == set(values):
        return [f"NOOP {handle}"]
    return [f"UPDATE {handle}{tail}"]


def _retract(said: Meaning, same: Sequence[tuple[int, Meaning]]) -> list[str]:
    for handle, known in same:
        if not set(said.values) & set(known.values):
            continue
        left = tuple(value for value in known.values if value not in said.values)
        if not left:
            return [f"DELETE {handle}"]
        return [f"UPDATE {handle} {language.state(said.subject, said.attribute, left)}"]
    return ["NOOP"]


def _fulfil(said: Meaning, meanings: Sequence[tuple[int, Meaning | None]]) -> list[str]:
    """The plan that came true is over."""
    done = f"move to {said.values[0]}" if said.attribute == "city" else f"work as a {said.values[0]}"
    for handle, known in meanings:
        if known is not None and known.key == (said.subject, "plan") and done in known.values:
            return [f"DELETE {handle}"]
    return []


def _union(lists: Iterable[Sequence[str]], more: Sequence[str]) -> tuple[str, ...]:
    out: dict[str, None] = {}
    for values in (*lists, more):
        out.update(dict.fromkeys(values))
    return tuple(out)


def answer(question: str, lines: Sequence[tuple[int, Sequence[Meaning]]]) -> tuple[str, tuple[int, ...]]:
    """What lines in the order of their dates answer, newest wins, and the handles of the lines that say so.

    A plain statement replaces what was known, "also" adds to it, "no longer" takes away."""
    asked = language.understand(question)
    if asked is None:
        return language.UNKNOWN, ()
    known: dict[tuple[str, str], dict[str, int]] = {}
    for handle, meanings in lines:
        for meaning in meanings:
            _learn(known, meaning, handle)
    subject, used = asked.subject, list[int]()
    if asked.value:
        homes = [(key[0], values) for key, values in known.items() if key[1] == "pets"]
        owners = [(name, values[asked.value]) for name, values in homes if asked.value in values]
        if not owners:
            return language.UNKNOWN, ()
        subject, handle = owners[-1]
        used.append(handle)
        if asked.kind == "owner":
            return subject, tuple(used)
    values = known.get((subject, asked.attribute), {})
    if not values:
        return language.UNKNOWN, ()
    used = list(dict.fromkeys((*used, *values.values())))
    if asked.kind == "count":
        return language.COUNTS[min(len(values), len(language.COUNTS) - 1)], tuple(used)
    return language.JOINER.join(values), tuple(used)


def _learn(known: dict[tuple[str, str], dict[str, int]], said: Meaning, handle: int) -> None:
    before = known.get(said.key, {})
    match said.mode:
        case "gone":
            known[said.key] = {value: source for value, source in before.items() if value not in said.values}
        case "also":
            known[said.key] = before | dict.fromkeys(said.values, handle)
        case _:
            known[said.key] = dict.fromkeys(said.values, handle)
    if said.mode == "planned":
        known.pop((said.subject, "plan"), None)


def careless(
    question: str, lines: Sequence[tuple[int, Sequence[Meaning]]], noise: float
) -> tuple[str, tuple[int, ...]]:
    """The answer of one who reads the first line about the person and no other, whatever it says of them, or does not
    look at all (a quarter)."""
    asked = language.understand(question)
    if asked is None or noise < 0.25:
        return language.UNKNOWN, ()
    for handle, meanings in lines:
        for meaning in meanings:
            if meaning.subject == asked.subject:
                return language.JOINER.join(meaning.values), (handle,)
    return language.UNKNOWN, ()


class Truth:
    """What the turns of some episodes say. The world's sentences mean the same in every dialogue: who said what is
    enough to know them."""

    def __init__(self, episodes: Iterable[Episode]) -> None:
        self._facts = {(turn.speaker, turn.text): turn.facts for episode in episodes for turn in episode.turns}

    def facts(self, speaker: str, text: str) -> tuple[str, ...]:
        return self._facts.get((speaker, text), ())

    def meanings(self, speaker: str, text: str) -> list[Meaning]:
        """Of a memory: its canonical reading, or that of the turn which it quotes."""
        if (meaning := language.read(text)) is not None:
            return [meaning]
        return [meaning for fact in self.facts(speaker, text) if (meaning := language.read(fact)) is not None]


class OracleBackbone:
    """Right by construction, for the turns of the episodes that it was given."""

    style = "compact"
    max_parallel = 1024

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    @property
    def identity(self) -> str:
        return "world-oracle/1"

    def generate(self, requests: Sequence[GenRequest]) -> Replies:
        return [GenReply(self.reply(request), model=self.identity, usage=Usage(0, 0)) for request in requests]

    def reply(self, request: GenRequest) -> str:
        view = request.prompt.view
        if request.prompt.role == "extractor":
            return self._extract(request)
        if request.prompt.role == "manager":
            shown = [(one.handle, one.record.text) for one in view.shown]
            return "\n".join(self._manage(request, view.facts[0].text, shown))
        text, used = self._answer(request)
        return f"USE {' '.join(map(str, sorted(used))) or 'NONE'}\nANSWER {text}"

    def _extract(self, request: GenRequest) -> str:
        lines = [
            f"{number} {fact}"
            for number, turn in enumerate(request.prompt.view.turns, start=1)
            for fact in self._truth.facts(turn.speaker, turn.text)
        ]
        return "\n".join(lines) or "NONE"

    def _manage(self, request: GenRequest, fact: str, shown: list[tuple[int, str]]) -> list[str]:
        return manage(fact, shown)

    def _answer(self, request: GenRequest) -> tuple[str, tuple[int, ...]]:
        view = request.prompt.view
        dated = sorted(view.shown, key=lambda one: (one.record.at is not None, one.record.at, one.record.seq))
        return answer(view.question, self._read(dated))

    def _read(self, shown: Iterable[Shown]) -> list[tuple[int, list[Meaning]]]:
        return [(one.handle, self._truth.meanings(one.record.speaker, one.record.text)) for one in shown]

    def close(self) -> None:
        """Nothing to release."""


class TeacherBackbone(OracleBackbone):
    """Knows what was said but manages badly: another dog is a contradiction, changes are added beside the old, jokes
    are kept, retractions forgotten; with a habit `answer`, its answers are `careless` else. Its noise depends on the
    seed and the decision alone."""

    def __init__(self, truth: Truth, *, seed: int = 0, habits: Mapping[str, float] = HABITS) -> None:
        super().__init__(truth)
        self._seed, self._habits = seed, habits

    @property
    def identity(self) -> str:
        return f"world-teacher/1:{self._seed}"

    def _manage(self, request: GenRequest, fact: str, shown: list[tuple[int, str]]) -> list[str]:
        return imperfect(fact, shown, self._noise(request.key), self._habits)

    def _answer(self, request: GenRequest) -> tuple[str, tuple[int, ...]]:
        view, right = request.prompt.view, self._habits.get("answer", 1.0)
        noise = self._noise("\x1f".join((request.key, view.question, *(one.record.text for one in view.shown))))
        if noise < right:
            return super()._answer(request)
        return careless(view.question, self._read(view.shown), (noise - right) / (1 - right))

    def _noise(self, key: str) -> float:
        return int.from_bytes(hashlib.sha256(f"{self._seed}\x1f{key}".encode()).digest()[:6], "big") / 2**48


def imperfect(
    fact: str, shown: Sequence[tuple[int, str]], noise: float, habits: Mapping[str, float] = HABITS
) -> list[str]:
    """The teacher's reply: right where `noise` in [0, 1) falls under its habit for this kind of decision."""
    kind, rightly = kind_of(fact, shown), manage(fact, shown)
    shortens = kind == "retract" and rightly[0].startswith("UPDATE")
    right = habits.get("shorten", habits[kind]) if shortens else habits[kind]
    if noise < right:
        return rightly
    second = (noise - right) / (1 - right)
    said = language.read(fact)
    same = [handle for handle, text in shown if said and (k := language.read(text)) is not None and k.key == said.key]
    match kind:
        case "extend" if said is not None and same and second < 0.75:
            text = language.state(said.subject, said.attribute, said.values)
            return [f"UPDATE {same[0]}" if text == language.write(said) else f"UPDATE {same[0]} {text}"]
        case "new" | "retract" | "plan":
            return ["NOOP"]
        case _:
            return ["ADD"]
