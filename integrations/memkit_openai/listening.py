"""Reading along with a reply as it passes, without holding it up; and telling a retry from the same words said anew."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass

from memkit_openai.dialects import Heard

MAX_HEARD_BYTES = 2_000_000
"""Of a longer reply, the rest passes unread."""


class Listener:
    """Fed with the bytes of a reply as they come, in whatever pieces."""

    def __init__(self, heard: Heard, *, events: bool) -> None:
        self._heard, self._events = heard, events
        self._held = b""
        self._size = 0

    def feed(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > MAX_HEARD_BYTES:
            return
        self._held += chunk
        if self._events and b"\n" in chunk:
            *lines, self._held = self._held.split(b"\n")
            for line in lines:
                self._line(line)

    def text(self) -> str:
        """Once all has been fed; "" where the reply could not be read whole."""
        if self._size > MAX_HEARD_BYTES:
            return ""
        if self._events:
            self._line(self._held)
        else:
            try:
                self._heard.whole(json.loads(self._held))
            except (ValueError, RecursionError):
                return ""
        return self._heard.text

    @property
    def failed(self) -> bool:
        """The API said so, in a stream that it ended properly."""
        return self._heard.failed

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        data = line[5:].strip()
        if data and data != b"[DONE]":
            try:
                self._heard.event(json.loads(data))
            except (ValueError, RecursionError):
                return


@dataclass(slots=True)
class Delivery:
    key: str
    at: float
    reached: bool = False
    """The API took the request, or the client hung up before it could tell: what the user said counts as said."""
    delivered: bool = False
    """The reply went to the client whole."""


class Attempts:
    """Gives each statement an idempotency key, and a retry the key of what it retries.

    The same request is a retry where the client says so, or where the reply to the earlier one did not reach it whole.
    After a whole reply the same request is the same words said again, and is stored as such."""

    WINDOW_S = 600.0
    MOST = 10_000

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, Delivery] = OrderedDict()

    def begin(self, who: str, body: bytes, own_key: str | None, retries: str | None) -> Delivery:
        if own_key:
            return Delivery(_digest(who, "own", own_key.encode()), time.monotonic())
        now, name = time.monotonic(), _digest(who, "body", body)
        known = self._attempts.get(name)
        is_retry = known is not None and (not known.delivered or (retries or "0").strip() not in ("", "0"))
        if known is not None and is_retry and now - known.at < self.WINDOW_S:
            self._attempts.move_to_end(name)
            known.at, known.delivered, known.reached = now, False, False
            return known
        attempt = self._attempts[name] = Delivery(uuid.uuid4().hex, now)
        self._attempts.move_to_end(name)
        while len(self._attempts) > self.MOST:
            self._attempts.popitem(last=False)
        return attempt


def _digest(who: str, kind: str, value: bytes) -> str:
    return hashlib.sha256(f"{who}\x1f{kind}\x1f".encode() + value).hexdigest()
