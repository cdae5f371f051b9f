"""The one place where a filter becomes a LanceDB expression. Values travel as typed literals, never as text.

LanceDB's expressions have no IS NULL, so only comparisons that mean the same in SQL and here are pushed down; where
that is not all of them, the caller checks the rows again with `Condition.matches`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, cast

from memkit.filters import COLUMNS, Condition, Scalar, Term
from memkit.store.lance import modules

_NULLABLE = frozenset({"at", "created_at", "updated_at", "expires_at"})
_INT64 = 2**63 - 1
_INTEGERS = frozenset({"revision", "seq"})


def equals(column: str, value: Scalar) -> Any:
    lit = _expr().lit
    return _expr().col(column) == lit(value)


def above(column: str, value: int) -> Any:
    return _expr().col(column) > _expr().lit(value)


def at_most(column: str, value: int) -> Any:
    return _expr().col(column) <= _expr().lit(value)


def among(column: str, values: Iterable[Scalar]) -> Any:
    lit = _expr().lit
    return _expr().col(column).isin([lit(value) for value in values])


def differs(column: str, value: Scalar) -> Any:
    return _expr().col(column) != _expr().lit(value)


def none_of(column: str, values: Iterable[Scalar]) -> Any:
    return ~among(column, values)


def every(parts: Iterable[Any]) -> Any | None:
    """All of `parts`; None where there are none."""
    whole: Any | None = None
    for part in parts:
        whole = part if whole is None else whole & part
    return whole


def compile_condition(condition: Condition) -> tuple[Any | None, bool]:
    """The expression (None where nothing can be pushed down), and whether it says all that `condition` says. Without
    its other half it lets more rows through, never fewer."""
    parts = [part for part in map(_term, condition.terms) if part is not None]
    return every(parts), len(parts) == len(condition.terms)


def _term(term: Term) -> Any | None:
    if term.path or term.operator == "$contains":
        return None
    if term.operator == "$in":
        members = cast("tuple[Scalar, ...]", term.value)
        return among(term.column, members) if members and all(_literal(term.column, m) for m in members) else None
    value = cast("Scalar", term.value)
    if not _literal(term.column, value) or (term.operator == "$ne" and term.column in _NULLABLE):
        return None
    column, literal = _expr().col(term.column), _expr().lit(value)
    match term.operator:
        case "$eq":
            return column == literal
        case "$ne":
            return column != literal
        case "$gt":
            return column > literal
        case "$gte":
            return column >= literal
        case "$lt":
            return column < literal
        case "$lte":
            return column <= literal


def _literal(column: str, value: Scalar) -> bool:
    """Whether `value` compares in SQL as it does in Python: no nulls, no floats against integers, no overflow (SQL
    time literals count nanoseconds)."""
    if value is None:
        return False
    if isinstance(value, datetime):
        return 1700 < value.year < 2200
    if column in _INTEGERS:
        return isinstance(value, int) and -_INT64 <= value <= _INT64
    if COLUMNS[column] == "number":
        return isinstance(value, int | float) and abs(value) < 2**53  # false of nan, too
    return True


def _expr() -> Any:
    modules()
    import lancedb.expr

    return lancedb.expr
