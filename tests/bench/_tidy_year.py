"""A year of talk: real talks told session by session, in which people say again what still holds.

What is said again is what a person said in one session, before the next one: no statement comes back after a later
session, which may have changed it, nor one that the same session corrects (the talks mark what became stale), nor one
that counts its days from when it was said. A third of it is told word for word, a third with a few words before it, a
third with a sentence around it; case and full stops go where people drop them."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memkit.text.times import time_phrases
from tests.bench._real_talks import Talk, forms_of, holds

_LEADS = ("as i said, ", "like i told you, ", "btw ", "just so you know: ", "again, ", "ok so ")
_BEFORE = ("Morning!", "Quick one.", "Not sure I mentioned it.", "I keep forgetting what I told you.")
_AFTER = ("Anyway, thanks.", "That's all for today.", "Just to be clear.", "Talk later!")


@dataclass(frozen=True, slots=True)
class Said:
    message: dict[str, str]
    session: str
    at: datetime
    again: bool = False
    idle: bool = False
    """It holds nothing worth keeping: a joke is not told again."""


@dataclass(slots=True)
class Year:
    """What one person says in a year, and the questions about it."""

    user: str
    said: list[Said] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    """question, answer, evidence (texts), stale."""

    def told_once(self) -> Year:
        return Year(self.user, [one for one in self.said if not one.again], self.questions)


def of_talk(talk: Talk) -> Year:
    words = {turn["id"]: turn["content"] for turn in talk.turns}
    year = Year(talk.name)
    for turn in talk.turns:
        message = {"role": turn["role"], "content": turn["content"]}
        at, idle = datetime.fromisoformat(turn["at"]), turn["id"] in talk.chitchat
        year.said.append(Said(message, turn["session"], at, idle=idle))
    for one in talk.questions:
        if one["answer"] is not None:
            evidence = [words[name] for name in one["evidence"] if name in words]
            stale = forms_of(one.get("stale") or [])
            year.questions.append(
                {"question": one["question"], "answer": forms_of(one["answer"]), "evidence": evidence, "stale": stale}
            )
    return year


def of_locomo(number: int, raw: dict[str, Any]) -> Year:
    year, talk, words = Year(f"locomo-{number}"), raw["conversation"], dict[str, str]()
    sessions = sorted((key for key in talk if re.fullmatch(r"session_\d+", key)), key=lambda one: int(one[8:]))
    for session in sessions:
        at = datetime.strptime(talk[session + "_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for place, turn in enumerate(talk[session]):
            words[turn["dia_id"]] = turn["text"]
            message = {"role": "user", "name": turn["speaker"], "content": turn["text"]}
            year.said.append(Said(message, session, at + timedelta(seconds=20 * place)))
    for one in raw["qa"]:
        evidence = [words[name] for name in one.get("evidence", ()) if name in words]
        if one.get("category") != 5 and evidence:
            year.questions.append(
                {"question": one["question"], "answer": [str(one["answer"])], "evidence": evidence, "stale": []}
            )
    return year


def locomo() -> list[Year]:
    raw = json.loads(Path(os.environ["MEMKIT_LOCOMO"]).read_text("utf-8"))
    return [of_locomo(number, one) for number, one in enumerate(raw)]


def tell_again(years: Sequence[Year], turns: int, seed: int = 28) -> list[Year]:
    """The same, with so much said again that there are `turns` in all, each statement as often as any other."""
    rng = random.Random(seed)
    pool = [(number, one) for number, year in enumerate(years) for one in year.said if _holds_on(one, year)]
    more = max(0, turns - sum(len(year.said) for year in years))
    drawn = [rng.choice(pool) for _ in range(more)]
    added: list[list[Said]] = [[] for _ in years]
    for number, one in drawn:
        added[number].append(_again(one, years[number], rng))
    return [
        Year(year.user, sorted([*year.said, *extra], key=lambda one: one.at), year.questions)
        for year, extra in zip(years, added, strict=True)
    ]


def _holds_on(one: Said, year: Year) -> bool:
    text = one.message["content"]
    if one.idle or one.message["role"] != "user" or len(text.split()) < 4 or text.rstrip().endswith("?"):
        return False
    if len(time_phrases(text, one.at.date())) > len(time_phrases(text, None)):
        return False
    return not any(
        holds(text, question["stale"]) and _is_corrected(one, question, year)
        for question in year.questions
        if question["stale"]
    )


def _is_corrected(one: Said, question: dict[str, Any], year: Year) -> bool:
    """Whether the same session says the right thing after it."""
    later = [other for other in year.said if other.session == one.session and other.at > one.at]
    return any(other.message["content"] in question["evidence"] for other in later)


def _again(one: Said, year: Year, rng: random.Random) -> Said:
    following = [other.at for other in year.said if other.session != one.session and other.at > one.at]
    end = min(following) if following else one.at + timedelta(days=60)
    start = max(other.at for other in year.said if other.session == one.session)
    at = start + (end - start) * (0.05 + 0.9 * rng.random())
    return Said({**one.message, "content": _as_said_again(one.message["content"], rng)}, f"{at:%Y-%m-%d}", at, True)


def _as_said_again(text: str, rng: random.Random) -> str:
    if rng.random() < 0.5:
        text = text[:1].lower() + text[1:]
    if rng.random() < 0.5:
        text = text.rstrip(".")
    match rng.randrange(3):
        case 0:
            return text
        case 1:
            return rng.choice(_LEADS) + text
        case _:
            if rng.random() < 0.5:
                return f"{rng.choice(_BEFORE)} {text}"
            return f"{text}{'' if text.endswith(('.', '!')) else '.'} {rng.choice(_AFTER)}"
