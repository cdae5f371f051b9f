"""How the store is: growth, what is not worth its place, what waits, what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from memkit.models import JSON, MEMORIES, MemoryRecord
from memkit.runtime import care
from memkit.text.words import terms
from memkit.views.people import list_people
from memkit.views.records import Health, Person

if TYPE_CHECKING:
    from memkit.journal.journal import Journal
    from memkit.runtime.runtime import Runtime

NEWEST = 50_000
"""Of each kind of event, those that are counted by day."""
LOOKED_AT = 1_000
"""Memories whose texts are looked at, in whole banks."""
_READS = 500
"""Reads of one user that tell whether a memory is ever served."""
_DECISIONS = 300
"""The newest, for costs."""
_STALE = timedelta(days=365)
_READ = 2_000
"""Letters of a memory by which twins are told."""
_SHOWN = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def examine(runtime: Runtime) -> Health:
    journal = runtime.journal
    people = list_people(journal)
    drawn = _draw(people)
    junk: list[tuple[str, MemoryRecord]] = []
    stale: list[tuple[str, MemoryRecord]] = []
    twins: list[tuple[str, MemoryRecord, MemoryRecord]] = []
    looked_at = unserved = 0
    for one in drawn:
        records = [record for _, record in journal.live(user_id=one.user_id, kinds=MEMORIES)]
        served = _served(journal, one.user_id)
        newest = max((record.at for record in records if record.at), default=None)
        seen: dict[frozenset[str], MemoryRecord] = {}
        for record in records:
            looked_at += 1
            words = frozenset(terms(record.text[:_READ]))
            if len(words) < 2 and record.kind == "fact":
                junk.append((one.user_id, record))
            elif (twin := seen.setdefault(words, record)) is not record:
                twins.append((one.user_id, twin, record))
            last = record.confirmed_at or record.at
            is_served = record.id in served
            unserved += not is_served
            if newest and last and newest - last > _STALE and not is_served and not record.standing:
                stale.append((one.user_id, record))
    parked = care.list_parked(runtime, None)
    return Health(
        care.stats(runtime),
        read_days(journal),
        looked_at,
        tuple(junk[:_SHOWN]),
        tuple(twins[:_SHOWN]),
        tuple(stale[:_SHOWN]),
        unserved,
        {"junk": len(junk), "duplicates": len(twins), "stale": len(stale)},
        tuple(parked[:20]),
        len(parked),
        tuple(people[:_SHOWN]),
        _costs(journal),
    )


def weigh_load(runtime: Runtime) -> dict[str, int]:
    journal = runtime.journal
    return {
        "pending": journal.pending_count(),
        "parked": len(journal.list_parked()),
        "waiting_for_lancedb": runtime.projector.waiting,
    }


def read_days(journal: Journal) -> dict[str, dict[str, int]]:
    counted = journal.count_days(NEWEST)
    return {
        what: {f"{_EPOCH + timedelta(days=day):%Y-%m-%d}": count for day, count in days.items()}
        for what, days in counted.items()
    }


def _draw(people: list[Person]) -> Iterator[Person]:
    """Whole users, evenly over the list, until they have as many memories as are looked at."""
    total = sum(one.memories for one in people)
    stride = max(1, round(total / LOOKED_AT)) if total > LOOKED_AT else 1
    left = LOOKED_AT
    for one in sorted(people, key=lambda one: one.user_id)[::stride]:
        if left <= 0:
            return
        left -= one.memories
        yield one


def _served(journal: Journal, user_id: str) -> set[str]:
    reads = journal.recent_traces(user_id=user_id, limit=_READS)
    return {one["id"] for trace in reads for one in (*trace.payload.get("served", ()), *trace.payload.get("core", ()))}


def _costs(journal: Journal) -> tuple[JSON, ...]:
    """Per day and model; tokens where the backbone counts them."""
    records = journal.decisions(limit=_DECISIONS, newest_first=True, gaps=True)
    rows: dict[tuple[str, str], Counter[str]] = {}
    for record in records:
        if not record.payload:
            continue
        usage = record.payload.get("usage") or {}
        row = rows.setdefault((f"{record.created_at:%Y-%m-%d}", str(record.payload.get("model") or "–")), Counter())
        row["decisions"] += 1
        row["calls"] += usage.get("calls") or 0
        row["prompt_tokens"] += usage.get("prompt_tokens") or 0
        row["completion_tokens"] += usage.get("completion_tokens") or 0
        row["unusable"] += not record.payload.get("parse", {}).get("ok", True)
    return tuple({"day": day, "model": model, **counts} for (day, model), counts in sorted(rows.items(), reverse=True))
