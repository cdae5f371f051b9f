"""What the records of an export must hold. A file may come from anywhere, and a field that is taken in unchecked breaks
a later call, far from its cause. Sizes are not checked: the store that wrote the file may have had higher limits."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from memkit.errors import InvalidInput
from memkit.inputs import aware, scope_id, text_of, whole_number
from memkit.journal.records import TraceKind
from memkit.models import JSON, SPACE, Action, Kind, Origin, Status, digest, to_json

Check = Callable[[Any, str], object]

MAX_SEQ = 2**53 - 1
"""Whole numbers up to here are the same in every reader of JSON."""
_HASH = re.compile(r"[0-9a-f]{32}")


class Incoming:
    """Checks the records of one file, in their order. Each refusal names the field."""

    def __init__(self) -> None:
        self._seq = 0

    def check(self, record: JSON) -> None:
        kind = record.get("record")
        if not isinstance(kind, str) or kind not in _RECORDS:
            raise _refused("record", f"is {_short(kind)}", f"it must be one of {', '.join(_RECORDS)}")
        _object(_RECORDS[kind])({key: value for key, value in record.items() if key != "record"}, "")
        if kind == "intake":
            _check_turns(record)
        elif kind == "op":
            _check_images(record)
            if record["seq"] <= self._seq:
                raise _refused("seq", f"is {record['seq']}, after {self._seq}", "ops are in the order of their numbers")
            self._seq = record["seq"]


def _check_turns(intake: JSON) -> None:
    seen: set[str] = set()
    for place, turn in enumerate(intake["turns"]):
        name = f"turns[{place}]"
        if turn["intake_id"] != intake["intake_id"]:
            raise _refused(f"{name}.intake_id", "is not that of the record")
        if turn["position"] != place:
            raise _refused(f"{name}.position", f"is {turn['position']}", "turns are numbered from 0 up, in order")
        if turn["turn_id"] in seen:
            raise _refused(f"{name}.turn_id", "names another turn of the record too")
        if not turn["text"] and (turn["trainable"] or intake["status"] != "applied"):
            raise _refused(
                f"{name}.text", "is empty", "only words that were decided, and that nobody may learn from, are not kept"
            )
        seen.add(turn["turn_id"])
    if not seen:
        raise _refused("turns", "is empty", "nobody said anything, so there is nothing to remember")


_SHAPES = {"add": (False, True), "update": (True, True), "delete": (True, False)}
"""Action → whether there is an image before and after it."""


def _check_images(op: JSON) -> None:
    action, memory_id, before, after = op["action"], op["memory_id"], op["before"], op["after"]
    shape = before is not None, after is not None
    if shape[0] != shape[1] if action == "noop" else shape != _SHAPES[action]:
        raise _refused("before and after", f"do not fit the action {action!r}")
    if (memory_id is None) == any(shape):
        raise _refused("memory_id", "does not fit before and after", "it names the memory that they are images of")
    for name, image in (("before", before), ("after", after)):
        if image is not None and image["id"] != memory_id:
            raise _refused(f"{name}.id", "is not memory_id")
    if before is not None and before["seq"] >= op["seq"]:
        raise _refused("before.seq", "is not that of an earlier op")
    if after is None:
        return
    if after["text"] != op["text"]:
        raise _refused("text", "is not after.text")
    # What an op left as it was still carries the number of the op that wrote it.
    if after["seq"] != op["seq"] and (action != "noop" or to_json(after) != to_json(before)):
        raise _refused("after.seq", f"is {after['seq']}", "an op that changes a memory puts its own seq there")


# -- fields --------------------------------------------------------------------------------------------------------


def _refused(name: str, what: str, why: str = "") -> InvalidInput:
    return InvalidInput(f"{name} {what}", why=why)


def _short(value: Any) -> str:
    return repr(value)[:40]


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refused(name, f"must be a JSON object, not {type(value).__name__}")
    return cast(dict[str, Any], value)


def _object(fields: Mapping[str, Check], **optional: Check) -> Check:
    """These fields, and no others: one that is not known here would be lost."""

    def check(value: Any, name: str) -> None:
        data, within = _mapping(value, name), f"{name}." if name else ""
        for key in fields.keys() ^ (data.keys() - optional.keys()):
            raise _refused(f"{within}{key[:40]}", "is missing" if key in fields else "is no field of this format")
        for key, value in data.items():
            (fields.get(key) or optional[key])(value, f"{within}{key}")

    return check


def _list_of(one: Check) -> Check:
    def check(value: Any, name: str) -> None:
        if not isinstance(value, list):
            raise _refused(name, f"must be a list, not {type(value).__name__}")
        for place, item in enumerate(cast(list[Any], value)):
            one(item, f"{name}[{place}]")

    return check


def _or_none(one: Check) -> Check:
    return lambda value, name: None if value is None else one(value, name)


def _or_empty(one: Check) -> Check:
    return lambda value, name: None if value == "" else one(value, name)


def _one_of(literal: Any) -> Check:
    known = get_args(literal)

    def check(value: Any, name: str) -> None:
        if not isinstance(value, str) or value not in known:
            raise _refused(name, f"is {_short(value)}", f"it must be one of {', '.join(known)}")

    return check


def _text(value: Any, name: str) -> None:
    text_of(value, name, sys.maxsize)


def _words(value: Any, name: str) -> None:
    if not isinstance(value, str):
        raise _refused(name, f"must be text, not {type(value).__name__}")


def _name(value: Any, name: str) -> None:
    """An id that callers may choose, as long as they like."""
    _words(value, name)
    if not value:
        raise _refused(name, "is empty")


def _flag(value: Any, name: str) -> None:
    if not isinstance(value, bool):
        raise _refused(name, f"must be true or false, not {type(value).__name__}")


def _number(low: int) -> Check:
    return lambda value, name: whole_number(value, name, low, MAX_SEQ)


def _trust(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused(name, f"must be a finite number, not {_short(value)}")


def _hash(value: Any, name: str) -> None:
    if not isinstance(value, str) or not _HASH.fullmatch(value):
        raise _refused(name, "is not 32 hexadecimal digits")


def _nothing(value: Any, name: str) -> None:
    if value is not None:
        raise _refused(name, f"must be null, not {_short(value)}", "the record names it once, for all of its turns")


def _context(value: Any, name: str) -> None:
    expires_at = _mapping(value, name).get("expires_at")
    _or_none(aware)(expires_at, f"{name}.expires_at")


def _blobs(value: Any, name: str) -> None:
    for key, text in _mapping(value, name).items():
        if not isinstance(text, str) or digest(text) != key:
            raise _refused(f"{name}.{key[:64]}", "is not named by the sha256 of its text")


def _owner(value: Any, name: str) -> str:
    """A user, a space, or whoever has the grants of all spaces."""
    if isinstance(value, str) and value.startswith(SPACE):
        return value if value == SPACE else SPACE + scope_id(value[len(SPACE) :], name)
    return scope_id(value, name)


_BANK = _object({"user_id": _owner, "agent_id": _or_empty(scope_id)})

_TURN = _object(
    {
        "turn_id": scope_id,
        "intake_id": scope_id,
        "bank": _nothing,
        "position": _number(0),
        "role": _name,
        "text": _or_empty(_text),
        "at": aware,
        "speaker": _words,
        "session_id": _or_empty(scope_id),
        "origin": _one_of(Origin),
        "metadata": _mapping,
        "at_given": _flag,
        "trainable": _flag,
    }
)

_IMAGE = _object(
    {
        "id": scope_id,
        "text": _text,
        "kind": _one_of(Kind),
        "metadata": _mapping,
        "source_turns": _list_of(scope_id),
        "created_at": aware,
        "updated_at": aware,
        "revision": _number(1),
        "at": _or_none(aware),
        "speaker": _words,
        "session_id": _or_empty(scope_id),
        "origin": _one_of(Origin),
        "trust": _trust,
        "expires_at": _or_none(aware),
        "trainable": _flag,
        "content_hash": _hash,
        "seq": _number(1),
    },
    confirmed_at=aware,
    standing=_flag,
)

_RECORDS: dict[str, dict[str, Check]] = {
    "intake": {
        "intake_id": scope_id, "bank": _BANK, "session_id": _or_empty(scope_id), "infer": _flag,
        "idempotency_key": _or_none(scope_id), "created_at": aware, "context": _context, "status": _one_of(Status),
        "reason": _words, "detail": _words, "turns": _list_of(_TURN),
    },
    "op": {
        "intake_id": _or_none(scope_id), "op_id": scope_id, "seq": _number(1), "bank": _BANK,
        "action": _one_of(Action), "memory_id": _or_none(scope_id), "text": _or_none(_words),
        "before": _or_none(_IMAGE), "after": _or_none(_IMAGE), "source_turns": _list_of(scope_id),
        "decision_id": _name, "at": aware, "recorded_at": aware, "cause": _name, "undoes": _or_none(scope_id),
    },
    "decision": {
        "decision_id": _name, "intake_id": _or_none(scope_id), "bank": _BANK, "role": _name, "state_seq": _number(0),
        "payload": _mapping, "created_at": aware, "blobs": _blobs,
    },
    "trace": {
        "trace_id": scope_id, "kind": _one_of(TraceKind), "bank": _BANK, "state_seq": _number(0), "payload": _mapping,
        "created_at": aware,
    },
    "feedback": {
        "feedback_id": scope_id, "trace_id": scope_id, "payload": _mapping, "source": _name, "created_at": aware,
    },
    "untrainable": {"user_id": scope_id},
}  # fmt: skip
