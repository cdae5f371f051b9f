"""What a bank looks like: size, operations, duplicates, junk, stale content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from memkit.models import MemoryRecord, Op
from memkit_train.evaluate.conversations import Conversation
from memkit_train.evaluate.recall import content_words, supports
from memkit_train.lab.worlds import language
from memkit_train.lab.worlds.model import Episode

_SAME = 0.9
"""Two memories whose content words overlap this much (Jaccard) say the same."""


def bank_figures(
    records: Sequence[MemoryRecord], ops: Sequence[Op], conversation: Conversation, names: Sequence[str]
) -> dict[str, float]:
    """Figures of one bank at the end of its conversation. `size` is words kept per word said."""
    said = sum(len(turn.text.split()) for turn in conversation.turns)
    words = sum(len(record.text.split()) for record in records)
    texts = {turn.ref: turn.text for turn in conversation.turns}
    tags = [(record.text, texts[ref]) for record in records for ref in record.source_turns if ref in texts]
    unfaithful = sum(not supports(text, turn, names) for text, turn in tags)
    count = max(len(records), 1)
    out = {
        "memories": float(len(records)),
        "words": float(words),
        "size": words / max(said, 1),
        "duplicates": duplicates(records) / count,
        "unsupported_tags": unfaithful / max(len(tags), 1),
    }
    turns = max(len(conversation.turns), 1)
    mix = Counter(op.action for op in ops)
    out |= {f"ops_{action}": mix[action] / turns for action in ("add", "update", "delete", "noop")}
    episode = conversation.info.get("episode")
    if isinstance(episode, Episode):
        out |= world_figures(records, episode)
    return out


def duplicates(records: Sequence[MemoryRecord]) -> int:
    """Memories that only repeat an earlier one."""
    seen: list[frozenset[str]] = []
    repeated = 0
    for record in records:
        words = content_words(record.text)
        if any(len(words & one) >= _SAME * len(words | one) for one in seen if words):
            repeated += 1
        else:
            seen.append(words)
    return repeated


def world_figures(records: Sequence[MemoryRecord], episode: Episode) -> dict[str, float]:
    """Exact where the truth is known. junk: says nothing about any state (jokes, visits, chit-chat); stale: says
    something that is not true any more; `true_kept`: share of the true values that some memory states."""
    junk = stale = 0
    kept: set[tuple[str, str, str]] = set()
    truth = truth_of(episode.final)
    for record in records:
        meaning = language.read(record.text)
        if meaning is None:
            junk += 1
            continue
        stated = {(meaning.subject, meaning.attribute, value) for value in meaning.values}
        if meaning.mode == "gone":
            stale += bool(stated & truth)
            continue
        stale += bool(stated - truth)
        kept |= stated & truth
    count = max(len(records), 1)
    return {"junk": junk / count, "stale": stale / count, "true_kept": len(kept) / max(len(truth), 1)}


def truth_of(final: Mapping[tuple[str, str], tuple[str, ...]]) -> set[tuple[str, str, str]]:
    return {(subject, attribute, value) for (subject, attribute), values in final.items() for value in values}
