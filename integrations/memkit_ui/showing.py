"""How values look on a page: text that cannot run or turn the line around, times, digests, small charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from memkit.models import MemoryRecord, Op

LONGEST = 1_500
"""Letters of a text that a page shows; the JSON of the page has all of them."""
_TURNING = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def visible(text: object, longest: int = LONGEST) -> str:
    """Control and direction characters are shown, not obeyed; a very long text is cut, and says so."""
    whole = "" if text is None else str(text)
    cut = whole[:longest]
    shown = "".join(f"\\u{ord(char):04x}" if _is_hidden(char) else char for char in cut)
    return shown if len(whole) <= longest else f"{shown} … ({len(whole):,} characters in all)"


def _is_hidden(char: str) -> bool:
    return (
        (char < " " and char not in "\n\t")
        or "\x7f" <= char <= "\x9f"
        or char in _TURNING
        or "\ud800" <= char <= "\udfff"
        or "\U000e0000" <= char <= "\U000e007f"
    )


def when(moment: datetime | str | None) -> str:
    if moment is None or moment == "":
        return "–"
    try:
        at = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        return visible(moment, 40)
    return f"{at.day} {at:%b %Y, %H:%M}"


def short(digest: str | None) -> str:
    return digest[:12] if digest else "base"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1_000:
            return f"{count:.0f} {unit}"
        count /= 1_000
    return f"{count:.1f} GB"


def link(path: str, **query: Any) -> str:
    """An address of ours. What is None or "" is left out."""
    kept = {key: value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(kept, errors='replace')}" if kept else path


def columns(days: Mapping[str, int], most: int = 60) -> list[dict[str, Any]]:
    """The newest days as columns of a chart of 600 × 80."""
    shown = list(days.items())[-most:]
    top = max((count for _, count in shown), default=0) or 1
    width = 600 / max(len(shown), 12)
    return [
        {
            "x": round(n * width + 1, 1),
            "width": round(width - 2, 1),
            "height": round(76 * count / top + 2, 1),
            "y": round(80 - 76 * count / top - 2, 1),
            "day": day,
            "count": count,
        }
        for n, (day, count) in enumerate(shown)
    ]


def shares(counts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Parts of a whole, as pieces of a bar of 100."""
    total = sum(max(value, 0) for value in counts.values()) or 1
    left, out = 0.0, list[dict[str, Any]]()
    for name, value in counts.items():
        width = 100 * max(value, 0) / total
        out.append({"name": name, "value": value, "x": round(left, 2), "width": round(width, 2)})
        left += width
    return out


def as_data(value: Any) -> Any:
    """A page's values as JSON."""
    if isinstance(value, MemoryRecord | Op):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {name: as_data(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): as_data(one) for key, one in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [as_data(one) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


FILTERS = {"visible": visible, "when": when, "short": short, "size": size, "columns": columns, "shares": shares}
