"""Statements about made-up people, firms, places and things, each of its attributes said in several ways, with the
relation between any two of them known: the same attribute of the same thing has another value now, or says the same
again; anything else is unrelated. Attributes that are held out are seen by nobody who trains."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memkit.backbones.small import phrase
from memkit.backbones.small.pairs import clause_pair
from memkit.backbones.small.shape import CLAUSE
from memkit_train.lab.small.scenes import relation_row, turn_of
from memkit_train.rows import ChoiceRow

_AT = datetime(2025, 3, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Attribute:
    subject: str
    value: str
    ways: tuple[str, ...]
    many: bool = False
    """It may have several values at once: another one ends nothing."""


_HERE = Path(__file__).parent


def _read_attributes() -> Iterator[Attribute]:
    for line in (_HERE / "attributes.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            subject, value, *ways = (part.strip() for part in line.split("|"))
            yield Attribute(subject.removeprefix("* "), value, tuple(ways), subject.startswith("*"))


def _read_words() -> dict[str, list[str]]:
    lines = (_HERE / "words.txt").read_text(encoding="utf-8").splitlines()
    return {kind: words.split() for kind, words in (line.split(": ") for line in lines)}


ATTRIBUTES = tuple(_read_attributes())
HELD_OUT = frozenset(range(3, len(ATTRIBUTES), 5))
_WORDS = _read_words()


def statement_rows(count: int, *, held_out: bool = False, seed: int = 0) -> list[ChoiceRow]:
    """`count` pairs, about a third of them related, and now and then a statement as a clause that is worth keeping."""
    order = random.Random(f"{seed}/{held_out}")
    attributes = [one for at, one in enumerate(ATTRIBUTES) if (at in HELD_OUT) == held_out]
    rows: list[ChoiceRow] = []
    for number in range(count):
        source = f"statements-{'held' if held_out else 'open'}-{number}"
        old, new, label = _pair(order, attributes)
        rows.append(relation_row(fact_of(old), fact_of(new), label, "en", source))
        if number % 6 == 0:
            rows.append(kept_row(new, source))
    return rows


def _pair(order: random.Random, attributes: Sequence[Attribute]) -> tuple[str, str, str]:
    """Two statements, and what the later one is to the earlier."""
    one = order.choice(attributes)
    subject, value, way = thing(order, one.subject), thing(order, one.value), order.choice(one.ways)
    old = _said(order, way, subject, value)
    again = way if order.random() < 0.5 else order.choice(one.ways)
    kind = order.random()
    if kind < 0.26:
        new = _said(order, again, subject, _like(order, one.value, value))
        if not one.many and order.random() < 0.25:
            new = order.choice(_CORRECTIONS).format(new)
        return old, new, "unrelated" if one.many else "replaces"
    if kind < 0.36:
        return old, _said(order, again, subject, value), "same"
    if kind < 0.66 and one.subject != "self":
        kept = value if order.random() < 0.5 else thing(order, one.value)
        return old, _said(order, again, _like(order, one.subject, subject), kept), "unrelated"
    others = [other for other in attributes if other is not one and other.subject == one.subject]
    near = kind < 0.82 and bool(others)
    other = order.choice(others if near else [other for other in attributes if other is not one])
    of = subject if near else thing(order, other.subject)
    kept = value if other.value == one.value and order.random() < 0.4 else thing(order, other.value)
    return old, _said(order, order.choice(other.ways), of, kept), "unrelated"


_CORRECTIONS = ("Actually, {}", "Correction: {}", "Update: {}", "no wait, {}", "As of now, {}")


def _said(order: random.Random, way: str, subject: str, value: str) -> str:
    text = way.format(s=subject, v=value)
    noisy = order.random()
    return text.lower() if noisy < 0.08 else text.rstrip(".") if noisy < 0.3 else text


def fact_of(text: str) -> str:
    found = phrase.facts_of(turn_of(text, _AT), 0, len(text))
    return found[0] if found else text


def kept_row(text: str, source: str) -> ChoiceRow:
    turn = turn_of(text, _AT)
    return ChoiceRow.of(clause_pair(turn, 0, len(text)), CLAUSE.index("keep"), weight=0.5, source=source)


def _like(order: random.Random, kind: str, other: str) -> str:
    """Another of its kind; at times one that shares a word with it."""
    for _ in range(20):
        found = thing(order, kind)
        if " " in other and " " in found and order.random() < 0.3:
            found = f"{other.split()[0]} {found.split(maxsplit=1)[1]}"
        if found.casefold() != other.casefold():
            return found
    return f"{other} II"


def thing(order: random.Random, kind: str) -> str:
    """Something of a kind, by its name."""
    return _KINDS[kind](order) if kind in _KINDS else order.choice(_WORDS[kind]).replace("-", " ")


def _word(order: random.Random) -> str:
    return "".join(
        order.choice(_WORDS["consonant"]) + order.choice(_WORDS["vowel"]) for _ in range(order.randint(2, 3))
    ).capitalize()


def _person(order: random.Random) -> str:
    first = order.choice(_WORDS["first name"])
    last = order.choice(_WORDS["surname"]) if order.random() < 0.6 else _word(order)
    return first if order.random() < 0.2 else f"{first} {last}"


def _name(order: random.Random, *kinds: str) -> str:
    return order.choice(kinds).format(_word(order))


_KINDS: dict[str, Callable[[random.Random], str]] = {
    "person": _person,
    "firm": lambda order: _name(order, "{}", "{} Group", "{} Labs", "{} & Sons", "{} Bank", "{} Foods"),
    "place": lambda order: _name(order, "{}", "{}", "Port {}", "New {}", "{} Valley", "Upper {}"),
    "team": lambda order: _name(order, "FC {}", "{} United", "{} Hawks", "the {} Bears"),
    "school": lambda order: _name(order, "{} University", "{} College", "{} High School"),
    "faith": lambda order: _name(order, "{}ist", "{}ite", "{}an"),
    "work": lambda order: _name(order, "The {} Letters", "{}", "Songs of {}", "A Winter in {}", "The Road to {}"),
    "product": lambda order: _name(order, "{}", "{} 7", "{} Pro", "{}DB", "{}OS"),
    "project": lambda order: _name(order, "{}", "{} Bridge", "Blue {}"),
    "self": lambda order: "",
    "name": lambda order: order.choice(_WORDS["first name"]),
    "number": lambda order: str(
        order.choice((order.randint(10, 999), order.randint(1, 90) * 100, order.randint(2, 9)))
    ),
    "price": lambda order: f"{order.randint(5, 2500)} {order.choice(('euros', 'dollars', 'pounds', 'EUR', 'kr'))}",
    "version": lambda order: f"{order.randint(0, 20)}.{order.randint(0, 30)}",
}
