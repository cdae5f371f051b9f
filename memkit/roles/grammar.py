"""Regular languages of valid replies, as a character automaton that is built while it is walked.

A compact reply ("one op per line") is a regular language: literals, choices, sequences, bounded repeats and bounded
free text. The combinators describe it; `Grammar` walks it character by character with integer states, which is what a
token mask needs. States appear only when they are reached, so a text of up to 2,000 characters costs what is walked.

Counting makes every position inside a text a state of its own. `shape` tells the states apart only as far as it
matters: two states of one shape treat every string shorter than both their rooms alike, so a mask over a vocabulary
is computed once per shape instead of once per position.
"""

from __future__ import annotations

import threading
from typing import Any, cast

from memkit.models import digest

UNBOUNDED = 1 << 30
"""Room of a state that counts nothing, and upper bound of a repeat without one."""

_Expr = tuple[Any, ...]  # ("lit", s) | ("alt", e…) | ("seq", e…) | ("rep", e, lo, hi) | ("text", max_chars)
_Head = tuple[Any, ...]  # ("lit", s) | ("text", n) | ("run", n, may_close) | ("end",)
_Tail = tuple[_Expr, "int"]  # what follows: an expression, then the tail with that number

_JOINERS = "\u200c\u200d"
"""Invisible, but words (Persian, Hindi) and emoji are written with them; every other format character is refused."""


class Grammar:
    """A regular language and its automaton. Equal `key`: equal language. State numbers are private to one object."""

    def __init__(self, expr: _Expr) -> None:
        self.expr = expr
        self.key: str = digest(list(expr))[:16]
        self._automaton: _Automaton | None = None
        self._lock = threading.Lock()

    @property
    def alphabet(self) -> frozenset[str]:
        """Characters that some literal asks for. All other printable characters are alike, in every state."""
        return frozenset(_alphabet(self.expr) | {" "})

    @property
    def start(self) -> int:
        return self._built().start

    def step(self, state: int, char: str) -> int | None:
        """The state after `char`, or None when no valid reply goes on like this. From every state that it returns
        some valid reply can be completed."""
        return self._built().step(state, char)

    def accepting(self, state: int) -> bool:
        """Whether the reply may end here."""
        return self._built().shortest[state] == 0

    def shortest(self, state: int) -> int:
        """Least number of characters that complete a valid reply."""
        return self._built().shortest[state]

    def shape(self, state: int) -> tuple[int, int]:
        """(shape, room). States of one shape treat every string with fewer characters than their rooms alike."""
        return self._built().shapes[state]

    def walk(self, state: int, text: str) -> int | None:
        """The state after all of `text`, or None."""
        built, current = self._built(), state
        for char in text:
            following = built.step(current, char)
            if following is None:
                return None
            current = following
        return current

    def matches(self, text: str) -> bool:
        state = self.walk(self.start, text)
        return state is not None and self.accepting(state)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grammar) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[type[Grammar], tuple[_Expr]]:
        return Grammar, (self.expr,)

    def _built(self) -> _Automaton:
        if self._automaton is None:
            with self._lock:
                if self._automaton is None:
                    self._automaton = _Automaton(self.expr)
        return self._automaton


def lit(text: str) -> Grammar:
    """Exactly `text`."""
    return Grammar(("lit", text))


def alt(*options: Grammar | str) -> Grammar:
    """One of the options."""
    if not options:
        raise ValueError("alt() needs at least one option: a language without words is never what a reply should match")
    return Grammar(("alt", *(_expr(option) for option in options)))


def seq(*parts: Grammar | str) -> Grammar:
    """The parts, one after the other."""
    return Grammar(("seq", *(_expr(part) for part in parts)))


def repeat(part: Grammar | str, low: int = 0, high: int = UNBOUNDED) -> Grammar:
    """`part`, `low` to `high` times."""
    expr = _expr(part)
    if not 0 <= low <= high:
        raise ValueError(f"repeat() needs 0 <= low <= high, not {low} and {high}")
    if _least(expr) == 0:
        raise ValueError("repeat() of something that may be empty would never have to move on; make it non-empty")
    return Grammar(("rep", expr, low, high))


def text(max_chars: int) -> Grammar:
    """One to `max_chars` printable characters without a line break, and no blank at either end."""
    if max_chars < 1:
        raise ValueError(f"text() needs room for at least one character, not {max_chars}")
    return Grammar(("text", max_chars))


def is_text_char(char: str) -> bool:
    """Whether free text may hold `char`: printable (a blank included), no control, bidi or other format character."""
    return char.isprintable() or char in _JOINERS


def _expr(part: Grammar | str) -> _Expr:
    return ("lit", part) if isinstance(part, str) else part.expr


def _least(expr: _Expr) -> int:
    """Length of the shortest word."""
    match expr[0]:
        case "lit":
            return len(expr[1])
        case "alt":
            return min(_least(option) for option in expr[1:])
        case "seq":
            return sum(_least(part) for part in expr[1:])
        case "rep":
            return _least(expr[1]) * expr[2]
        case _:
            return 1


def _alphabet(expr: _Expr) -> set[str]:
    """Characters that some literal asks for: the only ones that need transitions of their own."""
    if expr[0] == "lit":
        return set(cast(str, expr[1]))
    found: set[str] = set()
    for part in expr[1:]:
        if isinstance(part, tuple):
            found |= _alphabet(cast(_Expr, part))
    return found


class _Automaton:
    """Subset construction on demand. An item is (head, number of its tail): what may be read next, and what follows.
    Tails are numbered so that comparing and hashing items stays cheap however large the grammar."""

    def __init__(self, expr: _Expr) -> None:
        self._lock = threading.RLock()
        self._special = _alphabet(expr) | {" "}
        self._tails: list[_Tail] = []
        self._tail_ids: dict[_Tail, int] = {}
        self._tail_least: list[int] = []
        self._expanded: dict[int, frozenset[tuple[_Head, int]]] = {}
        self._states: list[frozenset[tuple[_Head, int]]] = []
        self._state_ids: dict[frozenset[tuple[_Head, int]], int] = {}
        self._shape_ids: dict[frozenset[tuple[_Head, int]], int] = {}
        self._moves: list[dict[str, int | None]] = []
        self.shortest: list[int] = []
        self.shapes: list[tuple[int, int]] = []
        self.start = self._state(self._expand(expr, -1))

    def step(self, state: int, char: str) -> int | None:
        printable = is_text_char(char)
        kind = char if char in self._special else "printable" if printable else "other"
        moves = self._moves[state]
        if kind in moves:
            return moves[kind]
        with self._lock:
            reached: set[tuple[_Head, int]] = set()
            for head, tail in self._states[state]:
                reached |= self._advance(head, tail, char, printable)
            moves[kind] = self._state(frozenset(reached)) if reached else None
        return moves[kind]

    def _advance(self, head: _Head, tail: int, char: str, printable: bool) -> frozenset[tuple[_Head, int]]:
        match head[0]:
            case "lit" if head[1][0] == char:
                rest = head[1][1:]
                return frozenset({(("lit", rest), tail)}) if rest else self._expand_tail(tail)
            case "text" if printable and char != " ":
                return self._running(head[1] - 1, tail)
            case "run" if printable and char != " ":
                return self._running(head[1] - 1, tail)
            case "run" if char == " " and head[1] >= 2:  # one character must remain to end on
                return frozenset({(("run", head[1] - 1, False), tail)})
            case _:
                return frozenset()

    def _running(self, left: int, tail: int) -> frozenset[tuple[_Head, int]]:
        ended = self._expand_tail(tail)
        return ended | {(("run", left, True), tail)} if left else ended

    def _expand(self, expr: _Expr, tail: int) -> frozenset[tuple[_Head, int]]:
        """Items that can read a character (or end) at the beginning of `expr` followed by `tail`."""
        match expr[0]:
            case "lit":
                return frozenset({(expr, tail)}) if expr[1] else self._expand_tail(tail)
            case "alt":
                return frozenset().union(*(self._expand(option, tail) for option in expr[1:]))
            case "seq":
                _, *parts = expr
                if not parts:
                    return self._expand_tail(tail)
                rest = self._tail(("seq", *parts[1:]), tail) if len(parts) > 1 else tail
                return self._expand(parts[0], rest)
            case "rep":
                _, part, low, high = expr
                items: frozenset[tuple[_Head, int]] = self._expand_tail(tail) if low == 0 else frozenset()
                if high > 0:
                    left = high if high >= UNBOUNDED else high - 1
                    items |= self._expand(part, self._tail(("rep", part, max(low - 1, 0), left), tail))
                return items
            case _:
                return frozenset({(expr, tail)})

    def _expand_tail(self, tail: int) -> frozenset[tuple[_Head, int]]:
        if tail < 0:
            return frozenset({(("end",), -1)})
        if tail not in self._expanded:
            self._expanded[tail] = self._expand(*self._tails[tail])
        return self._expanded[tail]

    def _tail(self, expr: _Expr, following: int) -> int:
        key = (expr, following)
        if key not in self._tail_ids:
            self._tail_ids[key] = len(self._tails)
            self._tails.append(key)
            self._tail_least.append(_least(expr) + (self._tail_least[following] if following >= 0 else 0))
        return self._tail_ids[key]

    def _state(self, items: frozenset[tuple[_Head, int]]) -> int:
        if items in self._state_ids:
            return self._state_ids[items]
        number = len(self._states)
        self._states.append(items)
        self._moves.append({})
        self.shortest.append(min(self._item_least(head, tail) for head, tail in items))
        room = min((head[1] for head, _ in items if head[0] == "run"), default=UNBOUNDED)
        outline = frozenset(((("run", head[2]) if head[0] == "run" else head), tail) for head, tail in items)
        self.shapes.append((self._shape_ids.setdefault(outline, len(self._shape_ids)), room))
        self._state_ids[items] = number  # last: whoever finds the number finds everything that belongs to it
        return number

    def _item_least(self, head: _Head, tail: int) -> int:
        after = self._tail_least[tail] if tail >= 0 else 0
        match head[0]:
            case "end":
                return 0
            case "lit":
                return len(head[1]) + after
            case _:
                return 1 + after
