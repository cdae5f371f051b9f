"""A string that does not show itself: not in repr, logs, tracebacks' messages, JSON or pickles."""

from __future__ import annotations

import hmac
from typing import NoReturn

from memkit.errors import InvalidConfig


class Secret:
    """`reveal()` is the only way to the value, so that a search for it finds every use."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    @classmethod
    def header_safe(cls, value: str, name: str) -> Secret:
        """A key that can travel in an HTTP header. Checked here: the transport's own complaint would quote it."""
        if not value.isascii() or not value.isprintable() or value != value.strip() or not value:
            raise InvalidConfig(
                f"{name} is not a usable key",
                why="it is empty, or holds blanks at an end, line breaks or non-ASCII characters",
                fix=f"pass {name} without quotes and line breaks, as the provider shows it",
            )
        return cls(value)

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is never pickled; pass the key again where it is needed")
