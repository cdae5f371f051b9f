"""Which tokens a grammar allows in a state, and how many tokens each leaves to the end of the shortest valid reply.

The grammar reads characters, the model writes tokens. Walking 150,000 tokens through the automaton in every state
would cost a second per token, so three facts are used:

- Characters that no literal asks for are alike. Tokens are grouped by their text with such characters replaced by one
  representative: a few thousand groups, walked once in sorted order so that common prefixes are walked once.
- States of one *shape* treat short strings alike (`Grammar.shape`), so a text of 400 characters has a few masks.
- Every character of the alphabet must be a token of its own, so the characters to the shortest valid end bound the
  tokens to it: a token is allowed only while that end stays within `max_tokens`. A reply is therefore always complete.
"""

from __future__ import annotations

import string
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from memkit.backbones.hf.vocabulary import CONTINUING_BYTES, Vocabulary, missing_bytes, split_utf8
from memkit.errors import ModelRefused
from memkit.roles.grammar import Grammar, is_text_char

_GRAMMARS, _ENTRIES, _TABLES = 64, 1024, 256
"""Kept at once. At 150,000 tokens a table takes 150 kB and an entry about 30 kB."""
_COMMON = frozenset(string.ascii_uppercase + string.digits + " \n")
"""Part of every alphabet, so that grammars which differ in a few literals share one grouping."""
_REFUSED = "\x00"

V = TypeVar("V")


class Bounded(OrderedDict[Any, V]):
    """A mapping that forgets what was least recently used."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def obtain(self, key: Hashable, make: Callable[[], V]) -> V:
        if key in self:
            self.move_to_end(key)
            return self[key]
        value = self[key] = make()
        while len(self) > self._limit:
            self.popitem(last=False)
        return value


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a reply stands: the automaton's state, and the bytes of a character that was begun."""

    state: int
    begun: bytes = b""


class _Kept:
    """Caches that all grammars share: entries (per group, tokens to the end) and tables (per token, allowed or not)."""

    def __init__(self) -> None:
        self.entries: Bounded[NDArray[np.int16]] = Bounded(_ENTRIES)
        self.tables: Bounded[NDArray[np.bool_]] = Bounded(_TABLES)


class _Groups:
    """The vocabulary as seen by grammars with one alphabet."""

    def __init__(self, vocabulary: Vocabulary, alphabet: frozenset[str]) -> None:
        self.other = next(char for char in _printables() if char not in alphabet)
        table = _Classes(alphabet, self.other)
        members: dict[tuple[str, int], list[int]] = {}
        for token, text in vocabulary.texts.items():
            members.setdefault((text.translate(table), 0), []).append(token)
        for token, split in vocabulary.opening:  # stands for: its whole characters, then some printable one
            outline = split.text.translate(table) + self.other
            members.setdefault((outline, missing_bytes(split.tail)), []).append(token)
        keys = sorted(key for key in members if _REFUSED not in key[0])
        self.outlines = [outline for outline, _ in keys]
        self.extra = np.array([extra for _, extra in keys], dtype=np.int16)
        self.shared = [0, *(_common_prefix(a, b) for a, b in zip(self.outlines, self.outlines[1:], strict=False))]
        self.longest = max((len(outline) for outline in self.outlines), default=1)
        self.longest = max(self.longest, CONTINUING_BYTES)
        self.group_of = np.full(vocabulary.size, len(keys), dtype=np.int32)
        for index, key in enumerate(keys):
            self.group_of[members[key]] = index

    def walk(self, grammar: Grammar, state: int) -> NDArray[np.int16]:
        """Per group, tokens to the shortest valid end after it; -1 where the grammar refuses it (and for no group)."""
        left = np.full(len(self.outlines) + 1, -1, dtype=np.int16)
        path, dead = [state], 1 << 30
        for index, outline in enumerate(self.outlines):
            shared = self.shared[index]
            if shared >= dead:
                continue
            del path[shared + 1 :]
            dead = 1 << 30
            for depth in range(shared, len(outline)):
                following = grammar.step(path[depth], outline[depth])
                if following is None:
                    dead = depth + 1
                    break
                path.append(following)
            else:
                left[index] = grammar.shortest(path[-1])
        allowed = left[:-1] >= 0
        left[:-1][allowed] += self.extra[allowed]
        return left


class GrammarMask:
    """One grammar over one vocabulary."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, groups: _Groups, kept: _Kept) -> None:
        self.grammar, self.vocabulary, self._groups, self._kept = grammar, vocabulary, groups, kept
        self.start = Spot(grammar.start)
        self._stops = sorted(vocabulary.stop_ids)

    def advance(self, spot: Spot, token: int) -> Spot | None:
        """The spot after an allowed token; None when the grammar refuses it."""
        whole = None if spot.begun else self.vocabulary.texts.get(token)
        if whole is not None:
            state = self.grammar.walk(spot.state, whole)
            return None if state is None else Spot(state)
        data = self.vocabulary.spelled[token]
        split = split_utf8(spot.begun + data) if data is not None else None
        if split is None:
            return None
        state = self.grammar.walk(spot.state, split.text)
        return None if state is None else Spot(state, split.tail)

    def allow(self, spot: Spot, remaining: int) -> NDArray[np.bool_]:
        """Over the whole vocabulary; `remaining` tokens may still be written, the end token included."""
        shape, room = self.grammar.shape(spot.state)
        key = (self.grammar.key, shape, min(room, self._groups.longest + 1), spot.begun)
        ending = not spot.begun and self.grammar.accepting(spot.state)
        left = self._kept.entries.obtain(key, lambda: self._left(spot))
        budget = min(remaining - 2, int(left.max(initial=0)))  # less this token and the end token
        return self._kept.tables.obtain((key, budget, ending), lambda: self._table(left, spot, budget, ending))

    def _left(self, spot: Spot) -> NDArray[np.int16]:
        if not spot.begun:
            return self._groups.walk(self.grammar, spot.state)
        left = np.full(len(self.vocabulary.continuing), -1, dtype=np.int16)
        for index, token in enumerate(self.vocabulary.continuing):
            after = self.advance(spot, token)
            if after is None:
                continue
            if not after.begun:
                left[index] = self.grammar.shortest(after.state)
                continue
            finished = self.grammar.step(after.state, self._groups.other)
            if finished is not None:
                left[index] = missing_bytes(after.begun) + self.grammar.shortest(finished)
        return left

    def _table(self, left: NDArray[np.int16], spot: Spot, budget: int, ending: bool) -> NDArray[np.bool_]:
        fits = (left >= 0) & (left <= budget)
        if spot.begun:
            table = np.zeros(self.vocabulary.size, dtype=np.bool_)
            table[np.array(self.vocabulary.continuing, dtype=np.int64)[fits]] = True
        else:
            table = fits[self._groups.group_of]
        table[self._stops] = ending
        return table


class Masks:
    """All grammars over one vocabulary. Used by the inference worker; the lock covers a caller's check beforehand."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._grammars: Bounded[GrammarMask] = Bounded(_GRAMMARS)
        self._groups: Bounded[_Groups] = Bounded(8)
        self._kept = _Kept()
        self._lock = threading.Lock()

    def of(self, grammar: Grammar, max_tokens: int) -> GrammarMask:
        with self._lock:
            found = self._grammars.obtain(grammar.key, lambda: self._make(grammar))
        least = grammar.shortest(grammar.start) + 1
        if max_tokens < least:
            raise ModelRefused(
                f"max_tokens={max_tokens} has no room for a reply",
                why=f"the shortest valid reply may take {least} tokens",
                fix=f"raise max_tokens to {least} or more",
            )
        return found

    def _make(self, grammar: Grammar) -> GrammarMask:
        alphabet = grammar.alphabet | _COMMON
        groups = self._groups.obtain(alphabet, lambda: _Groups(self._vocabulary, alphabet))
        unspelled = sorted((grammar.alphabet | {groups.other}) - self._vocabulary.single)
        if unspelled:
            raise ModelRefused(
                "this model's tokenizer cannot spell the reply format",
                why=f"it has no token for the characters {unspelled[:10]}",
                fix="use a checkpoint with a byte-level vocabulary, or constrain=False",
            )
        return GrammarMask(grammar, self._vocabulary, groups, self._kept)


class _Classes(dict[int, str]):
    """A `str.translate` table: the alphabet stays, other printable characters become one, the rest is refused."""

    def __init__(self, alphabet: frozenset[str], other: str) -> None:
        super().__init__()
        self._alphabet, self._other = alphabet, other

    def __missing__(self, code: int) -> str:
        char = chr(code)
        known = char if char in self._alphabet else self._other if is_text_char(char) else _REFUSED
        self[code] = known
        return known


def _printables() -> Iterable[str]:
    yield from string.ascii_lowercase + string.punctuation
    yield from (chr(code) for code in range(0xA1, 0x3000) if is_text_char(chr(code)))


def _common_prefix(first: str, second: str) -> int:
    limit = min(len(first), len(second))
    return next((index for index in range(limit) if first[index] != second[index]), limit)
