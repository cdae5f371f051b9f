"""From a reply to raw items: the tolerant half of every role's parser.

A reply is JSON in some disguise or one item per line. Reading never guesses about content: it undoes ways of writing
(fences, wrappers, renamed keys, mem0's spelling), names each of them in `repairs`, and refuses with a `BadReply` whose
`details["class"]` says why. What an item may *say* is the validators' business (facts.py, operations.py).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from memkit.errors import BadReply
from memkit.roles.grammar import Grammar
from memkit.roles.loose_json import read_json

MAX_REPLY = 1_000_000
MAX_TEXT = 2_000
"""Characters of one fact, memory or answer. Prompts ask for far less."""
MAX_ITEMS = 2_000
"""Items of one reply before repetitions are taken out: far above any limit, far below what takes time."""

TEXT_KEYS = ("text", "fact", "content", "memory", "new_memory", "statement", "value", "data", "information", "answer")
OP_KEYS = ("op", "event", "action", "operation", "type", "decision")
HANDLE_KEYS = ("id", "handle", "memory_id", "target", "memory_number", "number", "index")
TURN_KEYS = ("turn", "turn_id", "turn_number", "source", "source_turn", "dia_id", "line")
_VALUE_KEYS = frozenset((*HANDLE_KEYS, *TURN_KEYS, "text", "fact"))
_ASIDE_KEYS = ("old_memory", "old_text", "reason", "explanation", "thought", "speaker", "confidence", "date")

_MAX_WRAPPERS = 4
_INT = re.compile(r"\W*(?:memory|mem|m|turn|t|id)?\W*(\d{1,6})\W*", re.IGNORECASE)
_KEPT_FORMAT_CHARS = "\u200c\u200d"


def bad_reply(kind: str, what: str, fix: str) -> BadReply:
    """`kind` is the machine-readable class of the failure."""
    return BadReply(what, why="a reply must keep to the format that its prompt asks for", fix=fix, **{"class": kind})


@dataclass(slots=True)
class Notes:
    """Repairs made while one reply is read, in order, each once."""

    repairs: list[str] = field(default_factory=list[str])

    def note(self, *repairs: str) -> None:
        self.repairs.extend(repair for repair in repairs if repair not in self.repairs)


@dataclass(frozen=True, slots=True)
class Shape:
    """What one role's items look like."""

    list_keys: tuple[str, ...]
    """Names under which the list of items is looked for, the schema's own first."""
    item_keys: frozenset[str]
    """A mapping with one of these is an item."""
    read_line: Callable[[str], Mapping[str, Any] | None]
    """One compact line as an item; None when it is none."""
    nothing: frozenset[str]
    """Compact replies (upper case) that mean: no items."""
    strings: bool = False
    """Whether a bare string may stand for an item."""


def check_size(reply: str) -> None:
    if not reply.strip():
        raise bad_reply("empty", "the reply is empty", "reply in the required format; say NONE or NOOP for nothing")
    if len(reply) > MAX_REPLY:
        raise bad_reply("too_large", f"the reply has {len(reply)} characters", "reply with a few short items")


def refuse_stump(cut: bool) -> None:
    """Lines have no closing bracket: only the backbone knows that generation ended at its length limit."""
    if cut:
        raise bad_reply("truncated", "the reply was cut off at its length limit", "reply with fewer, shorter items")


def read_items(reply: str, grammar: Grammar | None, shape: Shape, notes: Notes, cut: bool = False) -> list[Any]:
    """The items of a reply, as mappings (or strings, where the shape allows them)."""
    check_size(reply)
    plain = reply.strip()
    if ("{" in plain or "[" in plain) and not (grammar is not None and grammar.matches(plain)):
        items = _from_json(plain, shape, notes)
        if items is not None:
            return items
    items = _from_lines(plain, shape, notes)
    refuse_stump(cut)
    if items is None:
        raise bad_reply("no_items", "the reply holds nothing in the required format", "reply in that format only")
    return items


def _from_json(text: str, shape: Shape, notes: Notes, wrappers: int = 0) -> list[Any] | None:
    reading = read_json(text)
    found: list[list[Any]] = []
    trial = Notes()
    for value in reading.values:
        items = _collect(value, shape, trial, wrappers)
        if items is None:
            reading.broken |= _resembles_item(value)
            trial.note("prose")
        elif items in found:
            trial.note("repeated_object")
        else:
            found.append(items)
    if reading.too_deep:
        raise bad_reply("too_deep", "brackets are nested too deeply", "reply with one flat JSON object")
    if reading.truncated and (found or _looks_like_json(text)):
        raise bad_reply("truncated", "the reply stops in the middle of an item", "reply again, with shorter items")
    if reading.broken and found:
        raise bad_reply("broken", "a part of the reply is not valid JSON", "reply again with valid JSON")
    if reading.twice and found:
        raise bad_reply("key_twice", "one object gives the same key two values", "use each key once per object")
    if not found:
        return None
    if len(found) > 1:
        trial.note("several_objects")
    notes.note(*reading.repairs, *trial.repairs)
    return [item for items in found for item in items]


def _resembles_item(value: Any) -> bool:
    """An object that is none of the role's items, but has their keys: one that was torn."""
    return isinstance(value, dict) and any(plain_key(key) in _VALUE_KEYS for key in cast("dict[str, Any]", value))


def _looks_like_json(text: str) -> bool:
    return re.match(r"\W*(?:json\s*)?[\[{]", text) is not None or '"' in text


def _collect(value: Any, shape: Shape, notes: Notes, wrappers: int = 0) -> list[Any] | None:
    """The list of items inside `value`, or None when it holds none."""
    if wrappers > _MAX_WRAPPERS:
        return None
    if isinstance(value, list):
        return _collect_from_list(cast("list[Any]", value), shape, notes, wrappers)
    if not isinstance(value, dict):
        return None
    mapping = {plain_key(key): inner for key, inner in cast("dict[str, Any]", value).items()}
    for key in shape.list_keys:
        inner = mapping.get(key)
        if isinstance(inner, list):
            if key != shape.list_keys[0]:
                notes.note("renamed_key")
            return cast("list[Any]", inner)
        if isinstance(inner, dict) and is_item(cast("dict[str, Any]", inner), shape):
            notes.note("bare_item")
            return [inner]
    if is_item(mapping, shape):
        notes.note("bare_item")
        return [value]
    return _collect_from_wrapper(mapping, shape, notes, wrappers)


def _collect_from_list(value: list[Any], shape: Shape, notes: Notes, wrappers: int) -> list[Any] | None:
    given = [item for item in value if item is not None]
    if not given:
        notes.note("bare_array")
        return value
    mappings = [cast("dict[str, Any]", item) for item in given if isinstance(item, dict)]
    if any(is_item(item, shape) for item in mappings) or (
        shape.strings and all(isinstance(item, str) for item in given)
    ):
        notes.note("bare_array")
        return value
    inner = [_collect(item, shape, notes, wrappers + 1) for item in given]
    if any(items is None for items in inner):
        return None
    notes.note("wrapped")
    return [item for items in inner if items is not None for item in items]


def _collect_from_wrapper(mapping: Mapping[str, Any], shape: Shape, notes: Notes, wrappers: int) -> list[Any] | None:
    """A list under an unknown name, or an object (also as a string of JSON) around everything."""
    lists = [inner for inner in mapping.values() if isinstance(inner, list)]
    if len(lists) == 1:
        trial = Notes()
        items = _collect_from_list(cast("list[Any]", lists[0]), shape, trial, wrappers + 1)
        if items is not None:
            notes.note("renamed_key")
            return items
    candidates: list[tuple[str, list[Any]]] = []
    for inner in mapping.values():
        trial = Notes()
        if isinstance(inner, str) and inner.lstrip()[:1] in ("{", "["):
            items = _from_json(inner, shape, trial, wrappers + 1) if wrappers < _MAX_WRAPPERS else None
            name = "encoded_twice"
        else:
            items, name = _collect(inner, shape, trial, wrappers + 1), "wrapped"
        if items is not None:
            candidates.append((name, items))
    if len(candidates) != 1:
        return None
    notes.note(candidates[0][0])
    return candidates[0][1]


def is_item(mapping: Mapping[str, Any], shape: Shape) -> bool:
    """A mapping under such a name is something around an item, not a part of one."""
    return any(plain_key(key) in shape.item_keys and not isinstance(value, dict) for key, value in mapping.items())


def _from_lines(text: str, shape: Shape, notes: Notes) -> list[Any] | None:
    """One item per line. A lead-in (`Here they are:`) and words behind a blank line are prose; any other unreadable
    line is an error, because it may be an item or the rest of one."""
    trial = Notes()
    items: list[Any] = []
    nothing = apart = False
    lines = [line.strip() for line in text.splitlines()]
    read = [shape.read_line(line) for line in lines]
    some = any(item is not None for item in read)
    for line, item, following in zip(lines, read, [*lines[1:], ""], strict=True):
        if not line:
            apart = True
            continue
        if line.startswith(_FENCES):
            trial.note("fence")
            apart = True
            continue
        if line.strip("\"'`*. ").upper() in shape.nothing:
            nothing = True
        elif item is not None:
            items.append(item)
        elif not _LIKE_AN_ITEM.match(line) and (
            apart or (not items and (line.endswith((":", "!")) or not following or following.startswith(_FENCES)))
        ):
            trial.note("prose")
            continue  # what stands apart may have several lines
        elif some:
            raise bad_reply("bad_line", "a line is not in the required format", "put each item on one line of its own")
        apart = False
    if not items and not nothing:
        return None
    notes.note(*trial.repairs)
    return items


_FENCES = ("```", "~~~")
_LIKE_AN_ITEM = re.compile(r"\W*(?:[A-Z]{3,}\b|\d)")


# ---- values of one item ----------------------------------------------------------------------------------------


def plain_key(key: str) -> str:
    return re.sub(r"[^a-z]+", "_", key.lower()).strip("_")


class ReplyItem:
    """One mapping with its values under whatever names."""

    def __init__(self, raw: Mapping[str, Any], notes: Notes) -> None:
        self.notes = notes
        self.values = {plain_key(key): value for key, value in raw.items()}
        known = {*TEXT_KEYS, *OP_KEYS, *HANDLE_KEYS, *TURN_KEYS, *_ASIDE_KEYS}
        self.unknown = {key: value for key, value in self.values.items() if key not in known}

    def find(self, names: Sequence[str], own: Sequence[str]) -> Any:
        """The first value under one of `names`; `own` are the names that the prompt asked for."""
        for name in names:
            if name in self.values:
                if name not in own:
                    self.notes.note("renamed_key")
                return self.values[name]
        return None

    def has(self, names: Sequence[str]) -> bool:
        return any(name in self.values for name in names)

    def take_unknown(self, fits: Callable[[Any], bool]) -> Any:
        """The value of the only unknown name that fits: a key was renamed."""
        fitting = [key for key, value in self.unknown.items() if fits(value)]
        if len(fitting) != 1:
            return None
        self.notes.note("renamed_key")
        return self.unknown.pop(fitting[0])


def unwrap_item(raw: Any, shape: Shape, notes: Notes) -> Mapping[str, Any] | None:
    """`raw` as a mapping; an item inside of one object around it is taken out."""
    for _ in range(_MAX_WRAPPERS):
        if not isinstance(raw, dict):
            return None
        mapping = cast("dict[str, Any]", raw)
        inner = [value for value in mapping.values() if isinstance(value, dict)]
        if is_item(mapping, shape) or len(inner) != 1:
            return mapping
        notes.note("nested_item")
        raw = inner[0]
    return None


def integer(value: Any, notes: Notes) -> int | None:
    """A number however it was written; None when it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        notes.note("string_number")
        return int(value) if value.is_integer() else None
    if isinstance(value, list) and len(cast("list[Any]", value)) == 1:
        notes.note("nested_item")
        return integer(value[0], notes)
    if isinstance(value, str):
        number = _INT.fullmatch(value[:40])
        if number:
            notes.note("string_number")
            return int(number[1])
    return None


def text_of(value: Any, notes: Notes, what: str) -> str:
    """A clean, non-empty, bounded text, or the reason why not."""
    for _ in range(_MAX_WRAPPERS):
        if isinstance(value, dict):
            inner = [one for one in cast("dict[str, Any]", value).values() if isinstance(one, str)]
        elif isinstance(value, list):
            inner = cast("list[Any]", value)
        else:
            break
        if len(inner) != 1:
            break
        notes.note("nested_item")
        value = inner[0]
    if value is None:
        raise bad_reply("empty_text", f"{what} has no text", "give every fact, memory and answer a text")
    if not isinstance(value, str):
        raise bad_reply("wrong_type", f"{what} has a text that is no string", "write texts as plain strings")
    text = clean_text(value, notes)
    if not text:
        raise bad_reply("empty_text", f"{what} has an empty text", "give every fact, memory and answer a text")
    if len(text) > MAX_TEXT:
        raise bad_reply("text_too_long", f"{what} has {len(text)} characters", f"stay far below {MAX_TEXT}")
    return text


def clean_text(text: str, notes: Notes) -> str:
    """One line, single blanks, no control, bidi or other invisible characters, no lone surrogates."""
    if not text.isprintable():
        if any("\ud800" <= char <= "\udfff" for char in text):
            notes.note("surrogates")
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
        kept = "".join(char for char in text if _keeps(char))
        if len(kept) < len(text):
            notes.note("control_chars")
        text = kept
    return " ".join(text.split())


def _keeps(char: str) -> bool:
    if char.isprintable() or char in _KEPT_FORMAT_CHARS or char.isspace():
        return True
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs")
