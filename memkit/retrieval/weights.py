"""Ranker weights: a number per signal, or two, one for the first places and one for those behind. A value like any
other: it has a digest, goes to JSON and back, and is logged with every decision, so that a learned ranker can be
promoted, compared and rolled back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from memkit.errors import InvalidConfig
from memkit.models import JSON, digest
from memkit.retrieval.signals import SIGNALS, SIGNALS_VERSION, VERSIONS

FORMAT, FORMAT_OF_TWO = "memkit-ranker/1", "memkit-ranker/2"
"""Of weights in one part, and in two, which earlier versions cannot read."""
FIRST = 5
"""Places that are filled by the first half of weights that have two: a question for one thing is answered there, and
what is asked about at length behind them."""


@dataclass(frozen=True, slots=True)
class RankerWeights:
    name: str
    values: tuple[tuple[str, float], ...]
    """(signal, weight), in the order of `SIGNALS`, zeros left out."""
    behind: tuple[tuple[str, float], ...] = ()
    """By what the rows behind the `first` are ordered; none: by `values`, too."""
    first: int = FIRST
    signals: str = SIGNALS_VERSION
    """Version of the signals that these weights were made for."""
    note: str = ""
    """Where they come from. No part of the digest."""

    @classmethod
    def of(
        cls,
        name: str,
        values: Mapping[str, float],
        note: str = "",
        signals: str = SIGNALS_VERSION,
        behind: Mapping[str, float] | None = None,
        first: int = FIRST,
    ) -> RankerWeights:
        return cls(name, _in_order(values), _in_order(behind or {}), first, signals, note)

    @property
    def digest(self) -> str:
        told: JSON = {"format": self.format, "signals": self.signals, "values": [list(pair) for pair in self.values]}
        if self.behind:
            told |= {"behind": [list(pair) for pair in self.behind], "first": self.first}
        return digest(told)

    @property
    def format(self) -> str:
        return FORMAT_OF_TWO if self.behind else FORMAT

    def to_json(self) -> JSON:
        return {
            "format": self.format,
            "name": self.name,
            "signals": self.signals,
            "values": dict(self.values),
            **({"behind": dict(self.behind), "first": self.first} if self.behind else {}),
            "note": self.note,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> RankerWeights:
        """The weights, checked: format, signals, finite numbers, and the digest where one is recorded."""
        if raw.get("format") not in (FORMAT, FORMAT_OF_TWO):
            raise _invalid(f"the format is {raw.get('format')!r}", f"this memkit reads {FORMAT} and {FORMAT_OF_TWO}")
        if raw.get("signals") not in VERSIONS:
            raise _invalid(f"it was made for {raw.get('signals')!r}", f"this memkit computes {', '.join(VERSIONS)}")
        values, behind = _mapping(raw.get("values"), "values"), _mapping(raw.get("behind", {}), "behind")
        name, note = str(raw.get("name", "")), str(raw.get("note", ""))
        first = raw.get("first", FIRST)
        if type(first) is not int or first < 1:
            raise _invalid(f"the number of first places is {first!r}", "the file is damaged")
        weights = cls.of(name, values, note, str(raw["signals"]), behind, first)
        if raw.get("digest") not in (None, weights.digest):
            raise _invalid("its digest does not fit its values", "the file was changed after it was written")
        return weights

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> RankerWeights:
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _invalid(f"{path} cannot be read", str(error)) from error
        if not isinstance(raw, dict):
            raise _invalid(f"{path} holds no object", "the file is damaged")
        return cls.from_json(cast("dict[str, Any]", raw))


def _in_order(values: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    unknown = sorted(set(values) - set(SIGNALS))
    if unknown:
        raise _invalid(f"unknown signals: {', '.join(unknown)}", f"{SIGNALS_VERSION} has {', '.join(SIGNALS)}")
    if not all(_is_number(value) and math.isfinite(value) for value in values.values()):
        raise _invalid("a weight is not a finite number", "scores would be lost")
    return tuple((signal, float(values[signal])) for signal in SIGNALS if values.get(signal))


def _mapping(raw: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise _invalid(f"{name} is no mapping", "the file is damaged")
    return cast("Mapping[str, Any]", raw)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _invalid(what: str, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"ranker weights were refused: {what}", why=why, fix="train them again with `memkit-train ranker`"
    )


_BY_HAND = RankerWeights.of(
    "default/1",
    {
        "words": 0.30,
        "meaning": 0.30,
        "coverage_1": 0.10,
        "coverage_2": 0.05,
        "before_1": 0.05,
        "after_1": 0.05,
        "replies": 0.03,
        "session": 0.05,
        "speaker": 0.10,
        "asker": 0.03,
        "in_time": 0.15,
        "near_time": 0.05,
        "tells_time": 0.03,
        "tells_number": 0.03,
        "length": 0.05,
        "question": -0.03,
        "recent": 0.01,
        "latest": 0.15,
        "trust": 0.05,
    },
    note="set by hand from what is generally known of conversational search; fitted to no data set",
    signals="signals/1",
)
TO_MANAGERS = RankerWeights.of(
    "default/2",
    {**dict(_BY_HAND.values), "asker": 0.1},
    note="as default/1, and what a user said stands above what an assistant answered; set on the talks and RealMem",
)
"""By what managers are shown memories: decisions are replayed, so it stays."""
_FITTED = {
    "words": 0.22,
    "meaning": 0.177,
    "coverage_1": 0.044,
    "coverage_2": 0.06,
    "before_1": 0.049,
    "after_1": 0.013,
    "replies": 0.027,
    "session": 0.102,
    "speaker": 0.094,
    "asker": 0.126,
    "in_time": 0.103,
    "near_time": 0.032,
    "tells_time": 0.11,
    "tells_number": 0.137,
    "length": 0.084,
    "question": -0.069,
    "recent": 0.061,
    "latest": 0.126,
    "trust": 0.047,
}
DEFAULT = RankerWeights.of(
    "default/3",
    _FITTED,
    behind={**_FITTED, "session": 0.4},
    note="fitted by `python -m tests.bench ranking` to the talks; behind the first places the rest of a conversation "
    "that fits counts for more, as RealMem asks for and the talks do not pay for",
)


def _put_facts_first(name: str, weights: RankerWeights) -> RankerWeights:
    note = "for facts that a language model wrote: they say who, when and what is so by now, in one sentence"
    behind = {**dict(weights.behind), "fact": 0.5} if weights.behind else {}
    return RankerWeights.of(name, {**dict(weights.values), "fact": 0.2}, note, weights.signals, behind, weights.first)


RANKINGS = {
    number: (weights, _put_facts_first(f"facts-first/{number}", weights))
    for number, weights in enumerate((_BY_HAND, TO_MANAGERS, DEFAULT), start=1)
}
"""Version → by what reads rank where rules write the facts, and where a language model does."""
