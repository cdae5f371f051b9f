"""`filters={...}` of search and list: a typed condition, evaluated here on records and compiled for LanceDB in
`memkit.store.compile`. Nothing is ever spliced into a query text, so every value is literal.

A filter is a mapping. Its keys are columns or `metadata.a.b`; its values are plain values (`$eq`) or mappings of
operators; everything in it must hold. `$contains` asks a list in the metadata for one member. A memory without the
named metadata matches only `$ne`. `True` is not `1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, cast

from memkit.errors import InvalidFilter, InvalidTime
from memkit.models import MemoryRecord

Operator = Literal["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$contains"]
ColumnType = Literal["text", "time", "number", "flag"]
Scalar = str | int | float | bool | datetime | None

COLUMNS: Mapping[str, ColumnType] = {
    "id": "text",
    "kind": "text",
    "text": "text",
    "speaker": "text",
    "session_id": "text",
    "origin": "text",
    "content_hash": "text",
    "at": "time",
    "created_at": "time",
    "updated_at": "time",
    "expires_at": "time",
    "trust": "number",
    "revision": "number",
    "seq": "number",
    "trainable": "flag",
}
OPERATORS: tuple[Operator, ...] = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$contains")
MAX_TERMS = 256
"""LanceDB's parser kills the whole process at about 50,000 terms; nobody needs hundreds."""
MAX_VALUES = 10_000
"""Members of one `$in`."""
MAX_DEPTH = 16
"""Names in a metadata path."""

_ORDERED = ("$gt", "$gte", "$lt", "$lte")
_NOWHERE = object()


@dataclass(frozen=True, slots=True)
class Term:
    """One comparison. `path` is empty for a column, else the way into `metadata` (and `column` says "metadata")."""

    column: str
    path: tuple[str, ...]
    operator: Operator
    value: Scalar | tuple[Scalar, ...]

    def matches(self, record: MemoryRecord) -> bool:
        found = _dig(record.metadata, self.path) if self.path else getattr(record, self.column)
        if found is _NOWHERE:
            return self.operator == "$ne"
        match self.operator:
            case "$eq":
                return _same(found, self.value)
            case "$ne":
                return not _same(found, self.value)
            case "$in":
                return any(_same(found, value) for value in cast("tuple[Scalar, ...]", self.value))
            case "$contains":
                members = cast("Sequence[Any]", found) if isinstance(found, list | tuple) else ()
                return any(_same(member, self.value) for member in members)
            case _:
                return _ordered(self.operator, found, self.value)


@dataclass(frozen=True, slots=True)
class Condition:
    """All terms hold."""

    terms: tuple[Term, ...] = ()

    def matches(self, record: MemoryRecord) -> bool:
        return all(term.matches(record) for term in self.terms)


def parse_filters(filters: Mapping[str, Any] | None) -> Condition:
    """The condition that `filters` says, or InvalidFilter naming what is allowed."""
    if filters is None:
        return Condition()
    terms: list[Term] = []
    for key, wanted in _mapping(filters, "filters").items():
        column, path = _target(key)
        if not isinstance(wanted, Mapping):
            terms.append(_term(column, path, "$eq", wanted))
            continue
        operators = cast("Mapping[Any, Any]", wanted)
        if not operators:
            raise _invalid(f"the filter on {key!r} is an empty mapping", "it names no operator")
        terms.extend(_term(column, path, _operator(name), value) for name, value in operators.items())
        if len(terms) > MAX_TERMS:
            break
    if len(terms) > MAX_TERMS:
        raise _invalid("the filter has too many terms", f"at most {MAX_TERMS} comparisons are allowed")
    return Condition(tuple(terms))


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise _invalid(f"{what} must be a mapping, not {type(value).__name__}", 'e.g. {"speaker": "ana"}')
    return cast("Mapping[Any, Any]", value)


def _target(key: Any) -> tuple[str, tuple[str, ...]]:
    if isinstance(key, str) and key in COLUMNS:
        return key, ()
    if isinstance(key, str) and key.startswith("metadata."):
        path = tuple(key.split(".")[1:])
        if all(path) and len(path) <= MAX_DEPTH and _encodable(key):
            return "metadata", path
        raise _invalid(f"{_shown(key)} is no metadata path", f"it has 1 to {MAX_DEPTH} non-empty names, joined by dots")
    raise _invalid(f"memories cannot be filtered by {_shown(key)}", "unknown column")


def _operator(name: Any) -> Operator:
    if name in OPERATORS:
        return name
    raise _invalid(f"unknown operator {_shown(name)}", "operators start with a dollar sign")


def _term(column: str, path: tuple[str, ...], operator: Operator, value: Any) -> Term:
    if operator == "$in":
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | set | frozenset):
            raise _invalid(f"$in on {column!r} takes a list", f"it got {type(value).__name__}")
        members = list(cast("Sequence[Any]", value))
        if len(members) > MAX_VALUES:
            raise _invalid(f"$in on {column!r} has {len(members)} values", f"at most {MAX_VALUES} are allowed")
        return Term(column, path, operator, tuple(_value(column, path, operator, member) for member in members))
    if operator == "$contains" and not path:
        raise _invalid(f"$contains on {column!r} asks no list", "lists are in the metadata: metadata.<name>")
    return Term(column, path, operator, _value(column, path, operator, value))


def _value(column: str, path: tuple[str, ...], operator: Operator, value: Any) -> Scalar:
    where = ".".join(("metadata", *path)) if path else column
    if isinstance(value, str) and not _encodable(value):
        raise _invalid(f"the filter on {where!r} holds a lone surrogate", "it is no valid text")
    if isinstance(value, float) and math.isnan(value):
        raise _invalid(f"the filter on {where!r} compares with NaN", "nothing equals NaN")
    if operator in _ORDERED and (value is None or isinstance(value, bool)):
        raise _invalid(f"{operator} on {where!r} takes a number, a text or a time", f"it got {value!r}")
    if not path:
        return _column_value(where, COLUMNS[column], operator, value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise _invalid(f"the filter on {where!r} takes a text, a number, a flag or None", f"it got {type(value).__name__}")


def _column_value(column: str, kind: ColumnType, operator: Operator, value: Any) -> Scalar:
    if kind == "time" and isinstance(value, datetime | str):
        return _time(column, value)
    if kind == "time" and value is None and operator not in _ORDERED:
        return None
    fits = {
        "text": isinstance(value, str),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "flag": isinstance(value, bool) and operator not in _ORDERED,
        "time": False,
    }
    if not fits[kind]:
        raise _invalid(f"{operator} on {column!r} takes a {kind}", f"it got {type(value).__name__}")
    return cast("Scalar", value)


def _time(column: str, value: datetime | str) -> datetime:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise InvalidTime(
            f"the filter on {column!r} holds no time: {_shown(value)}",
            why="it is not ISO 8601",
            fix='write it like "2024-05-08T13:56:00+00:00"',
        ) from None
    if at.utcoffset() is None:
        raise InvalidTime(
            f"the filter on {column!r} holds a time without an offset",
            why="it would mean another moment in every time zone",
            fix="pass an aware datetime, or an ISO string that ends in an offset such as +00:00",
        )
    return at


def _dig(metadata: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = metadata
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return _NOWHERE
        found = cast("Mapping[str, Any]", found)[name]
    return found


def _same(found: Any, wanted: Any) -> bool:
    return _sort(found) == _sort(wanted) and found == wanted


def _ordered(operator: Operator, found: Any, wanted: Any) -> bool:
    if _sort(found) != _sort(wanted) or _sort(found) not in ("text", "number", "time"):
        return False
    match operator:
        case "$gt":
            return found > wanted
        case "$gte":
            return found >= wanted
        case "$lt":
            return found < wanted
        case _:
            return found <= wanted


def _sort(value: Any) -> str:
    """Values of different sorts are never equal and never ordered."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "time" if isinstance(value, datetime) else type(value).__name__


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _invalid(what: str, why: str) -> InvalidFilter:
    allowed = ", ".join([*COLUMNS, "metadata.<name>"])
    return InvalidFilter(
        what,
        why=why,
        fix=f"filter by {allowed}, with {' '.join(OPERATORS)}",
        columns=list(COLUMNS),
        operators=list(OPERATORS),
    )
