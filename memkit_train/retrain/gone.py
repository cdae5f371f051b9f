"""What a configuration of an earlier version could say and this one cannot: why it went, and what serves instead. The
figures are those of tests/bench/RESULTS.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memkit.errors import InvalidConfig

_INSTEAD = "set method.name to sft, with method.amends and method.polish; or train elsewhere on `memkit-train export`"


@dataclass(frozen=True, slots=True)
class Gone:
    section: str
    key: str
    value: str | None
    """None: any."""
    why: str
    fix: str


_SHUFFLED = "69.6 % after imitation of shuffled labels"
_GONE = (
    Gone("method", "name", "kto", f"57.5 % of answers were right after it, 58.7 % before it, {_SHUFFLED}", _INSTEAD),
    Gone("method", "name", "dpo", f"a log holds no pairs; with replayed ones 61.7 % of answers were right, {_SHUFFLED}",
         _INSTEAD),
    Gone("method", "name", "offline", f"66.2 % of answers were right after it, {_SHUFFLED}", _INSTEAD),
    Gone("method", "name", "ladder", "of its four rungs it kept the first on two of three seeds, and none on the third",
         "set method.name to sft"),
    Gone("method", "alternatives", None, "they added 0.4 points to imitation", "set method.amends, which adds 5.9"),
    Gone("online", "credit", "state", "nothing showed step groups above one reward for each episode",
         "leave it out, or use `memkit-train logo`, which credits each session"),
    Gone("gate", "latency", None, "it was judged by the clock: a busy machine refused what an idle one passed",
         "set gate.work and gate.calls, which count what a decision costs"),
)  # fmt: skip
_NEUTRAL = (("method", "alternatives", 0), ("online", "credit", "episode"), ("gate", "latency", 0.5))
"""As earlier versions wrote into the resolved form: what is now always so."""


def refuse_gone(raw: dict[str, Any]) -> None:
    for section, key, value in _NEUTRAL:
        if _said(raw, section, key) == value:
            del raw[section][key]
    for one in _GONE:
        value = _said(raw, one.section, one.key)
        if value is not None and one.value in (None, value):
            raise InvalidConfig(f"{one.section}.{one.key}: {value} is gone", why=one.why, fix=one.fix)


def _said(raw: dict[str, Any], section: str, key: str) -> Any:
    inside = raw.get(section)
    return inside.get(key) if isinstance(inside, dict) else None
