"""What `tidy` makes of a year of talk: 10,000 turns of 32 people (28 talks, four of LoCoMo), in which people say again
what still holds. Beside it the same talk told once, and the small manager on the English talks of that year.

Set MEMKIT_TALKS and MEMKIT_LOCOMO. Gold counts where the block holds a gold form or the words of the evidence; nothing
is fitted to these questions. A year is generated (`_tidy_year`) from real words: how much of it is said again decides
how much there is to let go, so the note says it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memkit import Memory
from memkit.models import digest
from memkit.ops import BankState
from memkit.retrieval import parse_context
from tests.bench import _tidy_year as years
from tests.bench._real_talks import fold, holds, share, talks
from tests.bench._table import Row
from tests.bench.real import is_set

TURNS, TOKENS, MOST_LIVE, MOST_STALE = 10_000, 300, 60, 0.5


def run(*, full: bool = False) -> list[Row]:
    rows: list[Row] = []
    if not (is_set("MEMKIT_TALKS", rows) and is_set("MEMKIT_LOCOMO", rows)):
        return rows
    told = talks()
    people = [years.of_talk(talk) for talk in told] + years.locomo()
    year = years.tell_again(people, TURNS)
    english = [one for one, talk in zip(year, told, strict=False) if talk.english]
    rows += _rows("a year, rules", _tidied(year, "hash", None), judged=True)
    rows += _rows("told once, rules", _tidied(people, "hash", None), judged=False)
    rows += _rows("a year, English talks, small", _tidied(english, "minilm", "small"), judged=True)
    return rows


@dataclass(slots=True)
class _Seen:
    """What a store serves at one moment."""

    gold: list[bool] = field(default_factory=list[bool])
    stale: list[bool] = field(default_factory=list[bool])
    live: int = 0
    facts: int = 0


@dataclass(slots=True)
class _Told:
    turns: int
    again: int
    before: _Seen
    after: _Seen
    asked: int
    restored: int
    """Banks whose hash is after the undo what it was before the pass."""
    banks: int


def _tidied(told: Sequence[years.Year], embedder: str, model: Any) -> _Told:
    said = [one for year in told for one in year.said]
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(folder + "/store", embedder=embedder, model=model) as memory,
    ):
        for year in told:
            for one in year.said:
                memory.add(one.message, user_id=year.user, session_id=one.session, at=one.at)
        before, hashes = _look(memory, told), {year.user: _hash(memory, year.user) for year in told}
        passes = {year.user: memory.tidy(user_id=year.user) for year in told}
        after = _look(memory, told)
        for user, done in passes.items():
            if done.trace_id:
                memory.undo(user_id=user, turn_id=done.trace_id)
        restored = sum(_hash(memory, user) == one for user, one in hashes.items())
        asked = sum(done.asked for done in passes.values())
        return _Told(len(said), sum(one.again for one in said), before, after, asked, restored, len(told))


def _look(memory: Memory, told: Sequence[years.Year]) -> _Seen:
    seen = _Seen()
    for year in told:
        live = memory.bank(user_id=year.user).live(("fact", "episode", "lesson", "turn"))
        seen.live += len(live)
        seen.facts += sum(one.kind == "fact" for one in live)
        for one in year.questions:
            block = str(memory.context(one["question"], user_id=year.user, max_tokens=TOKENS))
            words = "\n".join(item.text for item in parse_context(block)) if block else ""
            evidence = any(fold(text).rstrip(" .") in fold(words) for text in one["evidence"])
            has = evidence or holds(words, one["answer"])
            seen.gold.append(has)
            if one["stale"]:
                seen.stale.append(holds(words, one["stale"]) and not has)
    return seen


def _hash(memory: Memory, user: str) -> str:
    """Of all that its memories and words say, which turns they are of included; revisions count on, as in any undo."""
    live = memory.bank(user_id=user).live(("fact", "episode", "lesson", "turn"))
    return digest(sorted((key, *map(str, said)) for key, said in BankState({r.id: r for r in live}).content().items()))


def _rows(name: str, told: _Told, *, judged: bool) -> list[Row]:
    before, after = told.before, told.after
    live, gold = 100 * after.live / before.live, share(after.gold)
    stale, was_stale = share(after.stale), share(before.stale)
    note = f"{told.turns:,} turns, {100 * told.again / told.turns:.0f} % said again; {before.live:,} before"

    def bar(text: str, ok: bool) -> tuple[str, bool]:
        return (text, ok) if judged else ("", True)

    return [
        Row(f"{name}: live memories and words", live, "%", *bar(f"<= {MOST_LIVE}", live <= MOST_LIVE), note),
        Row(
            f"{name}: facts among them",
            100 * after.facts / max(before.facts, 1),
            "%",
            "",
            True,
            f"{before.facts:,} before; the manager was asked {told.asked:,} times",
        ),
        Row(
            f"{name}: gold in context({TOKENS})",
            gold,
            "%",
            *bar(f">= {share(before.gold):.2f} (before)", gold >= share(before.gold)),
            f"n={len(after.gold)}",
        ),
        Row(
            f"{name}: only stale in it",
            stale,
            "%",
            *bar(f"<= {MOST_STALE:g} x {was_stale:.2f} (before)", stale <= MOST_STALE * was_stale),
            f"n={len(after.stale)}",
        ),
        Row(
            f"{name}: banks that the undo of the whole pass restores, hash for hash",
            told.restored,
            "",
            str(told.banks),
            told.restored == told.banks,
        ),
    ]
