"""When to call again, and after how long. Pure decisions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_PASSING = frozenset({408, 409, 425, 429})


def is_passing(status: int) -> bool:
    """A status that may be gone on the next call."""
    return status in _PASSING or status >= 500


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the server asks for: `retry-after-ms`, or `retry-after` as seconds or as an HTTP date."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        raw = headers.get(name, "").strip()
        try:
            seconds = float(raw) * scale
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError):
        return None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return max(0.0, (when - now).total_seconds())


def backoff(failures: int, rng: random.Random, *, base: float = 0.25, cap: float = 8.0) -> float:
    """Doubling, with the upper half drawn at random, so that clients that failed together do not return together."""
    return min(cap, base * 2 ** (failures - 1)) * (0.5 + 0.5 * rng.random())
