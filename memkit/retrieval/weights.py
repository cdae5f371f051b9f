"""Ranker weights: a number per signal. A value like any other: it has a digest, goes to JSON and back, and is logged
with every decision, so that a learned ranker can be promoted, compared and rolled back."""

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

FORMAT = "memkit-ranker/1"


@dataclass(frozen=True, slots=True)
class RankerWeights:
    name: str
    values: tuple[tuple[str, float], ...]
    """(signal, weight), in the order of `SIGNALS`, zeros left out."""
    signals: str = SIGNALS_VERSION
    """Version of the signals that these weights were made for."""
    note: str = ""
    """Where they come from. No part of the digest."""

    @classmethod
    def of(
        cls, name: str, values: Mapping[str, float], note: str = "", signals: str = SIGNALS_VERSION
    ) -> RankerWeights:
        unknown = sorted(set(values) - set(SIGNALS))
        if unknown:
            raise _invalid(f"unknown signals: {', '.join(unknown)}", f"{SIGNALS_VERSION} has {', '.join(SIGNALS)}")
        if not all(_is_number(value) and math.isfinite(value) for value in values.values()):
            raise _invalid("a weight is not a finite number", "scores would be lost")
        kept = tuple((signal, float(values[signal])) for signal in SIGNALS if values.get(signal))
        return cls(name, kept, signals, note)

    @property
    def digest(self) -> str:
        return digest({"format": FORMAT, "signals": self.signals, "values": [list(pair) for pair in self.values]})

    def to_json(self) -> JSON:
        return {
            "format": FORMAT,
            "name": self.name,
            "signals": self.signals,
            "values": dict(self.values),
            "note": self.note,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> RankerWeights:
        """The weights, checked: format, signals, finite numbers, and the digest where one is recorded."""
        if raw.get("format") != FORMAT:
            raise _invalid(f"the format is {raw.get('format')!r}", f"this memkit reads {FORMAT}")
        if raw.get("signals") not in VERSIONS:
            raise _invalid(f"it was made for {raw.get('signals')!r}", f"this memkit computes {', '.join(VERSIONS)}")
        values = raw.get("values")
        if not isinstance(values, Mapping):
            raise _invalid("values is no mapping", "the file is damaged")
        given = cast("Mapping[str, Any]", values)
        if not all(_is_number(value) for value in given.values()):
            raise _invalid("a weight is no number", "the file is damaged")
        weights = cls.of(str(raw.get("name", "")), given, str(raw.get("note", "")), str(raw["signals"]))
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


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _invalid(what: str, why: str) -> InvalidConfig:
    return InvalidConfig(
        f"ranker weights were refused: {what}", why=why, fix="train them again with `memkit-train ranker`"
    )


_FIRST = RankerWeights.of(
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
DEFAULT = RankerWeights.of(
    "default/2",
    {**dict(_FIRST.values), "asker": 0.1},
    note="as default/1, and what a user said stands above what an assistant answered; set on the talks and RealMem",
)
_FACTS = "for facts that a language model wrote: they say who, when and what is so by now, in one sentence"
FACTS_FIRST = RankerWeights.of("facts-first/2", {**dict(DEFAULT.values), "fact": 0.2}, note=_FACTS)
RANKINGS = {
    1: (_FIRST, RankerWeights.of("facts-first/1", {**dict(_FIRST.values), "fact": 0.2}, _FACTS, "signals/1")),
    2: (DEFAULT, FACTS_FIRST),
}
"""Version → by what reads rank where rules write the facts, and where a language model does."""
