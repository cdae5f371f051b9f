"""Reads the JSON that models really write: fences, prose around it, single quotes, trailing commas, comments, Python
literals, bad escapes, missing closing brackets. Total, linear in the size of the text, and honest: every liberty taken
is named in `repairs`, and text that stopped in the middle of something is reported as truncated, never completed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

MAX_DEPTH = 32
_FAST_BRACKETS = 500
"""Above it the C parser is not tried: it recurses, up to a limit that the app may have raised."""

_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|\#[^\n]*)*", re.DOTALL)
_PLAIN_BLANK = re.compile(r"\s*")
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"-?[A-Za-z_$][\w$-]*")
_OPENER = re.compile(r"[{\[]")
_AFTER_STRING = re.compile(
    r"\s*(?:\Z|[:\]}]|//|/\*|\#|,\s*(?:\Z|[\"'{\[\]},\d-]|//|/\*|\#|(?:true|false|null|True|False|None|NaN)\b|\w+\s*:))"
)
_NEXT_ITEM_ON_NEW_LINE = re.compile(r"[ \t\r]*\n\s*[\"'{\[]")
_STOPS = {'"': re.compile(r'["\\]'), "'": re.compile(r"['\\]")}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_RESIDUE = re.compile(r"[\"']\s*:\s*[\"'\d]|[\"']\s*,\s*[\"']\w+[\"']\s*:")
"""Outside of every value that was read: the torn remains of another one."""
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}
_FOREIGN_LITERALS: dict[str, Any] = {"True": True, "False": False, "None": None, "undefined": None}
_NOT_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(slots=True)
class FoundJson:
    """The top-level objects and arrays found in a text, in order."""

    values: list[Any] = field(default_factory=list[Any])
    repairs: list[str] = field(default_factory=list[str])
    truncated: bool = False
    too_deep: bool = False
    broken: bool = False
    """Something that began as JSON could not be read to its end: what else was found may be only a part."""
    twice: str = ""
    """A key that one object gives two different values; empty when there is none."""

    def note(self, repair: str) -> None:
        if repair not in self.repairs:
            self.repairs.append(repair)


def read_json(text: str) -> FoundJson:
    """Every JSON-like object or array at the top level of `text`."""
    reading = _strictly(text)
    if reading is not None:
        return reading
    return _Reader(text).read()


def _strictly(text: str) -> FoundJson | None:
    if text.count("{") + text.count("[") > _FAST_BRACKETS:
        return None
    reading = FoundJson()

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return _object(items, reading)

    def constant(name: str) -> float:
        reading.note("not_a_number")
        return _NOT_NUMBERS[name]

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError):
        return None
    reading.values = [value] if isinstance(value, dict | list) else []
    return reading


def _object(items: list[tuple[str, Any]], reading: FoundJson) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in items:
        if key in made:
            reading.note("key_twice")
            if made[key] != value:
                reading.twice = key
        made[key] = value
    return made


class _NotJson(Exception):
    """What starts here is no JSON: prose with a bracket in it."""


class _TooDeep(Exception):
    """More brackets within brackets than any reply needs."""


class _Truncated(Exception):
    """The text ended inside of something."""


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.committed = False
        """Whether what is being read can be nothing but JSON; until then it may be prose with a bracket in it."""
        self.reading = FoundJson()

    def read(self) -> FoundJson:
        reading, outside, position = self.reading, list[str](), 0
        work_left = 8 * len(self.text) + 1_000
        while (opener := _OPENER.search(self.text, position)) and work_left > 0:
            before = (list(reading.repairs), reading.twice)
            self.at, self.depth, self.committed = opener.start(), 0, False
            try:
                value = self._value()
            except _NotJson:
                reading.broken |= self.committed
                work_left -= max(self.at - opener.start(), 1) + 1
                reading.repairs, reading.twice = before
                outside.append(self.text[position : opener.end()])
                position = opener.end()
                continue
            except _Truncated:
                reading.truncated = True
                break
            except _TooDeep:
                reading.too_deep = True
                break
            reading.values.append(value)
            outside.append(self.text[position : opener.start()])
            position = self.at
        else:
            outside.append(self.text[position:])
        self._note_surroundings(outside)
        return reading

    def _note_surroundings(self, outside: list[str]) -> None:
        around = "".join(outside)
        self.reading.broken |= _RESIDUE.search(around) is not None
        if "```" in around or "~~~" in around:
            self.reading.note("fence")
        if around.replace("```", "").replace("json", "").strip("~ \t\r\n\ufeff"):
            self.reading.note("prose")

    def _blank(self) -> str:
        """Skip blanks and comments; the character that follows, or "" at the end."""
        plain = _PLAIN_BLANK.match(self.text, self.at)
        assert plain is not None
        self.at = plain.end()
        if self.text[self.at : self.at + 1] in ("/", "#"):
            blank = _BLANK.match(self.text, self.at)
            assert blank is not None
            if blank.end() > self.at:
                self.reading.note("comment")
            self.at = blank.end()
        return self.text[self.at : self.at + 1]

    def _value(self, in_object: bool = False) -> Any:
        char = self._blank()
        if char == "":
            raise _Truncated
        if char in '"\'"':
            return self._string()
        if char in "{[":
            if self.depth >= MAX_DEPTH:
                raise _TooDeep
            self.depth += 1
            self.committed |= self.depth > 1
            self.at += 1
            value = self._mapping() if char == "{" else self._array()
            self.depth -= 1
            return value
        return self._scalar(in_object)

    def _scalar(self, in_object: bool) -> Any:
        number = _NUMBER.match(self.text, self.at)
        if number:
            self.at = number.end()
            if self.at == len(self.text):
                raise _Truncated  # its last digits may be missing
            digits = number[0]
            plain = digits.lstrip("-").isdigit() and len(digits) <= 18
            return int(digits) if plain else float(digits)
        word = _WORD.match(self.text, self.at)
        if not word:
            raise _NotJson
        self.at = word.end()
        if self.at == len(self.text):
            raise _Truncated
        if word[0] in _LITERALS:
            return _LITERALS[word[0]]
        if word[0] in _FOREIGN_LITERALS:
            self.reading.note("python_literal")
            return _FOREIGN_LITERALS[word[0]]
        if word[0] in _NOT_NUMBERS:
            self.reading.note("not_a_number")
            return _NOT_NUMBERS[word[0]]
        if not in_object:  # `[x]` in prose is no list
            raise _NotJson
        self.reading.note("bare_word")
        return word[0]

    def _array(self) -> list[Any]:
        items: list[Any] = []
        while True:
            char = self._blank()
            if char == "]":
                self.at += 1
                return items
            if char == ",":
                self.reading.note("stray_comma")
                self.at += 1
                continue
            items.append(self._value())
            if self._after_item("]"):
                return items
            if self._blank() == "":
                raise _Truncated  # more items may have been meant to follow

    def _mapping(self) -> dict[str, Any]:
        items: list[tuple[str, Any]] = []
        while True:
            char = self._blank()
            if char == "}":
                self.at += 1
                break
            if char == ",":
                self.reading.note("stray_comma")
                self.at += 1
                continue
            key = self._key(char)
            if self._blank() != ":":
                raise _Truncated if self.at >= len(self.text) else _NotJson
            self.at += 1
            self.committed |= char in "\"'"
            items.append((key, self._value(in_object=True)))
            if self._after_item("}"):
                break
            if self._blank() == "":
                if isinstance(items[-1][1], list):  # the list inside is whole
                    self.reading.note("unclosed")
                    break
                raise _Truncated
        return _object(items, self.reading)

    def _after_item(self, closer: str) -> bool:
        """Read what follows an item: the closing bracket (True), a comma or the next item (False)."""
        char = self._blank()
        if char == closer:
            self.at += 1
            return True
        if char == ",":
            self.at += 1
            char = self._blank()
            if char == closer:
                self.reading.note("trailing_comma")
            elif char == "":
                raise _Truncated
        elif char in ("]", "}"):
            raise _NotJson
        elif char:
            self.reading.note("missing_comma")
        return False

    def _key(self, char: str) -> str:
        if char == "":
            raise _Truncated
        if char in "\"'":
            return self._string()
        word = _WORD.match(self.text, self.at)
        if not word:
            raise _NotJson
        self.at = word.end()
        self.reading.note("bare_key")
        return word[0]

    def _string(self) -> str:
        quote, chunks = self.text[self.at], list[str]()
        if quote == "'":
            self.reading.note("single_quotes")
        self.at += 1
        while True:
            stop = _STOPS[quote].search(self.text, self.at)
            if stop is None:
                raise _Truncated
            chunks.append(self.text[self.at : stop.start()])
            self.at = stop.end()
            if stop[0] == "\\":
                chunks.append(self._escape())
            elif _AFTER_STRING.match(self.text, self.at) or _NEXT_ITEM_ON_NEW_LINE.match(self.text, self.at):
                return "".join(chunks)
            else:
                self.reading.note("inner_quote")
                chunks.append(quote)

    def _escape(self) -> str:
        char = self.text[self.at : self.at + 1]
        if char == "":
            raise _Truncated
        self.at += 1
        if char in _ESCAPES:
            return _ESCAPES[char]
        digits = _HEX.match(self.text, self.at) if char == "u" else None
        if digits:
            self.at = digits.end()
            return chr(int(digits[0], 16))
        self.reading.note("bad_escape")
        return "'" if char == "'" else "\\" + char
