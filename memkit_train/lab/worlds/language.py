"""What the world's sentences mean: canonical facts, their inverse, and how a person says them.

A fact is `SUBJECT [also|no longer] PREDICATE VALUES [as planned].` and can be read back exactly, so the oracle, the
reader and every bank metric work on the texts that a manager really stored, not on hidden labels.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from typing import Literal

from memkit_train.lab.worlds import templates

Mode = Literal["plain", "also", "gone", "planned"]

PREDICATES = {
    "city": "lives in",
    "job": "works as a",
    "food": "likes",
    "pets": "has",
    "hobbies": "enjoys",
    "plan": "plans to",
    "sister": "is the sister of",
}
MANY = frozenset({"pets", "hobbies"})
"""Attributes with several values at once; the others have one, and a new one replaces it."""
MAX_VALUES = 3
JOINER = " and "
UNKNOWN = "unknown"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
COUNTS = ("none", "one", "two", "three", "four", "five", "six")

_MODES: dict[str | None, Mode] = {"also ": "also", "no longer ": "gone", None: "plain"}
_FACT = re.compile(
    r"^(?P<s>\w+) (?P<m>also |no longer )?(?P<p>" + "|".join(map(re.escape, PREDICATES.values())) + r") (?P<v>.+?)"
    r"(?P<planned> as planned)?\.?$"
)
_BY_PREDICATE = {text: name for name, text in PREDICATES.items()}
_PERSONAL = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one sentence says about one attribute of one person."""

    subject: str
    attribute: str
    values: tuple[str, ...]
    mode: Mode = "plain"

    @property
    def key(self) -> tuple[str, str]:
        return self.subject, self.attribute


def state(subject: str, attribute: str, values: Sequence[str]) -> str:
    """The canonical sentence of a state: what a memory should say."""
    return f"{subject} {PREDICATES[attribute]} {JOINER.join(values)}."


def write(meaning: Meaning) -> str:
    """The canonical sentence of a fact, hedges included; `read` is its inverse."""
    hedge = {"also": "also ", "gone": "no longer "}.get(meaning.mode, "")
    tail = " as planned" if meaning.mode == "planned" else ""
    return f"{meaning.subject} {hedge}{PREDICATES[meaning.attribute]} {JOINER.join(meaning.values)}{tail}."


@lru_cache(maxsize=8_192)
def read(text: str) -> Meaning | None:
    """The meaning of a canonical sentence; None for anything else (chit-chat, jokes, free text)."""
    found = _FACT.match(" ".join(text.split()))
    if found is None:
        return None
    mode = "planned" if found["planned"] else _MODES[found["m"]]
    return Meaning(found["s"], _BY_PREDICATE[found["p"]], split_values(found["v"]), mode)


def split_values(text: str) -> tuple[str, ...]:
    """The values of a list as written by a memory or by an answer: separated by "and", commas, or both."""
    parts = re.split(r"\s*(?:,|\band\b)\s*", text.strip().rstrip("."))
    return tuple(part for part in parts if part)


def utter(template: str, subject: str, speaker: str, value: str, old: str = "") -> str:
    """The template as `speaker` says it about `subject`."""
    first = subject == speaker
    text = _PERSONAL.sub(lambda found: found[1] if first else found[2], template.replace("{s}", subject))
    possessive = "my" if first else f"{subject}'s"
    text = text.replace("{S}", "I" if first else subject).replace("{P}", possessive).replace("{p}", possessive)
    text = text.replace("{v}", value).replace("{o}", old)
    return text[0].upper() + text[1:]


def open_with(opener: str, sentence: str, proper: Sequence[str]) -> str:
    """`sentence` after an opener; its first word loses the capital unless it is "I" or belongs to `proper` names."""
    head = re.match(r"\w+", sentence)
    if not opener or head is None or head[0] == "I" or any(head[0] in words.split() for words in proper):
        return opener + sentence
    return opener + sentence[0].lower() + sentence[1:]


def day_name(day: date) -> str:
    """`8 May 2024`: as prompts and questions write dates, whatever the locale."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


@dataclass(frozen=True, slots=True)
class AskedFor:
    """What a question asks for."""

    kind: str
    """single | list | count | owner | hop"""
    subject: str
    attribute: str
    value: str = ""


def understand(question: str) -> AskedFor | None:
    """The meaning of a question of the world (either phrasebook); None for any other."""
    for pattern, form in _questions():
        found = pattern.fullmatch(question.strip())
        if found is None:
            continue
        groups = found.groupdict()
        kind, _, attribute = form.rpartition(":")
        if form == "owner":
            return AskedFor("owner", "", "pets", groups["v"])
        if kind == "hop":
            return AskedFor("hop", "", attribute, groups["v"])
        kind = "count" if kind == "count" else "list" if attribute in MANY else "single"
        return AskedFor(kind, groups["s"], attribute)
    return None


@cache
def _questions() -> list[tuple[re.Pattern[str], str]]:
    holes = {"{s}": r"(?P<s>\w+)", "{v}": r"(?P<v>a \w+ named \w+)", "{d}": r"(?P<d>\d+ \w+ \d+)"}
    out: list[tuple[re.Pattern[str], str]] = []
    for book in (templates.QUESTIONS, templates.QUESTIONS_HELD):
        for form, texts in book.items():
            for text in texts:
                pattern = re.escape(text)
                for hole, regex in holes.items():
                    pattern = pattern.replace(re.escape(hole), regex)
                out.append((re.compile(pattern), form))
    return out


class Phrasebook:
    """The templates that one side of the split may use."""

    def __init__(self, *, unseen: bool) -> None:
        self._unseen = unseen
        self._said = templates.HELD if unseen else templates.SEEN
        self._soft = templates.SOFT_HELD if unseen else templates.SOFT
        self._smalltalk = templates.SMALLTALK_HELD if unseen else templates.SMALLTALK
        self._openers = templates.OPENERS_HELD if unseen else templates.OPENERS

    def phrase(self, rng: random.Random, attribute: str, move: str) -> str:
        return rng.choice(self._said[attribute, move])

    def soft(self, rng: random.Random, attribute: str) -> tuple[str, str]:
        return rng.choice(self._soft[attribute])

    def smalltalk(self, rng: random.Random) -> str:
        return rng.choice(self._smalltalk)

    def opener(self, rng: random.Random) -> str:
        return rng.choice(self._openers)

    def question(self, rng: random.Random, kind: str) -> str:
        held = templates.QUESTIONS_HELD.get(kind) if self._unseen else None
        return rng.choice(held or templates.QUESTIONS[kind])
