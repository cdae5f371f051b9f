"""What models do to the replies that they were asked for: 28 mutators × 6 reply shapes, seeded.

`mutations(count, seed)` cycles through every pair, so that 168 of them touch each once. A mutation is *repairable* when
everything that the clean reply said is still in it, written in another way; then reading it must give the clean
reply's meaning. The rest may only be refused, or read as what they then say.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MARK = "\ue000"
"""Stands for raw text that JSON could not carry, until the JSON is written."""


@dataclass(frozen=True)
class Shape:
    """A clean reply. `value` is its JSON; `text` what is sent (the JSON, or compact lines)."""

    name: str
    role: str
    value: Any
    list_key: str
    text_key: str
    compact: str = ""

    @property
    def text(self) -> str:
        return self.compact or json.dumps(self.value)

    def items(self, value: Any) -> list[Any]:
        return value[self.list_key]


SHAPES = (
    Shape(
        "facts", "extractor",
        {"facts": [
            {"turn": 1, "fact": "Ana adopted a dog named Buddy on 7 May 2023."},
            {"turn": 2, "fact": "Ben's flat is in Oslo, near the \"Royal\" park."},
            {"turn": 1, "fact": "Ana plans to visit Ben: in June, maybe."},
        ]},
        "facts", "fact",
    ),
    Shape(
        "operations", "manager",
        {"operations": [
            {"op": "UPDATE", "id": 2, "text": "Ana has two dogs, Buddy and Scout."},
            {"op": "DELETE", "id": 1, "text": None},
            {"op": "ADD", "id": None, "text": "Ana's new flat is in Bergen."},
        ]},
        "operations", "text",
    ),
    Shape(
        "mem0", "manager",
        {"memory": [
            {"id": "1", "text": "Ana has a car.", "event": "DELETE"},
            {"id": "2", "text": "Ana has two dogs, Buddy and Scout.", "event": "UPDATE", "old_memory": "A dog."},
            {"id": "7", "text": "Ana's new flat is in Bergen.", "event": "ADD"},
        ]},
        "memory", "text",
    ),
    Shape(
        "fused", "fused",
        {"operations": [
            {"op": "UPDATE", "id": 2, "text": "Ana has two dogs, Buddy and Scout.", "turn": 1},
            {"op": "ADD", "id": None, "text": "Ben's flat is in Oslo (since 2019).", "turn": 2},
        ]},
        "operations", "text",
    ),
    Shape("answer", "answerer", {"memories": [1, 2], "answer": "two dogs: Buddy, Ana's Scout"}, "memories", "answer"),
    Shape(
        "compact", "manager",
        {"operations": [
            {"op": "UPDATE", "id": 2, "text": "Ana has two dogs, Buddy and Scout."},
            {"op": "ADD", "id": None, "text": "Ana's new flat is in Bergen."},
        ]},
        "operations", "text",
        compact="UPDATE 2 Ana has two dogs, Buddy and Scout.\nADD Ana's new flat is in Bergen.",
    ),
)  # fmt: skip

_Mutate = Callable[[Shape, random.Random], str]


@dataclass(frozen=True)
class Mutator:
    name: str
    mutate: _Mutate
    repairable: bool = False
    not_for: tuple[str, ...] = ()
    """Shapes whose meaning the mutation destroys although its class is repairable."""
    cut: bool = False


@dataclass(frozen=True)
class Mutation:
    number: int
    mutator: str
    shape: Shape
    reply: str
    repairable: bool
    cut: bool
    """Generation stopped at its length limit, as the server would say (`finish_reason: length`)."""


def mutations(count: int, seed: int = 0) -> Iterator[Mutation]:
    pairs = [(mutator, shape) for mutator in MUTATORS for shape in SHAPES]
    for number in range(count):
        mutator, shape = pairs[number % len(pairs)]
        rng = random.Random(f"{seed}/{number}/{mutator.name}/{shape.name}")
        repairable = mutator.repairable and shape.name not in mutator.not_for
        yield Mutation(number, mutator.name, shape, mutator.mutate(shape, rng), repairable, mutator.cut)


# ---- damage to the characters ----------------------------------------------------------------------------------


def _truncate(shape: Shape, rng: random.Random) -> str:
    return shape.text[: rng.randrange(1, len(shape.text))]


def _bit_flip(shape: Shape, rng: random.Random) -> str:
    at = rng.randrange(len(shape.text))
    return shape.text[:at] + chr(ord(shape.text[at]) ^ (1 << rng.randrange(7))) + shape.text[at + 1 :]


def _delete(shape: Shape, rng: random.Random) -> str:
    at = rng.randrange(len(shape.text))
    return shape.text[:at] + shape.text[at + rng.randrange(1, 6) :]


def _duplicate_span(shape: Shape, rng: random.Random) -> str:
    start = rng.randrange(len(shape.text))
    end = min(len(shape.text), start + rng.randrange(1, 40))
    return shape.text[:end] + shape.text[start:]


def _insert(shape: Shape, rng: random.Random) -> str:
    at = rng.randrange(len(shape.text) + 1)
    return (
        shape.text[:at]
        + rng.choice(['"', "'", "{", "}", "[", "]", ",", ":", "\\", "\n", "x", "é", "👩", "0"])
        + shape.text[at:]
    )


def _mid_string_stop(shape: Shape, rng: random.Random) -> str:
    text = shape.items(shape.value)[-1][shape.text_key] if shape.role != "answerer" else shape.value["answer"]
    at = shape.text.rindex(text[:5]) + rng.randrange(1, len(text) - 1)
    return shape.text[:at]


# ---- words around it -------------------------------------------------------------------------------------------


def _prose(shape: Shape, rng: random.Random) -> str:
    before = rng.choice(["Sure! Here is what I found:\n\n", "Here you go:\n", "Okay, let me think. The result is:\n\n"])
    after = rng.choice(["", "\n\nLet me know if you need anything else!", "\n\nI hope this helps."])
    return before + shape.text + after


def _fence(shape: Shape, rng: random.Random) -> str:
    mark = rng.choice(["```json\n", "```\n", "```JSON\n", "``` json\n", "\n\n```json\n\n"])
    return mark + shape.text + rng.choice(["\n```", "\n```\n", "\n```\n\nDone."])


def _prose_with_braces(shape: Shape, rng: random.Random) -> str:
    before = rng.choice(
        [
            "Following the {schema} you gave [above]:\n\n",
            "Using {op, id, text} as asked:\n\n",
            "Format [x], {y}:\n\n",
        ]
    )
    return before + shape.text + rng.choice(["", "\n\n(see {docs} for more)", "\n\n[end]"])


def _refusal(shape: Shape, rng: random.Random) -> str:
    return rng.choice(
        [
            "I'm sorry, but I can't help with that.",
            "As an AI language model, I cannot store data.",
            "I don't know.",
        ]
    )


def _empty(shape: Shape, rng: random.Random) -> str:
    return rng.choice(["", " ", "\n\n", "```\n```", "null"])


def _two_objects(shape: Shape, rng: random.Random) -> str:
    if rng.random() < 0.5 or shape.role == "answerer" or shape.compact:
        return rng.choice(["\n", "\n\n", " ", "\nCorrected:\n"]).join([json.dumps(shape.value)] * 2)
    items = shape.items(shape.value)
    at = rng.randrange(1, len(items))
    return "\n".join(json.dumps({shape.list_key: part}) for part in (items[:at], items[at:]))


# ---- other ways of writing -------------------------------------------------------------------------------------


def _single_quotes(shape: Shape, rng: random.Random) -> str:
    def quoted(value: Any) -> str:
        if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", rng.choice(["'", "\\'"])) + "'"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{quoted(key)}: {quoted(inner)}" for key, inner in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(quoted, value)) + "]"
        return json.dumps(value)

    return quoted(shape.value)


def _outside_strings(text: str, characters: str) -> list[int]:
    found, inside, escaped = [], False, False
    for at, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            inside = not inside
        elif not inside and char in characters:
            found.append(at)
    return found


def _trailing_comma(shape: Shape, rng: random.Random) -> str:
    text = json.dumps(shape.value, indent=rng.choice([None, 1]))
    places = _outside_strings(text, "]}")
    for at in sorted(rng.sample(places, rng.randrange(1, len(places) + 1)), reverse=True):
        text = text[:at] + rng.choice([",", ", "]) + text[at:]
    return text


def _comments(shape: Shape, rng: random.Random) -> str:
    text = json.dumps(shape.value, indent=1)
    for at in sorted(rng.sample(_outside_strings(text, "\n"), 2), reverse=True):
        text = text[:at] + rng.choice([" // as said", " /* checked */", " # todo, {maybe}"]) + text[at:]
    return text


def _python_literals(shape: Shape, rng: random.Random) -> str:
    return repr(shape.value)


_OTHER_NAMES = {
    "facts": ["memories", "extracted_facts", "items", "Facts", "results"],
    "operations": ["ops", "actions", "changes", "OPERATIONS", "memory_operations"],
    "memory": ["memories", "operations", "updated_memory"],
    "memories": ["used", "selected_memories", "ids", "citations"],
    "fact": ["text", "content", "statement", "Fact", "memory"],
    "text": ["content", "memory", "new_text", "TEXT", "data"],
    "answer": ["text", "response", "final_answer", "Answer"],
    "op": ["event", "operation", "action", "Op", "kind"],
    "event": ["op", "operation", "action"],
    "id": ["memory_id", "handle", "ID", "target"],
    "turn": ["turn_id", "source", "Turn", "turn_number"],
}


def _renamed_key(shape: Shape, rng: random.Random) -> str:
    keys = sorted(_keys(shape.value) & set(_OTHER_NAMES))
    old = rng.choice(keys)
    new = rng.choice(_OTHER_NAMES[old])

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {(new if key == old else key): renamed(inner) for key, inner in value.items()}
        return [renamed(inner) for inner in value] if isinstance(value, list) else value

    return json.dumps(renamed(shape.value))


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_keys(inner) for inner in value.values()))
    return set().union(*(_keys(inner) for inner in value)) if isinstance(value, list) else set()


def _bare_array(shape: Shape, rng: random.Random) -> str:
    return json.dumps([shape.value] if shape.role == "answerer" else shape.items(shape.value))


def _nested_object(shape: Shape, rng: random.Random) -> str:
    value = copy.deepcopy(shape.value)
    kind = rng.choice(["whole", "item", "text"])
    if kind == "whole" or (kind == "item" and shape.role == "answerer"):
        return json.dumps({rng.choice(["result", "response", "output", "data"]): value})
    if kind == "item":
        items = shape.items(value)
        at = rng.randrange(len(items))
        items[at] = {rng.choice(["item", "operation_1", "object"]): items[at]}
        return json.dumps(value)
    holder = _text_holder(shape, value, rng)
    holder[shape.text_key] = {"value": holder[shape.text_key]}
    return json.dumps(value)


def _text_holder(shape: Shape, value: Any, rng: random.Random) -> dict[str, Any]:
    if shape.role == "answerer":
        return value
    return rng.choice([item for item in shape.items(value) if item[shape.text_key]])


def _null_item(shape: Shape, rng: random.Random) -> str:
    value = copy.deepcopy(shape.value)
    items = shape.items(value)
    items.insert(rng.randrange(len(items) + 1), None)
    return json.dumps(value)


def _list_of_strings(shape: Shape, rng: random.Random) -> str:
    value = copy.deepcopy(shape.value)
    if shape.role == "answerer":
        value["memories"] = [str(number) for number in value["memories"]]
    else:
        value[shape.list_key] = [item[shape.text_key] or "" for item in shape.items(value)]
    return json.dumps(value)


# ---- what does not belong into a text --------------------------------------------------------------------------


def _inside_text(raws: list[str]) -> _Mutate:
    def mutate(shape: Shape, rng: random.Random) -> str:
        value = copy.deepcopy(shape.value)
        holder = _text_holder(shape, value, rng)
        text = holder[shape.text_key]
        at = rng.randrange(1, len(text))
        holder[shape.text_key] = text[:at] + MARK + text[at:]
        return json.dumps(value, ensure_ascii=False).replace(MARK, rng.choice(raws))

    return mutate


def _bad_escape(shape: Shape, rng: random.Random) -> str:
    """A backslash before a character that needs none: `Ana\\'s`, `\\dogs`."""
    value = copy.deepcopy(shape.value)
    holder = _text_holder(shape, value, rng)
    text = holder[shape.text_key]
    at = rng.choice([at for at, char in enumerate(text) if char not in '"\\/bfnrtu'])
    holder[shape.text_key] = text[:at] + MARK + text[at:]
    return json.dumps(value, ensure_ascii=False).replace(MARK, "\\")


def _wrong_type(shape: Shape, rng: random.Random) -> str:
    value = copy.deepcopy(shape.value)
    holder = _text_holder(shape, value, rng)
    key = rng.choice(sorted(holder))
    holder[key] = rng.choice([3.5, True, [], {}, ["a", "b"], [[1]], {"a": {"b": 1}}])
    return json.dumps(value)


def _nan(shape: Shape, rng: random.Random) -> str:
    value = copy.deepcopy(shape.value)
    holder = _text_holder(shape, value, rng)
    holder[rng.choice(sorted(holder))] = rng.choice([float("nan"), float("inf"), float("-inf")])
    return json.dumps(value)


def _huge_item(shape: Shape, rng: random.Random) -> str:
    value = copy.deepcopy(shape.value)
    _text_holder(shape, value, rng)[shape.text_key] = rng.choice(["a", "word ", '"', "\\", "{", "🙂"]) * 200_000
    return json.dumps(value)


def _deep_nesting(shape: Shape, rng: random.Random) -> str:
    opener, closer = rng.choice([("[", "]"), ('{"a":', "}"), ('[{"b":', "}]")])
    return opener * 200_000 + (closer * 200_000 if rng.random() < 0.5 else "")


MUTATORS = (
    Mutator("truncate", _truncate, cut=True),
    Mutator("bit flip", _bit_flip),
    Mutator("delete", _delete),
    Mutator("duplicate span", _duplicate_span),
    Mutator("insert", _insert),
    Mutator("prose", _prose, repairable=True),
    Mutator("fence", _fence, repairable=True),
    Mutator("prose with braces", _prose_with_braces, repairable=True),
    Mutator("single quotes", _single_quotes, repairable=True),
    Mutator("trailing comma", _trailing_comma, repairable=True),
    Mutator("renamed key", _renamed_key, repairable=True),
    Mutator("wrong type", _wrong_type),
    Mutator("null item", _null_item, repairable=True),
    Mutator("list of strings", _list_of_strings, repairable=True, not_for=("operations", "mem0", "fused", "compact")),
    Mutator("nested object", _nested_object, repairable=True),
    Mutator("bad escape", _bad_escape, repairable=True),
    Mutator("lone surrogate", _inside_text(["\\ud83d", "\\udc00", "\ud83d"]), repairable=True),
    Mutator("NUL", _inside_text(["\\u0000", "\x00", "\x00\x00"]), repairable=True),
    Mutator("two objects", _two_objects, repairable=True),
    Mutator("refusal", _refusal),
    Mutator("empty", _empty),
    Mutator("200 kB item", _huge_item),
    Mutator("200 k nesting", _deep_nesting),
    Mutator("python literals", _python_literals, repairable=True),
    Mutator("comments", _comments, repairable=True),
    Mutator("NaN", _nan),
    Mutator("bare array", _bare_array, repairable=True),
    Mutator("mid-string stop", _mid_string_stop, cut=True),
)
assert len(MUTATORS) == 28
assert len(SHAPES) == 6
