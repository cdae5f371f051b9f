"""Why a memory was found, in words."""

from __future__ import annotations

from memkit.retrieval.query import shared_words
from memkit.retrieval.rank import Scored
from memkit.text.words import date_words

_SHOWN_WORDS = _SHOWN_TIMES = 4


def why(scored: Scored) -> str:
    """One line, e.g. `shares "sunrise", "paint"; close in meaning; said by Melanie; dated 8 May 2023, as asked`."""
    signals, record, asked = scored.signals, scored.record, scored.asked
    parts: list[str] = []
    shared = shared_words(asked, record.text) if asked is not None else []
    if shared:
        parts.append("shares " + ", ".join(f'"{word}"' for word in shared[:_SHOWN_WORDS]))
    elif signals.get("words", 0.0) >= 0.2:
        parts.append("shares words")
    meaning = signals.get("meaning", 0.0)
    if meaning >= 0.8:
        parts.append("close in meaning")
    elif meaning >= 0.6:
        parts.append("related in meaning")
    if signals.get("speaker"):
        parts.append(f"said by {record.speaker}")
    elif signals.get("names"):
        parts.append("speaks of a person you named")
    elif record.origin == "user" and asked is not None and asked.about_asker:
        parts.append("said by the user")
    if signals.get("in_time") and record.at is not None:
        named = "the time asked for"
        if asked is not None:
            named = ", ".join(f'"{phrase.words}"' for phrase in asked.times[:_SHOWN_TIMES])
        parts.append(f"dated {date_words(record.at)}, within {named}")
    elif signals.get("near_time", 0.0) >= 0.4 and record.at is not None:
        parts.append(f"dated {date_words(record.at)}, close to the time asked for")
    if max(signals.get("before_1", 0.0), signals.get("after_1", 0.0)) >= 0.6:
        parts.append("next to a turn that matches")
    elif signals.get("session", 0.0) >= 0.8:
        parts.append("in a conversation that matches")
    if signals.get("tells_time"):
        parts.append("tells a time")
    if signals.get("tells_number"):
        parts.append("tells a number")
    if signals.get("latest", 0.0) >= 0.5:
        parts.append("recent")
    return "; ".join(parts) or "the closest of what is stored"
