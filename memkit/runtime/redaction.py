"""What `redact` makes of texts that are no message: metadata, names of speakers, a host's own data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from memkit.errors import InvalidText

Redact = Callable[[str], str]


def redact_of(chosen: object) -> Redact | None:
    if chosen is None:
        return None
    from memkit.text.redact import redactor  # its patterns are compiled for whoever redacts

    return redactor(chosen)


def redacted_data(redact: Redact | None, text: str) -> str:
    """A blank text has nothing to hide. Unlike a message, data may be blank once they are redacted."""
    if redact is None or not text.strip():
        return text
    made: object = redact(text)
    if not isinstance(made, str):
        raise InvalidText(f"what redact() returned is {type(made).__name__}", fix="return a str")
    return made


def redacted_values(redact: Redact, name: str, value: Any) -> Any:
    """Every text of a JSON value. Its name is read with it, for `{"password": "x"}` says what x is."""
    if isinstance(value, str):
        prefix = f"{name}: " if name else ""
        named = redacted_data(redact, prefix + value)
        return named[len(prefix) :] if named.startswith(prefix) else redacted_data(redact, value)
    if isinstance(value, dict):
        return {inner: redacted_values(redact, inner, one) for inner, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [redacted_values(redact, name, one) for one in cast("list[Any]", value)]
    return value
