"""The knowledge-update world as a data set: `world:closed,count=20,seed=7,sessions=16,people=3`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from memkit.errors import InvalidConfig
from memkit_train.evaluate.conversations import Conversation, Dataset, GoldQuestion, SpokenTurn
from memkit_train.lab.worlds import Episode, Knobs, Question, generate
from memkit_train.lab.worlds.lexicon import PEOPLE

_KNOBS = {field.name: field.type for field in fields(Knobs) if field.name not in ("level", "rates")}


def load(spec: str, limit: int | None = None) -> Dataset:
    level, _, rest = spec.partition(",")
    if level not in ("closed", "open"):
        raise InvalidConfig(f"no world {level!r}", why="there are two levels", fix="use world:closed or world:open")
    options: dict[str, Any] = {"count": 20, "seed": 0, "split": "heldout"}
    knobs: dict[str, Any] = {"level": level}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key == "split" and value in ("train", "heldout"):
            options["split"] = value
        elif key in ("count", "seed") and value.isdecimal():
            options[key] = int(value)
        elif key in _KNOBS and value.isdecimal():
            knobs[key] = bool(int(value)) if _KNOBS[key] == "bool" else int(value)
        else:
            raise InvalidConfig(
                f"world option {part!r} is not understood",
                why="options are NAME=NUMBER, and split=train|heldout",
                fix=f"use count, seed, split, {', '.join(_KNOBS)}",
            )
    for key in ("sessions", "turns", "people"):
        most = len(PEOPLE) if (key, level) == ("people", "closed") else None
        if key in knobs and not 1 <= knobs[key] <= (most or knobs[key]):
            raise InvalidConfig(
                f"a world with {knobs[key]} {key} cannot be told",
                why=f"it has 1 to {most}" if most else "it needs 1",
                fix=f"set {key} within that",
            )
    made = generate(
        min(options["count"], limit or options["count"]),
        seed=options["seed"],
        knobs=Knobs(**knobs),
        split=options["split"],
    )
    return Dataset(f"world-{level}", tuple(as_conversation(episode) for episode in made))


def as_conversation(episode: Episode) -> Conversation:
    turns = tuple(
        SpokenTurn(turn.ref, turn.speaker, turn.text, turn.at, session.session_id, turn.role)
        for session in episode.sessions
        for turn in session.turns
    )
    asked = [_asked(q, session.session_id) for session in episode.sessions[:-1] for q in session.probes]
    asked += [_asked(question, None) for question in episode.questions]
    return Conversation(episode.user_id, turns, tuple(asked), {"episode": episode})


def _asked(question: Question, after: str | None) -> GoldQuestion:
    return GoldQuestion(
        question.question_id,
        question.text,
        (question.expected,) if question.answer else (),
        question.kind,
        question.evidence,
        question.asked_at,
        question.as_of,
        after,
        question.stale,
    )
