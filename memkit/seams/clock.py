"""Clock and ids: the two sources of non-determinism that every room takes from its caller instead of reaching for."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Record time, timezone-aware. Never used for ordering."""
        ...

    def monotonic(self) -> float: ...


class Ids(Protocol):
    def new(self, prefix: str) -> str:
        """A fresh id such as `t_0192f…`: unique across processes, sortable by creation within one."""
        ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class RandomIds:
    """48 bits of milliseconds, then 80 random bits: the layout of UUIDv7, in hex."""

    def new(self, prefix: str) -> str:
        return f"{prefix}_{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"
