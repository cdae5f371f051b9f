"""Conversations of the field, made of its matters: told once, some told anew later, asked about, with small talk around
them. Nobody speaks of memories."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from memkit_train.lab.small.scenes import Labelled, LabelledScene, SceneMessage
from memkit_train.lab.worlds import Episode, Knobs, Question, Session, SimulatedUser, WorldTurn

MATTERS = Path(__file__).parent / "matters.txt"
SESSIONS, TURNS, ASKED = 4, 4, 6
_KNOWN = 9
"""Matters of one user."""
_CHANGED = 0.6
_START = datetime(2026, 3, 2, 18, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Matter:
    name: str
    values: tuple[str, ...]
    said: tuple[str, ...]
    changed: tuple[str, ...]
    asked: tuple[str, ...]


@cache
def matters() -> tuple[tuple[Matter, ...], tuple[str, ...]]:
    """The matters, and small talk."""
    found: list[Matter] = []
    chat: tuple[str, ...] = ()
    for block in MATTERS.read_text(encoding="utf-8").split("\n\n")[1:]:
        head, *lines = block.strip().splitlines()
        name, _, values = head.partition(" | ")
        ways = {line[0]: tuple(line[2:].split(" | ")) for line in lines}
        if name == "chat":
            chat = ways["s"]
        else:
            found.append(Matter(name, tuple(values.split(", ")), ways["s"], ways.get("c", ()), ways["q"]))
    return tuple(found), chat


def generate_field(count: int, *, seed: int = 0, side: str = "log") -> list[Episode]:
    """`side`: users of different sides have nothing in common but how they speak."""
    return [_episode(f"{side}-{seed}-{number}") for number in range(count)]


def label_talk(user_id: str) -> LabelledScene:
    """What the manager should choose all through the talk of a user of that name: nobody tells it so much."""
    scene = LabelledScene("en", user_id)
    number: dict[str, int] = {}
    for session in _talk(user_id):
        for at, parts in session:
            clauses: list[Labelled] = []
            for part in parts:
                if part.matter is None:
                    clauses.append(Labelled(part.text, "leave"))
                    continue
                before = number.get(part.matter.name)
                number[part.matter.name] = len(number) + 1 + 100 * len(scene.messages)
                relations = () if before is None else (("replaces", before),)
                clauses.append(Labelled(part.text, "keep", number[part.matter.name], relations))
            scene.messages.append(SceneMessage("user", at, tuple(clauses)))
    return scene


@dataclass(frozen=True, slots=True)
class _SaidPart:
    text: str
    matter: Matter | None = None
    value: str = ""


_Said = list[tuple[datetime, list[_SaidPart]]]
"""The messages of a session."""


@cache
def _talk(user_id: str) -> tuple[_Said, ...]:
    order = random.Random(user_id)
    known, chat = matters()
    told: list[list[tuple[Matter, bool]]] = [[] for _ in range(SESSIONS)]
    for matter in order.sample(known, _KNOWN):
        first = order.randrange(SESSIONS - 1)
        told[first].append((matter, False))
        if matter.changed and order.random() < _CHANGED:
            told[order.randrange(first + 1, SESSIONS)].append((matter, True))
    now: dict[str, str] = {}
    return tuple(_session(number, told[number], now, chat, order) for number in range(SESSIONS))


def _session(
    number: int, told: Sequence[tuple[Matter, bool]], now: dict[str, str], chat: Sequence[str], order: random.Random
) -> _Said:
    parts = [_SaidPart(one) for one in order.sample(chat, max(2, TURNS - len(told) // 2))]
    for matter, again in told:
        value = order.choice([one for one in matter.values if one != now.get(matter.name)])
        now[matter.name] = value
        ways = matter.changed if again else matter.said
        parts.append(_SaidPart(order.choice(ways).replace("{}", value), matter, value))
    order.shuffle(parts)
    at = _START + timedelta(days=6 * number, minutes=order.randrange(90))
    turns = [parts[place::TURNS] for place in range(TURNS)]
    return [(at + timedelta(minutes=2 * place), turn) for place, turn in enumerate(turns) if turn]


def _episode(user_id: str) -> Episode:
    order = random.Random(f"{user_id}?")
    now: dict[Matter, str] = {}
    before: dict[Matter, list[str]] = {}
    sessions: list[Session] = []
    for number, said in enumerate(_talk(user_id)):
        turns: list[WorldTurn] = []
        for place, (at, parts) in enumerate(said):
            turns.append(WorldTurn(f"s{number}:{place}", "", _typed(parts, order), at, "new"))
            for part in parts:
                if part.matter is not None:
                    if part.matter in now:
                        before.setdefault(part.matter, []).append(now[part.matter])
                    now[part.matter] = part.value
        asked = order.sample(sorted(now, key=lambda one: one.name), min(ASKED, len(now)))
        probes = [
            Question(
                f"{user_id}:s{number}q{place}",
                order.choice(matter.asked),
                "single",
                (now[matter],),
                said[0][0] + timedelta(hours=2, minutes=place),
                None,
                (),
                ("", matter.name),
                None,
                tuple(one for one in before.get(matter, ()) if one != now[matter]),
            )
            for place, matter in enumerate(asked)
        ]
        sessions.append(Session(f"s{number}", said[0][0], tuple(turns), tuple(probes)))
    final = {(user_id, matter.name): (value,) for matter, value in now.items()}
    return Episode(user_id, "train", Knobs(), (), tuple(sessions), (), final)


def _typed(parts: Sequence[_SaidPart], order: random.Random) -> str:
    """As people type: a full stop, a comma and lower case, or a new line."""
    mark = order.choice((". ", ", ", "\n"))
    return mark.join(one.text for one in parts) + ("." if mark == ". " else "")


class FieldUser(SimulatedUser):
    def _correction(self, question: Question) -> WorldTurn:
        at = question.asked_at + timedelta(minutes=1)
        return WorldTurn(f"{question.question_id}+", "", f"No, it's {question.expected}.", at, "correct")


def read_answer(question: Question, lines: Sequence[str]) -> str:
    """What somebody says who reads these lines from the top: the first value that is one of the matter asked about."""
    (matter,) = (one for one in matters()[0] if one.name == question.key[1])
    for line in lines:
        found = [(line.find(value), value) for value in matter.values if _says(line, value)]
        if found:
            return min(found)[1]
    return "unknown"


def _says(line: str, value: str) -> bool:
    at = line.find(value)
    around = (line[at - 1 : at] if at > 0 else "") + line[at + len(value) : at + len(value) + 1]
    return at >= 0 and not any(letter.isalnum() for letter in around)
