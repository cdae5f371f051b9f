"""Memos of what is worked out from a text again and again, and the one way to empty them all.

They hold words that users said for as long as the process lives; an erasure must leave nothing of them, so it empties
every one (they fill again by themselves). Memos of anything else are plain `lru_cache`s."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_T = TypeVar("_T")

_EMPTY: list[Callable[[], None]] = []
_COUNT: list[Callable[[], int]] = []


def remember(size: int) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """The last `size` results of a pure function of texts."""

    def wrap(function: Callable[_P, _T]) -> Callable[_P, _T]:
        memo: Any = lru_cache(maxsize=size)(function)
        forgettable(memo.cache_clear, lambda: memo.cache_info().currsize)
        return cast("Callable[_P, _T]", memo)

    return wrap


def forgettable(empty: Callable[[], None], count: Callable[[], int]) -> None:
    """A memo of another make: how it is emptied, how much it holds."""
    _EMPTY.append(empty)
    _COUNT.append(count)


def forget_texts() -> None:
    for empty in _EMPTY:
        empty()


def count_entries() -> int:
    """Entries of all memos."""
    return sum(count() for count in _COUNT)
