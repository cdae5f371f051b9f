"""Recalled memories come back to us inside the next user message. They must never be extracted again: one peer fed a
hallucination back into its own store 668 times that way. The context block that memkit renders is fenced by two lines
that carry one random nonce; `strip_recalled` takes such blocks out before a turn is shown to an extractor."""

from __future__ import annotations

import re
from bisect import bisect_right

OPEN_LINE = "<<memkit:memories {nonce}>>"
CLOSE_LINE = "<<memkit:end {nonce}>>"
"""`nonce`: 8 to 64 lower-case hexadecimal digits."""

_FENCE = re.compile(r"^[ \t]*<<memkit:(memories|end) ([0-9a-f]{8,64})>>[ \t]*$")


def strip_recalled(text: str) -> str:
    """`text` without the blocks between an opening line and the next closing line of the same nonce. An opening line
    that is never closed hides nothing: whoever types one does not get words past the extractor."""
    if "<<memkit:memories " not in text:
        return text
    lines = text.split("\n")
    fences = [_FENCE.match(line.rstrip("\r")) for line in lines]
    closings: dict[str, list[int]] = {}
    for index, fence in enumerate(fences):
        if fence and fence[1] == "end":
            closings.setdefault(fence[2], []).append(index)
    kept: list[str] = []
    index = 0
    while index < len(lines):
        fence = fences[index]
        ends = closings.get(fence[2], []) if fence and fence[1] == "memories" else []
        after = bisect_right(ends, index)
        if after < len(ends):
            index = ends[after] + 1
            continue
        kept.append(lines[index])
        index += 1
    return "\n".join(kept).strip()
