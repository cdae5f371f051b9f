"""`filter={...}` of a search as a predicate on values. Nothing here becomes a query language of a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Predicate = Callable[[Mapping[str, Any]], bool]

_KEY = re.compile(r"[\w.-]+\Z")


def predicate_of(conditions: Mapping[str, Any] | None) -> Predicate | None:
    """None where everything matches. A key is a field, or a dotted path where no field has that very name."""
    if not conditions:
        return None
    for key, wanted in conditions.items():
        if not isinstance(key, str) or not _KEY.match(key):
            raise ValueError(
                f"Invalid filter key: {key!r}. Keys hold letters, digits, underscores, hyphens, and dots for paths"
            )
        _check(wanted)
    terms = tuple((key, tuple(key.split(".")), wanted) for key, wanted in conditions.items())

    def matches(value: Mapping[str, Any]) -> bool:
        return all(_matches(_at(value, key, path), wanted) for key, path, wanted in terms)

    return matches


def _check(wanted: Any) -> None:
    if isinstance(wanted, Mapping):
        operators = [key for key in wanted if isinstance(key, str) and key.startswith("$")]
        unknown = [key for key in operators if key not in _OPERATORS]
        if unknown or (operators and len(operators) != len(wanted)):
            raise ValueError(
                f"Unsupported operator: {(unknown or list(wanted))[0]!r}. Filters know {', '.join(_OPERATORS)}"
            )
        for inner in wanted.values():
            _check(inner)


def _at(value: Mapping[str, Any], key: str, path: tuple[str, ...]) -> Any:
    if key in value or len(path) == 1:
        return value.get(key)
    found: Any = value
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _matches(value: Any, wanted: Any) -> bool:
    """A mapping asks for its own fields only; a list for an equal list; anything else for an equal value."""
    if isinstance(wanted, Mapping):
        if any(isinstance(key, str) and key.startswith("$") for key in wanted):
            return all(_OPERATORS[name](value, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and all(_matches(value.get(key), inner) for key, inner in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str | bytes):
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and len(value) == len(wanted)
            and all(_matches(one, other) for one, other in zip(value, wanted, strict=True))
        )
    return _equal(value, wanted)


def _equal(value: Any, wanted: Any) -> bool:
    """As JSON compares: true is not 1."""
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Numbers, and text that reads as one, compare as floats; other text (dates) as text; anything else never."""

    def holds(value: Any, operand: Any) -> bool:
        if value is None or operand is None:
            return False
        try:
            return compare(_number(value), _number(operand))
        except (TypeError, ValueError):
            return isinstance(value, str) and isinstance(operand, str) and compare(value, operand)

    return holds


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _matches,
    "$ne": lambda value, operand: not _matches(value, operand),
    "$gt": _ordered(lambda value, operand: value > operand),
    "$gte": _ordered(lambda value, operand: value >= operand),
    "$lt": _ordered(lambda value, operand: value < operand),
    "$lte": _ordered(lambda value, operand: value <= operand),
}
